"""Crossings that came, less those that the model expected, checkpoint by checkpoint."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SMALLEST = 1e-12
MOST_GROUPS = 2000
"""Episodes beyond this number are flipped in groups: their sums are as normal as they will be."""


@dataclass(frozen=True)
class Residuals:
    r"""What each checkpoint of each timed episode adds to the crossings, as observed and as expected.

    With F(t) the probability that an episode has crossed by step t, a checkpoint that it reached uncrossed is expected
    to bring h(t) = (F(t) - F(t-1)) / (1 - F(t-1)) crossings. A window says in which steps the crossing was, not where,
    so the observed crossing is spread over the window as F has it, and so is the share that was still uncrossed. Under
    a right model every difference has mean zero, whatever was known at that checkpoint, and differences of different
    episodes are independent: the martingale residuals of survival analysis, averaged over the windows.

    Attributes
    ----------
    observed, expected
        (episode, step); both zero where nothing can be expected any more.
    """

    observed: np.ndarray
    expected: np.ndarray

    @classmethod
    def of(cls, crossed: np.ndarray, first: np.ndarray, last: np.ndarray, n_steps: np.ndarray) -> Residuals:
        """Compare F (episode, step) with windows [first, last]; first is at least n_steps if there was no crossing.

        Examples
        --------
        >>> certain = Residuals.of(np.array([[0.5, 0.75]]), np.array([1]), np.array([1]), np.array([2]))
        >>> certain.observed, certain.expected
        (array([[0., 1.]]), array([[0.5, 0.5]]))
        """
        step, row = np.arange(crossed.shape[1]), np.arange(len(crossed))
        inside = step < n_steps[:, None]
        before = np.concatenate([np.zeros((len(crossed), 1)), crossed[:, :-1]], axis=1)
        mass = np.where(inside, crossed - before, 0.0)
        hazard = np.where(inside, mass / np.maximum(1 - before, SMALLEST), 0.0)
        never = (first >= n_steps)[:, None]
        start, end = np.minimum(first, n_steps - 1), np.minimum(last, n_steps - 1)
        low, high = before[row, start][:, None], crossed[row, end][:, None]
        window = (step >= start[:, None]) & (step <= end[:, None]) & ~never
        width = np.where(high > low, high - low, np.inf)
        left = np.where(window, ((high - before) / width).clip(0, 1), step < start[:, None])
        observed = np.where(window, mass / width, 0.0)
        # A window without mass under the model says nothing of where in it the crossing was.
        known = never | np.isfinite(width)
        expected = np.where(never, 1.0, left) * hazard
        return cls(np.where(known, observed, 0.0), np.where(known, expected, 0.0))

    def within(self, members: np.ndarray) -> np.ndarray:
        """Sum observed less expected over some checkpoints of each episode: (episode,)."""
        difference: np.ndarray = np.where(members, self.observed - self.expected, 0.0).sum(axis=1)
        return difference


def largest_under_chance(sums: np.ndarray, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the largest standardized column total of (episode, column) sums if each episode's sign were chance.

    The parameters were fitted to the same data, which makes the true totals smaller than these.
    """
    groups = min(len(sums), MOST_GROUPS)
    joined = np.zeros((groups, sums.shape[1]))
    np.add.at(joined, rng.permutation(len(sums)) % groups, sums)
    scale = np.sqrt((sums**2).sum(axis=0))
    signs = rng.choice([-1.0, 1.0], size=(draws, groups))
    largest: np.ndarray = np.abs(signs @ joined / scale).max(axis=1)
    return largest
