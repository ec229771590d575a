r"""Log-gamma: log kappa is the logarithm of a gamma variable, between the log-normal and the Weibull.

With G gamma of shape k, :math:`z = \sqrt k\,(\log G - \log k)`, whose mean and variance are close to those of a
standard normal, so that s means what it means for the log-normal. k = 1 is the Weibull, and k to infinity the
log-normal; the family of the name "loggamma" has k = 4, half-way between them in :math:`1/\sqrt k`. Kappa is then
generalized gamma. For a whole k the survival function is a finite sum, :math:`e^{-g}\sum_{j<k} g^j/j!` with
:math:`g = k e^{z/\sqrt k}`.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
from scipy import special

from bayes_tacit.model.families.base import Family
from bayes_tacit.model.families.weibull import FARTHEST, hazard
from bayes_tacit.model.numerics import NARROW, NUMPY, Array
from bayes_tacit.validate import whole

TERMS = 64
"""Terms of the series of the lower tail: up to g = k + 1 for k <= 30 what is left out is below 1e-16."""

LARGEST_SHAPE = 30


@dataclass(frozen=True)
class _LogGamma:
    """The formulas in y = log g, before z is scaled."""

    shape: int

    def log_sf(self, y: Array, xp: SimpleNamespace) -> Array:
        """Take the finite sum where it keeps its digits, and the other tail where nearly all mass lies above."""
        return xp.apply_where(
            y < np.log(self.shape),
            (y,),
            lambda y: xp.log1mexp(self._lower_tail(y, xp)),
            lambda y: self._upper_tail(y, xp),
            (np.log(self.shape) - 1.0,),
            (np.log(self.shape) + 1.0,),
        )

    def log_cdf(self, y: Array, xp: SimpleNamespace) -> Array:
        return xp.apply_where(
            y < np.log(self.shape + 1.0),
            (y,),
            lambda y: self._lower_tail(y, xp),
            lambda y: xp.log1mexp(self._upper_tail(y, xp)),
            (0.0,),
            (np.log(self.shape + 1.0),),
        )

    def log_mass(self, y: Array, width: Array, xp: SimpleNamespace) -> Array:
        """Integrate a narrow interval by the density's series around its midpoint; take a wide one's nearer tail."""
        middle = y + width / 2
        g = hazard(middle, xp)
        narrow = width * (1.0 + abs(self.shape - g)) < NARROW
        return xp.apply_where(
            narrow,
            (y, width),
            lambda y, width: self._narrow(y, width, xp),
            lambda y, width: self._wide(y, width, xp),
            (0.0, 1e-3),
            (0.0, 1.0),
        )

    def log_pdf(self, y: Array, xp: SimpleNamespace) -> Array:
        return self.shape * y - hazard(y, xp) - special.gammaln(self.shape)

    def _upper_tail(self, y: Array, xp: SimpleNamespace) -> Array:
        return -hazard(y, xp) + self._log_sum(y, xp)

    def _log_sum(self, y: Array, xp: SimpleNamespace) -> Array:
        """Log of the sum of g^j / j! over j < k, where no term overflows."""
        powers = np.arange(float(self.shape))
        top = (self.shape - 1) * xp.maximum(y, 0.0)
        terms = xp.exp(y[..., None] * powers - top[..., None])
        return top + xp.log(terms @ np.exp(-special.gammaln(powers + 1)))

    def _lower_tail(self, y: Array, xp: SimpleNamespace) -> Array:
        """Log of e^-g g^k / k! times 1 + g/(k+1) + g^2/((k+1)(k+2)) + ..., for g up to k + 1."""
        powers = np.arange(float(TERMS))
        coefficients = np.exp(special.gammaln(self.shape + 1.0) - special.gammaln(self.shape + 1 + powers))
        series = xp.exp(y[..., None] * powers) @ coefficients
        return self.shape * y - xp.exp(y) - special.gammaln(self.shape + 1.0) + xp.log(series)

    def _narrow(self, y: Array, width: Array, xp: SimpleNamespace) -> Array:
        middle = y + width / 2
        g = hazard(middle, xp)
        a = self.shape - g
        second = a * a - g
        fourth = a**4 - 6 * a * a * g + 3 * g * g - 4 * a * g - g
        correction = xp.log1p(second * width**2 / 24 + fourth * width**4 / 1920)
        return xp.log(width) + self.log_pdf(middle, xp) + correction

    def _wide(self, y: Array, width: Array, xp: SimpleNamespace) -> Array:
        upper = y + width
        return xp.apply_where(
            y + width / 2 > np.log(self.shape),
            (y, upper),
            lambda y, upper: self._right(y, upper, xp),
            lambda y, upper: self._left(y, upper, xp),
            (np.log(self.shape), np.log(self.shape) + 1.0),
            (np.log(self.shape) - 1.0, np.log(self.shape)),
        )

    def _right(self, y: Array, upper: Array, xp: SimpleNamespace) -> Array:
        rise = hazard(y + xp.log(xp.expm1(xp.minimum(upper - y, FARTHEST))), xp)
        ratio = self._log_sum(upper, xp) - self._log_sum(y, xp) - rise
        return self._upper_tail(y, xp) + xp.log1mexp(ratio)

    def _left(self, y: Array, upper: Array, xp: SimpleNamespace) -> Array:
        log_upper = self.log_cdf(upper, xp)
        return log_upper + xp.log1mexp(self.log_cdf(y, xp) - log_upper)


def log_gamma(shape: int, name: str | None = None) -> Family:
    """Make the family of a shape; register it to use it.

    Parameters
    ----------
    shape
        k, a whole number from 1 (the Weibull) to 30 (nearly the log-normal).
    name
        How it is called in settings and files; by default "loggamma" and the shape.

    Examples
    --------
    >>> log_gamma(2)
    <Family loggamma2>
    """
    k = whole("shape", shape, 1, LARGEST_SHAPE)
    formulas, root, center = _LogGamma(k), np.sqrt(float(k)), np.log(float(k))
    return Family(
        name=f"loggamma{k}" if name is None else name,
        label=f"log-gamma ({k})" if name is None else "log-gamma",
        log_cdf=lambda z, xp: formulas.log_cdf(z / root + center, xp),
        log_sf=lambda z, xp: formulas.log_sf(z / root + center, xp),
        log_mass=lambda z, width, xp: formulas.log_mass(z / root + center, width / root, xp),
        log_pdf=lambda z: formulas.log_pdf(z / root + center, NUMPY) - np.log(root),
        score=lambda z: (k - hazard(z / root + center, NUMPY)) / root,
        draw=lambda rng, shape: root * (np.log(rng.standard_gamma(k, shape)) - center),
        cdf=lambda z: special.gammainc(k, np.exp(np.minimum(z / root + center, FARTHEST))),
    )


LOGGAMMA = log_gamma(4, "loggamma")
"""Log kappa is log-gamma of shape 4."""
