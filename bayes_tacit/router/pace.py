"""Pace: a threshold that falls or rises along an episode."""

from __future__ import annotations

from math import exp, inf

SMALLEST = 5e-324
"""The threshold never falls to zero: a score of 0 says that nothing has happened yet."""

AT_HAND = 256
"""Steps whose thresholds are computed once for all episodes."""


def alpha_at(step: int, alpha: float, pace: float) -> float | None:
    """Give alpha exp(-g t), the threshold at step t; None where it is above every number.

    Examples
    --------
    >>> [round(alpha_at(step, 1.2, 0.5), 3) for step in range(3)]
    [1.2, 0.728, 0.441]
    >>> alpha_at(2000, 0.1, -0.8) is None
    True
    """
    if alpha == inf:
        return None
    try:
        value = alpha * exp(-pace * step)
    except OverflowError:
        return None
    return None if value == inf else max(value, SMALLEST)


def first_levels(alpha: float, pace: float) -> tuple[float | None, ...]:
    """Give the thresholds of the first steps: they are the same in every episode.

    Examples
    --------
    >>> first_levels(0.3, 0.0)[:3]
    (0.3, 0.3, 0.3)
    """
    return tuple(alpha_at(step, alpha, pace) for step in range(AT_HAND))
