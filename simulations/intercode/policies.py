"""The policies of the study; each that hands off restarts the task with Strong, which the logs can evaluate."""

from __future__ import annotations

from functools import partial

from bayes_tacit import Episodes, MapFit, fit_map
from bayes_tacit.policies import (
    Cascade,
    Count,
    FirstAlarm,
    Landmark,
    Policy,
    PrefixRouter,
    PureCheap,
    PureStrong,
    TacitSwitch,
    TaskRouter,
)
from simulations.intercode.marks import unmarked

RIDGE = 0.01
ALARM = "tool_error"
TACIT, NO_MARKS, FORGETTING = "TACIT-Switch", "TACIT-Switch, no marks", "TACIT-Switch, memory and clock"
CHOSEN = "chosen on development"
"""For each budget, whichever policy did best on the development tasks."""

NOT_IN_LOGS = "Step Deferral, and every handoff that resumes from Cheap's state"
"""What paired rollouts cannot evaluate: neither is in them."""


def compared_policies() -> list[Policy]:
    """Give all policies that are compared on every split; a new one is one more line."""
    return [
        PureCheap(),
        TaskRouter(),
        PrefixRouter(),
        Cascade(),
        FirstAlarm(ALARM, handoff="restart"),
        Count(handoff="restart"),
        Landmark(handoff="restart"),
        tacit_switch(TACIT, fit_with_marks),
        tacit_switch(NO_MARKS, fit_without_marks),
        PureStrong(),
    ]


def tacit_switch(name: str, estimator: partial[MapFit] | object) -> TacitSwitch:
    """Give TACIT-Switch with an estimator of its own."""
    return TacitSwitch(estimator=estimator, handoff="restart", name=name)  # type: ignore[arg-type]


def fit_with_marks(training: Episodes) -> MapFit:
    """Fit as the paper does, with the marks of the rule."""
    return fit_map(training, ridge=RIDGE, restarts=2)


def fit_without_marks(training: Episodes) -> MapFit:
    """Fit without a single mark: where only Strong succeeds the handoff was due by the end."""
    return fit_map(unmarked(training), ridge=RIDGE, restarts=2, unmarked="due")


def fit_with_memory(training: Episodes) -> MapFit:
    """Fit with marks, with the memory that the likelihood prefers and a clock."""
    return fit_map(training, ridge=RIDGE, restarts=2, memory="profile", clock=True)
