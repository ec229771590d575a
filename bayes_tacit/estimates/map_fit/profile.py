"""The memory by profile likelihood: the model is fitted at many memories, and the best one is kept.

An episode's likelihood is the probability of the same outcome and the same window whatever the memory is, so the
objectives can be compared. A window without mass counts with the floor, 27.6 nats at 1e-12, which speaks against every
memory at which it has none. Under a clock every window has mass and the comparison is smooth.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bayes_tacit.errors import ConvergenceError, EvidenceError, TacitWarning

GRID = tuple(tenth / 10 for tenth in range(11))
"""Memories that are tried first, the paper's among them."""

FINE = 0.005
"""The search between them stops at this distance."""

GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class ProfilePoint:
    """The best fit at one memory.

    Attributes
    ----------
    memory
        rho.
    objective
        The paper's objective there; infinite if there is no fit.
    floored
        How many episodes have a likelihood below the floor.
    """

    memory: float
    objective: float
    floored: int


def profile_memory(evaluate: Callable[[float], tuple[float, int]]) -> tuple[ProfilePoint, ...]:
    """Look for the memory with the lowest objective: on a grid, then by golden sections around its best point.

    Parameters
    ----------
    evaluate
        Gives the objective at a memory, and how many episodes the floor cuts off there.

    Returns
    -------
    tuple of ProfilePoint
        Every memory that was tried, in order.

    Examples
    --------
    >>> points = profile_memory(lambda memory: ((memory - 0.63) ** 2, 0))
    >>> round(best(points).memory, 2)
    0.63
    """
    found = {memory: _point(evaluate, memory) for memory in GRID}
    if not math.isfinite(best(found.values()).objective):
        # Nothing can be fitted: let the paper's memory say why.
        evaluate(1.0)
    center = GRID.index(best(found.values()).memory)
    low, high = GRID[max(center - 1, 0)], GRID[min(center + 1, len(GRID) - 1)]
    while high - low > FINE:
        reach = GOLDEN * (high - low)
        inner, outer = round(high - reach, 3), round(low + reach, 3)
        for memory in (inner, outer):
            if memory not in found:
                found[memory] = _point(evaluate, memory)
        if found[inner].objective <= found[outer].objective:
            high = outer
        else:
            low = inner
    return tuple(found[memory] for memory in sorted(found))


def best(points: Iterable[ProfilePoint]) -> ProfilePoint:
    """Give the lowest point; of equal ones, that with the longest memory."""
    return min(points, key=lambda point: (point.objective, -point.memory))


def _point(evaluate: Callable[[float], tuple[float, int]], memory: float) -> ProfilePoint:
    with warnings.catch_warnings():
        # What there is to tell is told of the memory that is chosen.
        warnings.simplefilter("ignore", TacitWarning)
        try:
            return ProfilePoint(memory, *evaluate(memory))
        except (ConvergenceError, EvidenceError):
            return ProfilePoint(memory, float("inf"), 0)
