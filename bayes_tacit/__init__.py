"""When should a cheap LLM agent hand over, for good, to the expensive one? TACIT-Switch, the Bayesian way.

Names are loaded when they are first used, so that what a program does not use costs it nothing.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bayes_tacit.bounds import bounds_from_logs, suggest_alpha
    from bayes_tacit.checks import CheckResult, compare_models, run_checks
    from bayes_tacit.costs import StepCost
    from bayes_tacit.counterfactuals import Counterfactuals
    from bayes_tacit.deployment import Decision, HandoffState, Router
    from bayes_tacit.episodes import Episodes
    from bayes_tacit.errors import TacitError
    from bayes_tacit.example import load_example
    from bayes_tacit.map_fit import MapFit, fit_map
    from bayes_tacit.model import build_model
    from bayes_tacit.outcomes import Outcomes
    from bayes_tacit.policies import World, compare, success_cost_curve
    from bayes_tacit.posterior import Verdict, judge, load_posterior, sample_posterior, save_posterior
    from bayes_tacit.priors import RidgePrior, WeaklyInformativePrior
    from bayes_tacit.reporting import report
    from bayes_tacit.scores import (
        credible_band,
        crossing_probability,
        cumulative_risk,
        handoff_score,
        incidence,
    )
    from bayes_tacit.selection import choose, operating_points

__all__ = [
    "CheckResult",
    "Counterfactuals",
    "Decision",
    "Episodes",
    "HandoffState",
    "MapFit",
    "Outcomes",
    "RidgePrior",
    "Router",
    "StepCost",
    "TacitError",
    "Verdict",
    "WeaklyInformativePrior",
    "World",
    "bounds_from_logs",
    "build_model",
    "choose",
    "compare",
    "compare_models",
    "credible_band",
    "crossing_probability",
    "cumulative_risk",
    "fit_map",
    "handoff_score",
    "incidence",
    "judge",
    "load_example",
    "load_posterior",
    "operating_points",
    "report",
    "run_checks",
    "sample_posterior",
    "save_posterior",
    "success_cost_curve",
    "suggest_alpha",
]
__version__ = version("bayes_tacit")

_HOME = {
    "CheckResult": "checks",
    "Counterfactuals": "counterfactuals",
    "Decision": "deployment",
    "Episodes": "episodes",
    "HandoffState": "deployment",
    "MapFit": "map_fit",
    "Outcomes": "outcomes",
    "RidgePrior": "priors",
    "Router": "deployment",
    "StepCost": "costs",
    "TacitError": "errors",
    "Verdict": "posterior",
    "WeaklyInformativePrior": "priors",
    "World": "policies",
    "bounds_from_logs": "bounds",
    "build_model": "model",
    "choose": "selection",
    "compare": "policies",
    "compare_models": "checks",
    "credible_band": "scores",
    "crossing_probability": "scores",
    "cumulative_risk": "scores",
    "fit_map": "map_fit",
    "handoff_score": "scores",
    "incidence": "scores",
    "judge": "posterior",
    "load_example": "example",
    "load_posterior": "posterior",
    "operating_points": "selection",
    "report": "reporting",
    "run_checks": "checks",
    "sample_posterior": "posterior",
    "save_posterior": "posterior",
    "success_cost_curve": "policies",
    "suggest_alpha": "bounds",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'bayes_tacit' has no attribute {name!r}")
    return getattr(import_module(f"bayes_tacit.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
