r"""Threshold families: the distribution of the logarithm of the handoff threshold around its location.

A family is the standard distribution of z = (log kappa - location) / s. Its formulas are written once, over an array
namespace `xp`, so that the optimizer, the PyMC model and the router share them: `NUMPY` evaluates them, and `PYTENSOR`
of `bayes_tacit.model.build` builds differentiable graphs. Only NumPy and `scipy.special` are imported. A family of your
own is a `Family` value, known by its name once it was registered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy import special

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.validate import text, whole

Array = Any  # a NumPy array or a PyTensor variable, as the namespace has them


@dataclass(frozen=True)
class Family:
    """A log-location-scale distribution of the threshold.

    Its formulas take z = (log kappa - location) / s, an array, and an array namespace `xp`: `NUMPY` of this module, or
    `PYTENSOR` of `bayes_tacit.model.build`, of which the sampler takes gradients. Both have `exp`, `expm1`, `log`,
    `log1p`, `log1mexp`, `log_ndtr`, `softplus`, `minimum`, `maximum`, `where`, `apply_where` and `concatenate`. They
    must stay finite as far out as a start of the optimizer may lie, gradients included. The optimizer finds one optimum
    for given weights if the density is log-concave, as those of all families here are.

    Attributes
    ----------
    name
        Its name in settings and files.
    label
        Its name in reports.
    log_cdf, log_sf
        Log probability below and above z; they take z and an array namespace.
    log_mass
        Log probability of (z, z + width]; it takes z, the width and an array namespace. It should not be a difference
        of probabilities, which loses its digits in the right tail and for narrow windows.
    log_pdf, score
        Log density and its derivative, for NumPy arrays.
    draw
        Standard draws from a generator, of a given shape.
    cdf
        Probability below z, for NumPy arrays and single numbers; by default the exponential of `log_cdf`.
    """

    name: str
    label: str
    log_cdf: Callable[[Array, SimpleNamespace], Array]
    log_sf: Callable[[Array, SimpleNamespace], Array]
    log_mass: Callable[[Array, Array, SimpleNamespace], Array]
    log_pdf: Callable[[np.ndarray], np.ndarray]
    score: Callable[[np.ndarray], np.ndarray]
    draw: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
    cdf: Callable[[np.ndarray], np.ndarray] = field(default=None)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        given: object = self.cdf
        if given is None:
            object.__setattr__(self, "cdf", lambda z: np.exp(self.log_cdf(np.asarray(z, dtype=float), NUMPY)))

    def __repr__(self) -> str:
        return f"<Family {self.name}>"


def family_named(name: object) -> Family:
    """Return the family of a name; a `Family` that is registered is returned as it is.

    Examples
    --------
    >>> family_named("loglogistic").label
    'log-logistic'
    """
    wanted = name.name if isinstance(name, Family) else name
    found = FAMILIES.get(wanted) if isinstance(wanted, str) else None
    if found is None or (isinstance(name, Family) and found is not name):
        known = " or ".join(map(repr, FAMILIES))
        raise InvalidDataError(f"{known}; register_family makes another one known", field="family", value=name)
    return found


def register_family(family: Family) -> Family:
    """Make a family known by its name, in this process: to fits, posteriors, routers, and files that are read.

    It replaces one of the same name that was registered before, but none of the library's own.

    Examples
    --------
    >>> register_family(LOGNORMAL)
    <Family lognormal>
    """
    if not isinstance(family, Family):
        raise InvalidDataError("a Family", field="family", value=family)
    name = text("name of the family", family.name)
    if not name or (name in OWN and OWN[name] is not family):
        raise InvalidDataError(f"a name other than {', '.join(OWN)}", field="name of the family", value=name)
    FAMILIES[name] = family
    return family


# The array namespace of NumPy.


def _softplus(x: np.ndarray) -> np.ndarray:
    return -special.log_expit(-x)


def _log1mexp(x: np.ndarray) -> np.ndarray:
    return _apply_where(x > -np.log(2.0), (x,), lambda x: np.log(-np.expm1(x)), lambda x: np.log1p(-np.exp(x)))


def _apply_where(
    condition: np.ndarray,
    arguments: tuple[np.ndarray, ...],
    if_true: Callable[..., np.ndarray],
    if_false: Callable[..., np.ndarray],
    safe_true: tuple[float, ...] = (),  # noqa: ARG001
    safe_false: tuple[float, ...] = (),  # noqa: ARG001
) -> np.ndarray:
    """Apply one of two functions to each element, computing only the one that is needed.

    The last two arguments are harmless values for each function, for namespaces that must compute both everywhere.
    """
    if condition.all():
        return if_true(*arguments)
    if not condition.any():
        return if_false(*arguments)
    result = np.empty(condition.shape)
    result[condition] = if_true(*(argument[condition] for argument in arguments))
    result[~condition] = if_false(*(argument[~condition] for argument in arguments))
    return result


NUMPY = SimpleNamespace(
    append=np.append,
    apply_where=_apply_where,
    columns=np.column_stack,
    concatenate=np.concatenate,
    exp=np.exp,
    expm1=np.expm1,
    log=np.log,
    log1mexp=_log1mexp,
    log1p=np.log1p,
    log_ndtr=special.log_ndtr,
    logsumexp=partial(special.logsumexp, axis=1),
    maximum=np.maximum,
    minimum=np.minimum,
    segment_sum=lambda values, index, like: np.bincount(index, values, minlength=len(like)),
    softplus=_softplus,
    where=np.where,
)

# Log-normal, the paper's family: log kappa is normal.

NARROW = 0.05
"""Intervals with width * max(1, |midpoint|) below this are integrated by series; the error there is below 1e-12."""

LOG_SQRT_2PI = np.float64(0.5 * np.log(2 * np.pi))


def log_interval_mass(lower: Array, width: Array, xp: SimpleNamespace) -> Array:
    r"""Log of the standard normal mass of an interval, :math:`\log\{\Phi(z + h) - \Phi(z)\}`.

    Differences of distribution functions lose everything in the right tail and for narrow intervals. Here a wide
    interval is reflected to the left tail, where :math:`\log\Phi(b) + \log(1 - e^{\log\Phi(a) - \log\Phi(b)})` keeps
    all its digits, and a narrow one is integrated by the series of the density around its midpoint :math:`m`,

    .. math:: \log\varphi(m) + \log h + \log\{1 + He_2(m)\,h^2/24 + He_4(m)\,h^4/1920\}.

    It takes the width and not the upper end, which keeps intervals apart whose ends round to the same number.

    Examples
    --------
    >>> log_interval_mass(np.array([0.0, 40.0]), np.array([1.0, 1e-9]), NUMPY).round(6)
    array([  -1.074862, -821.642204])
    """
    middle = lower + width / 2
    narrow = width * xp.maximum(1.0, abs(middle)) < NARROW
    return xp.apply_where(
        narrow, (lower, width), partial(_narrow_mass, xp=xp), partial(_wide_mass, xp=xp), (0.0, 0.05), (-1.0, 1.0)
    )


def _narrow_mass(lower: Array, width: Array, xp: SimpleNamespace) -> Array:
    middle = lower + width / 2
    squared = middle * middle
    second = (squared - 1.0) * width**2 / 24.0
    fourth = (squared * squared - 6.0 * squared + 3.0) * width**4 / 1920.0
    return xp.log(width) - squared / 2.0 - LOG_SQRT_2PI + xp.log1p(second + fourth)


def _wide_mass(lower: Array, width: Array, xp: SimpleNamespace) -> Array:
    upper = lower + width
    to_the_right = lower + upper > 0
    far = xp.where(to_the_right, -upper, lower)
    near = xp.where(to_the_right, -lower, upper)
    log_near = xp.log_ndtr(near)
    return log_near + xp.log1mexp(xp.log_ndtr(far) - log_near)


LOGNORMAL = Family(
    name="lognormal",
    label="log-normal",
    log_cdf=lambda z, xp: xp.log_ndtr(z),
    log_sf=lambda z, xp: xp.log_ndtr(-z),
    log_mass=log_interval_mass,
    log_pdf=lambda z: -0.5 * z * z - LOG_SQRT_2PI,
    score=lambda z: -z,
    draw=lambda rng, shape: rng.standard_normal(shape),
    cdf=special.ndtr,
)

# Log-logistic: log kappa is logistic. Its tails are heavier, so a window far out pulls less.

LOGLOGISTIC = Family(
    name="loglogistic",
    label="log-logistic",
    log_cdf=lambda z, xp: -xp.softplus(-z),
    log_sf=lambda z, xp: -xp.softplus(z),
    # sigmoid(b) - sigmoid(a) = sigmoid(b) sigmoid(-a) (1 - exp(a - b)), every factor of which is stable.
    log_mass=lambda z, width, xp: -xp.softplus(-z - width) - xp.softplus(z) + xp.log1mexp(-width),
    log_pdf=lambda z: special.log_expit(z) + special.log_expit(-z),
    score=lambda z: -np.tanh(z / 2),
    draw=lambda rng, shape: rng.logistic(size=shape),
    cdf=special.expit,
)

# Weibull: kappa has the survival function exp{-(kappa / e^mu)^(1/s)}. The standardized logarithm has the density of the
# smallest extreme value, e^(z - e^z): more thresholds lie far below the typical one than far above it. exp(location) is
# the threshold that 63% of the tasks have crossed.

FARTHEST = 300.0  # beyond it exp(z) goes on along its tangent: its square would leave what double precision holds
TINY = 1e-4  # below it log(1 - exp(-x)) is log x - x/2 + x^2/24, with an error below 1e-18


def _hazard(z: Array, xp: SimpleNamespace) -> Array:
    """Return exp(z), the cumulative hazard, with finite values and gradients however large z is."""
    return xp.exp(xp.minimum(z, FARTHEST)) * (1.0 + xp.maximum(z - FARTHEST, 0.0))


def _log_one_minus_exp(log_x: Array, x: Array, xp: SimpleNamespace) -> Array:
    """Return log(1 - exp(-x)), also where x itself is too small for a number and only its logarithm is known."""
    return xp.apply_where(
        x < TINY,
        (log_x, x),
        lambda log_x, x: log_x - x / 2 + x * x / 24,
        lambda log_x, x: xp.log1mexp(-x),  # noqa: ARG005
        (0.0, 0.0),
        (0.0, 1.0),
    )


def _weibull_log_mass(z: Array, width: Array, xp: SimpleNamespace) -> Array:
    # exp(-a) - exp(-b) = exp(-a) (1 - exp(-(b - a))), and the difference of the hazards is exp(z) expm1(width).
    log_rise = z + xp.log(xp.expm1(xp.minimum(width, FARTHEST)))
    return -_hazard(z, xp) + _log_one_minus_exp(log_rise, _hazard(log_rise, xp), xp)


WEIBULL = Family(
    name="weibull",
    label="Weibull",
    log_cdf=lambda z, xp: _log_one_minus_exp(z, _hazard(z, xp), xp),
    log_sf=lambda z, xp: -_hazard(z, xp),
    log_mass=_weibull_log_mass,
    log_pdf=lambda z: z - np.exp(np.minimum(z, FARTHEST)),
    score=lambda z: -np.expm1(np.minimum(z, FARTHEST)),
    draw=lambda rng, shape: np.log(rng.standard_exponential(shape)),
    cdf=lambda z: -np.expm1(-np.exp(np.minimum(z, FARTHEST))),
)

# Log-gamma: log kappa is the logarithm of a gamma variable, between the log-normal and the Weibull. The formulas are in
# y = log g, before z is scaled.

TERMS = 64  # terms of the series of the lower tail: up to g = k + 1 for k <= 30 what is left out is below 1e-16

LARGEST_SHAPE = 30


def _gamma_log_sum(k: int, y: Array, xp: SimpleNamespace) -> Array:
    """Log of the sum of g^j / j! over j < k, where no term overflows."""
    powers = np.arange(float(k))
    top = (k - 1) * xp.maximum(y, 0.0)
    return top + xp.log(xp.exp(y[..., None] * powers - top[..., None]) @ np.exp(-special.gammaln(powers + 1)))


def _gamma_upper(k: int, y: Array, xp: SimpleNamespace) -> Array:
    return -_hazard(y, xp) + _gamma_log_sum(k, y, xp)


def _gamma_lower(k: int, y: Array, xp: SimpleNamespace) -> Array:
    """Log of e^-g g^k / k! times 1 + g/(k+1) + g^2/((k+1)(k+2)) + ..., for g up to k + 1."""
    powers = np.arange(float(TERMS))
    coefficients = np.exp(special.gammaln(k + 1.0) - special.gammaln(k + 1 + powers))
    series = xp.exp(y[..., None] * powers) @ coefficients
    return k * y - xp.exp(y) - special.gammaln(k + 1.0) + xp.log(series)


def _gamma_sf(k: int, y: Array, xp: SimpleNamespace) -> Array:
    """Take the finite sum where it keeps its digits, and the other tail where nearly all mass lies above."""
    lower, upper = (lambda y: xp.log1mexp(_gamma_lower(k, y, xp))), (lambda y: _gamma_upper(k, y, xp))
    return xp.apply_where(y < np.log(k), (y,), lower, upper, (np.log(k) - 1.0,), (np.log(k) + 1.0,))


def _gamma_cdf(k: int, y: Array, xp: SimpleNamespace) -> Array:
    lower, upper = (lambda y: _gamma_lower(k, y, xp)), (lambda y: xp.log1mexp(_gamma_upper(k, y, xp)))
    return xp.apply_where(y < np.log(k + 1.0), (y,), lower, upper, (0.0,), (np.log(k + 1.0),))


def _gamma_pdf(k: int, y: Array, xp: SimpleNamespace) -> Array:
    return k * y - _hazard(y, xp) - special.gammaln(k)


def _gamma_mass(k: int, y: Array, width: Array, xp: SimpleNamespace) -> Array:
    """Integrate a narrow interval by the density's series around its midpoint; take a wide one's nearer tail."""

    def narrow(y: Array, width: Array) -> Array:
        middle = y + width / 2
        g = _hazard(middle, xp)
        a = k - g
        second, fourth = a * a - g, a**4 - 6 * a * a * g + 3 * g * g - 4 * a * g - g
        correction = xp.log1p(second * width**2 / 24 + fourth * width**4 / 1920)
        return xp.log(width) + _gamma_pdf(k, middle, xp) + correction

    def right(y: Array, upper: Array) -> Array:
        rise = _hazard(y + xp.log(xp.expm1(xp.minimum(upper - y, FARTHEST))), xp)
        ratio = _gamma_log_sum(k, upper, xp) - _gamma_log_sum(k, y, xp) - rise
        return _gamma_upper(k, y, xp) + xp.log1mexp(ratio)

    def left(y: Array, upper: Array) -> Array:
        log_upper = _gamma_cdf(k, upper, xp)
        return log_upper + xp.log1mexp(_gamma_cdf(k, y, xp) - log_upper)

    def wide(y: Array, width: Array) -> Array:
        at = np.log(k)
        return xp.apply_where(y + width / 2 > at, (y, y + width), right, left, (at, at + 1.0), (at - 1.0, at))

    is_narrow = width * (1.0 + abs(k - _hazard(y + width / 2, xp))) < NARROW
    return xp.apply_where(is_narrow, (y, width), narrow, wide, (0.0, 1e-3), (0.0, 1.0))


def log_gamma(shape: int, name: str | None = None) -> Family:
    r"""Return the log-gamma family of a shape; register it to use it.

    With G gamma of shape k, :math:`z = \sqrt k\,(\log G - \log k)`, whose mean and variance are close to those of a
    standard normal, so that s means what it means for the log-normal. k = 1 is the Weibull, and k to infinity the
    log-normal; the family of the name "loggamma" has k = 4, half-way between them in :math:`1/\sqrt k`. Kappa is then
    generalized gamma. For a whole k the survival function is a finite sum, :math:`e^{-g}\sum_{j<k} g^j/j!` with
    :math:`g = k e^{z/\sqrt k}`.

    Parameters
    ----------
    shape
        k, a whole number from 1 (the Weibull) to 30 (nearly the log-normal).
    name
        Its name in settings and files; by default "loggamma" and the shape.

    Examples
    --------
    >>> log_gamma(2)
    <Family loggamma2>
    """
    k = whole("shape", shape, 1, LARGEST_SHAPE)
    root, center = np.sqrt(float(k)), np.log(float(k))
    return Family(
        name=f"loggamma{k}" if name is None else name,
        label=f"log-gamma ({k})" if name is None else "log-gamma",
        log_cdf=lambda z, xp: _gamma_cdf(k, z / root + center, xp),
        log_sf=lambda z, xp: _gamma_sf(k, z / root + center, xp),
        log_mass=lambda z, width, xp: _gamma_mass(k, z / root + center, width / root, xp),
        log_pdf=lambda z: _gamma_pdf(k, z / root + center, NUMPY) - np.log(root),
        score=lambda z: (k - _hazard(z / root + center, NUMPY)) / root,
        draw=lambda rng, shape: root * (np.log(rng.standard_gamma(k, shape)) - center),
        cdf=lambda z: special.gammainc(k, np.exp(np.minimum(z / root + center, FARTHEST))),
    )


LOGGAMMA = log_gamma(4, "loggamma")

OWN = {family.name: family for family in (LOGNORMAL, LOGLOGISTIC, WEIBULL, LOGGAMMA)}  # the library's own families
FAMILIES = dict(OWN)  # every family by its name, registered ones included
