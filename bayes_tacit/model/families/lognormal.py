"""The paper's family: log kappa is normal."""

from __future__ import annotations

from scipy import special

from bayes_tacit.model.families.base import Family
from bayes_tacit.model.numerics import LOG_SQRT_2PI, log_interval_mass

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
"""Log kappa is normal."""
