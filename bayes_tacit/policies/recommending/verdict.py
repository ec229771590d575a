"""From held-out successes to a name: the best, or the simplest where the data cannot tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

Choose = Literal["simplest", "best"]
"""What is named where the data cannot tell: the simplest within one standard error, or the best all the same."""

INDIFFERENT = 0.01
"""One point of success: where a difference is not known more exactly than that, there is too little data to tell."""

DRAWS = 4000
"""Draws of the Bayesian bootstrap."""

AT_ONCE = 1 << 22
"""Weights that are drawn at a time."""


@dataclass(frozen=True)
class Named:
    """Which policy to use.

    Attributes
    ----------
    row
        Its row.
    best
        The row with the most success.
    simplest
        The row of the simplest policy that the data cannot tell from the best; where they can, that of the best.
    """

    row: int
    best: int
    simplest: int

    @property
    def too_little(self) -> bool:
        """Whether there is too little data to tell the best from a simpler one."""
        return self.simplest != self.best


def name_one(success: np.ndarray, indifferent: float = INDIFFERENT, choose: Choose = "simplest") -> Named:
    """Name a policy, from successes (policy, task) in the order of simplicity.

    The one with the most success is named. But where its gain over the simplest within one standard error of it is not
    known to `indifferent`, that simplest one is: a rule that is easier to run needs no evidence that it is better.
    With `choose="best"` the one with the most success is named all the same.

    Examples
    --------
    >>> clear = np.array([[0.0] * 10 + [1.0] * 10, [1.0] * 20])
    >>> name_one(clear)
    Named(row=1, best=1, simplest=1)
    >>> by_luck = np.array([[0.0] * 10 + [1.0] * 10, [1.0] * 9 + [0.0] * 9 + [1.0] * 2])
    >>> name_one(by_luck)
    Named(row=0, best=1, simplest=0)
    >>> name_one(by_luck, choose="best")
    Named(row=1, best=1, simplest=0)
    """
    best = int(success.mean(axis=1).argmax())
    difference = success[best] - success
    error = difference.std(axis=1) / np.sqrt(success.shape[1])
    simplest = int(np.flatnonzero(difference.mean(axis=1) <= error)[0])
    if error[simplest] <= indifferent:
        simplest = best
    return Named(simplest if choose == "simplest" else best, best, simplest)


def posterior_means(values: np.ndarray, seed: int) -> np.ndarray:
    """Draw means over tasks by the Bayesian bootstrap: (draw, row) from (row, task).

    Every draw gives the tasks random weights that sum to one, the same for all rows, so rows stay paired.

    Examples
    --------
    >>> posterior_means(np.array([[0.0, 1.0, 1.0, 1.0]]), seed=0).mean().round(2)
    np.float64(0.75)
    """
    rng = np.random.default_rng(seed)
    n = values.shape[1]
    out = np.empty((DRAWS, len(values)))
    size = max(1, AT_ONCE // n)
    for first in range(0, DRAWS, size):
        weights = rng.standard_exponential((min(size, DRAWS - first), n))
        out[first : first + size] = weights @ values.T / weights.sum(axis=1, keepdims=True)
    return out
