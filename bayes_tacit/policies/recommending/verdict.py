"""From held-out successes to a name: the best, or the simplest where the data cannot tell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
        The row with the most success; the same, or a policy that is not known to be better.
    too_little
        Whether the simplest within one standard error was taken, since the data cannot tell.
    """

    row: int
    best: int
    too_little: bool


def name_one(success: np.ndarray, indifferent: float = INDIFFERENT) -> Named:
    """Name a policy, from successes (policy, task) in the order of simplicity.

    The one with the most success is named. But where its gain over the simplest within one standard error of it is not
    known to `indifferent`, that simplest one is: a rule that is easier to run needs no evidence that it is better.

    Examples
    --------
    >>> clear = np.array([[0.0] * 10 + [1.0] * 10, [1.0] * 20])
    >>> name_one(clear)
    Named(row=1, best=1, too_little=False)
    >>> by_luck = np.array([[0.0] * 10 + [1.0] * 10, [1.0] * 9 + [0.0] * 2 + [1.0] * 0 + [0.0] * 7 + [1.0] * 2])
    >>> name_one(by_luck)
    Named(row=0, best=1, too_little=True)
    """
    best = int(success.mean(axis=1).argmax())
    difference = success[best] - success
    error = difference.std(axis=1) / np.sqrt(success.shape[1])
    simplest = int(np.flatnonzero(difference.mean(axis=1) <= error)[0])
    if simplest != best and error[simplest] > indifferent:
        return Named(simplest, best, too_little=True)
    return Named(best, best, too_little=False)


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
