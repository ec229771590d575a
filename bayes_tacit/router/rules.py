"""The rules of the library: each policy's score, but for TACIT-Switch's (`bayes_tacit.router.tacit`)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from scipy import special

from bayes_tacit import validate
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.router.rule import Frozen, Rule, State, register_rule


@dataclass(frozen=True, eq=False)
class Chance(Frozen):
    """A logistic model's probability of columns.

    Attributes
    ----------
    mean, scale
        (column,), by which each is standardized, as in training.
    intercept, slopes
        On standardized columns.

    Examples
    --------
    >>> Chance(mean=[10.0], scale=[2.0], intercept=0.0, slopes=[-1.0])(np.array([[14.0], [10.0]])).round(3)
    array([0.119, 0.5  ])
    """

    mean: np.ndarray
    scale: np.ndarray
    intercept: float
    slopes: np.ndarray

    def __post_init__(self) -> None:
        """Check the numbers."""
        super().__post_init__()
        for name in ("mean", "scale"):
            validate.finite(f"{name} of a chance", getattr(self, name), self.slopes.shape)
        validate.positive("scale of a chance", self.scale)

    def __call__(self, columns: np.ndarray) -> np.ndarray:
        """Return the probability for (..., column); one term after the other, whatever else is computed with it."""
        logit = np.full(columns.shape[:-1], self.intercept)
        for j, slope in enumerate(self.slopes):
            logit += (columns[..., j] - self.mean[j]) / self.scale[j] * slope
        return special.expit(logit)

    def check_columns(self, n: int) -> None:
        """Check that it has numbers for so many columns."""
        validate.finite("slopes of a chance", self.slopes, (n,))


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

    def check_shape(self, features: int, diagnostics: int) -> None:  # noqa: ARG002
        """Check the chance."""
        self.cheap.check_columns(features)


@register_rule
class Signal(Rule):
    """The latest value of one diagnostic: First Alarm where Strong takes over for good, else Step Deferral."""

    policy = "signal"

    def step(self, state: State, u: np.ndarray) -> tuple[State, np.ndarray]:
        """Return the value."""
        return state, u[:, 0]

    def check_shape(self, features: int, diagnostics: int) -> None:  # noqa: ARG002
        """Check that there is one diagnostic."""
        if diagnostics != 1:
            raise InvalidDataError("1", field="number of diagnostics", value=diagnostics)


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

    Examples
    --------
    >>> chance = Chance([0.0], [1.0], 0.0, [1.0])
    >>> rule = TaskSignal([0.1, 0.5, 0.9], 1.0, chance, chance, [[0, 1], [0, 1]], [1.0, 0.0], 1.0)
    >>> rule.thresholds(rule.begin(np.array([[-1.0], [0.0], [1.0], [2.0]])))
    array([0.1, 0.5, 0.9, inf])
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

    def check_shape(self, features: int, diagnostics: int) -> None:
        """Check both chances."""
        super().check_shape(features, diagnostics)
        self.cheap.check_columns(features)
        self.strong.check_columns(features)


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

    def check_shape(self, features: int, diagnostics: int) -> None:
        """Check the chance."""
        self.wrong.check_columns(features + diagnostics)


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

    def check_shape(self, features: int, diagnostics: int) -> None:
        """Check both chances."""
        for chance in (self.cheap, self.strong):
            chance.check_columns(features + 3 * diagnostics + 1)


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

    def check_shape(self, features: int, diagnostics: int) -> None:
        """Check the chance."""
        self.cheap.check_columns(features + self.steps * diagnostics)


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

    def check_shape(self, features: int, diagnostics: int) -> None:
        """Check the chance."""
        self.cheap.check_columns(features + len(self.summaries) * diagnostics)


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

    def check_shape(self, features: int, diagnostics: int) -> None:
        """Check the columns of the experience."""
        validate.finite("mean of an experience", self.experience.mean, (features + 3 * diagnostics + 1,))
