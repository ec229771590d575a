"""q(t), R(t) and pi of episodes as labelled arrays."""

from __future__ import annotations

from functools import partial

import numpy as np
import xarray as xr

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.estimates.map_fit import MapFit
from bayes_tacit.scores.blocks import Kernel, computed, incidence_kernel, risk_kernel, score_kernel
from bayes_tacit.scores.core import Draws
from bayes_tacit.scores.fitted import Fitted
from bayes_tacit.scores.sources import as_draws, sample_coords

RESULT_LIMIT = 2 << 30
"""Bytes of the largest result that is computed into memory."""

CHUNK_LIMIT = 128 << 20
"""Bytes of the largest chunk that Dask computes at a time."""


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
        episode. Where Dask backs the episodes the result is computed when needed.

    Raises
    ------
    InvalidDataError
        If the names differ from the fit's, or if the result would take more than 2 GiB of memory.

    See Also
    --------
    credible_band : summaries over the draws, for any number of episodes.

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
    risk = _labelled(risk_kernel(fitted), fitted, sample_coords(fit_or_tree), "cumulative_risk", diagnostics)
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
    pi = _labelled(incidence_kernel(fitted), fitted, sample_coords(fit_or_tree), "incidence", features)
    return pi.assign_attrs(long_name="incidence pi")


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
    by_draw = computed(kernel, draws, *inputs)
    by_episode = np.moveaxis(by_draw, 0, 1)
    return by_episode.reshape(by_episode.shape[0], *sample, *by_episode.shape[2:])


def _rechunked(inputs: tuple[xr.DataArray, ...], most: int) -> tuple[xr.DataArray, ...]:
    """Cut along episodes only, in chunks no larger than they are and no larger than `most`."""
    largest = max(max(array.chunksizes.get("episode", (1,))) for array in inputs)
    # Dask divides by the length of each axis, so where there are no features it gets a column that nobody reads.
    filled = (array if array.size else _one_column(array) for array in inputs)
    return tuple(array.chunk({"episode": min(largest, most), **dict.fromkeys(array.dims[1:], -1)}) for array in filled)


def _one_column(features: xr.DataArray) -> xr.DataArray:
    return xr.DataArray(np.zeros((len(features), 1)), dims=features.dims, coords={"episode": features["episode"]})


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
