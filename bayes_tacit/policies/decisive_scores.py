"""The one score that is compared with alpha, at every checkpoint, from a fit or from all draws of a posterior."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import xarray as xr

from bayes_tacit.estimates.map_fit import MapFit
from bayes_tacit.policies.view import Seen
from bayes_tacit.scores.blocks import BLOCK, GROUP, computed, score_kernel, slices
from bayes_tacit.scores.fitted import as_draws


def decisive_scores(estimate: MapFit | xr.DataTree, seen: Seen, rule: str | float, draws: int) -> np.ndarray:
    """Give the handoff score of a fit, or its posterior mean or a quantile, as a router computes it.

    Memory stays bounded, whatever the number of episodes and draws.

    Parameters
    ----------
    estimate
        A `MapFit`, or a posterior as `sample_posterior` gives it.
    seen
        The episodes.
    rule
        For a posterior, "mean" or the probability of a quantile.
    draws
        How many draws of a posterior are used at most.

    Returns
    -------
    numpy.ndarray
        (episode, step), NaN past the end of an episode.
    """
    fitted = as_draws(estimate)
    features, diagnostics = seen.task_columns(fitted.feature_names), seen.step_diagnostics(fitted.diagnostic_names)
    if isinstance(estimate, MapFit):
        return computed(score_kernel(fitted), fitted.draws, features, diagnostics)[0]
    fitted = replace(fitted, draws=fitted.draws.thinned(draws))
    kernel, n_draws = score_kernel(fitted), len(fitted.draws)
    out = np.full(diagnostics.shape[:2], np.nan)
    for rows in slices(len(seen), max(1, GROUP // (diagnostics.shape[1] * n_draws))):
        u = diagnostics[rows, : int(seen.n_steps[rows].max())]
        q = np.empty((*u.shape[:2], n_draws))
        for some in slices(n_draws, max(1, BLOCK // (u.shape[0] * u.shape[1]))):
            q[..., some] = kernel(fitted.draws.take(some), features[rows], u)
        out[rows, : u.shape[1]] = q.mean(axis=-1) if rule == "mean" else np.quantile(q, float(rule), axis=-1)
    return out
