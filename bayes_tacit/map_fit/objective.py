"""The whole objective of the paper: incidence and threshold together, with the floor on an episode's likelihood."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy import linalg

from bayes_tacit.evidence import Evidence
from bayes_tacit.map_fit.newton import Derivatives, NewtonResult, Objective, minimize_newton
from bayes_tacit.map_fit.parts import Incidence, Threshold


@dataclass(frozen=True)
class PaperObjective:
    r"""Mean of :math:`-\log\max(\mathcal L_i, \varepsilon)` plus the ridge penalty, as a function of all parameters.

    A point is an `Incidence` point followed by a `Threshold` point. The paper floors both an interval's mass and the
    episode's likelihood at epsilon; since pi <= 1, the second floor implies the first. A floored episode has no
    gradient at all, not even in gamma. Constant features and diagnostics that are zero in all the evidence have no
    effect on the objective and are left out.

    Attributes
    ----------
    evidence
        All of it.
    incidence, threshold
        The two parts.
    varying
        Which features vary.
    active
        Which diagnostics are nonzero somewhere in the evidence.
    floor
        epsilon, or None.
    """

    evidence: Evidence
    incidence: Incidence
    threshold: Threshold
    varying: np.ndarray
    active: np.ndarray
    floor: float | None

    @classmethod
    def of(cls, evidence: Evidence, ridge: float, floor: float | None) -> PaperObjective:
        """State the objective for some evidence."""
        varying = ~evidence.standardization.constant
        active = evidence.before.any(axis=0) | evidence.within.any(axis=0)
        design = np.column_stack([np.ones(evidence.n), evidence.features[:, varying]])
        seen = replace(evidence, before=evidence.before[:, active], within=evidence.within[:, active])
        return cls(
            evidence=evidence,
            incidence=Incidence(design, evidence.strong_success, ridge),
            threshold=Threshold(seen, design[evidence.timed], ridge),
            varying=varying,
            active=active,
            floor=floor,
        )

    def parts(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Split a point into its incidence and its threshold part."""
        size = self.incidence.design.shape[1]
        return point[:size], point[size:]

    def log_likelihood(self, point: np.ndarray) -> np.ndarray:
        """Log-likelihood of each episode before the floor; minus infinity where a window has no mass."""
        first, second = self.parts(point)
        log_likelihood = self.incidence.log_likelihood(first)
        log_likelihood[self.evidence.timed] += self.threshold.log_likelihood(second)
        log_likelihood[self.evidence.zero_mass] = -np.inf
        return log_likelihood

    def floored(self, point: np.ndarray) -> np.ndarray:
        """Say which episodes have a likelihood below the floor."""
        if self.floor is None:
            return np.zeros(self.evidence.n, dtype=bool)
        return self.log_likelihood(point) < np.log(self.floor)

    def derivatives(self, point: np.ndarray) -> Derivatives:
        """Value, gradient and Hessian of the floored objective."""
        first, second = self.parts(point)
        if second[-1] <= 0:
            return Derivatives(np.inf, np.full(len(point), np.nan), np.full((len(point), len(point)), np.nan))
        keep = ~self.floored(point)
        incidence = self.incidence.derivatives(first, keep)
        threshold = self.threshold.derivatives(second, keep[self.evidence.timed])
        value = incidence.value + threshold.value
        if self.floor is not None:
            value -= (~keep).sum() * np.log(self.floor) / self.evidence.n
        gradient = np.concatenate([incidence.gradient, threshold.gradient])
        return Derivatives(float(value), gradient, linalg.block_diag(incidence.hessian, threshold.hessian))

    def fit_incidence(self, tolerance: float, max_iterations: int) -> NewtonResult:
        """Minimize the incidence part: convex, so one start will do."""
        keep = np.ones(self.evidence.n, dtype=bool)
        keep[self.evidence.zero_mass] = self.floor is None
        start = np.zeros(self.incidence.design.shape[1])
        objective = partial(self.incidence.derivatives, keep=keep)
        return minimize_newton(objective, start, tolerance=tolerance, max_iterations=max_iterations)

    def fit(self, incidence: np.ndarray, threshold: np.ndarray, tolerance: float, max_iterations: int) -> NewtonResult:
        """Minimize everything from a start.

        The parts separate unless the floor cuts in, so the threshold part goes first, without the floor (which would
        hide a far start behind a flat wall); both then go on together if some episode turns out to be floored. Where
        an episode fits so badly that the floor may be the lesser evil, the fit without it is tried too.
        """
        newton = partial(minimize_newton, tolerance=tolerance, max_iterations=max_iterations)
        alone = newton(self.threshold.derivatives, threshold)
        found = self._with_floor(np.concatenate([incidence, alone.point]), alone.iterations, newton)
        if self.floor is None:
            return found
        outlying = self.log_likelihood(found.point) < np.log(self.floor) / 3
        outlying &= ~self.floored(found.point)
        if not outlying.any():
            return found
        trimmed = newton(partial(self.threshold.derivatives, keep=~outlying[self.evidence.timed]), alone.point)
        iterations = found.iterations + trimmed.iterations
        other = self._with_floor(np.concatenate([incidence, trimmed.point]), iterations, newton)
        return min(found, other, key=lambda result: result.derivatives.value)

    def _with_floor(
        self, point: np.ndarray, iterations: int, newton: Callable[[Objective, np.ndarray], NewtonResult]
    ) -> NewtonResult:
        """Go on from an optimum without the floor to one with it."""
        if self.floored(point).sum() == len(self.evidence.zero_mass):
            return NewtonResult(point, self.derivatives(point), iterations)
        joint = newton(self.derivatives, point)
        return replace(joint, iterations=iterations + joint.iterations)
