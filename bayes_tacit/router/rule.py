r"""Rules: what each policy decides by, as one causal score.

A rule is a frozen dataclass of plain numbers with two functions on arrays that have a leading episode axis,

    begin(x)        -> state           x: (episode, feature), as the task gives them
    step(state, u)  -> state, score    u: (episode, diagnostic); score: (episode,), NaN where nothing is asked

and, where it has them, a score before the first step (`opening`) and one after the last (`closing`). A score that
reaches its threshold calls Strong; thresholds, names and the call are the `Router`'s. All episodes of one call are at
the same step, so `scan` scores a whole data set with the arithmetic that one online decision takes.

A state is a dict of arrays. `step` returns a new one and leaves the old one as it is. What it replaces is all that an
episode's snapshot keeps, but for names with an underscore before them, which `step` derives from the rest.

To add a policy, write a subclass of `Rule` and register it (`register_rule`); CONTRIBUTING has an example.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, ClassVar, Literal

import numpy as np
from scipy import special

from bayes_tacit import validate
from bayes_tacit.data.timing import Handoff
from bayes_tacit.errors import InvalidDataError

State = dict[str, np.ndarray]
"""What a rule remembers of episodes: arrays with a leading episode axis, by name."""

Call = Literal["cheap", "strong", "strong_once", "restart"]
"""Who acts: Cheap; Strong from here to the end; Strong for one step; Strong from a fresh start to the end."""

CALL_OF: Mapping[Handoff, Call] = {"resume": "strong", "restart": "restart"}
"""The call that hands off for good, by what Strong does then."""

BAND = (0.05, 0.95)
"""Probabilities at the ends of a decision's band."""

AT_ONCE = 1 << 19
"""Numbers that `scan` holds at a time for each array of a state."""


@dataclass(frozen=True, eq=False)
class Frozen:
    """A frozen dataclass whose arrays are its own, finite and read-only."""

    def __post_init__(self) -> None:
        """Copy the arrays, and check the numbers."""
        for each in fields(self):
            value, place = getattr(self, each.name), f"{each.name} of {type(self).__name__}"
            if each.type in ("np.ndarray", np.ndarray):
                array = np.array(value, dtype=float)
                validate.finite(place, array, array.shape)
                array.flags.writeable = False
                object.__setattr__(self, each.name, array)
            elif each.type in ("float", float):
                object.__setattr__(self, each.name, validate.number(place, value))

    def __getstate__(self) -> dict[str, object]:
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(frozen=True, eq=False)
class Linear(Frozen):
    """A linear model of standardized columns.

    Attributes
    ----------
    mean, scale
        (column,), by which each is standardized, as in training.
    intercept, slopes
        On standardized columns.
    """

    mean: np.ndarray
    scale: np.ndarray
    intercept: float
    slopes: np.ndarray

    def __post_init__(self) -> None:
        """Check the numbers."""
        super().__post_init__()
        what = type(self).__name__.lower()
        for name in ("mean", "scale"):
            validate.finite(f"{name} of a {what}", getattr(self, name), self.slopes.shape)
        validate.positive(f"scale of a {what}", self.scale)

    def sum(self, columns: np.ndarray) -> np.ndarray:
        """Return the value for (..., column); one term after the other, whatever else is computed with it."""
        value = np.full(columns.shape[:-1], self.intercept)
        for j, slope in enumerate(self.slopes):
            value += (columns[..., j] - self.mean[j]) / self.scale[j] * slope
        return value

    def check_columns(self, n: int) -> None:
        """Check that it has numbers for so many columns."""
        validate.finite(f"slopes of a {type(self).__name__.lower()}", self.slopes, (n,))


class Chance(Linear):
    """A logistic model's probability.

    Examples
    --------
    >>> Chance(mean=[10.0], scale=[2.0], intercept=0.0, slopes=[-1.0])(np.array([[14.0], [10.0]])).round(3)
    array([0.119, 0.5  ])
    """

    def __call__(self, columns: np.ndarray) -> np.ndarray:
        """Return the probability for (..., column)."""
        return special.expit(self.sum(columns))


@dataclass(frozen=True, eq=False)
class Line(Linear):
    """A linear model of a number that is at least `least`.

    Examples
    --------
    >>> Line(mean=[10.0], scale=[2.0], intercept=5.0, slopes=[1.0], least=4.5)(np.array([[14.0], [6.0]]))
    array([7. , 4.5])
    """

    least: float

    def __call__(self, columns: np.ndarray) -> np.ndarray:
        """Return the number for (..., column)."""
        return np.maximum(self.sum(columns), self.least)


class Rule(Frozen):
    """A causal score; the base class of all rules, which itself never asks anything.

    Attributes
    ----------
    policy
        Its name in router files.
    one_off
        Calls that are no steps, such as that of a value head, which each question costs.
    closes
        Whether it asks a question when Cheap's episode has ended.
    """

    policy: ClassVar[str] = ""
    one_off: ClassVar[int] = 0
    closes: ClassVar[bool] = False

    @property
    def width(self) -> int:
        """How many numbers an episode takes in the largest array of a state."""
        return 1

    def begin(self, x: np.ndarray) -> State:
        """Return the state before the first step, from the tasks' features (episode, feature)."""
        return {"x": x}

    def step(self, state: State, u: np.ndarray) -> tuple[State, np.ndarray]:
        """Return the state after one more step with these diagnostics (episode, diagnostic), and the score."""
        return state, np.full(len(u), np.nan)

    def opening(self, state: State) -> np.ndarray | None:  # noqa: ARG002
        """Return the score before the first step, (episode,); None where the rule asks nothing there."""
        return None

    def closing(self, state: State) -> np.ndarray:
        """Return the score of episodes that have ended, (episode,)."""
        return np.full(len(next(iter(state.values()))), np.nan)

    def thresholds(self, state: State) -> np.ndarray | None:  # noqa: ARG002
        """Return the tasks' own thresholds (episode,), in place of the router's alpha; None where they have none."""
        return None

    def facts(self, state: State) -> Mapping[str, np.ndarray]:  # noqa: ARG002
        """Return what else a `Decision` reports of the latest step, by its names, (episode,) each."""
        return {}

    def check_alpha(self, alpha: float, pace: float) -> float:  # noqa: ARG002
        """Return a threshold that scores of this rule can be compared with."""
        return validate.number("alpha", alpha)

    def columns(self, features: int, diagnostics: int) -> int:  # noqa: ARG002
        """Return how many columns the rule's models take, where a router has so many features and diagnostics."""
        return features

    def check_shape(self, features: int, diagnostics: int) -> None:
        """Check that the rule has numbers for so many features and diagnostics."""
        for each in fields(self):
            if hasattr(model := getattr(self, each.name), "check_columns"):
                model.check_columns(self.columns(features, diagnostics))


RULES: dict[str, type[Rule]] = {}
"""Every known rule, by the name of its policy."""

OWN = "bayes_tacit.router"
"""Where the rules of the library are, which no other may replace."""

ENTRY_POINTS = "bayes_tacit.rules"
"""The group of entry points by which an installed package offers rules."""

MODULES = "BAYES_TACIT_RULES"
"""The environment variable that names modules with rules, separated by commas."""


def register_rule[R: type[Rule]](rule: R) -> R:
    """Make a rule known by the name of its policy, to router files that are read in this process; a class decorator.

    Other processes, such as the command line, find it where an entry point of the group `bayes_tacit.rules` or the
    environment variable BAYES_TACIT_RULES names its module.

    Examples
    --------
    >>> @register_rule
    ... class Patience(Rule):
    ...     policy = "patience"
    ...     def begin(self, x):
    ...         return {"steps": np.zeros(len(x))}
    ...     def step(self, state, u):
    ...         return {"steps": state["steps"] + 1}, state["steps"] + 1
    >>> RULES.pop("patience") is Patience
    True
    """
    if not (isinstance(rule, type) and issubclass(rule, Rule)):
        raise InvalidDataError("a subclass of Rule", field="rule", value=rule)
    name = validate.text("policy of the rule", rule.policy)
    known = RULES.get(name)
    if not name or (known is not None and known.__module__.startswith(OWN) and not rule.__module__.startswith(OWN)):
        raise InvalidDataError(f"a name other than {', '.join(RULES)}", field="policy of the rule", value=name)
    RULES[name] = rule
    return rule


def rule_named(policy: object) -> type[Rule]:
    """Return the rule of a policy's name, looking for modules with rules of others where it is not known."""
    if isinstance(policy, str) and policy not in RULES:
        for point in entry_points(group=ENTRY_POINTS):
            point.load()
        for module in filter(None, os.environ.get(MODULES, "").split(",")):
            import_module(module.strip())
    if not isinstance(policy, str) or policy not in RULES:
        known = f"{', '.join(RULES)}; the environment variable {MODULES} names modules with rules of your own"
        raise InvalidDataError(f"one of {known}", field="policy", value=policy)
    return RULES[policy]


@dataclass(frozen=True)
class Scores:
    """Scores of episodes under a rule.

    Attributes
    ----------
    opening
        (episode,), before the first step; None where the rule asks nothing there.
    steps
        (episode, step), NaN past the end of an episode and where nothing is asked.
    closing
        (episode,), after the last step; None where the rule asks nothing there.
    thresholds
        (episode,), the tasks' own thresholds; None where they have none.
    """

    opening: np.ndarray | None
    steps: np.ndarray
    closing: np.ndarray | None
    thresholds: np.ndarray | None


def scan(rule: Rule, x: np.ndarray, u: np.ndarray, n_steps: np.ndarray) -> Scores:
    """Score all episodes under a rule, step by step, as observing them one by one would.

    `x` is (episode, feature) and `u` (episode, step, diagnostic); what is past the `n_steps` of an episode is not
    looked at.
    """
    n, horizon = u.shape[:2]
    size = max(1, AT_ONCE // rule.width)
    parts = [_scan(rule, *(each[start : start + size] for each in (x, u, n_steps))) for start in range(0, n, size)]

    def joined(name: str) -> np.ndarray | None:
        arrays = [getattr(part, name) for part in parts]
        return None if arrays[0] is None else np.concatenate(arrays)

    steps = np.concatenate([part.steps for part in parts])
    return Scores(joined("opening"), steps.reshape(n, horizon), joined("closing"), joined("thresholds"))


def _scan(rule: Rule, x: np.ndarray, u: np.ndarray, n_steps: np.ndarray) -> Scores:
    state = rule.begin(x)
    opening, thresholds = rule.opening(state), rule.thresholds(state)
    out = np.full(u.shape[:2], np.nan)
    closing = np.full(len(u), np.nan) if rule.closes else None
    # The longest first: those that go on are always the first rows of the state.
    order = np.argsort(-n_steps, kind="stable")
    lengths = n_steps[order]
    state = _rows(state, order)
    on = len(u)
    for t in range(u.shape[1]):
        before, on = on, int(np.count_nonzero(lengths > t))
        if on == 0:
            break
        if on < before:
            state = _rows(state, slice(on))
        rows = order[:on]
        state, out[rows, t] = rule.step(state, u[rows, t])
        ended = slice(int(np.count_nonzero(lengths > t + 1)), on)
        if closing is not None and ended.start < on:
            closing[order[ended]] = rule.closing(_rows(state, ended))
    return Scores(opening, out, closing, thresholds)


def _rows(state: State, rows: np.ndarray | slice) -> State:
    return {name: array[rows] for name, array in state.items()}


SHARE = 1e-9
"""By how much of itself a threshold is lowered; of a difference of two probabilities, by how much."""


def reached_from[N: (float, np.ndarray)](threshold: N) -> N:
    """Return what a score must at least be to reach a threshold, or an array of them: rounding decides nothing.

    A threshold is often one of the scores that it was chosen on, computed for a whole table; the same score online, on
    another machine or in another language may differ in the last bits. So a threshold counts as reached from a
    billionth below it on.

    Examples
    --------
    >>> [score >= reached_from(0.3) for score in (0.1 * 3, 0.3 - 1e-12, 0.3 - 1e-8)]
    [True, True, False]
    >>> reached_from(np.array([np.inf, 1.0, -1.0])) < np.array([np.inf, 1.0, -1.0])
    array([False,  True,  True])
    """
    return threshold * (1 - SHARE + 2 * SHARE * (threshold < 0))


def start_reached_from[N: (float, np.ndarray)](threshold: N) -> N:
    """Return what the opening score, a difference of probabilities, must at least be to reach its threshold."""
    return threshold - SHARE


def failing_below[N: (float, np.ndarray)](probability: N) -> N:
    """Return the threshold of 1 - P, Cheap's chance to fail, that is reached where P is below a probability.

    Where P equals it but for rounding, the threshold is not reached.
    """
    return 1 - probability + 2 * SHARE


def plain(rule: Any) -> dict[str, Any]:  # noqa: ANN401  a rule, or ranges
    """Return the fields of a rule as JSON has them."""

    def written(value: object) -> object:
        if isinstance(value, Frozen):
            return plain(value)
        if isinstance(value, np.ndarray):
            return value.tolist()
        return list(value) if isinstance(value, tuple) else value

    return {each.name: written(getattr(rule, each.name)) for each in fields(rule)}
