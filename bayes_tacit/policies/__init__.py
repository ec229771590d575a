"""Policies that share one container and one evaluation: TACIT-Switch and what it is compared with.

A policy is a value that says how it works; `fit` learns from training `Episodes`; the fitted policy has candidates for
its setting, and says on a `World` what each gives. `compare` does all of it.
"""

from bayes_tacit.policies.base import FittedPolicy, Policy
from bayes_tacit.policies.cascade import Cascade
from bayes_tacit.policies.comparison import Comparison, compare, describe, success_cost_curve
from bayes_tacit.policies.count import Count
from bayes_tacit.policies.evoroute import EvoRoute
from bayes_tacit.policies.first_alarm import FirstAlarm
from bayes_tacit.policies.landmark import Landmark
from bayes_tacit.policies.logistic import LBFGS, NEWTON, L2Logistic
from bayes_tacit.policies.prefix_router import PrefixRouter
from bayes_tacit.policies.pure import PureCheap, PureStrong
from bayes_tacit.policies.recommending import (
    LogsRecommendation,
    Recommendation,
    families,
    recommend,
    recommend_from_logs,
)
from bayes_tacit.policies.starting import start_from
from bayes_tacit.policies.step_deferral import StepDeferral
from bayes_tacit.policies.tacit_switch import PosteriorTacitSwitch, TacitSwitch
from bayes_tacit.policies.task_router import TaskRouter
from bayes_tacit.policies.trim import Trim
from bayes_tacit.policies.tuned import TunedDeferral, TunedSwitch
from bayes_tacit.policies.world import JudgedReplay, StepReplay, World

__all__ = [
    "LBFGS",
    "NEWTON",
    "Cascade",
    "Comparison",
    "Count",
    "EvoRoute",
    "FirstAlarm",
    "FittedPolicy",
    "JudgedReplay",
    "L2Logistic",
    "Landmark",
    "LogsRecommendation",
    "Policy",
    "PosteriorTacitSwitch",
    "PrefixRouter",
    "PureCheap",
    "PureStrong",
    "Recommendation",
    "StepDeferral",
    "StepReplay",
    "TacitSwitch",
    "TaskRouter",
    "Trim",
    "TunedDeferral",
    "TunedSwitch",
    "World",
    "compare",
    "describe",
    "families",
    "recommend",
    "recommend_from_logs",
    "start_from",
    "success_cost_curve",
]
