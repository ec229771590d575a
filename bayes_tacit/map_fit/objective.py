"""The whole objective of the paper: incidence and threshold together, with the floor on an episode's likelihood."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy import linalg

from bayes_tacit.evidence import Evidence
from bayes_tacit.families import LOGNORMAL, Family
from bayes_tacit.map_fit.newton import Derivatives, NewtonResult, Objective, minimize_newton
from bayes_tacit.map_fit.parts import Incidence, Threshold

Newton = Callable[[Objective, np.ndarray], NewtonResult]
"""`minimize_newton` with its settings made up."""


ENOUGH = 1000
"""Timed episodes that are enough to come close to the optimum of a large data set."""


@dataclass(frozen=True)
class PaperFit:
    """An optimum of the whole objective, and the positions of the episodes that the floor cuts off there."""

    optimum: NewtonResult
    floored: np.ndarray


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
    def of(cls, evidence: Evidence, ridge: float, floor: float | None, family: Family = LOGNORMAL) -> PaperObjective:
        """State the objective for some evidence."""
        varying = ~evidence.standardization.constant
        active = np.ones(len(evidence.before)) @ (evidence.before + evidence.within) > 0
        design = np.column_stack([np.ones(evidence.n), evidence.features[:, varying]])
        seen = replace(evidence, before=evidence.before[:, active], within=evidence.within[:, active])
        return cls(
            evidence=evidence,
            incidence=Incidence(design, evidence.strong_success, ridge),
            threshold=Threshold(seen, design[evidence.timed], ridge, family),
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

    def fit_incidence(self, newton: Newton) -> NewtonResult:
        """Minimize the incidence part: convex, so one start will do."""
        keep = np.ones(self.evidence.n, dtype=bool)
        keep[self.evidence.zero_mass] = False
        return newton(partial(self.incidence.derivatives, keep=keep), np.zeros(self.incidence.design.shape[1]))

    def fit(self, incidence: NewtonResult, start: np.ndarray, newton: Newton) -> PaperFit:
        """Minimize everything from a start of the threshold part.

        The parts separate unless the floor cuts in, so the threshold part goes first, without the floor (which would
        hide a far start behind a flat wall). Only where some window lies absurdly far out is the floor considered: from
        that optimum, and from the one that leaves those windows out, since the floor may be the lesser evil.
        """
        threshold = newton(self.threshold.derivatives, self._nearer(start))
        separate = self._joined(incidence, threshold)
        if self.floor is None:
            return PaperFit(separate, floored=self.evidence.zero_mass[:0])
        # Further out than anything expected in ten data sets of this size.
        absurd = self.threshold.log_tail(threshold.point) < -np.log(10 * self.evidence.n)
        if not absurd.any() and not self.floored(separate.point).sum() > len(self.evidence.zero_mass):
            return PaperFit(separate, floored=self.evidence.zero_mass)
        without = newton(partial(self.threshold.derivatives, keep=~absurd), threshold.point)
        starts = (separate.point, np.concatenate([incidence.point, without.point]))
        best = min((newton(self.derivatives, point) for point in starts), key=lambda result: result.derivatives.value)
        best = replace(best, iterations=threshold.iterations + best.iterations)
        return PaperFit(best, floored=np.flatnonzero(self.floored(best.point)))

    def _nearer(self, start: np.ndarray) -> np.ndarray:
        """Bring a start close to the optimum with a part of a large data set, which costs a part of the time."""
        stride = len(self.threshold.design) // ENOUGH
        if stride < 2:
            return start
        fewer, rows = self.threshold.evidence.thinned(stride)
        part = replace(self.threshold, evidence=fewer, design=self.threshold.design[rows])
        return minimize_newton(part.derivatives, start, tolerance=1e-4, max_iterations=50).point

    def _joined(self, incidence: NewtonResult, threshold: NewtonResult) -> NewtonResult:
        """Put the optima of the two parts together; windows without mass count with the floor."""
        one, other = incidence.derivatives, threshold.derivatives
        value = one.value + other.value
        if self.floor is not None:
            value -= len(self.evidence.zero_mass) * np.log(self.floor) / self.evidence.n
        gradient = np.concatenate([one.gradient, other.gradient])
        derivatives = Derivatives(float(value), gradient, linalg.block_diag(one.hessian, other.hessian))
        return NewtonResult(np.concatenate([incidence.point, threshold.point]), derivatives, threshold.iterations)
