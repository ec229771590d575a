r"""Bounds as a function of the memory, for a memory that is learned.

A peak :math:`P_j(t; \rho)` is the largest of polynomials in rho with nonnegative coefficients, hence increasing and
convex in rho. Its values at a few dozen memories, joined by straight lines, stand for it: n x d numbers for each
memory, whatever the horizon H, nonnegative and nondecreasing along an episode as the peaks themselves are. The memories
lie so that their distance is proportional to 1 - rho + 1/H. A line lies above the peak, by about 1% of it at most,
where another sum takes over between two memories, and mostly by less than 0.2%. That is far below the scale s of log
kappa; scores take each draw's memory exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayes_tacit.model.numerics import Array

SIZE = 48
"""How many memories."""


@dataclass(frozen=True)
class PeakGrid:
    """The bounds of the timed episodes at several memories.

    Attributes
    ----------
    nodes
        The memories, rising from 0 to 1.
    before, within
        As in `Evidence`, (node, timed, diagnostic).
    typical
        Log of the typical threshold at each memory, around which a prior is placed.
    """

    nodes: np.ndarray
    before: np.ndarray
    within: np.ndarray
    typical: np.ndarray


def memory_nodes(horizon: int) -> np.ndarray:
    """Give the memories at which bounds are computed, closer to each other near 1.

    Examples
    --------
    >>> memory_nodes(30)[[0, 1, -2, -1]].round(3)
    array([0.   , 0.073, 0.997, 1.   ])
    """
    nearest = 1 / horizon
    part = np.arange(SIZE) / (SIZE - 1)
    nodes = 1 + nearest - (1 + nearest) * (nearest / (1 + nearest)) ** part
    nodes[0], nodes[-1] = 0.0, 1.0
    return nodes


def between_nodes(rho: Array, nodes: Array, *values: Array) -> tuple[Array, ...]:
    """Interpolate values (node, ...) at a memory; for NumPy arrays and PyTensor variables alike.

    Examples
    --------
    >>> between_nodes(np.float64(0.25), np.array([0.0, 0.5, 1.0]), np.array([1.0, 3.0, 4.0]))
    (np.float64(2.0),)
    """
    at = (rho >= nodes[1:-1]).sum()
    low = nodes[at]
    share = (rho - low) / (nodes[at + 1] - low)
    return tuple((1 - share) * value[at] + share * value[at + 1] for value in values)
