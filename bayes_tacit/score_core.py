"""The arithmetic of the handoff score, on NumPy arrays; what `scores` and `deployment` share.

With draws s of the parameters, tasks with standardized features x and cumulative diagnostics U(t),

    pi = sigmoid(gamma0 + x gamma),   mu = beta0 + x beta,   R(t) = w U(t),   q(t) = pi F((log R(t) - mu) / s).

Only NumPy and `scipy.special` are imported.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from bayes_tacit.families import Family


@dataclass(frozen=True)
class Draws:
    """Parameters with a leading axis of draws; a point estimate has one.

    Attributes
    ----------
    w
        (draw, diagnostic), each row on the simplex.
    gamma0, beta0, s
        (draw,).
    gamma, beta
        (draw, feature), on standardized features.
    family
        Distribution of the threshold.
    """

    w: np.ndarray
    gamma0: np.ndarray
    gamma: np.ndarray
    beta0: np.ndarray
    beta: np.ndarray
    s: np.ndarray
    family: Family

    def __len__(self) -> int:
        return len(self.s)

    def incidence(self, x: np.ndarray) -> np.ndarray:
        """Give pi for standardized features (..., feature): (draw, ...)."""
        return special.expit(_linear(self.gamma0, self.gamma, x))

    def location(self, x: np.ndarray) -> np.ndarray:
        """Give mu for standardized features (..., feature): (draw, ...)."""
        return _linear(self.beta0, self.beta, x)


def _linear(intercept: np.ndarray, slopes: np.ndarray, x: np.ndarray) -> np.ndarray:
    product = np.tensordot(slopes, x, axes=(1, -1))
    return intercept.reshape(-1, *[1] * (product.ndim - 1)) + product


def score(pi: np.ndarray, location: np.ndarray, scale: np.ndarray, risk: np.ndarray, family: Family) -> np.ndarray:
    """Give q for cumulative risks; all arguments broadcast. At zero risk it is zero, and NaN stays NaN.

    Examples
    --------
    >>> from bayes_tacit.families import LOGNORMAL
    >>> score(np.float64(0.8), np.float64(0.0), np.float64(0.5), np.array([0.0, 1.0, 1e9]), LOGNORMAL)
    array([0. , 0.4, 0.8])
    """
    with np.errstate(divide="ignore"):
        z = np.log(risk)
    z = np.subtract(z, location, out=z if z.shape == np.broadcast(z, location).shape else None)
    np.divide(z, scale, out=z)
    return pi * family.cdf(z)
