"""Summaries of the score over a posterior, computed without ever holding all draws of all episodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
import xarray as xr
from rich.progress import Progress

from bayes_tacit import validate
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.estimates.map_fit import MapFit
from bayes_tacit.scores.fitted import Fitted, as_draws
from bayes_tacit.scores.score import summarized

Kind = Literal["equal_tailed", "highest_density"]

TAIL_DRAWS = 5  # draws expected beyond each end of an interval; with fewer, its ends are mostly noise


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
    validate.probability("probability", probability)
    validate.choice("kind", kind, get_args(Kind))
    needed = int(np.ceil(round(2 * TAIL_DRAWS / (1 - probability), 6)))
    if len(fitted.draws) < needed:
        raise InvalidDataError(
            f"at least {needed:,} draws for a {probability:.4g} interval ({TAIL_DRAWS} beyond each end), or a smaller "
            "probability",
            field="number of draws",
            value=len(fitted.draws),
        )
    tail = (1 - probability) / 2

    def summarize(q: np.ndarray) -> tuple[np.ndarray, ...]:
        mean = q.mean(axis=-1)
        q.sort(axis=-1)
        if kind == "highest_density":
            return mean, quantile_of_sorted(q, 0.5), *shortest_interval(q, probability)
        return mean, *(quantile_of_sorted(q, level) for level in (0.5, tail, 1 - tail))

    band = _watched(fitted, episodes, summarize, ("mean", "median", "lower", "upper"), progress=progress)
    return band.assign_attrs(probability=probability, kind=kind)


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

    def count(q: np.ndarray) -> tuple[np.ndarray]:
        return (np.count_nonzero(q >= alpha, axis=-1),)

    out = _watched(fitted, episodes, count, ("by_step",), progress=progress)
    # What has crossed stays crossed, also where rounding makes equal scores differ in the last bit.
    share = np.fmax.accumulate(out["by_step"].values, axis=1) / len(fitted.draws)
    inside = np.arange(episodes.horizon) < episodes.n_steps[:, None]
    out["by_step"] = out["by_step"].dims, np.where(inside, share, np.nan)
    return out.assign(never=("episode", 1 - share[:, -1])).assign_attrs(alpha=alpha)


def quantile_of_sorted(ordered: np.ndarray, probability: float) -> np.ndarray:
    """Return a quantile along the sorted last axis, interpolated as `numpy.quantile` does."""
    position = probability * (ordered.shape[-1] - 1)
    below = int(position)
    above = min(below + 1, ordered.shape[-1] - 1)
    return ordered[..., below] + (position - below) * (ordered[..., above] - ordered[..., below])


def shortest_interval(ordered: np.ndarray, probability: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the shortest interval between two values along the sorted last axis that spans a share of them."""
    n = ordered.shape[-1]
    reach = min(int(probability * n), n - 1)
    first = (ordered[..., reach:] - ordered[..., : n - reach]).argmin(axis=-1)[..., None]
    lower, upper = (np.take_along_axis(ordered, at, axis=-1)[..., 0] for at in (first, first + reach))
    return lower, upper


def _posterior(tree: xr.DataTree | MapFit, what: str) -> Fitted:
    if isinstance(tree, MapFit):
        raise InvalidDataError(
            f"a posterior from sample_posterior: a point estimate has one score, which handoff_score gives, not {what}",
            field="tree",
            value="a MapFit",
        )
    return as_draws(tree)


def _watched(
    fitted: Fitted,
    episodes: Episodes,
    summarize: Callable[[np.ndarray], tuple[np.ndarray, ...]],
    names: tuple[str, ...],
    *,
    progress: bool,
) -> xr.Dataset:
    with Progress(transient=True, disable=not progress) as bar:
        task = bar.add_task("episodes", total=len(episodes))
        return summarized(fitted, episodes, summarize, names, lambda done: bar.advance(task, done))
