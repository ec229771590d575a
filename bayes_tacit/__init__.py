"""When should a cheap LLM agent hand over, for good, to the expensive one? TACIT-Switch, the Bayesian way.

Names are loaded when they are first used, so that what a program does not use costs it nothing.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bayes_tacit.data.costs import LoggedCost as LoggedCost, Outcomes as Outcomes, StepCost as StepCost
    from bayes_tacit.data.counterfactuals import Counterfactuals as Counterfactuals
    from bayes_tacit.data.episodes import Episodes as Episodes, load_example as load_example
    from bayes_tacit.decisions.bounds import bounds_from_logs as bounds_from_logs, suggest_alpha as suggest_alpha
    from bayes_tacit.decisions.evaluation import World as World, operating_points as operating_points
    from bayes_tacit.decisions.selection import choose as choose
    from bayes_tacit.errors import TacitError as TacitError
    from bayes_tacit.estimates.laplace import approximate_posterior as approximate_posterior
    from bayes_tacit.estimates.map_fit import MapFit as MapFit, fit_map as fit_map
    from bayes_tacit.estimates.posterior import sample_posterior as sample_posterior
    from bayes_tacit.estimates.verdict import Verdict as Verdict, judge as judge
    from bayes_tacit.model.build import build_model as build_model
    from bayes_tacit.model.priors import (
        PaperPrior as PaperPrior,
        RidgePrior as RidgePrior,
        WeaklyInformativePrior as WeaklyInformativePrior,
    )
    from bayes_tacit.model.spec import ModelSpec as ModelSpec
    from bayes_tacit.model.strata import Noise as Noise
    from bayes_tacit.policies import (
        Recommendation as Recommendation,
        compare as compare,
        recommend as recommend,
        success_cost_curve as success_cost_curve,
    )
    from bayes_tacit.review.checks import (
        CheckResult as CheckResult,
        compare_models as compare_models,
        run_checks as run_checks,
    )
    from bayes_tacit.review.reporting import report as report
    from bayes_tacit.router import Decision as Decision, HandoffState as HandoffState, Router as Router
    from bayes_tacit.scores.bands import credible_band as credible_band, crossing_probability as crossing_probability
    from bayes_tacit.scores.posterior_files import load_posterior as load_posterior, save_posterior as save_posterior
    from bayes_tacit.scores.score import (
        cumulative_risk as cumulative_risk,
        decisive_scores as decisive_scores,
        handoff_score as handoff_score,
        incidence as incidence,
    )

__version__ = version("bayes_tacit")

_HOMES = {
    "data.costs": "LoggedCost Outcomes StepCost",
    "data.counterfactuals": "Counterfactuals",
    "data.episodes": "Episodes load_example",
    "decisions.bounds": "bounds_from_logs suggest_alpha",
    "decisions.evaluation": "World operating_points",
    "decisions.selection": "choose",
    "errors": "TacitError",
    "estimates.laplace": "approximate_posterior",
    "estimates.map_fit": "MapFit fit_map",
    "estimates.posterior": "sample_posterior",
    "scores.posterior_files": "load_posterior save_posterior",
    "estimates.verdict": "Verdict judge",
    "model.build": "build_model",
    "model.priors": "PaperPrior RidgePrior WeaklyInformativePrior",
    "model.spec": "ModelSpec",
    "model.strata": "Noise",
    "policies": "Recommendation compare recommend success_cost_curve",
    "review.checks": "CheckResult compare_models run_checks",
    "review.reporting": "report",
    "router": "Decision HandoffState Router",
    "scores.bands": "credible_band crossing_probability",
    "scores.score": "cumulative_risk decisive_scores handoff_score incidence",
}
"""Public names by the module that they live in."""

_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'bayes_tacit' has no attribute {name!r}")
    return getattr(import_module(f"bayes_tacit.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
