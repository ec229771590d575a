"""The paper's penalized objective with its exact derivatives, and the Newton method that minimizes it.

The objective is the mean negative log-likelihood plus lambda (|gamma|^2 + |beta|^2), intercepts not penalized. B is
observed, so it is a sum of an incidence part, convex in (gamma0, gamma), and a threshold part. The threshold part is
written in coordinates in which, for given weights, the log-likelihood is concave: location over scale, and one over
scale. Only the weights make the problem non-convex; they enter as logits. Under any other prior than the ridge penalty
(`PriorObjective`), PyMC states the objective and PyTensor differentiates it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import linalg, special

from bayes_tacit.estimates.map_result import PARAMETERS
from bayes_tacit.model.evidence import Evidence
from bayes_tacit.model.families import NUMPY
from bayes_tacit.model.likelihood import Bounds, log_bounds, log_mass
from bayes_tacit.model.strata import RATES

FLATTEST = 1e-12  # one over the largest scale of log kappa that is considered; beyond it powers overflow
BOUNDARY = 1e-6  # a weight of a scaled diagnostic below this lies on the boundary of the simplex
ENOUGH = 1000  # timed episodes that are enough to come close to the optimum of a large data set
PIECE = 1 << 13  # rows whose derivatives are taken at a time: what is held stays in a processor's cache

LONGEST_STEP = 4.0
"""No component moves further in one step: all parameters here are logits, log ratios or standardized effects."""

STEP = 1e-5  # step of central differences: of gradients under a prior, and of parameters
LOADING = 1e-6  # a parameter that moves more than this along a flat direction has no standard error
QUICK = "FAST_COMPILE"  # a fit under a prior takes some hundred evaluations; compiling them well would take longer


class Derivatives(NamedTuple):
    """An objective's value, gradient and Hessian at a point."""

    value: float
    gradient: np.ndarray
    hessian: np.ndarray

    @classmethod
    def outside(cls, size: int) -> Derivatives:
        """Return what holds outside of the objective's domain."""
        return cls(np.inf, np.full(size, np.nan), np.full((size, size), np.nan))


Objective = Callable[[np.ndarray], Derivatives]


@dataclass(frozen=True)
class NewtonResult:
    """The best point that the method found, the objective there, and how many steps it took."""

    point: np.ndarray
    derivatives: Derivatives
    iterations: int

    @property
    def gradient_norm(self) -> float:
        """Largest absolute component of the gradient."""
        return float(np.abs(self.derivatives.gradient).max(initial=0.0))


Newton = Callable[[Objective, np.ndarray], NewtonResult]  # `minimize_newton` with its settings


def minimize_newton(objective: Objective, start: np.ndarray, *, tolerance: float, max_iterations: int) -> NewtonResult:
    """Minimize from a start by Newton steps on |Hessian|, halved until the objective decreases.

    Directions of negative curvature are followed downhill (their eigenvalues enter by absolute value), so saddle points
    are left. The objective may return a non-finite value for a point outside its domain.
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
        if np.isfinite(there.value) and np.isfinite(there.hessian).all():
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


@dataclass(frozen=True)
class Incidence:
    """The part that says how likely Strong is to succeed; a point is (gamma0, gamma).

    `design` has one row an episode: a one, then the standardized features.
    """

    design: np.ndarray
    strong_success: np.ndarray
    ridge: float

    @cached_property
    def _columns(self) -> np.ndarray:
        return np.ascontiguousarray(self.design.T)

    @cached_property
    def _sign(self) -> np.ndarray:
        return np.where(self.strong_success, 1.0, -1.0)

    def log_likelihood(self, point: np.ndarray) -> np.ndarray:
        """Log probability of each observed B."""
        return self._evaluate(point)[0]

    def _evaluate(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return that, the probability of the other outcome, and the product of both."""
        x = self._sign * (point @ self._columns)
        e = np.exp(-np.abs(x))
        rest = 1 / (1 + e)
        return np.minimum(x, 0.0) - np.log1p(e), np.where(x > 0, e, 1.0) * rest, e * rest * rest

    def derivatives(self, point: np.ndarray, keep: np.ndarray | None = None) -> Derivatives:
        """Value, gradient and Hessian; only the episodes in `keep` count in the likelihood."""
        n = len(self.design)
        kept = np.ones(n) if keep is None else keep.astype(float)
        log_likelihood, other, product = self._evaluate(point)
        weight = kept * product
        penalized = np.concatenate([[0.0], point[1:]])
        value = -(kept @ log_likelihood) / n + self.ridge * penalized @ penalized
        gradient = 2 * self.ridge * penalized - self._columns @ (kept * self._sign * other) / n
        hessian = np.zeros((len(point), len(point)))
        for first in range(0, n, PIECE):
            part = slice(first, first + PIECE)
            hessian += (self._columns[:, part] * weight[part]) @ self._columns[:, part].T / n
        hessian[1:, 1:] += 2 * self.ridge * np.eye(len(point) - 1)
        return Derivatives(float(value), gradient, hessian)


@dataclass(frozen=True)
class Threshold:
    """The part that says where the threshold lies; a point is (weight logits along `basis`, beta0/s, beta/s, 1/s).

    `design` has one row a timed episode: a one, then the standardized features.
    """

    evidence: Evidence
    design: np.ndarray
    ridge: float
    held: tuple[float, float] | None = None
    """Median and spread of a log-normal prior on s, which has an optimum above zero on any data."""

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
        return np.ascontiguousarray(self.design.T)

    def weights(self, point: np.ndarray) -> np.ndarray:
        """Simplex weights w at a point."""
        w: np.ndarray = special.softmax(self.basis @ point[: self.basis.shape[1]])
        return w

    @cached_property
    def _pieces(self) -> list[tuple[slice, Threshold]]:
        """Runs of rows of one kind each, without a penalty; none where the rows are few."""
        evidence, pieces = self.evidence, []
        ends = np.cumsum([0, evidence.n_left, evidence.n_interval, evidence.n_right]).tolist()
        for kind, (start, stop) in enumerate(pairwise(ends if ends[-1] > PIECE else [])):
            for first in range(start, stop, PIECE):
                rows = slice(first, min(first + PIECE, stop))
                counts = [0, 0, 0]
                counts[kind] = rows.stop - rows.start
                part = replace(
                    evidence,
                    timed=evidence.timed[rows],
                    before=evidence.before[rows],
                    within=evidence.within[rows],
                    n_left=counts[0],
                    n_interval=counts[1],
                    n_right=counts[2],
                )
                pieces.append((rows, Threshold(part, self.design[rows], 0.0)))
        return pieces

    def log_likelihood(self, point: np.ndarray) -> np.ndarray:
        """Log-likelihood of each timed episode."""
        if self._pieces:
            return np.concatenate([piece.log_likelihood(point) for _, piece in self._pieces])
        return self._evaluate(point)[2]

    def log_tail(self, point: np.ndarray) -> np.ndarray:
        """Log probability of a threshold at least as far out as each row's bounds, however narrow they are."""
        if self._pieces:
            return np.concatenate([piece.log_tail(point) for _, piece in self._pieces])
        _, z, _ = self._evaluate(point)
        intervals = self.evidence.n_interval
        above = self.evidence.family.log_cdf(np.concatenate([z.upper, z.lower[:intervals] + z.width]), NUMPY)
        below = self.evidence.family.log_sf(z.lower, NUMPY)
        return np.concatenate(
            [above[: len(z.upper)], np.minimum(above[len(z.upper) :], below[:intervals]), below[intervals:]]
        )

    def derivatives(self, point: np.ndarray, keep: np.ndarray | None = None) -> Derivatives:
        """Value, gradient and Hessian; only the timed episodes in `keep` count in the likelihood."""
        if point[-1] <= FLATTEST:
            return Derivatives.outside(len(point))
        if self._pieces:
            parts = [piece.derivatives(point, None if keep is None else keep[rows]) for rows, piece in self._pieces]
            values, gradients, hessians = (np.sum(each, axis=0) for each in zip(*parts, strict=True))
            return self._penalize(point, Derivatives(float(values), gradients, hessians))
        bounds, z, log_likelihood = self._evaluate(point)
        kept = np.ones(len(log_likelihood)) if keep is None else keep.astype(float)
        gradient, hessian = self._likelihood_derivatives(point, bounds, z, log_likelihood, kept)
        value = -(kept @ log_likelihood) / self.evidence.n
        return self._penalize(point, Derivatives(value, -gradient / self.evidence.n, -hessian / self.evidence.n))

    def _evaluate(self, point: np.ndarray) -> tuple[Bounds, Bounds, np.ndarray]:
        """Return the bounds on log kappa, the same standardized, and the log-likelihood."""
        bounds = log_bounds(self.evidence, self.weights(point), NUMPY)
        scale = 1 / point[-1]
        location = self.design @ point[self.basis.shape[1] : -1] * scale
        z = bounds.standardized(location, scale, self.evidence.n_left)
        return bounds, z, log_mass(z, self.evidence.n_interval, self.evidence.family, NUMPY)

    def _likelihood_derivatives(
        self, point: np.ndarray, bounds: Bounds, z: Bounds, log_likelihood: np.ndarray, kept: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Gradient and Hessian of the summed log-likelihood, by the chain rule through both standardized bounds.

        With rates u = f(z_upper) / mass and l = f(z_lower) / mass, f the density and g its log derivative, the log mass
        has derivatives u and -l, and second derivatives g(z_upper) u - u^2, -g(z_lower) l - l^2 and (mixed) u l.
        """
        evidence, family = self.evidence, self.evidence.family
        above, below, both = evidence.bounded_above, evidence.bounded_below, evidence.interval
        intervals = evidence.n_interval
        z_upper = np.concatenate([z.upper, z.lower[:intervals] + z.width])
        log_upper = np.concatenate([bounds.upper, bounds.lower[:intervals] + bounds.width])
        u = np.exp(family.log_pdf(z_upper) - log_likelihood[above])
        l = np.exp(family.log_pdf(z.lower) - log_likelihood[below])  # noqa: E741

        sums_above, sums_below = self._sums
        upper, gradient, hessian = self._side(point, above, sums_above, log_upper, kept[above] * u)
        lower, gradient_below, hessian_below = self._side(point, below, sums_below, bounds.lower, -kept[below] * l)
        hessian = hessian + hessian_below
        hessian += (upper * (kept[above] * (family.score(z_upper) * u - u**2))) @ upper.T
        hessian += (lower * (kept[below] * (-family.score(z.lower) * l - l**2))) @ lower.T
        weight = kept[both] * u[evidence.n_left :] * l[:intervals]
        mixed = (upper[:, evidence.n_left :] * weight) @ lower[:, :intervals].T
        return gradient + gradient_below, hessian + mixed + mixed.T

    def _side(
        self, point: np.ndarray, rows: slice, sums: np.ndarray, log_risk: np.ndarray, rate: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what one standardized bound of some rows, z = (log R) / s - location / s, adds to the derivatives.

        That is its Jacobian, and the rate times its first and second derivatives, summed; the latter are those in the
        logits, and those in the logits and 1/s.
        """
        basis, precision, w = self.basis, point[-1], self.weights(point)
        free = basis.shape[1]
        share = sums * w[:, None] / np.exp(log_risk)
        moves = basis.T @ (share - w[:, None])
        jacobian = np.vstack([precision * moves, -self._columns[:, rows], log_risk])
        weighted = share * rate
        spread = np.diag(weighted.sum(axis=1)) - weighted @ share.T
        spread -= rate.sum() * (np.diag(w) - np.outer(w, w))
        curvature = np.zeros((len(jacobian), len(jacobian)))
        curvature[:free, :free] = precision * basis.T @ spread @ basis
        curvature[:free, -1] = curvature[-1, :free] = moves @ rate
        return jacobian, jacobian @ rate, curvature

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
        if self.held is not None:
            median, spread = self.held
            n, off = self.evidence.n, (-np.log(a) - np.log(median)) / spread**2
            value += (off**2 * spread**2 / 2 - np.log(a)) / n
            gradient[-1] -= (1 + off) / a / n
            hessian[-1, -1] += (1 + off + spread**-2) / a**2 / n
        return Derivatives(float(value), gradient, hessian)


def delta_errors(
    parameters: Callable[[np.ndarray], dict[str, Any]], point: np.ndarray, hessian: np.ndarray, n: int
) -> dict[str, np.ndarray]:
    """Return standard errors by the delta method, from the Hessian of the mean over n episodes.

    A parameter that moves along a direction without curvature has none (NaN).
    """
    if not np.isfinite(hessian).all():
        return {name: np.full(np.shape(value), np.nan) for name, value in parameters(point).items()}
    curvature, directions = np.linalg.eigh(n * hessian)
    flat = curvature <= 1e-9 * curvature[-1]
    root = directions[:, ~flat] / np.sqrt(curvature[~flat])
    around = [(parameters(point + to), parameters(point - to)) for to in STEP * np.eye(len(point))]
    out = {}
    for name in around[0][0]:
        jacobian = np.stack([(above[name] - below[name]) / (2 * STEP) for above, below in around], axis=-1)
        error = np.sqrt(((jacobian @ root) ** 2).sum(axis=-1))
        out[name] = np.where((np.abs(jacobian @ directions[:, flat]) > LOADING).any(axis=-1), np.nan, error)
    return out


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
    gradient at all, not even in gamma. Only features that vary (`varying`) and diagnostics that are nonzero somewhere
    in the evidence (`active`) have an effect; these are divided by their mean (`scale`), so that units do not matter,
    and `weights` and `location_shift` undo it.
    """

    evidence: Evidence
    incidence: Incidence
    threshold: Threshold
    varying: np.ndarray
    active: np.ndarray
    scale: np.ndarray
    floor: float | None

    @classmethod
    def of(
        cls, evidence: Evidence, ridge: float, floor: float | None = None, held: tuple[float, float] | None = None
    ) -> Self:
        """State the objective for some evidence."""
        varying = ~evidence.standardization.constant
        means = np.full(len(evidence.timed), 1 / len(evidence.timed)) @ (evidence.before + evidence.within)
        active = means > 0
        design = np.column_stack([np.ones(evidence.n), evidence.features[:, varying]])
        seen = evidence.with_diagnostics(active, means[active])
        return cls(
            evidence=evidence,
            incidence=Incidence(design, evidence.strong_success, ridge),
            threshold=Threshold(seen, design[seen.timed], ridge, held),
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
        """Return which episodes have a likelihood below the floor."""
        if self.floor is None:
            return np.zeros(self.evidence.n, dtype=bool)
        return self.log_likelihood(point) < np.log(self.floor)

    def derivatives(self, point: np.ndarray) -> Derivatives:
        """Value, gradient and Hessian of the floored objective."""
        first, second = self.parts(point)
        if second[-1] <= FLATTEST:
            return Derivatives.outside(len(point))
        keep = ~self.floored(point)
        incidence = self.incidence.derivatives(first, keep)
        threshold = self.threshold.derivatives(second, keep[self.evidence.timed])
        value = incidence.value + threshold.value
        if self.floor is not None:
            value -= (~keep).sum() * np.log(self.floor) / self.evidence.n
        gradient = np.concatenate([incidence.gradient, threshold.gradient])
        return Derivatives(float(value), gradient, linalg.block_diag(incidence.hessian, threshold.hessian))

    def parameters(self, point: np.ndarray) -> dict[str, Any]:
        """Return all parameters on their own scales: of varying features, and of active diagnostics in their units."""
        first, second = self.parts(point)
        return {"gamma0": first[0], "gamma": first[1:], **self._thresholds(second)}

    def _thresholds(self, point: np.ndarray) -> dict[str, Any]:
        location = point[self.threshold.basis.shape[1] : -1] / point[-1]
        beta0 = location[0] + self.location_shift(point)
        return {"beta0": beta0, "beta": location[1:], "s": 1 / point[-1], "w": self.weights(point)}

    def errors(self, fit: PaperFit) -> dict[str, np.ndarray]:
        """Return the standard errors of `parameters`, of the parts one by one.

        A weight on the boundary of the simplex has none (NaN), and the others are those of the model without it.
        """
        first, second = self.parts(fit.optimum.point)
        hessian, n, part, size = fit.optimum.derivatives.hessian, self.evidence.n, self.threshold, len(first)
        v, at, own = part.weights(second), second, self
        inside = v > BOUNDARY
        curvature = hessian[size:, size:]
        if not inside.all():
            fewer = part.evidence.with_diagnostics(inside, np.ones(inside.sum()))
            reduced = replace(part, evidence=fewer, design=self.incidence.design[fewer.timed])
            at = np.concatenate([reduced.basis.T @ np.log(v[inside]), second[part.basis.shape[1] :]])
            # Leaving the weights out of the simplex moves the location by the logarithm of what is left of it.
            at[reduced.basis.shape[1]] -= np.log(v[inside].sum()) * second[-1]
            curvature = reduced.derivatives(at, ~np.isin(fewer.timed, fit.floored)).hessian
            own = replace(self, threshold=reduced, scale=self.scale[inside])
        errors = delta_errors(lambda x: {"gamma0": x[0], "gamma": x[1:]}, first, hessian[:size, :size], n)
        errors |= delta_errors(own._thresholds, at, curvature, n)
        w = np.full(len(v), np.nan)
        w[inside] = errors["w"]
        return errors | {"w": w}

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


class PriorObjective:
    """Minus the mean log density of data and parameters, as a function of the model's unbounded coordinates.

    PyTensor differentiates the log density of `model`, which `build_model` made of `n` episodes; the Hessian is the
    difference of gradients, so that a prior need only state itself. Densities are those of the parameters, without the
    Jacobian of what makes them unbounded: under a `RidgePrior` it is the estimate that `fit_map` finds by formulas.
    """

    def __init__(self, model: Any, n: int) -> None:  # noqa: ANN401
        self.model, self.n = model, n
        self._density = model.compile_logp(jacobian=False, mode=QUICK)
        self._gradient = model.compile_dlogp(jacobian=False, mode=QUICK)
        stated = {variable.name: variable for variable in model.unobserved_value_vars}
        names = (*PARAMETERS, *RATES, "lateness", "lucky0", "lucky_slope")
        self._known = [stated[name] for name in names if name in stated]
        self._natural = model.compile_fn(self._known, inputs=model.value_vars, mode=QUICK, on_unused_input="ignore")
        start = model.initial_point()
        self._shapes = {variable.name: np.shape(start[variable.name]) for variable in model.value_vars}

    def start(self, guess: dict[str, np.ndarray], rng: np.random.Generator | None) -> np.ndarray:
        """Return the coordinates of a guess of the parameters, moved at random if there is a generator."""
        at = self.model.initial_point()
        for variable in self.model.free_RVs:
            if variable.name in guess:
                value, transform = guess[variable.name], self.model.rvs_to_transforms[variable]
                if transform is not None:
                    value = transform.forward(value, *variable.owner.inputs).eval()
                at[self.model.rvs_to_values[variable].name] = value
        point = np.concatenate([np.ravel(at[name]) for name in self._shapes]).astype(float)
        return point if rng is None else point + rng.normal(scale=0.5, size=len(point))

    def derivatives(self, point: np.ndarray) -> Derivatives:
        """Value, gradient and Hessian."""
        value = -float(self._density(self._named(point))) / self.n
        if not np.isfinite(value):
            return Derivatives.outside(len(point))
        moves = STEP * np.eye(len(point))
        hessian = np.array([(self._slope(point + to) - self._slope(point - to)) / (2 * STEP) for to in moves])
        return Derivatives(value, self._slope(point), (hessian + hessian.T) / 2)

    def parameters(self, point: np.ndarray) -> dict[str, np.ndarray]:
        """Return the parameters at a point, on their own scales."""
        found = self._natural(self._named(point))
        return {variable.name: value for variable, value in zip(self._known, found, strict=True)}

    def _slope(self, point: np.ndarray) -> np.ndarray:
        return -np.asarray(self._gradient(self._named(point))) / self.n

    def _named(self, point: np.ndarray) -> dict[str, np.ndarray]:
        ends = np.cumsum([int(np.prod(shape)) for shape in self._shapes.values()])
        parts = np.split(point, ends[:-1])
        return {name: part.reshape(shape) for (name, shape), part in zip(self._shapes.items(), parts, strict=True)}
