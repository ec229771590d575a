"""Policies that ask one question an episode: what each threshold gives, when an episode can go two ways."""

from __future__ import annotations

import numpy as np
import pandas as pd

from bayes_tacit import validate
from bayes_tacit.data.costs import Outcomes, averages
from bayes_tacit.errors import InvalidDataError

ALWAYS = 1.01
"""A threshold that every probability is below, as in the paper's grid."""


def two_way_points(
    probability: np.ndarray, alpha: np.ndarray, below: np.ndarray, otherwise: np.ndarray
) -> dict[str, np.ndarray]:
    """Average over episodes for each threshold.

    Each episode is put in where its own decision changes, and a running sum over the thresholds does the rest: the time
    does not depend on how many thresholds there are.

    Parameters
    ----------
    probability
        (episode,), NaN where the question is not asked.
    alpha
        (k,), the thresholds.
    below, otherwise
        (4, episode): success, cost, Cheap's and Strong's calls where the probability is below the threshold, and where
        it is not or was not asked for.

    Examples
    --------
    >>> strong, cheap = np.array([[1.0, 1.0], [6, 6], [0, 0], [2, 2]]), np.array([[0.0, 1.0], [2, 2], [2, 2], [0, 0]])
    >>> two_way_points(np.array([0.2, 0.9]), np.array([0.0, 0.5]), strong, cheap)["cost"]
    array([2., 4.])
    """
    order = np.argsort(alpha, kind="stable")
    first_above = np.searchsorted(alpha[order], probability, side="right")
    before, after = (np.vstack([table, table[3] > 0]) for table in (otherwise, below))
    sums = np.empty((len(before), len(alpha)))
    for row, (start, change) in enumerate(zip(before.sum(axis=1), after - before, strict=True)):
        # NaN is placed after every threshold, and so is left out with what is never below one.
        sums[row, order] = start + np.cumsum(np.bincount(first_above, change, minlength=len(alpha) + 1))[:-1]
    return averages(sums, len(probability))


def two_way_outcomes(chosen: np.ndarray, below: np.ndarray, otherwise: np.ndarray) -> Outcomes:
    """Give each episode the outcome of its branch."""
    return Outcomes(*np.where(chosen, below, otherwise))


def probability_quantiles(probability: np.ndarray, n_episodes: int, n: int = 101) -> pd.DataFrame:
    """Take evenly spaced quantiles of training probabilities as thresholds; those that are equal count once."""
    levels = np.linspace(0, 1, validate.whole("number of candidates", n, 2))
    return with_targets(np.unique(np.quantile(probability, levels)), probability, n_episodes)


def target_rates(probability: np.ndarray, rates: tuple[float, ...]) -> pd.DataFrame:
    """Find the thresholds below which given shares of training probabilities lie.

    It is a little more where probabilities are equal. For rate 0 none is below it, for rate 1 all are.

    Examples
    --------
    >>> target_rates(np.array([0.1, 0.2, 0.3, 0.3]), (0, 0.5, 1)).round(3)
       alpha  target
    0   0.00     0.0
    1   0.20     0.5
    2   1.01     1.0
    """
    levels = numbers("rates", rates, "numbers from 0 to 1", most=1)
    counts = np.floor(levels * len(probability) + 0.5).astype(int)
    just_above = np.nextafter(np.sort(probability), np.inf)
    alpha = np.append(0.0, just_above)[counts]
    return pd.DataFrame({"alpha": np.where(counts == len(probability), ALWAYS, alpha), "target": levels})


def with_targets(alpha: np.ndarray, probability: np.ndarray, n_episodes: int) -> pd.DataFrame:
    """Put beside each threshold the share of training episodes whose probability is below it."""
    below = np.searchsorted(np.sort(probability), alpha, side="left")
    return pd.DataFrame({"alpha": alpha, "target": below / n_episodes})


def numbers(name: str, given: tuple[float, ...], expected: str, most: float = np.inf) -> np.ndarray:
    """Give a setting that is a list of numbers from 0 on, in rising order."""
    try:
        values = np.array(given, dtype=float)
    except (TypeError, ValueError):
        raise InvalidDataError(expected, field=name, value=given) from None
    if values.ndim != 1 or not values.size or not ((values >= 0) & (values <= most)).all():
        raise InvalidDataError(expected, field=name, value=given)
    return np.unique(values)
