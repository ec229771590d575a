"""Policies that give Strong single steps: their thresholds, and what each gives where it can be replayed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from bayes_tacit.data.costs import averages
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.policies.branches import numbers

AT_ONCE = 1 << 21
"""Episodes times thresholds that are replayed at a time."""


def step_thresholds(
    values: np.ndarray, usable: np.ndarray, average_steps: tuple[float, ...] | None, n_candidates: int
) -> pd.DataFrame:
    """Find thresholds of a value that each step has.

    Parameters
    ----------
    values
        (episode, step), of training rollouts; NaN past the end of an episode.
    usable
        (episode,), how many of its steps can be deferred.
    average_steps
        Average numbers of deferred steps a training task that are wanted; None for quantiles of the values.
    n_candidates
        How many quantiles.

    Returns
    -------
    pandas.DataFrame
        `alpha`, and `target`, how many usable steps of a training rollout are at or above it on average.

    Examples
    --------
    >>> step_thresholds(np.array([[0.1, 0.7, 0.4], [0.2, 0.9, np.nan]]), np.array([3, 2]), (0, 1), 101)
       alpha  target
    0    inf     0.0
    1    0.7     1.0
    """
    deferring = np.sort(values[np.arange(values.shape[1]) < usable[:, None]])
    if average_steps is None:
        alpha = np.unique(np.quantile(values[~np.isnan(values)], np.linspace(0, 1, n_candidates)))
        target = (len(deferring) - np.searchsorted(deferring, alpha)) / len(values)
    else:
        target = numbers("average_steps", average_steps, "numbers >= 0")
        counts = np.minimum(np.floor(target * len(values) + 0.5).astype(int), len(deferring))
        alpha = np.append(np.inf, deferring[::-1])[counts]
    return pd.DataFrame({"alpha": alpha, "target": target})


def replayed_points(settings: pd.DataFrame, n: int, replay: Callable[[np.ndarray], np.ndarray]) -> pd.DataFrame:
    """Put beside each setting what its `alpha` gives on average.

    Parameters
    ----------
    settings
        One row each, with a column `alpha`.
    n
        How many episodes there are.
    replay
        Plays thresholds: (4, threshold, episode).
    """
    alpha = settings["alpha"].to_numpy(float)
    sums = np.empty((5, len(alpha)))
    size = max(1, AT_ONCE // n)
    for start in range(0, len(alpha), size):
        played = replay(alpha[start : start + size])
        sums[:4, start : start + size] = played.sum(axis=2)
        sums[4, start : start + size] = np.count_nonzero(played[3], axis=1)
    return settings.assign(**averages(sums, n))


def as_played(given: object, thresholds: int, episodes: int, of: str) -> np.ndarray:
    """Give what a world played as success, cost, Cheap's and Strong's calls: (4, threshold, episode)."""
    played = np.asarray(given, dtype=float)
    shape = (4, thresholds, episodes)
    if played.shape != shape:
        raise InvalidDataError(f"{shape}", field=f"shape of what the world's {of} gives", value=played.shape)
    return played
