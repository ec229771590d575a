"""Log kappa is logistic: heavier tails, so a window far out pulls less."""

from __future__ import annotations

import numpy as np
from scipy import special

from bayes_tacit.model.families.base import Family

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
"""Log kappa is logistic."""
