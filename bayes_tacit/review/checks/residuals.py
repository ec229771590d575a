"""Crossings that came, less those that the model expected, checkpoint by checkpoint."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SMALLEST = 1e-12


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
    variance
        (episode, step): of the observed crossing if its step were known, given what was seen before.
    """

    observed: np.ndarray
    expected: np.ndarray
    variance: np.ndarray

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
        return cls(*(np.where(known, part, 0.0) for part in (observed, expected, expected * (1 - hazard))))

    @property
    def difference(self) -> np.ndarray:
        """Observed less expected, (episode, step)."""
        return self.observed - self.expected


def log_mass(crossed: np.ndarray, first: np.ndarray, last: np.ndarray, n_steps: np.ndarray) -> np.ndarray:
    """Give the log probability of each window under F (episode, step): what an episode says of the parameters.

    Examples
    --------
    >>> log_mass(np.array([[0.5, 0.75]] * 2), np.array([1, 2]), np.array([1, 2]), np.array([2, 2])).round(2)
    array([-1.39, -1.39])
    """
    below, upto = window_ends(crossed, first, last, n_steps)
    return np.log(np.maximum(upto - below, SMALLEST))


def window_ends(
    crossed: np.ndarray, first: np.ndarray, last: np.ndarray, n_steps: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Give F just before each window and at its end; a window past the rollout ends at 1."""
    row = np.arange(len(crossed))
    never = first >= n_steps
    before = np.where(first > 0, crossed[row, np.minimum(first, n_steps) - 1], 0.0)
    return before, np.where(never, 1.0, crossed[row, np.minimum(last, n_steps - 1)])
