"""All checks of one posterior."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace

import pandas as pd
import xarray as xr

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.errors import ConvergenceError, EvidenceError, InvalidDataError, TacitWarning
from bayes_tacit.estimates.map_fit import MapFit, fit_map
from bayes_tacit.estimates.posterior.completion import completed
from bayes_tacit.estimates.posterior.log_prior import prior_of
from bayes_tacit.estimates.training import warn_of_other_data
from bayes_tacit.model.design import Design
from bayes_tacit.model.priors import WeaklyInformativePrior
from bayes_tacit.model.settings import settings_of
from bayes_tacit.review.checks import (
    crossing_steps,
    incidence,
    loo,
    map_agreement,
    memory,
    paper_memory,
    prior_sensitivity,
    structure,
    weights,
)
from bayes_tacit.review.checks.base import CheckResult, group_of, require_same_data
from bayes_tacit.review.checks.sampler import check_sampler

NOT_JUDGED = "The draws are not to be trusted, so nothing follows from them."


def run_checks(
    tree: xr.DataTree, episodes: Episodes, fit: MapFit | None = None, paper: xr.DataTree | None = None
) -> list[CheckResult]:
    """Run every check of a posterior, the sampler first; that of the weights only where they are learned.

    Of the memory there are three: where it is learned, what its posterior says (`check_memory`); with `paper`, how well
    it predicts beside the paper's rho = 1 (`check_beside_paper`); and where it is the paper's, whether the likelihood
    prefers another one (`check_by_likelihood`), a hint that costs no sampling.

    Where there is no point estimate, as of groups, that is a hint too: it says nothing against the posterior.

    Where the sampler's check fails, no other one passes: what would have passed is not judged, and what cannot be
    computed says so.

    Parameters
    ----------
    tree
        A posterior as `sample_posterior` gives it.
    episodes
        The episodes it was fitted on.
    fit
        The point estimate to compare with; a warning says if it names other data. By default one is made whose penalty
        is the posterior's own prior on gamma.
    paper
        For a posterior with another memory than 1, that of the same model with rho = 1
        (`bayes_tacit.estimates.posterior.with_paper_memory` samples it): both are compared by LOO.

    Raises
    ------
    InvalidDataError
        If the posterior was fitted on other episodes.

    Examples
    --------
    >>> for result in run_checks(tree, episodes):  # doctest: +SKIP
    ...     print(result)
    """
    tree = completed(tree, episodes)
    require_same_data(tree, episodes)
    if fit is not None:
        warn_of_other_data(fit, episodes)
    sampler = check_sampler(tree)
    others: dict[str, Callable[[], CheckResult]] = {
        crossing_steps.NAME: lambda: crossing_steps.check_crossing_steps(tree, episodes),
        structure.NAME: lambda: structure.check_structure(tree, episodes),
        incidence.NAME: lambda: incidence.check_incidence_calibration(tree),
        loo.NAME: lambda: loo.check_loo(tree),
        prior_sensitivity.NAME: lambda: prior_sensitivity.check_prior_sensitivity(tree),
        map_agreement.NAME: lambda: _check_map_agreement(tree, episodes, fit),
    }
    if "w" in group_of(tree, "posterior") and _weakly_informed(tree):
        others[weights.NAME] = lambda: weights.check_weights(tree, episodes)
    if "rho" in group_of(tree, "posterior"):
        others[memory.NAME] = lambda: memory.check_memory(tree)
    elif paper_memory.can_be_asked(tree):
        others[paper_memory.HINT] = lambda: paper_memory.check_by_likelihood(tree, episodes)
    if paper is not None:
        others[paper_memory.BESIDE] = lambda: paper_memory.check_beside_paper(tree, paper)
    if sampler.passed:
        return [sampler, *(check() for check in others.values())]
    return [sampler, *(_of_sick_draws(name, check) for name, check in others.items())]


def _weakly_informed(tree: xr.DataTree) -> bool:
    """Tell whether the prior is one whose weights have a concentration; a tree may have lost what it was."""
    try:
        return type(prior_of(tree)) is WeaklyInformativePrior
    except InvalidDataError:
        return False


def _of_sick_draws(name: str, check: Callable[[], CheckResult]) -> CheckResult:
    """Run a check on draws that are not to be trusted: it cannot pass, and what it cannot compute it says."""
    try:
        with warnings.catch_warnings():
            # Sick draws break arithmetic and libraries in ways that are not ours to list.
            warnings.simplefilter("ignore")
            found = check()
    except Exception as error:
        sentence = f"It could not be computed from these draws: {str(error).rstrip('.') or type(error).__name__}."
        return CheckResult(name, None, pd.DataFrame(), sentence)
    if not found.passed:
        return found
    return replace(found, passed=None, sentence=f"{NOT_JUDGED} As they are: {found.sentence}")


def _check_map_agreement(tree: xr.DataTree, episodes: Episodes, fit: MapFit | None) -> CheckResult:
    constant = group_of(tree, "constant_data")
    settings = settings_of(tree)
    if fit is None and settings.get("groups") is not None:
        sentence = "There is no point estimate of groups to compare with: at its mode their spread would be zero."
        return CheckResult(map_agreement.NAME, None, pd.DataFrame(), sentence, hint=True)
    if fit is None:
        prior = prior_of(tree)
        own = type(prior) is not WeaklyInformativePrior
        # The estimate by formulas takes a second less than the one that has to compile a prior of its own.
        ridge = 0.01 if own else 1 / (2 * len(episodes) * prior.incidence_slope**2)  # type: ignore[attr-defined]
        weights = constant["w"].values if "w" in constant and constant.sizes["diagnostic"] > 1 else None
        learned, clock = "rho" in tree["posterior"], bool(settings.get("clock", False))
        try:
            with warnings.catch_warnings():
                # What is dependent or unidentified shows in the posterior itself.
                warnings.simplefilter("ignore", TacitWarning)
                fit = fit_map(
                    episodes,
                    ridge=ridge,
                    prior=prior if own else None,
                    floor=None,
                    family=settings["family"],
                    timing=settings["timing"],
                    weights=weights,
                    zero_mass="drop_window" if clock or not learned else None,
                    memory="profile" if learned else settings.get("memory", 1.0),
                    clock=clock,
                    unmarked=settings.get("unmarked", "outcome"),
                    features=Design.from_json(settings["design"]) if "design" in settings else None,
                )
        except (ConvergenceError, EvidenceError) as error:
            sentence = f"There is no point estimate to compare with: {error}"
            advice = "Decide by the posterior; nothing is wrong with it on that account."
            return CheckResult(map_agreement.NAME, None, pd.DataFrame(), sentence, advice, hint=True)
    return map_agreement.check_map_agreement(tree, fit)
