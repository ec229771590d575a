"""The arithmetic of the handoff score, on NumPy arrays; what `scores` and `router` share.

With draws of the parameters, a task with standardized features x and diagnostics u(t),

    pi = sigmoid(gamma0 + x gamma),   mu = beta0 + x beta,   R(t) = R(t-1) + w u(t),   q(t) = pi F((log R(t) - mu) / s).

With a memory below 1, R(t) = w P(t) with P the peaks of the leaky sums (`bayes_tacit.model.memory`).

The axis of draws is the last one of every result. Sums over features and over diagnostics are taken one term after the
other, so that a score is the same, bit for bit, whatever else is computed with it. Only NumPy and `scipy.special` are
imported.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from bayes_tacit.model.families import Family
from bayes_tacit.model.memory import peaks, rates, with_clock

PARAMETERS = ("w", "gamma0", "gamma", "beta0", "beta", "s")  # names of the parameters that have draws


@dataclass(frozen=True)
class Draws:
    """Parameters with a leading axis of draws, of which a point estimate has one.

    `w` is (draw, diagnostic), `gamma` and `beta` are (draw, feature) on standardized features, all else is (draw,). The
    memory is one number for all draws, or (draw,). Under a clock the last weight is the clock's, which is not among
    the diagnostics. `delta` is (draw, feature) where the spread of thresholds is s exp(x delta).
    """

    w: np.ndarray
    gamma0: np.ndarray
    gamma: np.ndarray
    beta0: np.ndarray
    beta: np.ndarray
    s: np.ndarray
    family: Family
    memory: float | np.ndarray = 1.0
    clock: bool = False
    delta: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.s)

    def take(self, some: slice | np.ndarray) -> Draws:
        """Return some of the draws."""
        arrays: dict[str, Any] = {
            name: value[some] for name, value in vars(self).items() if isinstance(value, np.ndarray)
        }
        return replace(self, **arrays)

    def thinned(self, most: int) -> Draws:
        """Return at most so many draws, at even distances."""
        return self if most >= len(self) else self.take(np.arange(most) * len(self) // most)

    def incidence(self, x: np.ndarray) -> np.ndarray:
        """Return pi for standardized features (..., feature): (..., draw)."""
        return special.expit(self.gamma0 + _weighted_sum(x, self.gamma))

    def location(self, x: np.ndarray) -> np.ndarray:
        """Return mu for standardized features (..., feature): (..., draw)."""
        return self.beta0 + _weighted_sum(x, self.beta)

    def scale(self, x: np.ndarray) -> np.ndarray:
        """Return s for standardized features (..., feature): (..., draw), or (draw,) where it is the same for all."""
        return self.s if self.delta is None else self.s * np.exp(_weighted_sum(x, self.delta))

    def risk(self, diagnostics: np.ndarray) -> np.ndarray:
        """Return w u, which is what each checkpoint adds to R if nothing is forgotten: (..., draw)."""
        return _weighted_sum(diagnostics, self.w)

    def cumulative_risk(self, diagnostics: np.ndarray) -> np.ndarray:
        """Return R for the diagnostics of whole episodes (episode, step, diagnostic): (episode, step, draw)."""
        u = with_clock(diagnostics) if self.clock else diagnostics
        if isinstance(self.memory, np.ndarray):
            return self._risk_by_draw(u, self.memory)
        if self.memory == 1:
            return cumulate(self.risk(u))
        return _weighted_sum(peaks(u, rates(self.memory, u.shape[-1], clock=self.clock)), self.w)

    def _risk_by_draw(self, u: np.ndarray, memory: np.ndarray) -> np.ndarray:
        out = np.zeros((*u.shape[:2], len(self)))
        for j in range(u.shape[-1]):
            rho = 1.0 if self.clock and j == u.shape[-1] - 1 else memory
            level = np.zeros((len(u), len(self)))
            peak = level.copy()
            for t in range(u.shape[1]):
                level = rho * level + u[:, t, j, None]
                np.maximum(peak, level, out=peak)
                out[:, t] += self.w[:, j] * peak
        return out


def _weighted_sum(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Sum (..., k) values with (draw, k) weights, term by term: (..., draw)."""
    by_term = np.ascontiguousarray(weights.T)
    if not len(by_term):
        return np.zeros((*values.shape[:-1], len(weights)))
    total = values[..., 0, None] * by_term[0]
    for j in range(1, len(by_term)):
        total += values[..., j, None] * by_term[j]
    return total


def cumulate(increments: np.ndarray) -> np.ndarray:
    """Turn (episode, step, draw) increments into R, in place."""
    episodes, steps, draws = increments.shape
    # The sums are the same either way; the loop that NumPy runs inside should be the longer one.
    if episodes * draws < steps:
        return np.cumsum(increments, axis=1, out=increments)
    for t in range(1, steps):
        np.add(increments[:, t - 1], increments[:, t], out=increments[:, t])
    return increments


def score(
    pi: np.ndarray | float, location: np.ndarray | float, scale: np.ndarray | float, risk: np.ndarray, family: Family
) -> np.ndarray:
    """Return q for cumulative risks; the other arguments broadcast to them. Zero risk gives zero, and NaN stays NaN.

    Examples
    --------
    >>> from bayes_tacit.model.families import LOGNORMAL
    >>> score(0.8, 0.0, 0.5, np.array([0.0, 1.0, 1e9]), LOGNORMAL)
    array([0. , 0.4, 0.8])
    """
    z = np.empty(np.shape(risk))
    with np.errstate(divide="ignore", over="ignore"):
        np.log(risk, out=z)
        np.subtract(z, location, out=z)
        np.divide(z, scale, out=z)
    q = family.cdf(z)
    return np.multiply(pi, q, out=q)
