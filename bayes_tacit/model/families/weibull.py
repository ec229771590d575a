r"""Weibull: kappa has the survival function :math:`\exp\{-(\kappa/e^\mu)^{1/s}\}`.

The standardized logarithm has the density of the smallest extreme value, :math:`e^{z - e^z}`: more thresholds lie far
below the typical one than far above it. exp(location) is the threshold that 63% of the tasks have crossed.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from bayes_tacit.model.families.base import Family
from bayes_tacit.model.numerics import Array

FARTHEST = 300.0
"""Beyond it exp(z) goes on along its tangent: its square would leave what double precision holds."""

TINY = 1e-4
"""Below it log(1 - exp(-x)) is log x - x/2 + x^2/24, with an error below 1e-18."""


def hazard(z: Array, xp: SimpleNamespace) -> Array:
    """Give exp(z), the cumulative hazard, with finite values and gradients however large z is.

    Examples
    --------
    >>> from bayes_tacit.model.numerics import NUMPY
    >>> hazard(np.array([0.0, 1e9]), NUMPY) < 1e140
    array([ True,  True])
    """
    return xp.exp(xp.minimum(z, FARTHEST)) * (1.0 + xp.maximum(z - FARTHEST, 0.0))


def log_one_minus_exp(log_x: Array, x: Array, xp: SimpleNamespace) -> Array:
    """Give log(1 - exp(-x)), also where x itself is too small for a number and only its logarithm is known."""
    return xp.apply_where(
        x < TINY,
        (log_x, x),
        lambda log_x, x: log_x - x / 2 + x * x / 24,
        lambda log_x, x: xp.log1mexp(-x),  # noqa: ARG005
        (0.0, 0.0),
        (0.0, 1.0),
    )


def _log_cdf(z: Array, xp: SimpleNamespace) -> Array:
    return log_one_minus_exp(z, hazard(z, xp), xp)


def _log_mass(z: Array, width: Array, xp: SimpleNamespace) -> Array:
    # exp(-a) - exp(-b) = exp(-a) (1 - exp(-(b - a))), and the difference of the hazards is exp(z) expm1(width).
    log_rise = z + xp.log(xp.expm1(xp.minimum(width, FARTHEST)))
    return -hazard(z, xp) + log_one_minus_exp(log_rise, hazard(log_rise, xp), xp)


WEIBULL = Family(
    name="weibull",
    label="Weibull",
    log_cdf=_log_cdf,
    log_sf=lambda z, xp: -hazard(z, xp),
    log_mass=_log_mass,
    log_pdf=lambda z: z - np.exp(np.minimum(z, FARTHEST)),
    score=lambda z: -np.expm1(np.minimum(z, FARTHEST)),
    draw=lambda rng, shape: np.log(rng.standard_exponential(shape)),
    cdf=lambda z: -np.expm1(-np.exp(np.minimum(z, FARTHEST))),
)
"""Kappa is Weibull."""
