"""Threshold families: what distribution the logarithm of the handoff threshold has around its location.

A family is given by the standard distribution of z = (log kappa - location) / s. Its formulas are written over an array
namespace, so that the optimizer, the PyMC model and the router share them. Only NumPy and `scipy.special` are imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
from scipy import special

from bayes_tacit.model.numerics import LOG_SQRT_2PI, Array, log_interval_mass
from bayes_tacit.validate import choice


@dataclass(frozen=True)
class Family:
    """A log-location-scale distribution of the threshold.

    Attributes
    ----------
    name
        How it is called in settings and files.
    label
        How it is called in reports.
    log_cdf, log_sf
        Log probability below and above z; they take z and an array namespace.
    log_mass
        Log probability of (z, z + width]; it takes z, the width and an array namespace.
    cdf
        Probability below z, for NumPy arrays.
    log_pdf, score
        Log density and its derivative, for NumPy arrays.
    draw
        Standard draws from a generator, of a given shape.
    """

    name: str
    label: str
    log_cdf: Callable[[Array, SimpleNamespace], Array]
    log_sf: Callable[[Array, SimpleNamespace], Array]
    log_mass: Callable[[Array, Array, SimpleNamespace], Array]
    cdf: Callable[[np.ndarray], np.ndarray]
    log_pdf: Callable[[np.ndarray], np.ndarray]
    score: Callable[[np.ndarray], np.ndarray]
    draw: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]

    def __repr__(self) -> str:
        return f"<Family {self.name}>"


LOGNORMAL = Family(
    name="lognormal",
    label="log-normal",
    log_cdf=lambda z, xp: xp.log_ndtr(z),
    log_sf=lambda z, xp: xp.log_ndtr(-z),
    log_mass=log_interval_mass,
    cdf=special.ndtr,
    log_pdf=lambda z: -0.5 * z * z - LOG_SQRT_2PI,
    score=lambda z: -z,
    draw=lambda rng, shape: rng.standard_normal(shape),
)
"""The paper's family: log kappa is normal."""

LOGLOGISTIC = Family(
    name="loglogistic",
    label="log-logistic",
    log_cdf=lambda z, xp: -xp.softplus(-z),
    log_sf=lambda z, xp: -xp.softplus(z),
    # sigmoid(b) - sigmoid(a) = sigmoid(b) sigmoid(-a) (1 - exp(a - b)), every factor of which is stable.
    log_mass=lambda z, width, xp: -xp.softplus(-z - width) - xp.softplus(z) + xp.log1mexp(-width),
    cdf=special.expit,
    log_pdf=lambda z: special.log_expit(z) + special.log_expit(-z),
    score=lambda z: -np.tanh(z / 2),
    draw=lambda rng, shape: rng.logistic(size=shape),
)
"""Log kappa is logistic: heavier tails, so a window far out pulls less."""

FAMILIES = {family.name: family for family in (LOGNORMAL, LOGLOGISTIC)}


def family_named(name: object) -> Family:
    """Look a family up.

    Examples
    --------
    >>> family_named("loglogistic").label
    'log-logistic'
    """
    return FAMILIES[choice("family", name, FAMILIES)]
