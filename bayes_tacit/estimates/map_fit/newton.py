"""A damped Newton method for smooth objectives with few parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Derivatives(NamedTuple):
    """An objective's value, gradient and Hessian at a point."""

    value: float
    gradient: np.ndarray
    hessian: np.ndarray


Objective = Callable[[np.ndarray], Derivatives]


@dataclass(frozen=True)
class NewtonResult:
    """Where the method stopped.

    Attributes
    ----------
    point
        The best point found.
    derivatives
        The objective there.
    iterations
        Newton steps taken.
    """

    point: np.ndarray
    derivatives: Derivatives
    iterations: int

    @property
    def gradient_norm(self) -> float:
        """Largest absolute component of the gradient."""
        return float(np.abs(self.derivatives.gradient).max(initial=0.0))


LONGEST_STEP = 4.0
"""No component moves further in one step: all parameters here are logits, log ratios or standardized effects."""


def minimize_newton(objective: Objective, start: np.ndarray, *, tolerance: float, max_iterations: int) -> NewtonResult:
    """Minimize from a start by Newton steps on |Hessian|, halved until the objective decreases.

    Directions of negative curvature are followed downhill (their eigenvalues enter by absolute value), so saddle points
    are left. The objective may return a non-finite value for a point outside its domain.

    Examples
    --------
    >>> result = minimize_newton(lambda x: Derivatives(float((x**4).sum()), 4 * x**3, np.diag(12 * x**2)),
    ...                          np.array([3.0]), tolerance=1e-9, max_iterations=100)
    >>> result.gradient_norm < 1e-9
    True
    """
    point, here = start, objective(start)
    for iteration in range(max_iterations):
        if np.abs(here.gradient).max(initial=0.0) <= tolerance:
            return NewtonResult(point, here, iteration)
        moved = _descend(objective, point, here)
        if moved is None:
            return NewtonResult(point, here, iteration)
        point, here = moved
    return NewtonResult(point, here, max_iterations)


def _descend(objective: Objective, point: np.ndarray, here: Derivatives) -> tuple[np.ndarray, Derivatives] | None:
    step = _newton_step(here)
    slope = float(here.gradient @ step)
    rounding = 128 * np.finfo(float).eps * max(1.0, abs(here.value))
    shrink = 1.0
    while shrink > 1e-10:
        candidate = point + shrink * step
        if np.array_equal(candidate, point):
            return None
        there = objective(candidate)
        if np.isfinite(there.value):
            if there.value <= here.value + 1e-4 * shrink * slope:
                return candidate, there
            # Close to the optimum the decrease drowns in rounding; there the gradient tells whether it is one.
            flat = abs(there.value - here.value) <= rounding
            if flat and np.abs(there.gradient).max() < 0.5 * np.abs(here.gradient).max():
                return candidate, there
        shrink /= 2
    return None


def _newton_step(here: Derivatives) -> np.ndarray:
    curvature, directions = np.linalg.eigh(here.hessian)
    size = np.abs(curvature)
    size = np.maximum(size, 1e-10 * size.max(initial=1e-300))
    step = -directions @ ((directions.T @ here.gradient) / size)
    return step * min(1.0, LONGEST_STEP / max(np.abs(step).max(), 1e-300))
