"""A start for any router: Cheap's own chance given the features, beside the incidence that the router has."""

from __future__ import annotations

import numpy as np
import xarray as xr

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.estimates.map_fit import MapFit
from bayes_tacit.policies.logistic import NEWTON, L2Logistic
from bayes_tacit.policies.view import Seen
from bayes_tacit.router import Start
from bayes_tacit.scores.fitted import Fitted
from bayes_tacit.scores.sources import as_draws


def start_from(
    training: Episodes,
    estimate: MapFit | xr.DataTree | Fitted,
    *,
    threshold: float,
    weight: float = 1.0,
    logistic: L2Logistic = NEWTON,
    seed: int = 0,
) -> Start:
    """Fit Cheap's chance on training episodes, for `dataclasses.replace(router, at_start=...)`.

    Beside a point estimate it is a point estimate too. Beside a posterior it has as many draws, from the normal
    approximation of its own posterior: the two models share no parameters, so any draw of one goes with any other.

    Parameters
    ----------
    training
        The episodes that the estimate was made from.
    estimate
        The router itself, or what it was made from.
    threshold
        Strong has the task from the start where the difference is at least this.
    weight
        c, how much Strong's success counts beside Cheap's.
    logistic
        How Cheap's chance is fitted.
    seed
        For the draws.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from bayes_tacit import Router, fit_map, load_example
    >>> training = load_example()
    >>> router = Router.from_fit(fit_map(training), alpha=0.3)
    >>> router = replace(router, at_start=start_from(training, router, threshold=0.5))
    >>> router.handoffs(training).values[:5]
    array([-1,  0,  0,  0, -1])
    """
    fitted = as_draws(estimate)
    columns = Seen.of(training).task_columns(fitted.feature_names)
    success = training.dataset["cheap_success"].values
    fit = logistic.fit(fitted.feature_names, columns, success, "Start: ")
    n = len(fitted.draws)
    models = [fit] if n == 1 else logistic.laplace(fit, columns, n, np.random.default_rng(seed))
    intercept, slopes = zip(*(model.on(fitted.feature_mean, fitted.feature_scale) for model in models), strict=True)
    return Start(weight, threshold, np.array(intercept), np.array(slopes))
