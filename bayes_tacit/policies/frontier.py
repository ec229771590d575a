"""What every threshold gives at once, for a permanent handoff where a score first reaches it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayes_tacit.data.timing import NEVER, Timing, handoff_steps, usable_checkpoints

ROUNDING = 1e-9
"""Share of a cap by which a cost may be above it: the same number, rounded differently."""

type Start = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Frontier:
    """Success and cost of each threshold that decides differently from the one before it, by falling threshold.

    Attributes
    ----------
    alpha
        The thresholds; the first is infinite, which hands nothing off but what is handed off at the start. Each lies
        halfway between two scores, so that rounding does not change what it decides.
    success, cost
        Means over episodes.
    """

    alpha: np.ndarray
    success: np.ndarray
    cost: np.ndarray

    def best(self, cap: float) -> int | None:
        """Give the position of the most success within the cap, the cheapest of equals; None if nothing is within."""
        within = np.flatnonzero(self.cost <= cap * (1 + ROUNDING))
        if not within.size:
            return None
        best = within[self.success[within] >= self.success[within].max() - ROUNDING]
        return int(best[self.cost[best].argmin()])


def frontier_of(
    scores: np.ndarray, n_steps: np.ndarray, table: np.ndarray, timing: Timing, at_start: Start | None = None
) -> Frontier:
    """Find what every threshold gives.

    An episode's handoff moves to an earlier step only where the threshold falls below one of its running maxima. Those
    changes, in the order of falling values, add up to the averages: one sort, whatever the number of thresholds.

    Parameters
    ----------
    scores
        (episode, step), nonnegative; what is past the end of an episode is not looked at.
    n_steps
        (episode,), lengths of the Cheap rollouts.
    table
        (variable, episode, handoff), as `Counterfactuals.table` gives it.
    timing
        What a checkpoint is.
    at_start
        Which tasks Strong has from the start (episode,), and what comes of it (variable, episode).

    Examples
    --------
    >>> success = np.array([[1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]])      # of handoffs at 0, 1, 2 and never
    >>> cost = np.array([[9.0, 7.0, 5.0, 3.0], [9.0, 7.0, 5.0, 3.0]])
    >>> scores = np.array([[0.2, 0.6, 0.7], [0.1, 0.3, 0.4]])
    >>> front = frontier_of(scores, np.array([3, 3]), np.stack([success, cost]), "post_action")
    >>> front.alpha.round(2), front.success, front.cost
    (array([ inf, 0.45, 0.25, 0.15, 0.08]), array([0.5, 0.5, 0.5, 1. , 1. ]), array([3., 4., 5., 6., 7.]))
    """
    usable = np.arange(scores.shape[1]) < usable_checkpoints(n_steps, timing)[:, None]
    # A threshold is above zero, so a score of zero reaches none.
    highest = np.maximum.accumulate(np.where(usable & (scores > 0), scores, -np.inf), axis=1)
    rises = highest > np.column_stack([np.full(len(highest), -np.inf), highest[:, :-1]])
    started, outcomes = (np.zeros(len(scores), dtype=bool), table[:, :, 0]) if at_start is None else at_start
    rises &= ~started[:, None]
    episode, checkpoint = np.nonzero(rises)
    to = handoff_steps(checkpoint, timing)
    later = np.append(episode[1:] == episode[:-1], False)
    before = np.where(later, np.append(to[1:], NEVER), NEVER)
    value = highest[episode, checkpoint]
    order = np.argsort(-value, kind="stable")
    first = np.where(started, outcomes[:2], table[:2, :, NEVER]).sum(axis=1)
    change = (table[:2, episode, to] - table[:2, episode, before])[:, order]
    averages = np.column_stack([first, first[:, None] + np.cumsum(change, axis=1)]) / len(scores)
    value = value[order]
    # Of equal scores only the last counts: a threshold takes them all or none.
    last = np.append(value[1:] < value[:-1], True) if len(value) else np.zeros(0, dtype=bool)
    distinct = value[last]
    lower = np.append(distinct[1:], distinct[-1:] / 2)
    kept = np.append(True, last)
    return Frontier(np.append(np.inf, (distinct + lower) / 2), averages[0, kept], averages[1, kept])
