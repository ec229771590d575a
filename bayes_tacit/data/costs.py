"""What an episode costs, by calls, by tokens or as logged, and what came of a policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bayes_tacit import validate
from bayes_tacit.errors import InvalidDataError

if TYPE_CHECKING:
    import xarray as xr

CostModel = Callable[[np.ndarray, np.ndarray, np.ndarray], npt.ArrayLike]
"""Takes Cheap's, Strong's and one-off calls, arrays of one shape; gives the cost of each, in any unit.

More calls must not cost less: bounds on the calls then bound the cost.
"""

PAPER_UNITS = {"4b": 1.0, "9b": 2.25, "27b": 6.75, "7b_value_head": 1.75}
"""The paper's cost of one call by model size, in calls of the 4B model."""

NON_NEGATIVE = "a finite number >= 0"


@dataclass(frozen=True)
class StepCost:
    r"""So much a call: :math:`\mathrm{Cost} = c_C n_C + c_S n_S + c_h h`.

    Attributes
    ----------
    cheap, strong
        Cost of one call of each agent, in any unit.
    one_off
        Cost of one call that is no step, such as the value head that a prefix router asks once.

    Examples
    --------
    >>> StepCost(cheap=1, strong=3)(cheap_calls=[4, 10], strong_calls=[5, 0])
    array([19., 10.])
    """

    cheap: float
    strong: float
    one_off: float = 0.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("cheap", "strong", "one_off"):
            value = validate.number(f"{name} cost", getattr(self, name), NON_NEGATIVE, least=0)
            object.__setattr__(self, name, value)

    @classmethod
    def paper(cls, cheap: str, strong: str = "27b") -> StepCost:
        """Return the paper's cost in calls of the 4B model, with its 7B value head as the one-off call."""
        for name, size in (("cheap", cheap), ("strong", strong)):
            validate.choice(name, size, ("4b", "9b", "27b"))
        return cls(PAPER_UNITS[cheap], PAPER_UNITS[strong], PAPER_UNITS["7b_value_head"])

    def __call__(
        self, cheap_calls: npt.ArrayLike, strong_calls: npt.ArrayLike, one_off_calls: npt.ArrayLike = 0
    ) -> np.ndarray:
        """Return the cost of so many calls; the arguments broadcast."""
        calls = (np.asarray(counts, dtype=float) for counts in (cheap_calls, strong_calls, one_off_calls))
        cheap, strong, one_off = calls
        return self.cheap * cheap + self.strong * strong + self.one_off * one_off


@dataclass(frozen=True, eq=False)
class LoggedCost:
    """What the rollouts of a log did cost, such as tokens or money, where that is no function of the number of calls.

    Attributes
    ----------
    cheap
        Cost of each of Cheap's steps, (episode, step), or of its rollouts, (episode,), which is then spread evenly over
        their steps: an array, or the name of a variable that the episodes carry.
    strong
        Cost of Strong's rollouts, (episode,), likewise.

    See Also
    --------
    bayes_tacit.Counterfactuals.from_restarts : takes it.

    Examples
    --------
    >>> LoggedCost(cheap="cheap_tokens", strong="strong_tokens")
    LoggedCost(cheap='cheap_tokens', strong='strong_tokens')
    """

    cheap: str | npt.ArrayLike
    strong: str | npt.ArrayLike


MILLION = 1_000_000


@dataclass(frozen=True)
class Price:
    """What one model costs, in any unit.

    Attributes
    ----------
    call
        Of each call.
    input, cached, output
        Of a million tokens in, in and cached, and out.
    written
        Of a million tokens in that are put into the cache; None where that costs what any token in does.

    Examples
    --------
    >>> Price.parse("10")
    Price(call=10.0, input=0.0, cached=0.0, output=0.0, written=None)
    >>> float(Price.parse("3,0.3,15").tokens(1_000_000, 1000, cached=900_000))
    0.585
    """

    call: float = 0.0
    input: float = 0.0
    cached: float = 0.0
    output: float = 0.0
    written: float | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("call", "input", "cached", "output", "written"):
            if getattr(self, name) is not None:
                validate.number(f"{name} price", getattr(self, name), NON_NEGATIVE, least=0)

    @classmethod
    def parse(cls, text: str) -> Price:
        """Read a price of a call, or those of a million input, cached, output and, if they differ, written tokens."""
        try:
            numbers = [float(part) for part in text.split(",")]
        except ValueError:
            numbers = []
        if len(numbers) == 1:
            return cls(call=numbers[0])
        if len(numbers) in (3, 4):
            return cls(0.0, *numbers)
        expected = (
            "the price of a call, or those of a million tokens: input,cached,output or input,cached,output,written"
        )
        raise InvalidDataError(expected, field="price", value=text)

    def tokens(
        self,
        prompt: npt.ArrayLike,
        completion: npt.ArrayLike,
        cached: npt.ArrayLike = 0,
        written: npt.ArrayLike = 0,
        calls: npt.ArrayLike = 1,
    ) -> np.ndarray:
        """Return the cost of calls; the arguments broadcast.

        Parameters
        ----------
        prompt, completion
            Tokens in, those that were cached or written included, and out.
        cached, written
            How many of those in were read from the cache, and put into it.
        calls
            How many calls these are the tokens of.
        """
        every, out, known, put, count = (np.asarray(one, float) for one in (prompt, completion, cached, written, calls))
        known = np.minimum(known, every)
        put = np.minimum(put, every - known)
        dear = self.input if self.written is None else self.written
        total = (every - known - put) * self.input + known * self.cached + put * dear + out * self.output
        return np.asarray(self.call * count + total / MILLION)


@dataclass(frozen=True)
class TokenCost:
    """Prices of both models' tokens, for logs that say how many there were.

    Attributes
    ----------
    cheap, strong
        What each model costs.

    See Also
    --------
    bayes_tacit.Counterfactuals.from_restarts : takes it.

    Examples
    --------
    >>> TokenCost(Price.parse("0.25,0.025,2"), Price.parse("3,0.3,15")).strong.output
    15.0
    """

    cheap: Price
    strong: Price

    def logged(self, dataset: xr.Dataset) -> LoggedCost:
        """Return what the rollouts of a log did cost at these prices.

        Takes the carried variables that `bayes-tacit import` writes: of Cheap's steps (`step_input_tokens` and so on),
        else of its rollouts (`cheap_input_tokens`), and of Strong's rollouts. A restart reads nothing of Cheap's.

        Raises
        ------
        InvalidDataError
            If tokens in or out are not known.
        """
        steps = all(f"step_{name}_tokens" in dataset for name in ("input", "output"))
        length = dataset["n_steps"].values
        strong_calls = dataset["strong_steps"].values if "strong_steps" in dataset else 1
        return LoggedCost(
            self._cost(self.cheap, dataset, "step" if steps else "cheap", 1 if steps else length),
            self._cost(self.strong, dataset, "strong", strong_calls),
        )

    @staticmethod
    def _cost(price: Price, dataset: xr.Dataset, of: str, calls: npt.ArrayLike) -> np.ndarray:
        values = {}
        for name in ("input", "output", "cached", "written"):
            variable = f"{of}_{name}_tokens"
            if variable in dataset:
                values[name] = (
                    np.nan_to_num(dataset[variable].values)
                    if name in ("cached", "written")
                    else dataset[variable].values
                )
            elif name in ("input", "output"):
                expected = f"a carried variable {variable}, which bayes-tacit import writes where the log has usage"
                raise InvalidDataError(
                    f"{expected}; import with prices estimates it elsewhere", field="tokens", value=None
                )
        return price.tokens(values["input"], values["output"], values.get("cached", 0), values.get("written", 0), calls)


def cost_of_calls(
    cost: CostModel, cheap_calls: npt.ArrayLike, strong_calls: npt.ArrayLike, one_off_calls: npt.ArrayLike = 0
) -> np.ndarray:
    """Ask a cost model, and refuse an answer that cannot be costs.

    Where a number of calls is NaN the model is not asked, and the cost is NaN.
    """
    calls = np.broadcast_arrays(*(np.asarray(counts, float) for counts in (cheap_calls, strong_calls, one_off_calls)))
    known = ~np.isnan(np.sum(calls, axis=0))
    if not callable(cost):
        raise InvalidDataError(
            "StepCost(...), or a function of cheap_calls, strong_calls and one_off_calls", field="cost", value=cost
        )
    answer = np.asarray(cost(*(counts[known] for counts in calls)), dtype=float)
    n = int(known.sum())
    if answer.shape != (n,):
        raise InvalidDataError(
            f"({n},), one for each", field="shape of the costs that the model gives", value=answer.shape
        )
    wrong = ~(np.isfinite(answer) & (answer >= 0))
    if wrong.any():
        first = int(wrong.argmax())
        cheap, strong, one_off = (float(counts[known][first]) for counts in calls)
        raise InvalidDataError(
            NON_NEGATIVE,
            field=f"cost of {cheap:g} Cheap, {strong:g} Strong and {one_off:g} one-off calls",
            value=float(answer[first]),
        )
    out = np.full(known.shape, np.nan)
    out[known] = answer
    return out


AVERAGES = ("success", "cost", "strong_share", "intervention_rate")
"""What a policy is judged by, as `averages` defines it."""


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Success, cost and calls of one policy, by episode.

    Any policy that has these four can be averaged, compared and chosen by `bayes_tacit.decisions.selection`.

    Attributes
    ----------
    success
        0 or 1.
    cost
        In any unit; whatever the policy called is in it.
    cheap_calls, strong_calls
        How often each agent was asked.

    Examples
    --------
    >>> Outcomes(success=[1, 0], cost=[14, 8], cheap_calls=[2, 8], strong_calls=[4, 0]).point()
    {'success': 0.5, 'cost': 11.0, 'strong_share': 0.2857142857142857, 'intervention_rate': 0.5}
    """

    success: np.ndarray
    cost: np.ndarray
    cheap_calls: np.ndarray
    strong_calls: np.ndarray

    def __post_init__(self) -> None:
        """Bring everything into arrays of one length, and check the numbers."""
        for name in (field.name for field in fields(self)):
            values = _numbers(name, getattr(self, name))
            if values.shape != np.shape(self.success):
                expected = f"{len(np.atleast_1d(self.success))}, as there are in success"
                raise InvalidDataError(expected, field=f"number of episodes in {name}", value=len(values))
            object.__setattr__(self, name, values)
        wrong = (self.success != 0) & (self.success != 1)
        if wrong.any():
            first = int(wrong.argmax())
            value = float(self.success[first])
            raise InvalidDataError("0 or 1", field="success", value=value, where=f"position {first}")

    def __len__(self) -> int:
        return len(self.success)

    def point(self) -> dict[str, float]:
        """Return the averages that a policy is judged by.

        Returns
        -------
        dict
            `success` and `cost`, means over episodes; `strong_share`, Strong's share of all calls of an agent;
            `intervention_rate`, the share of episodes in which Strong was called at all.
        """
        asked = np.count_nonzero(self.strong_calls > 0)
        sums = [self.success.sum(), self.cost.sum(), self.cheap_calls.sum(), self.strong_calls.sum(), asked]
        return {name: float(value) for name, value in averages(np.array(sums), len(self)).items()}


def averages(sums: np.ndarray, n: int) -> dict[str, np.ndarray]:
    """Turn sums over n episodes into what a policy is judged by."""
    success, cost, cheap, strong, asked = sums
    calls = cheap + strong
    share = np.divide(strong, calls, out=np.zeros_like(calls), where=calls > 0)
    return dict(zip(AVERAGES, (success / n, cost / n, share, asked / n), strict=True))


def _numbers(name: str, given: object) -> np.ndarray:
    try:
        values = np.array(given, dtype=float)
    except (TypeError, ValueError):
        raise InvalidDataError("a number for each episode", field=name, value=given) from None
    if values.ndim != 1 or not values.size:
        raise InvalidDataError("(episode,), at least 1", field=f"shape of {name}", value=values.shape)
    wrong = ~(np.isfinite(values) & (values >= 0))
    if wrong.any():
        first = int(wrong.argmax())
        value = float(values[first])
        raise InvalidDataError("a finite number >= 0", field=name, value=value, where=f"position {first}")
    values.flags.writeable = False
    return values
