r"""Rules by value: hand off where that is worth more than going on, in success minus lambda times cost.

With what was seen so far, let a handoff now succeed with probability :math:`p_S` and cost :math:`c_S` more than Cheap's
rest, which succeeds with probability :math:`p_C`. Stopping is worth :math:`p_S - p_C - \lambda c_S` more than going on
to the end. The score is the lambda up to which a handoff is worth it, so lambda is the threshold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from bayes_tacit import validate
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.router.rule import Frozen, Rule, State, register_rule
from bayes_tacit.router.rules import Chance, history, moment, remembered

NEAREST = 1e-3
"""No log-odds are of a probability nearer to 0 or 1."""


@dataclass(frozen=True, eq=False)
class Line(Frozen):
    """A linear model of a number.

    Attributes
    ----------
    mean, scale
        (column,), by which each is standardized.
    intercept, slopes
        On standardized columns.
    least
        What it gives at least.

    Examples
    --------
    >>> Line(mean=[10.0], scale=[2.0], intercept=5.0, slopes=[1.0], least=4.5)(np.array([[14.0], [6.0]]))
    array([7. , 4.5])
    """

    mean: np.ndarray
    scale: np.ndarray
    intercept: float
    slopes: np.ndarray
    least: float

    def __post_init__(self) -> None:
        """Check the numbers."""
        super().__post_init__()
        for name in ("mean", "scale"):
            validate.finite(f"{name} of a line", getattr(self, name), self.slopes.shape)
        validate.positive("scale of a line", self.scale)

    def __call__(self, columns: np.ndarray) -> np.ndarray:
        """Return the number for (episode, column); one term after the other, whatever else is computed with it."""
        value = np.full(len(columns), self.intercept)
        for j, slope in enumerate(self.slopes):
            value += (columns[:, j] - self.mean[j]) / self.scale[j] * slope
        return np.maximum(value, self.least)


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

    def check(self, columns: int) -> None:
        """Check that it has numbers for so many columns."""
        for each in (self.cheap, self.strong):
            each.check_columns(columns)
        validate.finite("slopes of a price", self.price.slopes, (columns,))
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
        self.start.check(features)
        self.later.check(features + 3 * diagnostics + 1)


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


def inputs(cheap: np.ndarray, strong: np.ndarray, price: np.ndarray) -> np.ndarray:
    """Return what the worth of waiting is learned from: (episode, 6)."""
    odds = (special.logit(np.clip(each, NEAREST, 1 - NEAREST)) for each in (cheap, strong))
    return np.column_stack([np.ones(len(cheap)), *odds, cheap, strong, price])


def indifference(lambdas: np.ndarray, worth: np.ndarray) -> np.ndarray:
    """Return for (lambda, episode) the highest lambda at which stopping is worth as much as going on.

    Where it is worth less at every lambda, it is what it lacks at the lowest, below zero.

    Examples
    --------
    >>> indifference(np.array([0.0, 1.0, 2.0]), np.array([[2.0, -0.5, 3.0], [1.0, -1.0, 2.0], [-1.0, -2.0, 1.0]]))
    array([ 1.5, -0.5,  2. ])
    """
    last = len(lambdas) - 1 - (worth >= 0)[::-1].argmax(axis=0)
    after = np.minimum(last + 1, len(lambdas) - 1)
    row = np.arange(worth.shape[1])
    here, there = worth[last, row], worth[after, row]
    share = np.divide(here, here - there, out=np.zeros_like(here), where=after > last)
    found = lambdas[last] + share * (lambdas[after] - lambdas[last])
    return np.where((worth >= 0).any(axis=0), found, lambdas[0] + np.minimum(worth[0], 0))
