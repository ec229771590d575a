"""The whole objective of the paper: incidence and threshold together, with the floor on an episode's likelihood."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy import linalg

from bayes_tacit.estimates.map_fit.newton import Derivatives, NewtonResult, Objective, minimize_newton
from bayes_tacit.estimates.map_fit.parts import FLATTEST, Incidence, Threshold
from bayes_tacit.model.evidence import Evidence
from bayes_tacit.model.families import Family
from bayes_tacit.model.families.lognormal import LOGNORMAL

Newton = Callable[[Objective, np.ndarray], NewtonResult]
"""`minimize_newton` with its settings made up."""


BOUNDARY = 1e-6
"""A weight of a scaled diagnostic below this lies on the boundary of the simplex."""

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
    effect on the objective and are left out. Diagnostics are divided by their mean over the evidence, so that their
    units do not matter; `weights` and `location_shift` undo it.

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
    scale
        What those were divided by.
    floor
        epsilon, or None.
    """

    evidence: Evidence
    incidence: Incidence
    threshold: Threshold
    varying: np.ndarray
    active: np.ndarray
    scale: np.ndarray
    floor: float | None

    @classmethod
    def of(cls, evidence: Evidence, ridge: float, floor: float | None, family: Family = LOGNORMAL) -> PaperObjective:
        """State the objective for some evidence."""
        varying = ~evidence.standardization.constant
        means = np.full(len(evidence.timed), 1 / len(evidence.timed)) @ (evidence.before + evidence.within)
        active = means > 0
        design = np.column_stack([np.ones(evidence.n), evidence.features[:, varying]])
        seen = evidence.with_diagnostics(active, means[active])
        return cls(
            evidence=evidence,
            incidence=Incidence(design, evidence.strong_success, ridge),
            threshold=Threshold(seen, design[seen.timed], ridge, family),
            varying=varying,
            active=active,
            scale=means[active],
            floor=floor,
        )

    def weights(self, point: np.ndarray) -> np.ndarray:
        """Simplex weights of the active diagnostics in their own units, at a threshold point."""
        raw = self.threshold.weights(point) / self.scale
        return raw / raw.sum()

    def location_shift(self, point: np.ndarray) -> float:
        """Add this to a location of the scaled risk to get that of the risk itself."""
        return -float(np.log((self.threshold.weights(point) / self.scale).sum()))

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
        if second[-1] <= FLATTEST:
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
        threshold = self._off_false_vertices(newton(self.threshold.derivatives, self._nearer(start)), newton)
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
        fewer = self.threshold.evidence.thinned(stride)
        part = replace(self.threshold, evidence=fewer, design=self.incidence.design[fewer.timed])
        return minimize_newton(part.derivatives, start, tolerance=1e-4, max_iterations=50).point

    def _off_false_vertices(self, found: NewtonResult, newton: Newton) -> NewtonResult:
        """Go on from a point where a weight vanished although the objective falls as it grows.

        The gradient in a logit is proportional to its weight, so it vanishes with the weight, whatever the slope.
        """
        part = self.threshold
        for _ in range(part.basis.shape[1]):
            w = part.weights(found.point)
            slope = part.basis @ found.derivatives.gradient[: part.basis.shape[1]] / w
            false = (w < BOUNDARY) & (slope < -BOUNDARY)
            if not false.any():
                return found
            raised = np.where(false, 0.05, w)
            point = found.point.copy()
            point[: part.basis.shape[1]] = part.basis.T @ np.log(raised)
            found = newton(part.derivatives, point)
        return found

    def _joined(self, incidence: NewtonResult, threshold: NewtonResult) -> NewtonResult:
        """Put the optima of the two parts together; windows without mass count with the floor."""
        one, other = incidence.derivatives, threshold.derivatives
        value = one.value + other.value
        if self.floor is not None:
            value -= len(self.evidence.zero_mass) * np.log(self.floor) / self.evidence.n
        gradient = np.concatenate([one.gradient, other.gradient])
        derivatives = Derivatives(float(value), gradient, linalg.block_diag(one.hessian, other.hessian))
        return NewtonResult(np.concatenate([incidence.point, threshold.point]), derivatives, threshold.iterations)
