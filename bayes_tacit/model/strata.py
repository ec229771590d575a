r"""The latent stratum: what a record says where outcomes are noisy, repeated or missing, and marks may be wrong.

Z says whether Strong can solve a task, with probability pi. Where it can, Cheap succeeds exactly if its threshold lies
beyond the rollout's final risk; elsewhere it succeeds by luck, with a probability c. Outcomes and marks are draws given
Z, and a record (all that was seen of one task) is a sum over it:

.. math::
    L = \pi \prod_r P(A_r, \text{mark}_r \mid \kappa_r) \prod_j P(B_j \mid 1)
      + (1 - \pi) \prod_r P(A_r, \text{mark}_r \mid c) \prod_j P(B_j \mid 0)

over its Cheap rollouts r, each with a threshold of its own, and Strong's rollouts j; a side that was not played has no
factor. With one exact B and one rollout of Cheap this is the paper's likelihood, times c or 1 - c where B = 0.

Where Cheap failed, :math:`P(A, \text{mark} \mid \kappa)` is the mass of the threshold's interval:

- not marked: :math:`F(R(H-1))`, the threshold was crossed by the end;
- marked [a, b]: :math:`(1 - \varepsilon) \sum_k p_k \{F(R(b-k)) - F(R(a-k-1))\} + \varepsilon\, h\, F(R(H-1))`, where
  the teacher is k steps late with probability :math:`p_k` and marks anywhere, whatever happened, with probability
  :math:`\varepsilon`; h is the share of the checkpoints that the window holds.

Where Strong cannot solve the task no handoff is due, and a mark lies anywhere, too: h. If outcomes are noisy, that an
episode in which only Strong succeeded has a mark says something of Z as well: it has one with probability `marked`
where Z = 1, and `stray` elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from bayes_tacit import validate
from bayes_tacit.errors import InvalidDataError

Array = Any
"""A NumPy array or a PyTensor variable, as the namespace has them."""

Rate = float | tuple[float, float]
"""A probability that is known, or (a, b) for one that is learned under a Beta(a, b) prior."""

NEVER = np.float64(-1e10)
"""Log of a probability of zero: finite, so that what it is multiplied by may be zero and gradients have no NaN."""

RATES = ("sensitivity", "specificity", "lucky", "mark_error", "marked", "stray")


@dataclass(frozen=True, repr=False)
class Noise:
    """How outcomes and marks come of what is so.

    Every rate is a number, if it is known, or a pair (a, b), if it is to be learned under a Beta(a, b) prior.

    Parameters
    ----------
    sensitivity, specificity
        How often a rollout of Strong succeeds where Strong can solve the task, and fails where it cannot. (8, 2) says
        about 0.8, give or take 0.12. Both are 1 by default: outcomes are exact.
    lucky
        c, how often Cheap succeeds where Strong cannot solve the task.
    lucky_by_features
        Whether c depends on the features: a logit of its own, with the slopes' and intercept's priors of incidence.
    mark_error
        How often a mark is anywhere, whatever happened.
    lateness
        By how many steps the teacher is late: a whole number, if it is known; or concentrations of a Dirichlet prior on
        0, 1, 2, ... steps, such as (2, 1, 1), if it is learned. A late mark comes at the last step at the latest.
    marked, stray
        How often an episode in which only Strong succeeded is marked, where Strong can solve the task and where it only
        seemed so. They matter where outcomes are noisy. `stray=0` says that nobody marks where no handoff was due.

    Examples
    --------
    >>> Noise(sensitivity=(8, 2), specificity=(8, 2))
    Noise(sensitivity=(8.0, 2.0), specificity=(8.0, 2.0))
    """

    sensitivity: Rate = 1.0
    specificity: Rate = 1.0
    lucky: Rate = (1.0, 1.0)
    lucky_by_features: bool = False
    mark_error: Rate = 0.0
    lateness: int | tuple[float, ...] = 0
    marked: Rate = (1.0, 1.0)
    stray: Rate = (1.0, 4.0)

    def __post_init__(self) -> None:
        for name in RATES:
            object.__setattr__(self, name, _rate(name, getattr(self, name)))
        if sum(mean_of(getattr(self, name)) for name in ("sensitivity", "specificity")) <= 1:
            expected = "sensitivity and specificity that sum to more than 1; otherwise outcomes say nothing of the task"
            value = (self.sensitivity, self.specificity)
            raise InvalidDataError(expected, field="noise: sensitivity, specificity", value=value)
        if self.mark_error == 1:
            expected = "less than 1; otherwise marks say nothing, and are better left out"
            raise InvalidDataError(expected, field="noise: mark_error", value=self.mark_error)
        if self.lucky_by_features and not isinstance(self.lucky, tuple):
            expected = "a pair (a, b), since it is learned by features"
            raise InvalidDataError(expected, field="noise: lucky", value=self.lucky)
        if isinstance(self.lateness, list | tuple):
            known = tuple(validate.number("noise: lateness", each, above=0, most=1e6) for each in self.lateness)
            if len(known) < 2:
                expected = "a whole number of steps, or the concentrations of two numbers of steps or more"
                raise InvalidDataError(expected, field="noise: lateness", value=self.lateness)
            object.__setattr__(self, "lateness", known)
        else:
            object.__setattr__(self, "lateness", validate.whole("noise: lateness", self.lateness, 0, 1000))

    def __repr__(self) -> str:
        given = {field.name: value for field in fields(self) if (value := getattr(self, field.name)) != field.default}
        return f"Noise({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    @property
    def exact_outcomes(self) -> bool:
        """Whether one rollout of Strong says for certain whether it can solve the task."""
        return self.sensitivity == 1 and self.specificity == 1

    @property
    def delays(self) -> tuple[int, ...]:
        """By how many steps a mark may be late."""
        return tuple(range(len(self.lateness))) if isinstance(self.lateness, tuple) else (self.lateness,)

    def to_record(self) -> dict[str, object]:
        """Return it in values that JSON has."""
        return asdict(self)

    @classmethod
    def of_record(cls, given: object) -> Noise:
        """Read what `to_record` returned, checking all of it.

        Examples
        --------
        >>> Noise.of_record(Noise(mark_error=0.1).to_record())
        Noise(mark_error=0.1)
        """
        content: dict[str, Any] = validate.record("noise", given, [field.name for field in fields(cls)])
        for name, value in content.items():
            content[name] = tuple(value) if isinstance(value, list) else value
        return cls(**content)


def _rate(name: str, given: object) -> Rate:
    field, expected = f"noise: {name}", "a number from 0 to 1, or a pair (a, b) of positive numbers for a Beta prior"
    if isinstance(given, tuple | list):
        if len(given) != 2:
            raise InvalidDataError(expected, field=field, value=given)
        a, b = (validate.number(field, each, expected, above=0, most=1e6) for each in given)
        return a, b
    return validate.number(field, given, expected, least=0, most=1)


def mean_of(rate: Rate) -> float:
    """Return a known rate, or the mean of its prior.

    Examples
    --------
    >>> mean_of((8.0, 2.0))
    0.8
    """
    return rate[0] / (rate[0] + rate[1]) if isinstance(rate, tuple) else rate


@dataclass(frozen=True)
class Records:
    """What was seen of every task beside the thresholds of its rollouts, whose masses are rows of the evidence.

    Attributes
    ----------
    noise
        How outcomes and marks come about.
    successes, failures
        Of Strong's rollouts, by record.
    record
        Which record a Cheap rollout belongs to, by rollout.
    cheap_success
        A, by rollout.
    log_share
        By rollout: log of the share of the checkpoints that its window holds; 0 where there is none.
    share_before
        By rollout: the share of the checkpoints before its window; 0 where there is none. Predictions take it.
    marked, unmarked
        By rollout: whether it has a mark, and whether it could have one, since only Strong succeeded, but has not.
    pieces
        By rollout and kind (each delay of a mark, then a mark that is anywhere if marks may be wrong): which row of the
        evidence has that mass, -1 where it is impossible. A rollout without a mark has the first kind only.
    """

    noise: Noise
    successes: Array
    failures: Array
    record: Array
    cheap_success: Array
    log_share: Array
    share_before: Array
    marked: Array
    unmarked: Array
    pieces: Array

    @property
    def any_marks(self) -> bool:
        """Whether there is a mark."""
        return bool(self.marked.any())

    @property
    def kinds(self) -> int:
        """How many kinds of masses a rollout may have."""
        if not self.any_marks:
            return 1
        return len(self.noise.delays) + (self.noise.mark_error != 0)

    @property
    def stated(self) -> tuple[str, ...]:
        """Rates that the likelihood has, known or not."""
        names = ["sensitivity", "specificity", "lucky"]
        if self.any_marks:
            names += [] if self.noise.mark_error == 0 else ["mark_error"]
            names += [] if self.noise.exact_outcomes else ["marked", "stray"]
        return tuple(names)

    @property
    def learned(self) -> dict[str, tuple[float, float]]:
        """Rates that are learned, one number each, with their priors."""
        rates = {name: getattr(self.noise, name) for name in self.stated}
        by_features = ("lucky",) if self.noise.lucky_by_features else ()
        return {name: rate for name, rate in rates.items() if isinstance(rate, tuple) and name not in by_features}

    @property
    def delays_learned(self) -> tuple[float, ...]:
        """Concentrations of the delays' prior, if they are learned from marks."""
        return self.noise.lateness if self.any_marks and isinstance(self.noise.lateness, tuple) else ()

    def known(self) -> dict[str, tuple[np.float64, np.float64]]:
        """Return the logarithms of the known rates, and of their complements."""
        rates = {name: getattr(self.noise, name) for name in self.stated}
        return {name: logs_of(rate) for name, rate in rates.items() if not isinstance(rate, tuple)}

    def placed(self, rollout: np.ndarray, kind: np.ndarray) -> Records:
        """Return them with the rows that evidence has after it was sorted: the rollout and the kind of each."""
        pieces = np.full((len(self.record), self.kinds), -1)
        pieces[rollout, kind] = np.arange(len(rollout))
        return replace(self, pieces=pieces)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all that depends on the data, by name."""
        return {name: getattr(self, name) for name in ARRAYS}


ARRAYS = tuple(field.name for field in fields(Records) if field.name != "noise")
"""The data of `Records`: the first two by record, all others by rollout."""


def logs_of(probability: float) -> tuple[np.float64, np.float64]:
    """Return log p and log(1 - p), `NEVER` for a probability of zero.

    Examples
    --------
    >>> [float(value) for value in logs_of(1.0)]
    [0.0, -10000000000.0]
    """
    with np.errstate(divide="ignore"):
        found = np.maximum(np.log([probability, 1 - probability]), NEVER)
    return found[0], found[1]


def mixed_mass(
    records: Records,
    kinds: int,
    log_mass: Array,
    log_delays: Array,
    log_error: tuple[Array, Array],
    xp: SimpleNamespace,
) -> Array:
    """Return the log probability of each rollout's outcome and mark where Z = 1, given the masses of all rows."""
    if kinds == 1:
        return log_mass[records.pieces[:, 0]]
    return xp.logsumexp(weighted_masses(records, kinds, log_mass, log_delays, log_error, xp))


def weighted_masses(
    records: Records,
    kinds: int,
    log_mass: Array,
    log_delays: Array,
    log_error: tuple[Array, Array],
    xp: SimpleNamespace,
) -> Array:
    """Return the log of every mass times the probability of its kind, (rollout, kind)."""
    extended, columns = xp.append(log_mass, NEVER), []
    for kind in range(kinds):
        if kind < len(records.noise.delays):
            weight = log_delays[kind] + (log_error[1] if records.noise.mark_error != 0 else 0.0)
        else:
            weight = log_error[0] + records.log_share
        only_first = 0.0 if kind == 0 else NEVER
        columns.append(extended[records.pieces[:, kind]] + xp.where(records.marked, weight, only_first))
    return xp.columns(columns)


def stratum_terms(
    records: Records,
    stated: tuple[str, ...],
    log_pi: tuple[Array, Array],
    log_rollout: Array,
    logs: Mapping[str, tuple[Array, Array]],
    xp: SimpleNamespace,
) -> tuple[Array, Array]:
    """Return the log of the two terms of every record's likelihood, for Z = 1 and for Z = 0.

    Each of `log_pi` and of `logs`, the rates that are `stated`, is a logarithm and that of the complement; those of
    luck are by rollout if it depends on the features. `log_rollout` is what `mixed_mass` returned.
    """
    can, cannot = log_pi
    by_luck = xp.where(records.cheap_success, *logs["lucky"]) + records.log_share
    can = can + xp.segment_sum(log_rollout, records.record, can)
    cannot = cannot + xp.segment_sum(by_luck, records.record, cannot)
    sensitivity, specificity = logs["sensitivity"], logs["specificity"]
    can = can + records.successes * sensitivity[0] + records.failures * sensitivity[1]
    cannot = cannot + records.failures * specificity[0] + records.successes * specificity[1]
    if "stray" in stated:
        kept = [xp.segment_sum(seen * 1.0, records.record, can) for seen in (records.marked, records.unmarked)]
        can = can + kept[0] * logs["marked"][0] + kept[1] * logs["marked"][1]
        cannot = cannot + kept[0] * logs["stray"][0] + kept[1] * logs["stray"][1]
    return can, cannot
