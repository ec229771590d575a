"""Policies that share one container and one evaluation: TACIT-Switch and what it is compared with.

A policy is a value that says how it works; `fit` learns from training `Episodes`; the fitted policy has candidates for
its setting, makes the router of each, and says on a `World` what each gives. `compare` does all of it.
"""

from bayes_tacit.decisions.evaluation import SingleSteps, World
from bayes_tacit.policies.base import FittedPolicy, Policy
from bayes_tacit.policies.comparison import Comparison, compare, describe, success_cost_curve
from bayes_tacit.policies.from_logs import LogsRecommendation, recommend_from_logs
from bayes_tacit.policies.learned import Cascade, EvoRoute, Landmark, PrefixRouter, Trim
from bayes_tacit.policies.logistic import DABENCH, NEWTON, L2Logistic
from bayes_tacit.policies.plain import Count, FirstAlarm, PureCheap, PureStrong, StepDeferral, TaskRouter
from bayes_tacit.policies.recommending import CrossFit, Recommendation, contest, recommend
from bayes_tacit.policies.tacit_switch import PosteriorTacitSwitch, TacitSwitch, start_from
from bayes_tacit.policies.value import ByValue

__all__ = [
    "DABENCH",
    "NEWTON",
    "ByValue",
    "Cascade",
    "Comparison",
    "Count",
    "CrossFit",
    "EvoRoute",
    "FirstAlarm",
    "FittedPolicy",
    "L2Logistic",
    "Landmark",
    "LogsRecommendation",
    "Policy",
    "PosteriorTacitSwitch",
    "PrefixRouter",
    "PureCheap",
    "PureStrong",
    "Recommendation",
    "SingleSteps",
    "StepDeferral",
    "TacitSwitch",
    "TaskRouter",
    "Trim",
    "World",
    "compare",
    "contest",
    "describe",
    "recommend",
    "recommend_from_logs",
    "start_from",
    "success_cost_curve",
]
