"""All checks of one posterior."""

from __future__ import annotations

import warnings

import pandas as pd
import xarray as xr

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.errors import ConvergenceError, EvidenceError, TacitWarning
from bayes_tacit.estimates.map_fit import MapFit, fit_map
from bayes_tacit.review.checks import map_agreement
from bayes_tacit.review.checks.base import CheckResult, group_of, require_same_data
from bayes_tacit.review.checks.crossing_steps import check_crossing_steps
from bayes_tacit.review.checks.incidence import check_incidence_calibration
from bayes_tacit.review.checks.log_prior import prior_of
from bayes_tacit.review.checks.loo import check_loo
from bayes_tacit.review.checks.prior_sensitivity import check_prior_sensitivity
from bayes_tacit.review.checks.sampler import check_sampler


def run_checks(tree: xr.DataTree, episodes: Episodes, fit: MapFit | None = None) -> list[CheckResult]:
    """Run every check of a posterior, the sampler first.

    Parameters
    ----------
    tree
        A posterior as `sample_posterior` gives it.
    episodes
        The episodes it was fitted on.
    fit
        The point estimate to compare with. By default one is made whose penalty is the posterior's own prior on gamma.

    Raises
    ------
    InvalidDataError
        If the posterior was fitted on other episodes.

    Examples
    --------
    >>> for result in run_checks(tree, episodes):  # doctest: +SKIP
    ...     print(result)
    """
    require_same_data(tree, episodes)
    return [
        check_sampler(tree),
        check_crossing_steps(tree, episodes),
        check_incidence_calibration(tree),
        check_loo(tree),
        check_prior_sensitivity(tree),
        _check_map_agreement(tree, episodes, fit),
    ]


def _check_map_agreement(tree: xr.DataTree, episodes: Episodes, fit: MapFit | None) -> CheckResult:
    constant = group_of(tree, "constant_data")
    if fit is None:
        ridge = 1 / (2 * len(episodes) * prior_of(tree).incidence_slope ** 2)
        weights = constant["w"].values if "w" in constant and constant.sizes["diagnostic"] > 1 else None
        try:
            with warnings.catch_warnings():
                # What is dependent or unidentified shows in the posterior itself.
                warnings.simplefilter("ignore", TacitWarning)
                fit = fit_map(
                    episodes,
                    ridge=ridge,
                    floor=None,
                    family=tree.attrs["family"],
                    timing=tree.attrs["timing"],
                    weights=weights,
                    zero_mass="drop_window",
                    memory=tree.attrs.get("memory", 1.0),
                    clock=bool(tree.attrs.get("clock", False)),
                    unmarked=tree.attrs.get("unmarked", "outcome"),
                )
        except (ConvergenceError, EvidenceError) as error:
            sentence = f"There is no point estimate to compare with: {error}"
            advice = "Decide by the posterior; nothing is wrong with it on that account."
            return CheckResult(map_agreement.NAME, None, pd.DataFrame(), sentence, advice)
    return map_agreement.check_map_agreement(tree, fit)
