"""Shares and ratios with intervals."""

from __future__ import annotations

import math

from scipy.special import betaincinv, ndtri

PROBABILITY = 0.95


def share_interval(count: int, of: int, probability: float = PROBABILITY) -> tuple[float, float]:
    """Give the equal-tailed interval of a share under Jeffreys' prior; an end without anything beyond it is 0 or 1.

    Examples
    --------
    >>> [round(end, 3) for end in share_interval(7, 10)], share_interval(0, 0)
    ([0.394, 0.907], (0.0, 1.0))
    """
    tail = (1 - probability) / 2
    lower = float(betaincinv(count + 0.5, of - count + 0.5, tail)) if count else 0.0
    upper = float(betaincinv(count + 0.5, of - count + 0.5, 1 - tail)) if count < of else 1.0
    return lower, upper


def ratio_interval(
    n: int, sums: tuple[float, float], squares: tuple[float, float, float], probability: float = PROBABILITY
) -> tuple[float, float]:
    """Give the interval of a ratio of two totals over independent sessions, by linearization.

    Parameters
    ----------
    n
        How many sessions.
    sums
        Totals above and below the line.
    squares
        Sums over sessions of the square above, of the product, and of the square below.
    probability
        Mass of the interval.

    Examples
    --------
    >>> ratio_interval(100, (100.0, 400.0), (100.0, 400.0, 1600.0))
    (0.25, 0.25)
    """
    above, below = sums
    if n < 2 or not below:
        return math.nan, math.nan
    ratio = above / below
    spread = max(0.0, squares[0] - 2 * ratio * squares[1] + ratio**2 * squares[2])
    half = float(ndtri((1 + probability) / 2)) * math.sqrt(spread * n / (n - 1)) / below
    return max(0.0, ratio - half), ratio + half
