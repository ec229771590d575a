"""When should a cheap LLM agent hand over, for good, to the expensive one? TACIT-Switch, the Bayesian way.

Names are loaded when they are first used, so that what a program does not use costs it nothing.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bayes_tacit.data.costs import LoggedCost, Outcomes, StepCost
    from bayes_tacit.data.counterfactuals import Counterfactuals
    from bayes_tacit.data.episodes import Episodes, load_example
    from bayes_tacit.decisions.bounds import bounds_from_logs, suggest_alpha
    from bayes_tacit.decisions.evaluation import World, operating_points
    from bayes_tacit.decisions.selection import choose
    from bayes_tacit.errors import TacitError
    from bayes_tacit.estimates.laplace import approximate_posterior
    from bayes_tacit.estimates.map_fit import MapFit, fit_map
    from bayes_tacit.estimates.posterior import sample_posterior
    from bayes_tacit.estimates.posterior_files import load_posterior, save_posterior
    from bayes_tacit.estimates.verdict import Verdict, judge
    from bayes_tacit.model.build import build_model
    from bayes_tacit.model.priors import PaperPrior, RidgePrior, WeaklyInformativePrior
    from bayes_tacit.model.spec import ModelSpec
    from bayes_tacit.model.strata import Noise
    from bayes_tacit.policies import Recommendation, compare, recommend, success_cost_curve
    from bayes_tacit.review.checks import CheckResult, compare_models, run_checks
    from bayes_tacit.review.reporting import report
    from bayes_tacit.router import Decision, HandoffState, Router
    from bayes_tacit.scores.bands import credible_band, crossing_probability
    from bayes_tacit.scores.score import cumulative_risk, decisive_scores, handoff_score, incidence

__all__ = [
    "CheckResult",
    "Counterfactuals",
    "Decision",
    "Episodes",
    "HandoffState",
    "LoggedCost",
    "MapFit",
    "ModelSpec",
    "Noise",
    "Outcomes",
    "PaperPrior",
    "Recommendation",
    "RidgePrior",
    "Router",
    "StepCost",
    "TacitError",
    "Verdict",
    "WeaklyInformativePrior",
    "World",
    "approximate_posterior",
    "bounds_from_logs",
    "build_model",
    "choose",
    "compare",
    "compare_models",
    "credible_band",
    "crossing_probability",
    "cumulative_risk",
    "decisive_scores",
    "fit_map",
    "handoff_score",
    "incidence",
    "judge",
    "load_example",
    "load_posterior",
    "operating_points",
    "recommend",
    "report",
    "run_checks",
    "sample_posterior",
    "save_posterior",
    "success_cost_curve",
    "suggest_alpha",
]
__version__ = version("bayes_tacit")

_HOME = {
    "CheckResult": "review.checks",
    "Counterfactuals": "data.counterfactuals",
    "Decision": "router",
    "Episodes": "data.episodes",
    "HandoffState": "router",
    "LoggedCost": "data.costs",
    "MapFit": "estimates.map_fit",
    "ModelSpec": "model.spec",
    "Noise": "model.strata",
    "Outcomes": "data.costs",
    "PaperPrior": "model.priors",
    "Recommendation": "policies",
    "RidgePrior": "model.priors",
    "Router": "router",
    "StepCost": "data.costs",
    "TacitError": "errors",
    "Verdict": "estimates.verdict",
    "WeaklyInformativePrior": "model.priors",
    "World": "decisions.evaluation",
    "approximate_posterior": "estimates.laplace",
    "bounds_from_logs": "decisions.bounds",
    "build_model": "model.build",
    "choose": "decisions.selection",
    "compare": "policies",
    "compare_models": "review.checks",
    "credible_band": "scores.bands",
    "crossing_probability": "scores.bands",
    "cumulative_risk": "scores.score",
    "decisive_scores": "scores.score",
    "fit_map": "estimates.map_fit",
    "handoff_score": "scores.score",
    "incidence": "scores.score",
    "judge": "estimates.verdict",
    "load_example": "data.episodes",
    "load_posterior": "estimates.posterior_files",
    "operating_points": "decisions.evaluation",
    "recommend": "policies",
    "report": "review.reporting",
    "run_checks": "review.checks",
    "sample_posterior": "estimates.posterior",
    "save_posterior": "estimates.posterior_files",
    "success_cost_curve": "policies",
    "suggest_alpha": "decisions.bounds",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'bayes_tacit' has no attribute {name!r}")
    return getattr(import_module(f"bayes_tacit.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
