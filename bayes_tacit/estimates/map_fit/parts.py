"""The paper's penalized objective with its exact gradient and Hessian.

The objective is the mean negative log-likelihood plus lambda (|gamma|^2 + |beta|^2), intercepts not penalized. B is
observed, so it is a sum of an incidence part, convex in (gamma0, gamma), and a threshold part. The threshold part is
written in coordinates in which, for given weights, the log-likelihood is concave: location over scale, and one over
scale. Only the weights make the problem non-convex; they enter as logits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from bayes_tacit.estimates.map_fit.newton import Derivatives
from bayes_tacit.model.evidence import Evidence
from bayes_tacit.model.families import Family
from bayes_tacit.model.likelihood import Bounds, log_bounds, log_mass
from bayes_tacit.model.numerics import NUMPY

FLATTEST = 1e-12
"""One over the largest scale of log kappa that is considered; beyond it powers overflow."""


@dataclass(frozen=True)
class Incidence:
    """The part that says how likely Strong is to succeed; a point is (gamma0, gamma).

    Parameters
    ----------
    design
        One row an episode: a one, then the standardized features.
    strong_success
        B.
    ridge
        lambda.
    """

    design: np.ndarray
    strong_success: np.ndarray
    ridge: float

    @cached_property
    def _columns(self) -> np.ndarray:
        """The design, (column, row)."""
        return np.ascontiguousarray(self.design.T)

    @cached_property
    def _sign(self) -> np.ndarray:
        return np.where(self.strong_success, 1.0, -1.0)

    def log_likelihood(self, point: np.ndarray) -> np.ndarray:
        """Log probability of each observed B."""
        return special.log_expit(self._sign * (point @ self._columns))

    def derivatives(self, point: np.ndarray, keep: np.ndarray | None = None) -> Derivatives:
        """Value, gradient and Hessian; only the episodes in `keep` count in the likelihood."""
        n = len(self.design)
        kept = np.ones(n) if keep is None else keep.astype(float)
        probability = special.expit(point @ self._columns)
        residual = kept * (probability - self.strong_success)
        weight = kept * probability * (1 - probability)
        penalized = np.concatenate([[0.0], point[1:]])
        value = -(kept @ self.log_likelihood(point)) / n + self.ridge * penalized @ penalized
        gradient = self._columns @ residual / n + 2 * self.ridge * penalized
        hessian = (self._columns * weight) @ self._columns.T / n
        hessian[1:, 1:] += 2 * self.ridge * np.eye(len(point) - 1)
        return Derivatives(float(value), gradient, hessian)


@dataclass(frozen=True)
class Threshold:
    """The part that says where the threshold lies; a point is (weight logits along `basis`, beta0/s, beta/s, 1/s).

    Parameters
    ----------
    evidence
        The timed episodes.
    design
        One row a timed episode: a one, then the standardized features.
    ridge
        lambda.
    family
        Distribution of the threshold.
    """

    evidence: Evidence
    design: np.ndarray
    ridge: float
    family: Family

    @cached_property
    def basis(self) -> np.ndarray:
        """Orthonormal directions along which the logits move: all but the common shift that a softmax ignores."""
        d = self.evidence.before.shape[1]
        return np.linalg.qr(np.eye(d) - 1 / d)[0][:, : d - 1]

    @cached_property
    def _sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Diagnostics summed up to the upper and to the lower bounds, (diagnostic, row)."""
        evidence = self.evidence
        above, below = evidence.bounded_above, evidence.bounded_below
        totals = evidence.before[above] + evidence.within[above]
        return np.ascontiguousarray(totals.T), np.ascontiguousarray(evidence.before[below].T)

    @cached_property
    def _columns(self) -> np.ndarray:
        """The design, (column, row)."""
        return np.ascontiguousarray(self.design.T)

    def weights(self, point: np.ndarray) -> np.ndarray:
        """Simplex weights w at a point."""
        w: np.ndarray = special.softmax(self.basis @ point[: self.basis.shape[1]])
        return w

    def log_likelihood(self, point: np.ndarray) -> np.ndarray:
        """Log-likelihood of each timed episode."""
        return self._evaluate(point)[2]

    def log_tail(self, point: np.ndarray) -> np.ndarray:
        """Log probability of a threshold at least as far out as each row's bounds, however narrow they are."""
        _, z, _ = self._evaluate(point)
        intervals = self.evidence.n_interval
        above = self.family.log_cdf(np.concatenate([z.upper, z.lower[:intervals] + z.width]), NUMPY)
        below = self.family.log_sf(z.lower, NUMPY)
        return np.concatenate(
            [above[: len(z.upper)], np.minimum(above[len(z.upper) :], below[:intervals]), below[intervals:]]
        )

    def derivatives(self, point: np.ndarray, keep: np.ndarray | None = None) -> Derivatives:
        """Value, gradient and Hessian; only the timed episodes in `keep` count in the likelihood."""
        p = len(point)
        if point[-1] <= FLATTEST:
            return Derivatives(np.inf, np.full(p, np.nan), np.full((p, p), np.nan))
        bounds, z, log_likelihood = self._evaluate(point)
        kept = np.ones(len(log_likelihood)) if keep is None else keep.astype(float)
        gradient, hessian = self._likelihood_derivatives(point, bounds, z, log_likelihood, kept)
        value = -(kept @ log_likelihood) / self.evidence.n
        return self._penalize(point, Derivatives(value, -gradient / self.evidence.n, -hessian / self.evidence.n))

    def _evaluate(self, point: np.ndarray) -> tuple[Bounds, Bounds, np.ndarray]:
        """Give the bounds on log kappa, the same standardized, and the log-likelihood."""
        bounds = log_bounds(self.evidence, self.weights(point), NUMPY)
        scale = 1 / point[-1]
        location = self.design @ point[self.basis.shape[1] : -1] * scale
        z = bounds.standardized(location, scale, self.evidence.n_left)
        return bounds, z, log_mass(z, self.evidence.n_interval, self.family, NUMPY)

    def _likelihood_derivatives(
        self, point: np.ndarray, bounds: Bounds, z: Bounds, log_likelihood: np.ndarray, kept: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Gradient and Hessian of the summed log-likelihood, by the chain rule through both standardized bounds.

        With rates u = f(z_upper) / mass and l = f(z_lower) / mass, f the density and g its log derivative, the log mass
        has derivatives u and -l, and second derivatives g(z_upper) u - u^2, -g(z_lower) l - l^2 and (mixed) u l.
        """
        evidence = self.evidence
        above, below, both = evidence.bounded_above, evidence.bounded_below, evidence.interval
        intervals = evidence.n_interval
        z_upper = np.concatenate([z.upper, z.lower[:intervals] + z.width])
        log_upper = np.concatenate([bounds.upper, bounds.lower[:intervals] + bounds.width])
        u = np.exp(self.family.log_pdf(z_upper) - log_likelihood[above])
        l = np.exp(self.family.log_pdf(z.lower) - log_likelihood[below])  # noqa: E741

        sums_above, sums_below = self._sums
        upper = _Side(self, point, above, sums_above, log_upper, kept[above] * u)
        lower = _Side(self, point, below, sums_below, bounds.lower, -kept[below] * l)
        gradient = upper.gradient() + lower.gradient()
        hessian = upper.curvature() + lower.curvature()
        hessian += upper.outer(kept[above] * (self.family.score(z_upper) * u - u**2))
        hessian += lower.outer(kept[below] * (-self.family.score(z.lower) * l - l**2))
        weight = kept[both] * u[evidence.n_left :] * l[:intervals]
        mixed = (upper.jacobian[:, evidence.n_left :] * weight) @ lower.jacobian[:, :intervals].T
        return gradient, hessian + mixed + mixed.T

    def _penalize(self, point: np.ndarray, likelihood: Derivatives) -> Derivatives:
        """Add lambda |beta|^2, where beta is (beta/s) / (1/s)."""
        slopes = slice(self.basis.shape[1] + 1, len(point) - 1)
        b, a = point[slopes], point[-1]
        value, gradient, hessian = likelihood
        squared = b @ b
        value += self.ridge * squared / a**2
        gradient[slopes] += 2 * self.ridge * b / a**2
        gradient[-1] -= 2 * self.ridge * squared / a**3
        hessian[slopes, slopes] += 2 * self.ridge / a**2 * np.eye(len(b))
        hessian[slopes, -1] -= 4 * self.ridge * b / a**3
        hessian[-1, slopes] -= 4 * self.ridge * b / a**3
        hessian[-1, -1] += 6 * self.ridge * squared / a**4
        return Derivatives(float(value), gradient, hessian)


class _Side:
    """One standardized bound of some rows, z = (log R) / s - location / s, and what it adds to the derivatives."""

    def __init__(
        self, part: Threshold, point: np.ndarray, rows: slice, sums: np.ndarray, log_risk: np.ndarray, rate: np.ndarray
    ) -> None:
        self.basis, self.rate, self.precision = part.basis, rate, point[-1]
        self.w = part.weights(point)
        self.share = sums * self.w[:, None] / np.exp(log_risk)
        self.moves = self.basis.T @ (self.share - self.w[:, None])
        self.jacobian = np.vstack([self.precision * self.moves, -part._columns[:, rows], log_risk])

    def gradient(self) -> np.ndarray:
        """Rate times the first derivatives of z, summed."""
        return self.jacobian @ self.rate

    def outer(self, weight: np.ndarray) -> np.ndarray:
        """Weighted sum of outer products of the first derivatives of z."""
        return (self.jacobian * weight) @ self.jacobian.T

    def curvature(self) -> np.ndarray:
        """Rate times the second derivatives of z, summed: those in the logits, and those in the logits and 1/s."""
        free = self.basis.shape[1]
        hessian = np.zeros((len(self.jacobian), len(self.jacobian)))
        weighted = self.share * self.rate
        spread = np.diag(weighted.sum(axis=1)) - weighted @ self.share.T
        spread -= self.rate.sum() * (np.diag(self.w) - np.outer(self.w, self.w))
        hessian[:free, :free] = self.precision * self.basis.T @ spread @ self.basis
        hessian[:free, -1] = hessian[-1, :free] = self.moves @ self.rate
        return hessian
