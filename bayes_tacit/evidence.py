"""Paired outcomes and teacher windows, turned into what each episode says about its threshold.

Every episode says whether Strong succeeded. Beyond that, on the cumulative-risk scale R:

========================  =====================================  =========
episode                   what it says of the threshold kappa    kind
========================  =====================================  =========
AB = 01, window [a, b]    R(a-1) < kappa <= R(b)                 interval
the same, R(a-1) = 0      kappa <= R(b)                          left
AB = 11                   kappa > R(H-1)                         right
AB = 01 without window    nothing
B = 0                     nothing
========================  =====================================  =========

R depends on the weights w that are still to be learned, but only through the diagnostics summed up to the two
bounding checkpoints. Those sums are all that the likelihood needs, whatever the horizon.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from bayes_tacit.episodes import Episodes
from bayes_tacit.errors import EvidenceError, InvalidDataError
from bayes_tacit.standardization import Standardization

Timing = Literal["post_action", "proposal"]
"""When the router looks: after the Cheap action was executed, or at a proposal that was not yet executed."""

ZeroMass = Literal["refuse", "drop_window"]
"""What to do with a window that has no mass: refuse the data, or forget the window and keep B = 1."""

BLOCK = 1024
"""Episodes summed at a time, so that a block of diagnostics stays in the processor's cache."""


@dataclass(frozen=True)
class Evidence:
    """What a set of episodes says, reduced to what the likelihood needs.

    The rows of `timed`, `before` and `within` are ordered by kind: `n_left` left-censored ones, then `n_interval`
    intervals, then `n_right` right-censored ones, so that every kind is a slice.

    Attributes
    ----------
    episode
        Ids of all episodes.
    strong_success
        B, by episode.
    features
        Standardized task features, (episode, feature).
    standardization
        How they were standardized.
    timed
        Positions of the timed episodes.
    before
        Diagnostics summed over the checkpoints before the window, or over the whole rollout where it is
        right-censored, (timed, diagnostic). With fixed weights there is one column, the risk itself.
    within
        The same summed over the window; zero where right-censored.
    weights
        The fixed weights, if they are not to be learned.
    zero_mass
        Positions of the episodes whose window has no mass under any weights, because every diagnostic in it is zero.
    feature_names, diagnostic_names
        The columns.
    """

    episode: np.ndarray
    strong_success: np.ndarray
    features: np.ndarray
    standardization: Standardization
    timed: np.ndarray
    before: np.ndarray
    within: np.ndarray
    n_left: int
    n_interval: int
    n_right: int
    zero_mass: np.ndarray
    weights: np.ndarray | None
    feature_names: tuple[str, ...]
    diagnostic_names: tuple[str, ...]

    @property
    def n(self) -> int:
        """Number of episodes, timed or not."""
        return len(self.episode)

    @property
    def bounded_above(self) -> slice:
        """Rows with a finite upper bound: left-censored ones and intervals."""
        return slice(0, self.n_left + self.n_interval)

    @property
    def bounded_below(self) -> slice:
        """Rows with a positive lower bound: intervals and right-censored ones."""
        return slice(self.n_left, None)

    @property
    def interval(self) -> slice:
        """Rows with both."""
        return slice(self.n_left, self.n_left + self.n_interval)

    def thinned(self, stride: int) -> tuple[Evidence, np.ndarray]:
        """Keep every `stride`-th timed episode of each kind; also say which rows those are."""
        ends = np.cumsum([0, self.n_left, self.n_interval, self.n_right])
        kinds = [np.arange(first, last, stride) for first, last in itertools.pairwise(ends)]
        rows = np.concatenate(kinds)
        left, interval, right = (len(kind) for kind in kinds)
        fewer = replace(
            self,
            timed=self.timed[rows],
            before=self.before[rows],
            within=self.within[rows],
            n_left=left,
            n_interval=interval,
            n_right=right,
        )
        return fewer, rows

    def fingerprint(self) -> str:
        """Digest of everything the likelihood sees, to tell which data a fit came from."""
        digest = hashlib.sha256(repr((self.feature_names, self.diagnostic_names)).encode())
        for array in (self.strong_success, self.features, self.timed, self.before, self.within, self.zero_mass):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def settle_zero_mass(self, choice: ZeroMass) -> Evidence:
        """Refuse windows that have no mass under any weights, or drop them and keep B = 1."""
        if choice not in ("refuse", "drop_window"):
            raise InvalidDataError("'refuse' or 'drop_window'", field="zero_mass", value=choice)
        if len(self.zero_mass) and choice == "refuse":
            raise EvidenceError(
                f"episode {self.episode[self.zero_mass[0]]!r}: every diagnostic is zero inside its teacher window, so "
                f"the window has no mass whatever the weights are ({len(self.zero_mass)} such episodes); pass "
                "zero_mass='drop_window' to keep only that Strong succeeded"
            )
        return replace(self, zero_mass=self.zero_mass[:0])


def collect_evidence(
    episodes: Episodes, *, timing: Timing = "post_action", weights: Sequence[float] | np.ndarray | None = None
) -> Evidence:
    """Reduce episodes to their evidence.

    Parameters
    ----------
    episodes
        The training episodes.
    timing
        "post_action": windows and checkpoints mean the same moment. "proposal": the checkpoints are proposals, the
        windows are still marks after an action; a mark after step t is aligned with the proposal at step t + 1. Where
        that proposal was never made (t was the last step), the window is open above.
    weights
        Simplex weights to hold fixed, one a diagnostic; by default they are to be learned.

    Raises
    ------
    EvidenceError
        If B is the same for all episodes, or the windows and successes do not bound the threshold on both sides.

    Examples
    --------
    >>> import bayes_tacit
    >>> evidence = collect_evidence(bayes_tacit.load_example())
    >>> evidence.n_left + evidence.n_interval + evidence.n_right == len(evidence.timed)
    True
    """
    if timing not in ("post_action", "proposal"):
        raise InvalidDataError("'post_action' or 'proposal'", field="timing", value=timing)
    dataset = episodes.dataset
    n_steps = dataset["n_steps"].values
    cheap = dataset["cheap_success"].values
    strong = dataset["strong_success"].values
    start, stop, censored = _bounding_checkpoints(episodes, n_steps, cheap & strong, timing)
    _refuse_one_sided_outcomes(strong)

    timed = np.flatnonzero(start >= 0)
    before, within = _sum_diagnostics(episodes, timed, start[timed], stop[timed])
    fixed = None if weights is None else _simplex(weights, episodes.diagnostic_names)
    if fixed is not None:
        before, within = before @ fixed[:, None], within @ fixed[:, None]
    right = censored[timed]
    # Diagnostics are nonnegative, so a sum is zero only where each of them is.
    riskless = before @ np.ones(before.shape[1]) == 0
    no_mass = ~right & (within @ np.ones(within.shape[1]) == 0)
    left = ~right & riskless & ~no_mass
    interval = ~right & ~riskless & ~no_mass
    order = np.concatenate([np.flatnonzero(kind) for kind in (left, interval, right & ~riskless)])
    raw = dataset["features"].values
    standardization = Standardization.of(raw)
    evidence = Evidence(
        episode=dataset["episode"].values,
        strong_success=strong,
        features=standardization.apply(raw),
        standardization=standardization,
        timed=timed[order],
        before=before[order],
        within=within[order],
        n_left=int(left.sum()),
        n_interval=int(interval.sum()),
        n_right=int((right & ~riskless).sum()),
        zero_mass=timed[no_mass],
        weights=fixed,
        feature_names=episodes.feature_names,
        diagnostic_names=episodes.diagnostic_names,
    )
    _refuse_one_sided_evidence(evidence)
    return evidence


def _bounding_checkpoints(
    episodes: Episodes, n_steps: np.ndarray, both_succeed: np.ndarray, timing: Timing
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give the window's first checkpoint, one past its last, and whether it is open above; start = -1 if untimed."""
    marked = episodes.has_window
    shift = 1 if timing == "proposal" else 0
    first = np.where(marked, np.nan_to_num(episodes.dataset["window_start"].values), 0).astype(int) + shift
    last = np.where(marked, np.nan_to_num(episodes.dataset["window_end"].values), 0).astype(int) + shift
    past_the_end = marked & (last >= n_steps)
    start = np.where(marked, np.minimum(first, n_steps), np.where(both_succeed, n_steps, -1))
    stop = np.where(marked & ~past_the_end, last + 1, start)
    return start, stop, both_succeed | past_the_end


def _sum_diagnostics(
    episodes: Episodes, rows: np.ndarray, start: np.ndarray, stop: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Sum the diagnostics over steps [0, start) and over [start, stop), for the given episodes, a block at a time."""
    diagnostics = episodes.dataset["diagnostics"]
    lazy = diagnostics.chunks is not None
    horizon, n_diagnostics = diagnostics.shape[1:]
    before, within = np.empty((2, len(rows), n_diagnostics))
    # One row of zeros after each rollout, so that a segment may start where the rollout ends.
    padded = np.zeros((min(BLOCK, len(rows)), horizon + 1, n_diagnostics))
    for first in range(0, len(rows), BLOCK):
        block = slice(first, min(first + BLOCK, len(rows)))
        size = block.stop - block.start
        chosen = rows[block]
        padded[:size, :horizon] = diagnostics.isel(episode=chosen).values if lazy else diagnostics.values[chosen]
        origin = np.arange(size) * (horizon + 1)
        segments = np.column_stack([origin, origin + start[block], origin + stop[block]]).ravel()
        sums = np.add.reduceat(padded[:size].reshape(-1, n_diagnostics), segments, axis=0)
        before[block], within[block] = sums[0::3], sums[1::3]
    # An empty segment sums to its first element, not to zero.
    before[start == 0] = 0.0
    within[start == stop] = 0.0
    return before, within


def _refuse_one_sided_outcomes(strong: np.ndarray) -> None:
    if strong.all() or not strong.any():
        raise EvidenceError(
            f"strong_success is {bool(strong[0])} for all {len(strong)} episodes; expected both outcomes, "
            "because the probability that Strong succeeds is learned from them"
        )


def _refuse_one_sided_evidence(evidence: Evidence) -> None:
    if evidence.n_left + evidence.n_interval == 0:
        raise EvidenceError(
            f"none of the {evidence.n} episodes has a usable teacher window (AB = 01 with a nonzero diagnostic "
            "inside it); expected some, because without one the threshold could be arbitrarily high"
        )
    if evidence.n_interval + evidence.n_right == 0:
        raise EvidenceError(
            f"all {evidence.n_left} teacher windows start before any risk was seen and no episode is AB = 11; expected "
            "some evidence from below, because without it the threshold could be arbitrarily low"
        )


def _simplex(weights: Sequence[float] | np.ndarray, diagnostic_names: tuple[str, ...]) -> np.ndarray:
    given = np.asarray(weights, dtype=float)
    expected = (
        f"{len(diagnostic_names)} nonnegative numbers that sum to 1, one for each of {', '.join(diagnostic_names)}"
    )
    if given.shape != (len(diagnostic_names),) or not (np.isfinite(given) & (given >= 0)).all():
        raise InvalidDataError(expected, field="weights", value=np.asarray(weights).tolist())
    if abs(given.sum() - 1) > 1e-9:
        raise InvalidDataError(expected, field="weights", value=np.asarray(weights).tolist())
    return given
