"""The rules of the library: each policy's score, but for TACIT-Switch's (`bayes_tacit.router.tacit`).

Rules by value come last: they hand off where that is worth more than going on, in success minus lambda times cost. With
what was seen so far, let a handoff now succeed with probability p_S and cost c_S more than Cheap's rest, which succeeds
with probability p_C. Stopping is worth p_S - p_C - lambda c_S more than going on to the end. The score is the lambda up
to which a handoff is worth it, so lambda is the threshold.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from scipy import special

from bayes_tacit import validate
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.router.rule import BAND, Chance, Frozen, Line, Rule, State, register_rule


@register_rule
class Never(Rule):
    """Pure Cheap: nothing is ever asked."""

    policy = "pure_cheap"


@register_rule
class Always(Rule):
    """Pure Strong: a score of 1 before the first step."""

    policy = "pure_strong"

    def opening(self, state: State) -> np.ndarray:
        """Return ones."""
        return np.ones(len(state["x"]))


@register_rule
@dataclass(frozen=True, eq=False)
class FixedStep(Rule):
    """A score of 1 at one checkpoint, -1 for before the first step: a handoff that is forced."""

    policy = "at_checkpoint"
    checkpoint: int

    def __post_init__(self) -> None:
        """Check the number."""
        validate.whole("checkpoint of the handoff", self.checkpoint, -1)

    def begin(self, x: np.ndarray) -> State:
        """Return that no step was seen."""
        return {"steps": np.zeros(len(x))}

    def opening(self, state: State) -> np.ndarray | None:
        """Return ones, if the handoff comes before the first step."""
        return np.ones(len(state["steps"])) if self.checkpoint < 0 else None

    def step(self, state: State, u: np.ndarray) -> tuple[State, np.ndarray]:  # noqa: ARG002
        """Count the step."""
        return {"steps": state["steps"] + 1}, (state["steps"] == self.checkpoint).astype(float)


@register_rule
@dataclass(frozen=True, eq=False)
class TaskChance(Rule):
    """Task Router: Cheap's chance to fail, given the task's features, before the first step."""

    policy = "task_router"
    cheap: Chance

    def opening(self, state: State) -> np.ndarray:
        """Return 1 - P(Cheap succeeds | x)."""
        return 1 - self.cheap(state["x"])


@register_rule
class Signal(Rule):
    """The latest value of one diagnostic: First Alarm where Strong takes over for good, else Step Deferral."""

    policy = "signal"

    def step(self, state: State, u: np.ndarray) -> tuple[State, np.ndarray]:
        """Return the value."""
        return state, u[:, 0]

    def check_shape(self, features: int, diagnostics: int) -> None:
        """Check that there is one diagnostic."""
        if diagnostics != 1:
            raise InvalidDataError("1", field="number of diagnostics", value=diagnostics)
        super().check_shape(features, diagnostics)


@register_rule
@dataclass(frozen=True, eq=False)
class TaskSignal(Signal):
    """Step Deferral by task: the latest value of one diagnostic, and a threshold that depends on the task.

    Attributes
    ----------
    levels
        Thresholds in rising order; beyond the last one nothing is deferred.
    level
        The place of a typical task's threshold among them.
    cheap, strong
        Probabilities that each succeeds given the features.
    spread
        (2, 2), mean and standard deviation of the logit of each over training tasks.
    shifts
        By how many places a task's threshold moves for one standard deviation of each.
    start_weight
        c: before the first step the score is c P(Strong succeeds | x) - P(Cheap succeeds | x).
    """

    policy = "step_deferral_by_task"
    levels: np.ndarray
    level: float
    cheap: Chance
    strong: Chance
    spread: np.ndarray
    shifts: np.ndarray
    start_weight: float

    def __post_init__(self) -> None:
        """Check the numbers."""
        super().__post_init__()
        if not self.levels.size or (np.diff(self.levels) <= 0).any():
            raise InvalidDataError("numbers that rise", field="levels", value=self.levels.tolist())
        validate.finite("spread", self.spread, (2, 2))
        validate.positive("spread", self.spread[:, 1])
        validate.finite("shifts", self.shifts, (2,))

    def opening(self, state: State) -> np.ndarray:
        """Return c P(Strong succeeds | x) - P(Cheap succeeds | x)."""
        return self.start_weight * self.strong(state["x"]) - self.cheap(state["x"])

    def shift(self, state: State) -> np.ndarray:
        """Return by how many places each task's threshold differs from a typical one's."""
        total = np.zeros(len(state["x"]))
        for chance, (mean, scale), shift in zip((self.cheap, self.strong), self.spread, self.shifts, strict=True):
            total += shift * (special.logit(chance(state["x"])) - mean) / scale
        return total

    def thresholds(self, state: State) -> np.ndarray:
        """Return each task's threshold."""
        places = np.clip(np.rint(self.level + self.shift(state)), 0, len(self.levels)).astype(int)
        return np.append(self.levels, np.inf)[places]


@register_rule
@dataclass(frozen=True, eq=False)
class Signs(Rule):
    """The number of signs so far: a step shows one where a diagnostic is above its level."""

    policy = "count"
    levels: np.ndarray

    def begin(self, x: np.ndarray) -> State:
        """Return no signs."""
        return {"signs": np.zeros(len(x))}

    def step(self, state: State, u: np.ndarray) -> tuple[State, np.ndarray]:
        """Add the step's signs."""
        signs = state["signs"] + (u > self.levels).sum(axis=1)
        return {"signs": signs}, signs

    def check_shape(self, features: int, diagnostics: int) -> None:  # noqa: ARG002
        """Check the levels."""
        validate.finite("levels", self.levels, (diagnostics,))


@register_rule
@dataclass(frozen=True, eq=False)
class StepChance(Rule):
    """TRIM's analogue: the probability that the latest step is wrong, from the features and its own diagnostics."""

    policy = "trim"
    wrong: Chance

    def step(self, state: State, u: np.ndarray) -> tuple[State, np.ndarray]:
        """Return the probability."""
        return state, self.wrong(np.concatenate([state["x"], u], axis=1))

    def columns(self, features: int, diagnostics: int) -> int:
        """Return how many features and diagnostics there are."""
        return features + diagnostics


def history(x: np.ndarray, diagnostics: int) -> State:
    """Return the state before the first step of what remembers of each diagnostic its sum, latest and highest value."""
    nothing = np.zeros((len(x), diagnostics))
    return {"x": x, "steps": np.zeros(len(x)), "total": nothing, "last": nothing, "highest": nothing}


def remembered(state: State, u: np.ndarray) -> State:
    """Add a step to a history."""
    first = state["steps"][0] == 0
    return {
        "x": state["x"],
        "steps": state["steps"] + 1,
        "total": state["total"] + u,
        "last": u,
        "highest": u if first else np.maximum(state["highest"], u),
    }


def at_a_moment(features: int, diagnostics: int) -> int:
    """Return how many numbers a `moment` has."""
    return features + 3 * diagnostics + 1


def moment(state: State, steps: np.ndarray) -> np.ndarray:
    """Return what a history knows at a moment: features, sums, latest and highest values, log(1 + steps)."""
    known = [state[name] for name in ("x", "total", "last", "highest")]
    return np.concatenate([*known, np.log1p(steps)[:, None]], axis=1)


@register_rule
@dataclass(frozen=True, eq=False)
class TwoChances(Rule):
    """Cheap's chance to fail times Strong's to succeed, given all that was seen so far.

    The columns of both chances are the features, of each diagnostic the sum so far, the latest and the highest value,
    and log(1 + t).
    """

    policy = "landmark"
    cheap: Chance
    strong: Chance

    def begin(self, x: np.ndarray) -> State:
        """Begin a history."""
        return history(x, (len(self.cheap.slopes) - x.shape[1] - 1) // 3)

    def step(self, state: State, u: np.ndarray) -> tuple[State, np.ndarray]:
        """Return the product after one more step."""
        reached = remembered(state, u)
        columns = moment(reached, state["steps"])
        return reached, (1 - self.cheap(columns)) * self.strong(columns)

    def columns(self, features: int, diagnostics: int) -> int:
        """Return how many numbers a moment has."""
        return at_a_moment(features, diagnostics)


@register_rule
@dataclass(frozen=True, eq=False)
class Prefix(Rule):
    """Prefix router: Cheap's chance to fail, asked once, after its first steps, from them and the features.

    The columns of the chance are the features, then the diagnostics of each step in turn. The question costs one call
    of a value head.
    """

    policy = "prefix_router"
    one_off = 1
    steps: int
    cheap: Chance

    def __post_init__(self) -> None:
        """Check the number."""
        super().__post_init__()
        validate.whole("steps of the prefix", self.steps, 1)

    def begin(self, x: np.ndarray) -> State:
        """Return an empty prefix."""
        seen = np.zeros((len(x), len(self.cheap.slopes) - x.shape[1]))
        return {"x": x, "steps": np.zeros(len(x)), "seen": seen}

    def step(self, state: State, u: np.ndarray) -> tuple[State, np.ndarray]:
        """Keep the step; after the last of the prefix return 1 - P(Cheap succeeds)."""
        t, d = int(state["steps"][0]), u.shape[1]
        later = {**state, "steps": state["steps"] + 1}
        if t < self.steps:
            later["seen"] = state["seen"].copy()
            later["seen"][:, t * d : (t + 1) * d] = u
        if t != self.steps - 1:
            return later, np.full(len(u), np.nan)
        return later, 1 - self.cheap(np.concatenate([state["x"], later["seen"]], axis=1))

    def columns(self, features: int, diagnostics: int) -> int:
        """Return how many features there are, and diagnostics of the first steps."""
        return features + self.steps * diagnostics


Summary = Literal["total", "mean", "highest", "last"]
"""What is taken of a diagnostic over an episode."""


@register_rule
@dataclass(frozen=True, eq=False)
class Ended(Rule):
    """Cascade: Cheap's chance to have failed, asked of the finished episode.

    The columns of the chance are the features, then each summary of all diagnostics in turn.
    """

    policy = "cascade"
    closes = True
    summaries: tuple[str, ...]
    cheap: Chance

    def __post_init__(self) -> None:
        """Check the words."""
        super().__post_init__()
        words = tuple(validate.choice("summaries", one, get_args(Summary)) for one in self.summaries)
        if not words or len(set(words)) < len(words):
            raise InvalidDataError(f"different ones of {get_args(Summary)}", field="summaries", value=self.summaries)
        object.__setattr__(self, "summaries", words)

    def begin(self, x: np.ndarray) -> State:
        """Begin a history."""
        return history(x, (len(self.cheap.slopes) - x.shape[1]) // len(self.summaries))

    def step(self, state: State, u: np.ndarray) -> tuple[State, np.ndarray]:
        """Add the step; nothing is asked yet."""
        return remembered(state, u), np.full(len(u), np.nan)

    def closing(self, state: State) -> np.ndarray:
        """Return 1 - P(Cheap succeeded)."""
        known = {**state, "mean": state["total"] / state["steps"][:, None]}
        return 1 - self.cheap(np.concatenate([state["x"], *(known[name] for name in self.summaries)], axis=1))

    def columns(self, features: int, diagnostics: int) -> int:
        """Return how many features and summaries there are."""
        return features + len(self.summaries) * diagnostics


MOST_PLACES = 4096
"""Places that an experience can have: a decision looks at all of them."""

DISTANCES = 1 << 19
"""Distances that are computed at a time, which the processor's cache holds."""

ANSWERS = 64
"""Answers that an experience keeps: those of the steps of one data set."""

SUMS = ("count", "cheap", "strong", "cost")


@dataclass(frozen=True, eq=False)
class Experience(Frozen):
    """Places where past episodes have been, and what came of them.

    A place stands for moments of past episodes that were alike. Sums, not means, are kept of it, whole numbers and
    multiples of a power of two, so that adding them up gives the same bits in any order.

    Attributes
    ----------
    mean, scale
        (column,), by which what is known at a moment is standardized.
    places
        (place, column), standardized.
    count, cheap, strong, cost
        (place,): how many moments; in how many of them Cheap and Strong went on to succeed; and the sum of what
        Strong would have cost more than Cheap, in units of what Strong costs on average.
    nearest
        How many places are asked.

    Examples
    --------
    >>> sums = [[10, 10, 10], [9, 5, 1], [9, 9, 8], [10, 10, 10]]
    >>> past = Experience([0.5], [0.5], [[-1.0], [0.0], [1.0]], *sums, nearest=1)
    >>> past.ask(np.array([[0.1], [0.9]]))      # count, Cheap's and Strong's successes, cost
    array([[10.,  9.,  9., 10.],
           [10.,  1.,  8., 10.]])
    """

    mean: np.ndarray
    scale: np.ndarray
    places: np.ndarray
    count: np.ndarray
    cheap: np.ndarray
    strong: np.ndarray
    cost: np.ndarray
    nearest: int

    def __post_init__(self) -> None:
        """Check the numbers."""
        super().__post_init__()
        if self.places.ndim != 2 or not 1 <= len(self.places) <= MOST_PLACES:
            expected = f"(place, column), from 1 to {MOST_PLACES:,} places"
            raise InvalidDataError(expected, field="shape of the places", value=self.places.shape)
        m, n = self.places.shape
        for name in ("mean", "scale"):
            validate.finite(f"{name} of an experience", getattr(self, name), (n,))
        for name in SUMS:
            validate.finite(f"{name} of an experience", getattr(self, name), (m,))
        validate.positive("scale of an experience", self.scale)
        validate.positive("count of an experience", self.count)
        for name in ("cheap", "strong"):
            wrong = (getattr(self, name) < 0) | (getattr(self, name) > self.count)
            if wrong.any():
                value = float(getattr(self, name)[wrong.argmax()])
                expected = "a number from 0 to the count of its place"
                raise InvalidDataError(expected, field=f"{name} of an experience", value=value)
        validate.whole("nearest", self.nearest, 1, m)

    def check_columns(self, n: int) -> None:
        """Check that places have so many columns."""
        validate.finite("mean of an experience", self.mean, (n,))

    def ask(self, columns: np.ndarray) -> np.ndarray:
        """Add up what is known of the places nearest to moments (moment, column): (moment, 4), in the order of `SUMS`.

        Distances are Euclidean on standardized numbers. Places as far as the last of the nearest are asked too, so the
        answer does not depend on an order among them. Answers to many moments at once are kept for a while: policies
        that differ in nothing but a price ask the same.
        """
        key = hashlib.blake2b(np.ascontiguousarray(columns)).digest() if len(columns) > 1 else b""
        if key not in self._kept:
            if len(self._kept) >= ANSWERS:
                self._kept.pop(next(iter(self._kept)))
            self._kept[key] = self._ask(columns)
        return self._kept[key] if key else self._kept.pop(key)

    @cached_property
    def _kept(self) -> dict[bytes, np.ndarray]:
        return {}

    def _ask(self, columns: np.ndarray) -> np.ndarray:
        z = (columns - self.mean) / self.scale
        by_column = np.ascontiguousarray(self.places.T)
        sums = np.stack([getattr(self, name) for name in SUMS], axis=1)
        out = np.empty((len(z), len(SUMS)))
        size = max(1, DISTANCES // len(self.places))
        for start in range(0, len(z), size):
            # One column after the other: a moment's distances have the same bits however many are computed with it.
            far = np.zeros((len(z[start : start + size]), len(self.places)))
            # What is too far to be squared is infinitely far.
            with np.errstate(over="ignore"):
                for column, places in zip(z[start : start + size].T, by_column, strict=True):
                    away = column[:, None] - places
                    away *= away
                    far += away
            last = np.partition(far, self.nearest - 1, axis=1)[:, [self.nearest - 1]]
            out[start : start + size] = (far <= last).astype(float) @ sums
        return out


@register_rule
@dataclass(frozen=True, eq=False)
class NetGain(Rule):
    """EvoRoute's analogue: what Strong gained over Cheap from moments like this one, less the price of its extra cost.

    Attributes
    ----------
    experience
        Past moments, by features, of each diagnostic the sum so far, the latest and the highest value, and
        log(1 + steps seen).
    price
        Success that is given up for the cost of Strong on average.
    starts
        Whether it also asks before the first step, from the features alone.
    """

    policy = "evoroute"
    experience: Experience
    price: float
    starts: bool

    def __post_init__(self) -> None:
        """Check the numbers."""
        super().__post_init__()
        validate.number("price", self.price, "a finite number >= 0", least=0)
        validate.flag("starts", self.starts)

    def begin(self, x: np.ndarray) -> State:
        """Begin a history."""
        return history(x, (len(self.experience.mean) - x.shape[1] - 1) // 3)

    def opening(self, state: State) -> np.ndarray | None:
        """Return the net gain from the features alone."""
        return self._gained(state) if self.starts else None

    def step(self, state: State, u: np.ndarray) -> tuple[State, np.ndarray]:
        """Return the net gain after one more step."""
        reached = remembered(state, u)
        return reached, self._gained(reached)

    def _gained(self, state: State) -> np.ndarray:
        return self.gain(self.experience.ask(moment(state, state["steps"])))

    def gain(self, sums: np.ndarray) -> np.ndarray:
        """Return the net gain of what the experience says of moments, (moment, 4)."""
        count, cheap, strong, cost = sums.T
        return (strong - cheap) / count - self.price * (cost / count)

    def columns(self, features: int, diagnostics: int) -> int:
        """Return how many numbers a moment has."""
        return at_a_moment(features, diagnostics)


NEAREST = 1e-3
"""No log-odds are of a probability nearer to 0 or 1."""


@dataclass(frozen=True, eq=False)
class Outlook(Frozen):
    """What is expected at one kind of moment: before the first step, or after one.

    Attributes
    ----------
    read
        (2,), the columns that hold what a reader of words says of Cheap and of Strong; empty where there is none.
    cheap, strong
        Probabilities that Cheap's rest succeeds and that a handoff does, where no reader says it.
    price
        What a handoff costs more than Cheap's rest.
    """

    read: tuple[int, ...]
    cheap: Chance
    strong: Chance
    price: Line

    def __call__(self, columns: np.ndarray, *, odds: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return both chances and the price for (episode, column); a reader's columns are `odds`, or chances."""
        if not self.read:
            return self.cheap(columns), self.strong(columns), self.price(columns)
        cheap, strong = (columns[:, at] for at in self.read)
        if odds:
            return special.expit(cheap), special.expit(strong), self.price(columns)
        return 1 - cheap, strong, self.price(columns)

    def check_columns(self, columns: int) -> None:
        """Check that it has numbers for so many columns."""
        for each in (self.cheap, self.strong, self.price):
            each.check_columns(columns)
        if len(self.read) not in (0, 2) or any(not 0 <= at < columns for at in self.read):
            raise InvalidDataError(f"two of {columns} columns, or none", field="what was read", value=self.read)


@register_rule
@dataclass(frozen=True, eq=False)
class Advantage(Rule):
    """How much likelier success a handoff now makes, per unit of what it costs more than Cheap's rest.

    Attributes
    ----------
    start
        What is expected before the first step, from the features.
    later
        What is expected after a step: from the features, of each diagnostic the sum so far, the latest and the highest
        value, and log(1 + t).
    """

    policy = "advantage"
    start: Outlook
    later: Outlook

    def begin(self, x: np.ndarray) -> State:
        """Begin a history."""
        return history(x, (len(self.later.cheap.slopes) - x.shape[1] - 1) // 3)

    def opening(self, state: State) -> np.ndarray:
        """Return the advantage of Strong from the start."""
        return self.worth(*self.start(state["x"], odds=True), 0)

    def step(self, state: State, u: np.ndarray) -> tuple[State, np.ndarray]:
        """Return the advantage after one more step."""
        reached = remembered(state, u)
        expected = self.later(moment(reached, state["steps"]), odds=False)
        return reached, self.worth(*expected, int(state["steps"][0]) + 1)

    def worth(self, cheap: np.ndarray, strong: np.ndarray, price: np.ndarray, moment: int) -> np.ndarray:  # noqa: ARG002
        """Return the lambda up to which a handoff is worth it, from both chances and the price."""
        return (strong - cheap) / price

    def check_shape(self, features: int, diagnostics: int) -> None:
        """Check both outlooks."""
        self.start.check_columns(features)
        self.later.check_columns(at_a_moment(features, diagnostics))


@register_rule
@dataclass(frozen=True, eq=False)
class Induction(Advantage):
    r"""The same where going on may mean to decide later, by backward induction.

    For each lambda of a grid and each moment, `waiting` is a linear model of how much less stopping is worth than
    :math:`p_S - p_C - \lambda c_S`, because Cheap may be stopped later as well. The score is where what is left crosses
    zero, with straight lines between the lambdas of the grid.

    Attributes
    ----------
    lambdas
        (k,), rising from 0.
    waiting
        (k, moment, 6): on a constant, the log-odds and probabilities of both, and the price. The last moment's count
        for all that come after it.
    """

    policy = "induction"
    lambdas: np.ndarray
    waiting: np.ndarray

    def __post_init__(self) -> None:
        """Check the shapes."""
        super().__post_init__()
        if self.lambdas.ndim != 1 or not len(self.lambdas) or (np.diff(self.lambdas) <= 0).any():
            raise InvalidDataError("numbers that rise", field="lambdas", value=self.lambdas.tolist())
        if self.waiting.ndim != 3 or self.waiting.shape[::2] != (len(self.lambdas), 6) or not self.waiting.shape[1]:
            raise InvalidDataError(
                f"({len(self.lambdas)}, moment, 6)", field="shape of waiting", value=self.waiting.shape
            )

    def worth(self, cheap: np.ndarray, strong: np.ndarray, price: np.ndarray, moment: int) -> np.ndarray:
        """Return the lambda up to which a handoff is worth it."""
        at = min(moment, self.waiting.shape[1] - 1)
        worth = strong - cheap - self.lambdas[:, None] * price
        # One term after the other, so that a score does not depend on which others are computed with it.
        for weight, values in zip(self.waiting[:, at].T, inputs(cheap, strong, price).T, strict=True):
            worth = worth + weight[:, None] * values
        return indifference(self.lambdas, worth)


@dataclass(frozen=True, eq=False)
class Outlooks(Frozen):
    """Draws of what is expected at one kind of moment, each on a constant and standardized columns.

    Attributes
    ----------
    mean, scale
        (column,), by which each is standardized, as in training.
    cheap, strong
        (draw, 1 + column), log-odds that Cheap's rest succeeds and that a handoff does.
    price
        (draw, 1 + column), what a handoff costs more than Cheap's rest.
    least
        A price below it counts as it.
    """

    mean: np.ndarray
    scale: np.ndarray
    cheap: np.ndarray
    strong: np.ndarray
    price: np.ndarray
    least: float

    def __post_init__(self) -> None:
        """Check the numbers."""
        super().__post_init__()
        validate.finite("scale of the draws", self.scale, self.mean.shape)
        for name in ("cheap", "strong", "price"):
            validate.finite(f"{name} of the draws", getattr(self, name), (len(self.cheap), 1 + len(self.mean)))
        if not len(self.cheap):
            raise InvalidDataError("one at least", field="number of draws", value=0)
        validate.positive("scale of the draws", self.scale)
        validate.number("least price", self.least, "a number above 0", above=0)

    def __call__(self, columns: np.ndarray) -> np.ndarray:
        """Return the advantage per unit of cost for (episode, column): (episode, draw)."""
        z = (columns - self.mean) / self.scale
        cheap, strong, price = (self._sum(z, of) for of in (self.cheap, self.strong, self.price))
        return (special.expit(strong) - special.expit(cheap)) / np.maximum(price, self.least)

    @staticmethod
    def _sum(z: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Add up one term after the other, so that a score does not depend on which others are computed with it."""
        value = np.tile(weights[:, 0], (len(z), 1))
        for column, weight in zip(z.T, weights[:, 1:].T, strict=True):
            value += column[:, None] * weight
        return value

    def check_columns(self, columns: int) -> None:
        """Check that it has numbers for so many columns."""
        validate.finite("mean of the draws", self.mean, (columns,))


@register_rule
@dataclass(frozen=True, eq=False)
class CertainAdvantage(Rule):
    """The advantage per unit of cost that a handoff now has at least, with some probability, over posterior draws.

    Attributes
    ----------
    start, later
        Draws of what is expected before the first step and after one, on the columns of `Advantage`.
    certain
        That probability: a threshold of lambda is reached where a handoff is worth lambda with it.
    """

    policy = "certain_advantage"
    start: Outlooks
    later: Outlooks
    certain: float

    def __post_init__(self) -> None:
        """Check the probability."""
        super().__post_init__()
        validate.number("certain", self.certain, "a number above 0 and below 1", above=0, below=1)

    @property
    def width(self) -> int:
        """How many draws there are."""
        return max(len(self.start.cheap), len(self.later.cheap))

    def begin(self, x: np.ndarray) -> State:
        """Begin a history."""
        return history(x, (len(self.later.mean) - x.shape[1] - 1) // 3)

    def opening(self, state: State) -> np.ndarray:
        """Return what Strong from the start is worth at least."""
        return self._at_least(self.start(state["x"]))

    def step(self, state: State, u: np.ndarray) -> tuple[State, np.ndarray]:
        """Return what a handoff is worth at least after one more step."""
        reached = remembered(state, u)
        worth = self.later(moment(reached, state["steps"]))
        return {**reached, "_worth": worth}, self._at_least(worth)

    def facts(self, state: State) -> Mapping[str, np.ndarray]:
        """Return the band of the advantage."""
        if "_worth" not in state:
            return {}
        lower, upper = np.quantile(state["_worth"], BAND, axis=1)
        return {"lower": lower, "upper": upper}

    def _at_least(self, worth: np.ndarray) -> np.ndarray:
        return np.asarray(np.quantile(worth, 1 - self.certain, axis=1))

    def check_shape(self, features: int, diagnostics: int) -> None:
        """Check both moments."""
        self.start.check_columns(features)
        self.later.check_columns(at_a_moment(features, diagnostics))


def inputs(cheap: np.ndarray, strong: np.ndarray, price: np.ndarray) -> np.ndarray:
    """Return what the worth of waiting is learned from: (episode, 6)."""
    odds = (special.logit(np.clip(each, NEAREST, 1 - NEAREST)) for each in (cheap, strong))
    return np.column_stack([np.ones(len(cheap)), *odds, cheap, strong, price])


def indifference(lambdas: np.ndarray, worth: np.ndarray) -> np.ndarray:
    """Return for (lambda, episode) the highest lambda at which stopping is worth as much as going on.

    Where it is worth less at every lambda, it is what it lacks at the lowest, below zero.
    """
    last = len(lambdas) - 1 - (worth >= 0)[::-1].argmax(axis=0)
    after = np.minimum(last + 1, len(lambdas) - 1)
    row = np.arange(worth.shape[1])
    here, there = worth[last, row], worth[after, row]
    share = np.divide(here, here - there, out=np.zeros_like(here), where=after > last)
    found = lambdas[last] + share * (lambdas[after] - lambdas[last])
    return np.where((worth >= 0).any(axis=0), found, lambdas[0] + np.minimum(worth[0], 0))
