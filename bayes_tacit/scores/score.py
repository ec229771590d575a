"""q(t), R(t) and pi of episodes as labelled arrays, computed in blocks: what is held beside the result stays small."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import starmap
from typing import Any

import numpy as np
import xarray as xr

from bayes_tacit import validate
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.estimates.map_fit import MapFit
from bayes_tacit.scores.core import Draws, score
from bayes_tacit.scores.fitted import DRAWS, Fitted, as_draws, sample_coords

RESULT_LIMIT = 2 << 30  # bytes of the largest result that is computed into memory
CHUNK_LIMIT = 128 << 20  # bytes of the largest chunk that Dask computes at a time
BLOCK = 1 << 16  # numbers computed at a time: half a megabyte, which stays in a processor's cache
GROUP = 1 << 19  # numbers held at a time where all draws of a checkpoint are needed together

ENOUGH = 1 << 19
"""Scores from which on it pays to load compiled code and to work in threads; they differ in their last digit then."""

Kernel = Callable[..., np.ndarray]  # takes draws and rows of the inputs; gives an array (episode, ..., draw)


def handoff_score(fit_or_tree: MapFit | xr.DataTree, episodes: Episodes) -> xr.DataArray:
    r"""Compute the handoff score at every checkpoint.

    .. math:: q_i(t) = \pi_i F\left(\frac{\log R_i(t) - \mu_i}{s}\right)

    is the probability that Strong succeeds and that the threshold has been crossed by step t. It never decreases along
    an episode and is at most pi.

    Parameters
    ----------
    fit_or_tree
        A `MapFit`, or a posterior as `sample_posterior` gives it.
    episodes
        Episodes with the features and diagnostics of the fit, in any order. Features are standardized with the fit's
        mean and scale.

    Returns
    -------
    xarray.DataArray
        Dims (episode, step) for a fit and (chain, draw, episode, step) for a posterior; NaN past the end of an
        episode. Where Dask backs the episodes the result is computed when needed. A result of more than 2 GiB is
        refused: `credible_band` summarizes any number of episodes.

    Examples
    --------
    >>> from bayes_tacit import fit_map, handoff_score, load_example
    >>> episodes = load_example()
    >>> q = handoff_score(fit_map(episodes), episodes)
    >>> q.sel(episode="task-0001").values[8:12].round(2)
    array([0.32, 0.49, 0.52, 0.63])
    """
    fitted = as_draws(fit_or_tree)
    features, diagnostics = fitted.columns_of(episodes)
    kernel = score_kernel(fitted, diagnostics.shape[0] * diagnostics.shape[1] * len(fitted.draws))
    q = _labelled(kernel, fitted, sample_coords(fit_or_tree), "handoff_score", features, diagnostics)
    return q.assign_attrs(long_name="handoff score q(t)")


def cumulative_risk(fit_or_tree: MapFit | xr.DataTree, episodes: Episodes) -> xr.DataArray:
    r"""Compute the cumulative risk at every checkpoint, :math:`R_i(t) = \sum_{v \le t} w^\top u_i(v)`.

    Where the fit has a memory below 1, it is the weighted sum of the peaks of leaky sums (`bayes_tacit.model.memory`).
    Parameters and dims are those of `handoff_score`.

    Examples
    --------
    >>> from bayes_tacit import cumulative_risk, fit_map, load_example
    >>> episodes = load_example()
    >>> cumulative_risk(fit_map(episodes), episodes).sel(episode="task-0001").values[8:12].round(2)
    array([1.19, 1.63, 1.74, 2.46])
    """
    fitted = as_draws(fit_or_tree)
    _, diagnostics = fitted.columns_of(episodes)
    risk = _labelled(Draws.cumulative_risk, fitted, sample_coords(fit_or_tree), "cumulative_risk", diagnostics)
    return risk.assign_attrs(long_name="cumulative risk R(t)")


def incidence(fit_or_tree: MapFit | xr.DataTree, episodes: Episodes) -> xr.DataArray:
    r"""Compute the probability that Strong succeeds, :math:`\pi_i = \operatorname{sigmoid}(\gamma_0 + x_i\gamma)`.

    Parameters are those of `handoff_score`; dims are (episode), or (chain, draw, episode) for a posterior.

    Examples
    --------
    >>> from bayes_tacit import fit_map, incidence, load_example
    >>> episodes = load_example()
    >>> incidence(fit_map(episodes), episodes).values[:3].round(2)
    array([0.75, 0.69, 0.78])
    """
    fitted = as_draws(fit_or_tree)
    features, _ = fitted.columns_of(episodes)

    def compute(draws: Draws, raw: np.ndarray) -> np.ndarray:
        return draws.incidence(fitted.standardize(raw))

    pi = _labelled(compute, fitted, sample_coords(fit_or_tree), "incidence", features)
    return pi.assign_attrs(long_name="incidence pi")


def decisive_scores(
    estimate: MapFit | xr.DataTree | Fitted, episodes: Episodes, rule: str | float = "mean", *, draws: int = DRAWS
) -> xr.DataArray:
    """Return the score that a router compares with alpha, before there is an alpha: what alpha is to be chosen with.

    Memory stays bounded, whatever the number of episodes and draws.

    Parameters
    ----------
    estimate
        A `MapFit`, a posterior as `sample_posterior` gives it, or what was read from one already.
    episodes
        As for `handoff_score`.
    rule
        For a posterior, "mean" or the probability of a quantile, as `Router.from_posterior` takes it.
    draws
        How many draws of a posterior are used at most, at even distances: those that the router keeps.

    Returns
    -------
    xarray.DataArray
        (episode, step), NaN past the end of an episode.

    Examples
    --------
    >>> from bayes_tacit import decisive_scores, fit_map, load_example
    >>> episodes = load_example()
    >>> decisive_scores(fit_map(episodes), episodes).sel(episode="task-0001").values[8:12].round(2)
    array([0.32, 0.49, 0.52, 0.63])
    """
    fitted, rule = as_draws(estimate).thinned(draws), validate.rule("rule", rule)

    def decides(q: np.ndarray) -> tuple[np.ndarray]:
        if len(fitted.draws) == 1:
            return (q[..., 0],)
        return (q.mean(axis=-1) if isinstance(rule, str) else np.quantile(q, rule, axis=-1),)

    found = summarized(fitted, episodes, decides, ("score",))["score"]
    return found.assign_attrs(long_name="score that is compared with alpha")


def summarized(
    fitted: Fitted,
    episodes: Episodes,
    summarize: Callable[[np.ndarray], tuple[np.ndarray, ...]],
    names: tuple[str, ...],
    advance: Callable[[int], object] = int,
) -> xr.Dataset:
    """Summarize all draws of each checkpoint's score, never holding those of many episodes.

    `summarize` takes scores (episode, step, draw), which it may change, and returns one array (episode, step) a name.
    `advance` is called with how many episodes are done. Chunks of Dask are read once each.
    """
    features, diagnostics = fitted.columns_of(episodes)
    n_steps, n_draws = episodes.n_steps, len(fitted.draws)
    kernel = score_kernel(fitted, diagnostics.shape[0] * diagnostics.shape[1] * n_draws)
    out = {name: np.full(diagnostics.shape[:2], np.nan) for name in names}
    stops = np.cumsum(diagnostics.chunksizes.get("episode", (len(n_steps),))).tolist()

    def pieces() -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        for start, stop in zip([0, *stops[:-1]], stops, strict=True):
            raw, u = features[start:stop].values, diagnostics[start:stop].values
            for piece in slices(stop - start, max(1, GROUP // (episodes.horizon * n_draws))):
                rows = slice(start + piece.start, start + piece.stop)
                yield rows, raw[piece], u[piece, : int(n_steps[rows].max())]

    def fill(rows: slice, raw: np.ndarray, u: np.ndarray) -> int:
        for array, values in zip(out.values(), summarize(kernel(fitted.draws, raw, u)), strict=True):
            array[rows, : u.shape[1]] = values
        return rows.stop - rows.start

    for done in in_threads(fill, pieces()):
        advance(done)
    coords = {dim: diagnostics[dim] for dim in ("episode", "step")}
    return xr.Dataset({name: (("episode", "step"), values) for name, values in out.items()}, coords=coords)


def _labelled(
    kernel: Kernel, fitted: Fitted, sample: dict[str, np.ndarray], name: str, *inputs: xr.DataArray
) -> xr.DataArray:
    """Compute a quantity of episodes, now or, where Dask backs them, later."""
    steps = ["step"] if "step" in inputs[-1].dims else []
    sizes = {dim: len(coord) for dim, coord in sample.items()} | {dim: inputs[-1].sizes[dim] for dim in steps}
    row_bytes = 8 * int(np.prod(list(sizes.values())))
    if any(array.chunks is not None for array in inputs):
        inputs = _rechunked(inputs, max(1, CHUNK_LIMIT // row_bytes))
    else:
        _refuse_too_large(name, len(fitted.draws), inputs[-1], row_bytes)
    out = xr.apply_ufunc(
        partial(_rows, kernel, fitted.draws, tuple(len(coord) for coord in sample.values())),
        *inputs,
        input_core_dims=[list(array.dims[1:]) for array in inputs],
        output_core_dims=[[*sample, *steps]],
        dask="parallelized",
        dask_gufunc_kwargs={"output_sizes": sizes},
        output_dtypes=[float],
    )
    out = out.transpose(*sample, "episode", *steps)
    return out.assign_coords({**sample, **{dim: inputs[-1][dim] for dim in steps}}).rename(name)


def _rows(kernel: Kernel, draws: Draws, sample: tuple[int, ...], *inputs: np.ndarray) -> np.ndarray:
    """Compute (episode, chain, draw, step), or (episode, step) for a point estimate."""
    by_episode = np.moveaxis(computed(kernel, draws, *inputs), 0, 1)
    return by_episode.reshape(by_episode.shape[0], *sample, *by_episode.shape[2:])


def _rechunked(inputs: tuple[xr.DataArray, ...], most: int) -> tuple[xr.DataArray, ...]:
    """Cut along episodes only, in chunks no larger than they are and no larger than `most`."""
    size = min(most, max(max(array.chunksizes.get("episode", (1,))) for array in inputs))
    # Dask divides by the length of each axis, so where there are no features it gets a column that nobody reads.
    filled = (
        array
        if array.size
        else xr.DataArray(np.zeros((len(array), 1)), dims=array.dims, coords={"episode": array["episode"]})
        for array in inputs
    )
    return tuple(array.chunk({"episode": size, **dict.fromkeys(array.dims[1:], -1)}) for array in filled)


def _refuse_too_large(name: str, n_draws: int, array: xr.DataArray, row_bytes: int) -> None:
    total = row_bytes * array.sizes["episode"]
    if total <= RESULT_LIMIT:
        return
    shape = f"{n_draws:,} draws of {array.sizes['episode']:,} episodes of {array.sizes.get('step', 1):,} steps"
    raise InvalidDataError(
        f"at most {RESULT_LIMIT / 2**30:g} GiB: use credible_band or crossing_probability, which need no such array, "
        "thin the draws with tree.isel(draw=slice(None, None, 10)), or have Dask compute it in chunks with "
        "Episodes.read(path, chunks={'episode': 1000})",
        field=f"{name} for {shape}",
        value=f"{total / 2**30:.1f} GiB",
    )


# Blocks.


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
            scale = part.s if part.delta is None else part.scale(x)[:, None]
            q[..., some] = score(pi, location, scale, part.cumulative_risk(diagnostics), part.family)
        return q

    return compute


def computed(kernel: Kernel, draws: Draws, *inputs: np.ndarray, block: int = BLOCK) -> np.ndarray:
    """Apply a kernel block by block, tiles of episodes and draws: (draw, episode, ...)."""
    n, steps = len(inputs[-1]), inputs[-1].shape[1:-1]
    out = np.empty((len(draws), n, *steps))
    horizon = int(np.prod(steps))
    width = max(1, min(len(draws), block // horizon))
    rows_at_once = max(1, block // (horizon * width))

    def fill(rows: slice, some: slice) -> None:
        out[some, rows] = np.moveaxis(kernel(draws.take(some), *(array[rows] for array in inputs)), -1, 0)

    tiles = ((rows, some) for rows in slices(n, rows_at_once) for some in slices(len(draws), width))
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


def slices(n: int, size: int) -> Iterator[slice]:
    """Cut a range of n into pieces of a size."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
