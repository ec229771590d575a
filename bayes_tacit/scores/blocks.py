"""Computing in blocks, so that what is held between input and result stays small whatever their size."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import starmap
from typing import Any

import numpy as np
import xarray as xr

from bayes_tacit.scores.core import Draws, score
from bayes_tacit.scores.fitted import Fitted

BLOCK = 1 << 16
"""Numbers computed at a time: half a megabyte, which stays in a processor's cache."""

GROUP = 1 << 19
"""Numbers held at a time where all draws of a checkpoint are needed together."""

ENOUGH = 1 << 19
"""Scores from which on it pays to load compiled code and to work in threads; they differ in their last digit then."""

Kernel = Callable[..., np.ndarray]
"""Takes draws and rows of the inputs; gives an array (episode, ..., draw)."""


def incidence_kernel(fitted: Fitted) -> Kernel:
    """Compute pi from raw features: (episode, draw)."""
    return lambda draws, features: draws.incidence(fitted.standardize(features))


def risk_kernel(_: Fitted) -> Kernel:
    """Compute R from diagnostics: (episode, step, draw)."""
    return lambda draws, diagnostics: draws.cumulative_risk(diagnostics)


def score_kernel(fitted: Fitted, size: int = 0) -> Kernel:
    """Compute q from raw features and diagnostics: (episode, step, draw); by compiled code if so many are enough."""
    if size >= ENOUGH:
        from bayes_tacit.scores.kernels import compiled_scores, compiles

        if compiles(fitted.draws):
            return lambda draws, features, diagnostics: compiled_scores(
                draws, fitted.standardize(features), diagnostics
            )

    def compute(draws: Draws, features: np.ndarray, diagnostics: np.ndarray) -> np.ndarray:
        x = fitted.standardize(features)
        q = np.empty((*diagnostics.shape[:2], len(draws)))
        for some in slices(len(draws), max(1, BLOCK // (q.shape[0] * q.shape[1]))):
            part = draws.take(some)
            pi, location = part.incidence(x)[:, None], part.location(x)[:, None]
            q[..., some] = score(pi, location, part.s, part.cumulative_risk(diagnostics), part.family)
        return q

    return compute


def computed(kernel: Kernel, draws: Draws, *inputs: np.ndarray, block: int = BLOCK) -> np.ndarray:
    """Apply a kernel block by block: (draw, episode, ...)."""
    n, steps = len(inputs[-1]), inputs[-1].shape[1:-1]
    out = np.empty((len(draws), n, *steps))

    def fill(rows: slice, some: slice) -> None:
        out[some, rows] = np.moveaxis(kernel(draws.take(some), *(array[rows] for array in inputs)), -1, 0)

    tiles = _tiles(n, int(np.prod(steps)), len(draws), block)
    for _ in in_threads(fill, tiles) if out.size >= ENOUGH else starmap(fill, tiles):
        pass
    return out


def in_threads[R](work: Callable[..., R], pieces: Iterable[tuple[Any, ...]]) -> Iterator[R]:
    """Yield what comes of each piece, in order, while a few that follow are worked on."""
    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    waiting: deque[Future[R]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for piece in pieces:
            waiting.append(pool.submit(work, *piece))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


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
