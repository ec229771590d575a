"""What a score has to be to reach its threshold: rounding decides nothing.

A threshold is often one of the scores that it was chosen on. Those were computed for a whole table, and the same score
online, one checkpoint after another, on another machine or in another language, may differ from it in the last bits.
So a threshold counts as reached from a billionth below it on. No sum of an episode's diagnostics is rounded by nearly
as much, and no two scores that close say different things.
"""

from __future__ import annotations

import numpy as np

SHARE = 1e-9
"""By how much of itself a threshold is lowered; of a difference of two probabilities, by how much."""

NEARLY = 1 - SHARE
"""What a threshold above zero is multiplied with."""


def reached_from[N: (float, np.ndarray)](threshold: N) -> N:
    """Give what a score must at least be to reach a threshold, a number or an array of them.

    Examples
    --------
    >>> [score >= reached_from(0.3) for score in (0.1 * 3, 0.3 - 1e-12, 0.3 - 1e-8)]
    [True, True, False]
    >>> reached_from(np.array([np.inf, 1.0, -1.0])) < np.array([np.inf, 1.0, -1.0])
    array([False,  True,  True])
    """
    return threshold * (NEARLY + 2 * SHARE * (threshold < 0))


def difference_reached_from(threshold: float) -> float:
    """Give what a difference of probabilities must at least be to reach a threshold.

    Examples
    --------
    >>> 0.3 - 0.1 - 0.2 >= difference_reached_from(0.0)
    True
    """
    return threshold - SHARE
