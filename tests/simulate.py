"""Small simulated data for the tests, independent of the library's own code paths."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import xarray as xr
from scipy import special

from bayes_tacit import Episodes
from bayes_tacit.errors import TacitWarning

TRUTH = {
    "w": np.array([0.4, 0.3, 0.2, 0.1]),
    "gamma0": 0.3,
    "gamma": np.array([0.5, -0.4, 0.2]),
    "beta0": 0.6,
    "beta": np.array([0.2, -0.3, 0.1]),
    "s": 0.5,
}


def simulate_model(
    rng: np.random.Generator,
    n: int,
    *,
    n_diagnostics: int = 4,
    horizon: int = 12,
    unmarked: float = 0.0,
    widest: int = 0,
    memory: float = 1.0,
) -> Episodes:
    """Draw n episodes of at most `horizon` steps, with windows up to `widest` steps around the crossing."""
    w = TRUTH["w"][:n_diagnostics] / TRUTH["w"][:n_diagnostics].sum()
    x = rng.normal(size=(n, 3))
    n_steps = rng.integers(horizon // 2, horizon + 1, size=n)
    diagnostics = rng.gamma(0.5, 1.0, size=(n, horizon, n_diagnostics))
    diagnostics *= rng.random(diagnostics.shape) < 0.7
    strong = rng.random(n) < special.expit(TRUTH["gamma0"] + x @ TRUTH["gamma"])
    kappa = np.exp(TRUTH["beta0"] + x @ TRUTH["beta"] + TRUTH["s"] * rng.normal(size=n))
    risk = np.cumsum(diagnostics @ w, axis=1) if memory == 1 else leaky_peaks(diagnostics, memory) @ w
    crossing = (risk < kappa[:, None]).sum(axis=1)
    crossed = crossing < n_steps
    cheap = np.where(strong, ~crossed, rng.random(n) < 0.4)
    marked = strong & crossed & (rng.random(n) >= unmarked)
    start = np.maximum(crossing - rng.integers(0, widest + 1, size=n), 0)
    end = np.minimum(crossing + rng.integers(0, widest + 1, size=n), n_steps - 1)
    tasks = pd.DataFrame(
        {
            "episode": np.arange(n),
            "cheap_success": cheap,
            "strong_success": strong,
            "window_start": np.where(marked, start, np.nan),
            "window_end": np.where(marked, end, np.nan),
            **{f"x{j}": x[:, j] for j in range(3)},
        }
    )
    episode, step = np.nonzero(np.arange(horizon) < n_steps[:, None])
    steps = pd.DataFrame(diagnostics[episode, step], columns=[f"u{j}" for j in range(n_diagnostics)])
    return Episodes.from_frames(tasks, steps.assign(episode=episode, step=step))


def leaky_peaks(diagnostics: np.ndarray, memory: float) -> np.ndarray:
    """Take the largest of all leaky sums so far, each summed anew from its definition."""
    out = np.empty(diagnostics.shape)
    for t in range(diagnostics.shape[1]):
        leaky = sum(memory ** (t - s) * diagnostics[:, s] for s in range(t + 1))
        out[:, t] = leaky if t == 0 else np.maximum(out[:, t - 1], leaky)
    return out


def quietly(dataset: xr.Dataset) -> Episodes:
    """Make episodes without being told what is odd about them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        return Episodes(dataset)
