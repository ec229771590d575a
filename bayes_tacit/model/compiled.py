"""The log density of the paper's model with its gradient, as one compiled loop over the episodes.

`build_model` states the model; this is the same function of the same unbounded coordinates (gamma0, beta0, log s,
gamma, beta, and the logits of w but the last, which makes their sum zero), for the settings that `compiles` knows. A
sampler calls it a hundred thousand times, and no graph has to be optimized and compiled first. Of a timed episode it
needs the log mass of one interval with two derivatives, which the families below have.

Numba compiles it when it is first used and keeps the result beside this file, in `__pycache__`, or in the user's cache
directory where that cannot be written (`NUMBA_CACHE_DIR` names another one): a second process loads it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types
from scipy import special

from bayes_tacit.model.evidence import Evidence
from bayes_tacit.model.priors import Prior, WeaklyInformativePrior

compiled: Callable[..., Any] = numba.njit(error_model="numpy", nogil=True)
summing: Callable[..., Any] = numba.njit(error_model="numpy", nogil=True, fastmath={"reassoc"})
compiled_and_kept: Callable[..., Any] = numba.njit(error_model="numpy", nogil=True, cache=True)

FAMILIES = ("lognormal", "loglogistic", "weibull")  # the families that are compiled, by their numbers in the loop

LOGNORMAL, LOGLOGISTIC = 0, 1

FACTORS = 500  # how many numbers from 1 to 2 are multiplied before the logarithm is taken
HEADER = 20  # how many numbers of the data say how many there are, and what the prior is


def compiles(evidence: Evidence, prior: Prior) -> bool:
    """Return whether the density of a model is compiled here: the paper's, under the weakly informative prior."""
    # These the evidence holds already, or the loop below knows; all else must be as in the paper.
    read_already = ("family", "timing", "unmarked", "zero_mass", "memory", "clock", "weights", "features")
    paper = all(
        getattr(evidence.spec, field.name) == field.default
        for field in fields(evidence.spec)
        if field.name not in read_already
    )
    known = type(prior) is WeaklyInformativePrior and evidence.spec.family in FAMILIES
    return paper and known and evidence.grid is None and evidence.records is None


class Density(NamedTuple):
    """The log posterior density of some episodes, on the unbounded scale.

    `data` are the evidence and the prior as one array, which the compiled functions read. There are as many gamma as
    `features`, and as many `weights`; `learned` says whether these are parameters.
    """

    data: np.ndarray
    features: int
    weights: int
    learned: bool

    @property
    def size(self) -> int:
        """How many coordinates a point has."""
        return 3 + 2 * self.features + (self.weights - 1 if self.learned else 0)

    def __call__(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log density and its gradient."""
        gradient = np.empty(self.size)
        return _density(np.ascontiguousarray(point, dtype=float), self.data, gradient), gradient


def density_of(evidence: Evidence, prior: WeaklyInformativePrior, center: float) -> Density:
    """Return the log density of evidence that `compiles`; `center` is the log of the typical threshold."""
    (n, p), (m, d) = evidence.features.shape, evidence.before.shape
    learned = evidence.weights is None and d > 1
    scales = [prior.incidence_intercept, prior.location_intercept, prior.scale_spread]
    scales += [prior.incidence_slope] * p + [prior.location_slope] * p
    constant = -np.log(scales).sum() - len(scales) * 0.5 * np.log(2 * np.pi)
    if learned:
        constant += special.gammaln(d * prior.concentration) - d * special.gammaln(prior.concentration) + np.log(d)
    header = [n, p, m, d, evidence.n_left, evidence.n_interval, FAMILIES.index(str(evidence.spec.family)), learned]
    header += [center, prior.incidence_intercept, prior.incidence_slope, prior.location_intercept]
    header += [prior.location_slope, np.log(prior.scale_median), prior.scale_spread, prior.concentration, constant]
    parts = [
        np.where(evidence.strong_success, 1.0, -1.0),
        evidence.features.T,
        evidence.features[evidence.timed].T,
        evidence.before.T,
        evidence.within.T,
    ]
    body = np.concatenate([np.ravel(part) for part in parts])
    head = np.zeros(HEADER)
    head[0], head[1 : 1 + len(header)] = HEADER + len(body), header
    return Density(np.concatenate([head, body]), p, d, learned)


# The standard normal, by its tail over its density: no digits are lost however far out, and it takes a few nanoseconds.

ROOT_2 = math.sqrt(2.0)
LOG_ROOT_2_PI = 0.5 * math.log(2 * math.pi)
DENSITY_AT_0 = 1 / math.sqrt(2 * math.pi)
NARROW = 0.05
FARTHEST = -25.0
"""Beyond it distribution functions leave what double precision holds, and their logarithms are subtracted."""

PIECES, DEGREE = 100, 6


def _polynomials() -> np.ndarray:
    """Return erfcx(x) / v on equal pieces of v = 4 / (4 + x), x >= 0, as polynomials; the error is below 1e-14."""
    nodes = np.cos(np.pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1))
    v = (np.arange(PIECES)[:, None] + 0.5 + 0.5 * nodes) / PIECES
    values = special.erfcx(4 / v - 4) / v
    return np.ascontiguousarray(np.polynomial.polynomial.polyfit(nodes, values.T, DEGREE).T)


POLYNOMIALS = _polynomials()


@compiled
def erfcx(x: float) -> float:
    """Return exp(x^2) erfc(x) for x >= 0; NaN gives any number, since it is no place in a table."""
    v = 4 / (4 + x) if x >= 0 else 1.0
    piece = min(int(v * PIECES), PIECES - 1)
    t = 2 * (v * PIECES - piece) - 1
    c = POLYNOMIALS[piece]
    return v * (c[0] + t * (c[1] + t * (c[2] + t * (c[3] + t * (c[4] + t * (c[5] + t * c[6]))))))


@compiled
def normal_cdf(z: float) -> float:
    """Return Phi(z); the error is below 1e-14 of it."""
    tail = 0.5 * erfcx(abs(z) / ROOT_2) * math.exp(-0.5 * z * z)
    return tail if z < 0 else 1 - tail


@compiled
def _normal_below(z: float) -> tuple[float, float]:
    """Return log Phi(z) and its derivative."""
    tail = 0.5 * erfcx(abs(z) / ROOT_2)
    if z < 0:
        return math.log(tail) - 0.5 * z * z, DENSITY_AT_0 / tail
    density = math.exp(-0.5 * z * z)
    return math.log1p(-tail * density), DENSITY_AT_0 * density / (1 - tail * density)


@compiled
def _normal_between(z: float, width: float) -> tuple[float, float, float]:
    """Return log {Phi(z + width) - Phi(z)} and its derivatives in z and in the width."""
    middle = z + 0.5 * width
    squared = middle * middle
    if width * max(1.0, abs(middle)) < NARROW:
        # The series of the density around the midpoint, as in `log_interval_mass`.
        h2 = width * width
        series = (squared - 1) * h2 / 24 + (squared * squared - 6 * squared + 3) * h2 * h2 / 1920
        by_middle = (middle * h2 / 12 + (4 * middle * squared - 12 * middle) * h2 * h2 / 1920) / (1 + series)
        by_width = ((squared - 1) * width / 12 + (squared * squared - 6 * squared + 3) * h2 * width / 480) / (
            1 + series
        )
        slope = by_middle - middle
        value = math.log(width) - 0.5 * squared - LOG_ROOT_2_PI + math.log1p(series)
        return value, slope, 1 / width + 0.5 * slope + by_width
    to_the_right = middle > 0
    near, far = (-z, -z - width) if to_the_right else (z + width, z)
    if far > FARTHEST:
        at_near, at_far = math.exp(-0.5 * near * near), math.exp(-0.5 * far * far)
        tail = 0.5 * erfcx(abs(near) / ROOT_2) * at_near
        mass = (tail if near < 0 else 1 - tail) - 0.5 * erfcx(-far / ROOT_2) * at_far
        value, by_near, by_far = math.log(mass), DENSITY_AT_0 * at_near / mass, DENSITY_AT_0 * at_far / mass
    else:
        log_near, by_near = _normal_below(near)
        log_far, by_far = _normal_below(far)
        ratio = math.exp(log_far - log_near)
        value = log_near + math.log1p(-ratio)
        by_near, by_far = by_near / (1 - ratio), by_far * ratio / (1 - ratio)
    upper, lower = (by_far, by_near) if to_the_right else (by_near, by_far)
    return value, upper - lower, upper


# The logistic.


@compiled
def _log_expit(x: float) -> tuple[float, float]:
    """Return log {1 / (1 + exp(-x))} and its derivative."""
    e = math.exp(-abs(x))
    if x > 0:
        return -math.log1p(e), e / (1 + e)
    return x - math.log1p(e), 1 / (1 + e)


@compiled
def _logistic_between(z: float, width: float) -> tuple[float, float, float]:
    below_upper, by_upper = _log_expit(z + width)
    above_lower, by_lower = _log_expit(-z)
    # The derivative of log(1 - exp(-h)) in h is 1 / expm1(h).
    value = below_upper + above_lower + math.log(-math.expm1(-width))
    return value, by_upper - by_lower, by_upper + 1 / math.expm1(width)


# The smallest extreme value: kappa is Weibull.

LARGEST = 300.0


@compiled
def _hazard(z: float) -> tuple[float, float]:
    """Return exp(z) and its derivative, along the tangent where it would overflow."""
    e = math.exp(min(z, LARGEST))
    return e * (1 + max(z - LARGEST, 0.0)), e


@compiled
def _log_one_minus_exp(log_x: float) -> tuple[float, float]:
    """Return log(1 - exp(-x)) and its derivative in log x."""
    x, slope = _hazard(log_x)
    if x < 1e-4:
        return log_x - x / 2 + x * x / 24, 1 - x / 2 + x * x / 12
    value = math.log(-math.expm1(-x)) if x < 0.6931471805599453 else math.log1p(-math.exp(-x))
    return value, slope / math.expm1(x) if x < 700.0 else 0.0


@compiled
def _weibull_between(z: float, width: float) -> tuple[float, float, float]:
    short = min(width, LARGEST)
    growth = math.expm1(short)
    value, by_rise = _log_one_minus_exp(z + math.log(growth))
    hazard, by_z = _hazard(z)
    return value - hazard, by_rise - by_z, by_rise * (growth + 1) / growth if width < LARGEST else 0.0


@compiled
def _below(family: int, z: float) -> tuple[float, float]:
    """Return log F(z) and its derivative."""
    if family == LOGNORMAL:
        return _normal_below(z)
    if family == LOGLOGISTIC:
        return _log_expit(z)
    return _log_one_minus_exp(z)


@compiled
def _above(family: int, z: float) -> tuple[float, float]:
    """Return log {1 - F(z)} and its derivative."""
    if family == LOGNORMAL:
        value, slope = _normal_below(-z)
    elif family == LOGLOGISTIC:
        value, slope = _log_expit(-z)
    else:
        value, slope = _hazard(z)
        value = -value
    return value, -slope


@compiled
def _between(family: int, z: float, width: float) -> tuple[float, float, float]:
    """Return log {F(z + width) - F(z)} and its derivatives in z and in the width."""
    if family == LOGNORMAL:
        return _normal_between(z, width)
    if family == LOGLOGISTIC:
        return _logistic_between(z, width)
    return _weibull_between(z, width)


@compiled
def _weights(logits: np.ndarray, w: np.ndarray) -> float:
    """Fill in the weights of all logits but the last, which makes their sum zero; return the sum of the log weights."""
    d = len(w)
    w[d - 1] = 0.0
    for j in range(d - 1):
        w[j] = logits[j]
        w[d - 1] -= logits[j]
    largest, total = w.max(), 0.0
    for j in range(d):
        w[j] = math.exp(w[j] - largest)
        total += w[j]
    log_sum = 0.0
    for j in range(d):
        w[j] /= total
        log_sum += math.log(w[j])
    return log_sum


@compiled
def _products(columns: np.ndarray, by: np.ndarray) -> np.ndarray:
    """Return the product of each row, of which there is one number in each column's array."""
    out = np.zeros(columns.shape[1])
    for j in range(len(by)):
        for i in range(len(out)):
            out[i] += columns[j, i] * by[j]
    return out


@summing
def _add_products(columns: np.ndarray, by: np.ndarray, out: np.ndarray) -> None:
    """Add the product of each column."""
    for j in range(len(out)):
        total = 0.0
        for i in range(len(by)):
            total += columns[j, i] * by[i]
        out[j] += total


@compiled_and_kept
def _density(point: np.ndarray, data: np.ndarray, gradient: np.ndarray) -> float:
    n, p, m, d = int(data[1]), int(data[2]), int(data[3]), int(data[4])
    n_left, n_interval, family, learned = int(data[5]), int(data[6]), int(data[7]), data[8] > 0
    center, gamma0_scale, gamma_scale, beta0_scale = data[9], data[10], data[11], data[12]
    beta_scale, log_s_center, log_s_scale, concentration = data[13], data[14], data[15], data[16]
    at = HEADER
    sign = data[at : at + n]
    at += n
    features = data[at : at + n * p].reshape((p, n))
    at += n * p
    timed = data[at : at + m * p].reshape((p, m))
    at += m * p
    before = data[at : at + m * d].reshape((d, m))
    at += m * d
    within = data[at : at + m * d].reshape((d, m))
    gamma0, beta0, log_s = point[0], point[1], point[2]
    gamma, beta = point[3 : 3 + p], point[3 + p : 3 + 2 * p]
    gradient[:] = 0.0
    by_gamma, by_beta = gradient[3 : 3 + p], gradient[3 + p : 3 + 2 * p]
    w, by_w = np.ones(d), np.zeros(d)
    total = data[17]

    # Minus the sum of log(1 + exp(-x)): of the logarithms, one for as many factors as do not overflow.
    product, slopes = 1.0, _products(features, gamma)
    for i in range(n):
        x = sign[i] * (gamma0 + slopes[i])
        e = math.exp(-abs(x))
        product *= 1 + e
        if i % FACTORS == 0:
            total -= math.log(product)
            product = 1.0
        total += min(x, 0.0)
        slopes[i] = sign[i] * (e if x > 0 else 1.0) / (1 + e)
    total -= math.log(product)
    gradient[0] = slopes.sum()
    _add_products(features, slopes, by_gamma)

    if learned:
        log_sum = _weights(point[3 + 2 * p :], w)
        # The Dirichlet's density times the Jacobian of the logits, which is d times the product of the weights.
        total += concentration * log_sum
    precision = math.exp(-log_s)
    location, low, rise = _products(timed, beta), _products(before, w), _products(within, w)
    for i in range(m):
        mu = beta0 + location[i]
        if i < n_left:
            z = (math.log(rise[i]) - mu) * precision
            value, by_z = _below(family, z)
            by_log_s = -by_z * z
            by_rise, by_low = by_z * precision / rise[i], 0.0
        elif i < n_left + n_interval:
            growth, risk = rise[i] / low[i], low[i] + rise[i]
            z = (math.log(low[i]) - mu) * precision
            width = (math.log1p(growth) if growth < 0.25 else math.log(1 + growth)) * precision
            value, by_z, by_width = _between(family, z, width)
            by_log_s = -by_z * z - by_width * width
            by_rise, by_low = precision * by_width / risk, precision * (by_z - by_width * rise[i] / risk) / low[i]
        else:
            z = (math.log(low[i]) - mu) * precision
            value, by_z = _above(family, z)
            by_log_s = -by_z * z
            by_rise, by_low = 0.0, by_z * precision / low[i]
        total += value
        gradient[2] += by_log_s
        location[i], low[i], rise[i] = -by_z * precision, by_low, by_rise
    gradient[1] = location.sum()
    _add_products(timed, location, by_beta)
    _add_products(before, low, by_w)
    _add_products(within, rise, by_w)

    if learned:
        # Through the softmax; a logit also moves the last one, the other way.
        mean = (by_w * w).sum()
        last = w[d - 1] * (by_w[d - 1] - mean) - d * concentration * w[d - 1]
        for j in range(d - 1):
            gradient[3 + 2 * p + j] = w[j] * (by_w[j] - mean) - d * concentration * w[j] - last
    total += _normal_prior(point, gradient, 0, 1, 0.0, gamma0_scale)
    total += _normal_prior(point, gradient, 1, 2, center, beta0_scale)
    total += _normal_prior(point, gradient, 2, 3, log_s_center, log_s_scale)
    total += _normal_prior(point, gradient, 3, 3 + p, 0.0, gamma_scale)
    total += _normal_prior(point, gradient, 3 + p, 3 + 2 * p, 0.0, beta_scale)
    return total


@compiled
def _normal_prior(point: np.ndarray, gradient: np.ndarray, first: int, stop: int, center: float, scale: float) -> float:
    """Add the slope of normal densities to the gradient, and return their logs but for the constant."""
    total = 0.0
    for k in range(first, stop):
        z = (point[k] - center) / scale
        total -= 0.5 * z * z
        gradient[k] -= z / scale
    return total


# The same likelihood of each timed episode by itself.


def row_masses(
    evidence: Evidence, w: np.ndarray, location: np.ndarray, scale: float, log_mass: np.ndarray, below: np.ndarray
) -> None:
    """Fill in the log mass of each row's interval, and the probability below it, under one draw of the parameters."""
    kinds = FAMILIES.index(str(evidence.spec.family)), evidence.n_left, evidence.n_interval
    _row_masses(*kinds, evidence.before, evidence.within, w, location, scale, log_mass, below)


@compiled_and_kept
def _row_masses(
    family: int,
    n_left: int,
    n_interval: int,
    before: np.ndarray,
    within: np.ndarray,
    w: np.ndarray,
    location: np.ndarray,
    scale: float,
    log_mass: np.ndarray,
    below: np.ndarray,
) -> None:
    for i in range(len(location)):
        low, rise = 0.0, 0.0
        for j in range(len(w)):
            low += before[i, j] * w[j]
            rise += within[i, j] * w[j]
        below[i] = 0.0
        if i < n_left:
            log_mass[i] = _below(family, (math.log(rise) - location[i]) / scale)[0]
        else:
            z = (math.log(low) - location[i]) / scale
            below[i] = math.exp(_below(family, z)[0])
            if i < n_left + n_interval:
                log_mass[i] = _between(family, z, math.log1p(rise / low) / scale)[0]
            else:
                log_mass[i] = _above(family, z)[0]


# The two functions that nutpie calls, by their addresses.


def _log_density(size, point_, gradient_, value_, data_):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write the log density and its gradient; return 0, or what is not finite."""
    data = numba.carray(data_, (int(data_[0]),))
    gradient, value = numba.carray(gradient_, (size,)), numba.carray(value_, (1,))
    value[0] = _density(numba.carray(point_, (size,)), data, gradient)
    if not np.isfinite(gradient).all():
        return 3
    return 0 if math.isfinite(value[0]) else 4


def _expanded(size, count, point_, out_, data_):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write the parameters themselves: gamma0, beta0, gamma, beta, s, w."""
    point, out = numba.carray(point_, (size,)), numba.carray(out_, (count,))
    p, d, learned = int(data_[2]), int(data_[4]), data_[8] > 0
    out[0], out[1] = point[0], point[1]
    out[2 : 2 + 2 * p] = point[3 : 3 + 2 * p]
    out[2 + 2 * p] = math.exp(point[2])
    if learned:
        w = np.empty(d)
        _weights(point[3 + 2 * p :], w)
        out[3 + 2 * p :] = w
    return 0


@cache
def callbacks() -> tuple[Any, Any]:
    """Return the density and the expansion of a point as functions with a C address."""
    numbers = types.CPointer(types.double)
    density = types.int64(types.uint64, numbers, numbers, numbers, numbers)
    expanded = types.int64(types.uint64, types.uint64, numbers, numbers, numbers)
    settings = {"nopython": True, "cache": True, "error_model": "numpy"}
    return numba.cfunc(density, **settings)(_log_density), numba.cfunc(expanded, **settings)(_expanded)
