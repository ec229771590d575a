"""The one score that is compared with alpha: q(t) of a fit, its mean or a quantile of a posterior."""

from __future__ import annotations

import numpy as np
import xarray as xr

from bayes_tacit import validate
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.estimates.map_fit import MapFit
from bayes_tacit.scores.blocks import GROUP, groups, in_threads, score_kernel
from bayes_tacit.scores.fitted import DRAWS, Fitted
from bayes_tacit.scores.sources import as_draws


def decisive_scores(
    estimate: MapFit | xr.DataTree | Fitted, episodes: Episodes, rule: str | float = "mean", *, draws: int = DRAWS
) -> xr.DataArray:
    """Give the score that a router compares with alpha, before there is an alpha: what alpha is to be chosen with.

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
    fitted = as_draws(estimate).thinned(draws)
    features, diagnostics = fitted.columns_of(episodes)
    scores = scores_under(fitted, rule, features, diagnostics, episodes.n_steps)
    coords = {dim: diagnostics[dim] for dim in ("episode", "step")}
    attrs = {"long_name": "score that is compared with alpha"}
    return xr.DataArray(scores, coords=coords, dims=("episode", "step"), name="score", attrs=attrs)


def scores_under(
    fitted: Fitted, rule: str | float, features: xr.DataArray, diagnostics: xr.DataArray, n_steps: np.ndarray
) -> np.ndarray:
    """Compute the score from columns in the fit's order: (episode, step), NaN past the end of an episode."""
    rule = validate.rule("rule", rule)
    n_draws, horizon = len(fitted.draws), diagnostics.shape[1]
    kernel = score_kernel(fitted, len(n_steps) * horizon * n_draws)
    out = np.full(diagnostics.shape[:2], np.nan)

    def fill(rows: slice, raw: np.ndarray, u: np.ndarray) -> None:
        q = kernel(fitted.draws, raw, u)
        decides = q.mean(axis=-1) if isinstance(rule, str) else np.quantile(q, rule, axis=-1)
        out[rows, : u.shape[1]] = q[..., 0] if n_draws == 1 else decides

    for _ in in_threads(fill, groups(features, diagnostics, n_steps, max(1, GROUP // (horizon * n_draws)))):
        pass
    return out
