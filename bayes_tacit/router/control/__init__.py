"""Controllers: each policy as a loop plays it, a small state machine over features and diagnostics by name.

A fitted policy gives its controller: `fitted.controller(setting)`. `bayes_tacit.agents.run_episode` plays it.
"""

from bayes_tacit.router.control.by_task import TaskDeferralController
from bayes_tacit.router.control.chance import Chance
from bayes_tacit.router.control.experience import Experience
from bayes_tacit.router.control.experienced import EvoRouteController
from bayes_tacit.router.control.histories import CountController, LandmarkController
from bayes_tacit.router.control.judging import TrimController
from bayes_tacit.router.control.pilot import GO_ON, Checkpoint, Choice, Controller, GoingOn, Pilot
from bayes_tacit.router.control.restarts import CascadeController, PrefixRouterController
from bayes_tacit.router.control.routed import RouterController, Routes
from bayes_tacit.router.control.switches import (
    FirstAlarmController,
    ForcedHandoffController,
    PureController,
    StepDeferralController,
    TaskRouterController,
)
from bayes_tacit.router.decision import Call

__all__ = [
    "GO_ON",
    "Call",
    "CascadeController",
    "Chance",
    "Checkpoint",
    "Choice",
    "Controller",
    "CountController",
    "EvoRouteController",
    "Experience",
    "FirstAlarmController",
    "ForcedHandoffController",
    "GoingOn",
    "LandmarkController",
    "Pilot",
    "PrefixRouterController",
    "PureController",
    "RouterController",
    "Routes",
    "StepDeferralController",
    "TaskDeferralController",
    "TaskRouterController",
    "TrimController",
]
