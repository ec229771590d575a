"""Summaries of the score over a posterior, computed without ever holding all draws of all episodes."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import xarray as xr
from rich.progress import Progress

from bayes_tacit import validate
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.estimates.map_fit import MapFit
from bayes_tacit.scores.fitted import Fitted, as_draws
from bayes_tacit.scores.score import GROUP, groups, in_threads, score_kernel

Kind = Literal["equal_tailed", "highest_density"]

TAIL_DRAWS = 5
"""Draws expected beyond each end of an interval; with fewer, its ends are mostly noise."""


def credible_band(
    tree: xr.DataTree,
    episodes: Episodes,
    *,
    probability: float = 0.9,
    kind: Kind = "equal_tailed",
    progress: bool = False,
) -> xr.Dataset:
    """Summarize the posterior of the handoff score at every checkpoint.

    Parameters
    ----------
    tree
        A posterior as `sample_posterior` gives it.
    episodes
        As for `handoff_score`.
    probability
        Mass of each interval. The posterior must have at least 10 / (1 - probability) draws, so that five are
        expected beyond each end.
    kind
        "equal_tailed": the interval between two quantiles, which never decrease along an episode.
        "highest_density": the shortest interval, whose ends may.
    progress
        Show a progress bar.

    Returns
    -------
    xarray.Dataset
        `mean`, `median`, `lower` and `upper` over (episode, step); NaN past the end of an episode.

    Examples
    --------
    >>> from bayes_tacit import credible_band, fit_map, load_example
    >>> episodes = load_example()
    >>> tree = fit_map(episodes).to_datatree().isel(draw=[0] * 100)  # stands for sample_posterior(episodes)
    >>> band = credible_band(tree, episodes, probability=0.9)
    >>> band["upper"].sel(episode="task-0001").values[8:12].round(2)
    array([0.32, 0.49, 0.52, 0.63])
    """
    fitted = _posterior(tree, "a band")
    _check_interval(probability, kind, len(fitted.draws))
    features, diagnostics = fitted.columns_of(episodes)
    kernel = score_kernel(fitted, diagnostics.shape[0] * diagnostics.shape[1] * len(fitted.draws))
    out = {name: np.full(diagnostics.shape[:2], np.nan) for name in ("mean", "median", "lower", "upper")}
    size = max(1, GROUP // (episodes.horizon * len(fitted.draws)))

    def summarize(rows: slice, raw: np.ndarray, u: np.ndarray) -> int:
        q = kernel(fitted.draws, raw, u)
        steps = slice(u.shape[1])
        out["mean"][rows, steps] = q.mean(axis=-1)
        q.sort(axis=-1)
        out["median"][rows, steps] = quantile_of_sorted(q, 0.5)
        out["lower"][rows, steps], out["upper"][rows, steps] = _interval(q, probability, kind)
        return rows.stop - rows.start

    with Progress(transient=True, disable=not progress) as bar:
        task = bar.add_task("episodes", total=len(episodes))
        for done in in_threads(summarize, groups(features, diagnostics, episodes.n_steps, size)):
            bar.advance(task, done)
    return _dataset(out, diagnostics).assign_attrs(probability=probability, kind=kind)


def crossing_probability(tree: xr.DataTree, episodes: Episodes, alpha: float, *, progress: bool = False) -> xr.Dataset:
    """Compute the posterior of the step at which the handoff score first reaches alpha.

    Parameters
    ----------
    tree
        A posterior as `sample_posterior` gives it.
    episodes
        As for `handoff_score`.
    alpha
        The decision threshold, above 0 and at most 1.
    progress
        Show a progress bar.

    Returns
    -------
    xarray.Dataset
        `by_step` (episode, step): the share of draws that have crossed by that checkpoint, NaN past the end of an
        episode; `never` (episode): the share that do not cross.

    Examples
    --------
    >>> from bayes_tacit import crossing_probability, fit_map, load_example
    >>> episodes = load_example()
    >>> tree = fit_map(episodes).to_datatree()     # one draw; a posterior has many
    >>> crossing_probability(tree, episodes, 0.3)["never"].values[:3]
    array([1., 0., 0.])
    """
    alpha = validate.threshold("alpha", alpha)
    fitted = _posterior(tree, "a distribution of crossing steps")
    features, diagnostics = fitted.columns_of(episodes)
    kernel = score_kernel(fitted, diagnostics.shape[0] * diagnostics.shape[1] * len(fitted.draws))
    counts = np.zeros(diagnostics.shape[:2])
    size = max(1, GROUP // (episodes.horizon * len(fitted.draws)))

    def count(rows: slice, raw: np.ndarray, u: np.ndarray) -> int:
        counts[rows, : u.shape[1]] = np.count_nonzero(kernel(fitted.draws, raw, u) >= alpha, axis=-1)
        return rows.stop - rows.start

    with Progress(transient=True, disable=not progress) as bar:
        task = bar.add_task("episodes", total=len(episodes))
        for done in in_threads(count, groups(features, diagnostics, episodes.n_steps, size)):
            bar.advance(task, done)
    # What has crossed stays crossed, also where rounding makes equal scores differ in the last bit.
    share = np.maximum.accumulate(counts, axis=1) / len(fitted.draws)
    inside = np.arange(episodes.horizon) < episodes.n_steps[:, None]
    out = _dataset({"by_step": np.where(inside, share, np.nan)}, diagnostics)
    return out.assign(never=("episode", 1 - share[:, -1])).assign_attrs(alpha=alpha)


def quantile_of_sorted(ordered: np.ndarray, probability: float) -> np.ndarray:
    """Return a quantile along the sorted last axis, interpolated as `numpy.quantile` does."""
    position = probability * (ordered.shape[-1] - 1)
    below = int(position)
    above = min(below + 1, ordered.shape[-1] - 1)
    return ordered[..., below] + (position - below) * (ordered[..., above] - ordered[..., below])


def shortest_interval(ordered: np.ndarray, probability: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the shortest interval between two values along the sorted last axis that spans a share of them.

    Examples
    --------
    >>> shortest_interval(np.array([0.0, 5.0, 5.5, 6.0, 9.0]), 0.4)
    (array(5.), array(6.))
    """
    n = ordered.shape[-1]
    reach = min(int(probability * n), n - 1)
    first = (ordered[..., reach:] - ordered[..., : n - reach]).argmin(axis=-1)[..., None]
    lower, upper = (np.take_along_axis(ordered, at, axis=-1)[..., 0] for at in (first, first + reach))
    return lower, upper


def _interval(ordered: np.ndarray, probability: float, kind: Kind) -> tuple[np.ndarray, np.ndarray]:
    if kind == "highest_density":
        return shortest_interval(ordered, probability)
    tail = (1 - probability) / 2
    return quantile_of_sorted(ordered, tail), quantile_of_sorted(ordered, 1 - tail)


def _posterior(tree: xr.DataTree | MapFit, what: str) -> Fitted:
    if isinstance(tree, MapFit):
        raise InvalidDataError(
            f"a posterior from sample_posterior: a point estimate has one score, which handoff_score gives, not {what}",
            field="tree",
            value="a MapFit",
        )
    return as_draws(tree)


def _check_interval(probability: float, kind: Kind, n_draws: int) -> None:
    validate.probability("probability", probability)
    validate.choice("kind", kind, get_args(Kind))
    needed = int(np.ceil(round(2 * TAIL_DRAWS / (1 - probability), 6)))
    if n_draws < needed:
        raise InvalidDataError(
            f"at least {needed:,} draws for a {probability:.4g} interval ({TAIL_DRAWS} beyond each end), or a smaller "
            "probability",
            field="number of draws",
            value=n_draws,
        )


def _dataset(variables: dict[str, np.ndarray], diagnostics: xr.DataArray) -> xr.Dataset:
    coords = {dim: diagnostics[dim] for dim in ("episode", "step")}
    return xr.Dataset({name: (("episode", "step"), values) for name, values in variables.items()}, coords=coords)
