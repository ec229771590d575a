"""The paper's objective, transcribed from its formulas in plain NumPy, episode by episode.

It shares no code with the library: it reads the raw arrays, accumulates risk over every step, and takes differences of
distribution functions as the paper writes them. It also takes complex parameters, so that the complex step gives its
gradient without rounding: f'(x) = Im f(x + ih) / h.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import special

from bayes_tacit import Episodes


def paper_objective(
    episodes: Episodes,
    *,
    w: np.ndarray,
    gamma0: complex,
    gamma: np.ndarray,
    beta0: complex,
    beta: np.ndarray,
    s: complex,
    ridge: float,
    floor: float = 1e-12,
) -> complex:
    data = episodes.dataset
    raw = data["features"].values
    x = (raw - raw.mean(axis=0)) / raw.std(axis=0)
    total = 0.0 + 0.0j
    for i in range(len(episodes)):
        risk = np.cumsum(data["diagnostics"].values[i, : int(data["n_steps"][i])] @ w)
        pi = 1 / (1 + np.exp(-(gamma0 + x[i] @ gamma)))
        location = beta0 + x[i] @ beta

        def cdf(r: complex, location: complex = location) -> complex:
            return special.ndtr((np.log(r) - location) / s) if r.real > 0 else 0.0

        cheap, strong = bool(data["cheap_success"][i]), bool(data["strong_success"][i])
        a, b = float(data["window_start"][i]), float(data["window_end"][i])
        if not strong:
            likelihood = 1 - pi
        elif cheap:
            likelihood = pi * (1 - cdf(risk[-1]))
        elif np.isnan(a):
            likelihood = pi
        else:
            before = risk[int(a) - 1] if a > 0 else 0.0
            likelihood = pi * floored(cdf(risk[int(b)]) - cdf(np.asarray(before)), floor)
        total += np.log(floored(likelihood, floor))
    return -total / len(episodes) + ridge * (gamma @ gamma + beta @ beta)


def floored(value: complex, floor: float) -> complex:
    return value if value.real > floor else floor


def complex_step(function: Callable[[np.ndarray], complex], at: np.ndarray) -> np.ndarray:
    """Gradient of a function that takes complex arguments."""
    step = 1e-30
    return np.array([function(at + 1j * step * unit).imag / step for unit in np.eye(len(at))])
