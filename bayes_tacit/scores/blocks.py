"""Computing in blocks, so that what is held between input and result stays small whatever their size."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import xarray as xr

from bayes_tacit.scores.core import Draws, score
from bayes_tacit.scores.fitted import Fitted

BLOCK = 1 << 16
"""Numbers computed at a time: half a megabyte, which stays in a processor's cache."""

GROUP = 1 << 19
"""Numbers held at a time where all draws of a checkpoint are needed together."""

Kernel = Callable[..., np.ndarray]
"""Takes draws and rows of the inputs; gives an array (episode, ..., draw)."""


def incidence_kernel(fitted: Fitted) -> Kernel:
    """Compute pi from raw features: (episode, draw)."""
    return lambda draws, features: draws.incidence(fitted.standardize(features))


def risk_kernel(_: Fitted) -> Kernel:
    """Compute R from diagnostics: (episode, step, draw)."""
    return lambda draws, diagnostics: draws.cumulative_risk(diagnostics)


def score_kernel(fitted: Fitted) -> Kernel:
    """Compute q from raw features and diagnostics: (episode, step, draw)."""

    def compute(draws: Draws, features: np.ndarray, diagnostics: np.ndarray) -> np.ndarray:
        x = fitted.standardize(features)
        pi, location = draws.incidence(x)[:, None], draws.location(x)[:, None]
        return score(pi, location, draws.s, draws.cumulative_risk(diagnostics), draws.family)

    return compute


def computed(kernel: Kernel, draws: Draws, *inputs: np.ndarray, block: int = BLOCK) -> np.ndarray:
    """Apply a kernel block by block: (draw, episode, ...)."""
    n, steps = len(inputs[-1]), inputs[-1].shape[1:-1]
    out = np.empty((len(draws), n, *steps))
    for rows, some in _tiles(n, int(np.prod(steps)), len(draws), block):
        out[some, rows] = np.moveaxis(kernel(draws.take(some), *(array[rows] for array in inputs)), -1, 0)
    return out


def _tiles(n: int, steps: int, n_draws: int, block: int) -> Iterator[tuple[slice, slice]]:
    """Yield episodes and draws whose product with the steps is about the size of a block."""
    draws = max(1, min(n_draws, block // steps))
    episodes = max(1, block // (steps * draws))
    for rows in slices(n, episodes):
        for some in slices(n_draws, draws):
            yield rows, some


def slices(n: int, size: int) -> Iterator[slice]:
    """Cut a range of n into pieces of a size."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def groups(
    features: xr.DataArray, diagnostics: xr.DataArray, n_steps: np.ndarray, size: int
) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Yield runs of episodes with their features and diagnostics, up to the longest of them.

    Chunks of Dask are read once each.
    """
    stops = np.cumsum(diagnostics.chunksizes.get("episode", (len(n_steps),))).tolist()
    for start, stop in zip([0, *stops[:-1]], stops, strict=True):
        chunk = slice(start, stop)
        raw, u = features[chunk].values, diagnostics[chunk].values
        for piece in slices(stop - start, size):
            rows = slice(start + piece.start, start + piece.stop)
            yield rows, raw[piece], u[piece, : int(n_steps[rows].max())]
