"""Whether the paper's memory, which forgets nothing, holds: by LOO beside another one, or by the likelihood."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pandas as pd
import xarray as xr

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.errors import ConvergenceError, EvidenceError, InvalidDataError, TacitWarning
from bayes_tacit.estimates.map_fit import MapFit, fit_map
from bayes_tacit.estimates.posterior.log_prior import prior_of
from bayes_tacit.model.design import Design
from bayes_tacit.model.memory import CLOCK
from bayes_tacit.model.priors import WeaklyInformativePrior
from bayes_tacit.model.settings import settings_of
from bayes_tacit.review.checks.base import CheckResult, group_of
from bayes_tacit.review.checks.comparison import compare_models
from bayes_tacit.review.plots.checks import draw_memory_profile
from bayes_tacit.review.plots.rows import lazily

BESIDE = "Memory beside the paper's"
HINT = "Memory by likelihood"
PAPER = "rho = 1"
CLEAR = 1.92
"""Gain in log likelihood that one more number brings by chance in 5% of the cases: half of chi-square's 3.84."""


def check_beside_paper(tree: xr.DataTree, paper: xr.DataTree) -> CheckResult:
    """Compare a posterior whose memory is learned, or held below 1, with that of the paper's rho = 1 by LOO.

    Both must have seen the same outcomes and windows; where a window has no mass in one of them, its episode is left
    out for both and counted. With a clock in both there are none.

    Parameters
    ----------
    tree
        A posterior with another memory than 1.
    paper
        That of the same model with `memory=1`; `bayes_tacit.estimates.posterior.with_paper_memory` samples it.

    Returns
    -------
    CheckResult
        As `compare_models` gives it; there is nothing to pass.
    """
    own, other = (settings_of(each).get("memory", 1.0) for each in (tree, paper))
    if other != 1 or own == 1:
        expected = "a posterior with memory 1, to compare one with another memory with"
        raise InvalidDataError(expected, field="memories", value=[own, other])
    name = "learned memory" if own == "learned" else f"rho = {own:g}"
    found = compare_models({name: tree, PAPER: paper})
    loss = float(found.table["elpd"][name] - found.table["elpd"][PAPER])
    error = float(found.table["dse"].max())
    by = f"{abs(loss):.1f} (se {error:.1f})"
    told = f"{name} predicts {'better' if loss > 0 else 'worse'} than {PAPER} by {by} in leave-one-out elpd"
    clocks = {int(settings_of(each).get("clock", 0)) for each in (tree, paper)}
    if len(clocks) > 1:
        told += "; one of them has a clock besides, so the difference is not the memory's alone"
    return replace(found, name=BESIDE, sentence=f"{told}: {found.sentence}", hint=True)


def check_by_likelihood(tree: xr.DataTree, episodes: Episodes) -> CheckResult:
    """Say of a posterior with the paper's memory whether the likelihood of the same evidence prefers another one.

    It is a hint that costs no sampling: penalized point estimates at many memories, the paper's among them, each with a
    clock. So every window has mass at every memory, and the same outcomes and windows are explained by all of them.

    Parameters
    ----------
    tree
        A posterior with `memory=1` and learned weights.
    episodes
        Those it was fitted on.

    Returns
    -------
    CheckResult
        A hint: it passes if no memory gains more than chance does, and is not judged otherwise. `table` has one row a
        memory: its log likelihood minus the paper's.
    """
    settings, prior = settings_of(tree), prior_of(tree)
    slope = prior.incidence_slope if isinstance(prior, WeaklyInformativePrior) else 1.0
    try:
        with warnings.catch_warnings():
            # What is dependent or unidentified shows in the posterior itself.
            warnings.simplefilter("ignore", TacitWarning)
            fit = fit_map(
                episodes,
                ridge=1 / (2 * len(episodes) * slope**2),
                restarts=1,
                floor=None,
                family=settings["family"],
                timing=settings["timing"],
                memory="profile",
                clock=True,
                unmarked=settings.get("unmarked", "outcome"),
                features=Design.from_json(settings["design"]) if "design" in settings else None,
            )
    except (ConvergenceError, EvidenceError) as error:
        return CheckResult(HINT, None, pd.DataFrame(), f"There is no point estimate to ask: {error}", hint=True)
    return _told(fit, len(episodes))


def can_be_asked(tree: xr.DataTree) -> bool:
    """Tell whether the likelihood can be asked for a memory: the paper's is in use, and a clock's weight can join."""
    settings = settings_of(tree)
    learned = "w" in group_of(tree, "posterior")
    weighed = group_of(tree, "posterior" if learned else "constant_data")["diagnostic"].values.tolist()
    own = weighed[:-1] if settings.get("clock") else weighed
    plain = settings.get("memory", 1.0) == 1 and settings.get("groups") is None
    return plain and (learned or len(weighed) == 1) and CLOCK not in own


def _told(fit: MapFit, n: int) -> CheckResult:
    gains = pd.Series({point.memory: -n * point.objective for point in fit.profile or ()})
    gains -= gains[1.0]
    gain = float(gains[fit.memory])
    table = pd.DataFrame({"log likelihood": gains}).rename_axis("rho")
    rounded = table[[memory in (1.0, fit.memory) or round(10 * memory, 9) % 1 == 0 for memory in table.index]]
    drawn = lazily(draw_memory_profile, gains, CLEAR)
    beside = "with a clock in all of them, so that the same windows count"
    if gain <= CLEAR:
        where = (
            "the paper's rho = 1"
            if fit.memory == 1
            else f"rho = {fit.memory:g}, by {gain:.1f} above the paper's rho = 1, which chance may give (limit {CLEAR})"
        )
        sentence = (
            f"The likelihood of outcomes and windows is highest at {where} ({beside}); nothing speaks against rho = 1."
        )
        return CheckResult(HINT, True, rounded, sentence, figure=drawn, hint=True)
    sentence = (
        f"The likelihood of outcomes and windows is highest at rho = {fit.memory:g}, {gain:.1f} above the paper's "
        f"rho = 1, where chance gives more than {CLEAR} in 5% of the cases ({beside})."
    )
    advice = 'Past signs seem to fade: sample with memory="learned" and clock=True, whose report compares both by LOO.'
    return CheckResult(HINT, None, rounded, sentence, advice, drawn, hint=True)
