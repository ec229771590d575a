r"""How a diagnostic's past weighs: leaky sums, their peaks, and a clock.

With memory :math:`\rho` in [0, 1] each diagnostic has a leaky sum and the highest value that it has reached,

.. math:: L_j(t) = \rho L_j(t-1) + u_j(t), \qquad P_j(t) = \max_{s \le t} L_j(s), \qquad R(t) = \sum_j w_j P_j(t).

With :math:`\rho = 1` nothing is forgotten, the peak is the sum, and R is the paper's; with :math:`\rho = 0` it is the
highest value so far. R is nonnegative, never decreases and is linear in w, whatever the memory.

The clock is one more diagnostic, which is 1 at every step. It is never forgotten: its peak after step t is t + 1, the
number of steps taken, so that it goes on growing when nothing else does. What that does to the mass of a window:

======  ==============  =============================================================================
memory  clock           a window has no mass, whatever the weights, if
======  ==============  =============================================================================
1       no              every diagnostic is zero in it
< 1     no              no leaky sum rises above its earlier peak in it; the shorter the memory, the
                        more windows are like that
any     yes             never; where nothing else rises, its mass hangs on the clock's weight
======  ==============  =============================================================================

Only NumPy is imported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

LEARNED: Final = "learned"  # in place of a number: the memory is a parameter

Memory = float | Literal["learned", "profile"]
"""A memory from 0 to 1; "learned" makes it a parameter that is sampled, "profile" the one of the highest likelihood."""

CLOCK = "clock"  # name of the diagnostic that is 1 at every step


def peaks(diagnostics: np.ndarray, memory: float | np.ndarray) -> np.ndarray:
    """Return the peak of each diagnostic's leaky sum after every step.

    Parameters
    ----------
    diagnostics
        (..., step, diagnostic), nonnegative; NaN past the end of an episode stays NaN.
    memory
        rho, one for all or one for each diagnostic.

    Examples
    --------
    >>> peaks(np.array([[1.0], [0.0], [1.0], [0.25]]), 0.5).ravel()
    array([1.  , 1.  , 1.25, 1.25])
    """
    out = np.empty(diagnostics.shape)
    level = np.zeros((*diagnostics.shape[:-2], diagnostics.shape[-1]))
    peak = level
    for t in range(diagnostics.shape[-2]):
        level = memory * level + diagnostics[..., t, :]
        peak = np.maximum(peak, level, out=out[..., t, :])
    return out


def rates(memory: float, n_diagnostics: int, *, clock: bool) -> np.ndarray:
    """Return the memory of each diagnostic; the clock, which is the last one, forgets nothing."""
    each = np.full(n_diagnostics, float(memory))
    if clock:
        each[-1] = 1.0
    return each


def with_clock(diagnostics: np.ndarray) -> np.ndarray:
    """Append a diagnostic that is 1 at every step to (..., step, diagnostic)."""
    return np.concatenate([diagnostics, np.ones((*diagnostics.shape[:-1], 1))], axis=-1)


NODES = 48  # how many memories a `PeakGrid` has


@dataclass(frozen=True)
class PeakGrid:
    r"""The bounds of the timed episodes at several memories, for a memory that is learned.

    A peak :math:`P_j(t; \rho)` is the largest of polynomials in rho with nonnegative coefficients, hence increasing and
    convex in rho. Straight lines between its values at a few dozen memories stand for it: nonnegative and nondecreasing
    as the peaks are, above them by 1% at most and mostly by less than 0.2%, which is far below the scale s of log
    kappa. The distance of the memories is proportional to 1 - rho + 1/H. Scores take each draw's memory exactly.

    `nodes` are the memories, rising from 0 to 1; `before` and `within` are as in `Evidence`, (node, timed, diagnostic);
    `typical` is the log of the typical threshold at each, around which a prior is placed.
    """

    nodes: np.ndarray
    before: np.ndarray
    within: np.ndarray
    typical: np.ndarray


def memory_nodes(horizon: int) -> np.ndarray:
    """Return the memories at which bounds are computed, closer to each other near 1."""
    nearest = 1 / horizon
    part = np.arange(NODES) / (NODES - 1)
    nodes = 1 + nearest - (1 + nearest) * (nearest / (1 + nearest)) ** part
    nodes[0], nodes[-1] = 0.0, 1.0
    return nodes


def between_nodes(rho: Any, nodes: Any, *values: Any) -> tuple[Any, ...]:  # noqa: ANN401
    """Interpolate values (node, ...) at a memory; for NumPy arrays and PyTensor variables alike."""
    at = (rho >= nodes[1:-1]).sum()
    low = nodes[at]
    share = (rho - low) / (nodes[at + 1] - low)
    return tuple((1 - share) * value[at] + share * value[at + 1] for value in values)
