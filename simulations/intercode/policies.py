"""The policies of the study; each that hands off restarts the task with Strong, which the logs can evaluate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayes_tacit import Episodes, MapFit, World, fit_map
from bayes_tacit.policies import Policy, TacitSwitch
from simulations.development_choice import families
from simulations.intercode.logs import unmarked

FITTING: dict[str, Any] = {"restarts": 2, "unmarked": "outcome"}
"""The paper's reading of the few tasks that the rule cannot mark: they count for their outcome alone."""

TACIT, NO_MARKS, FORGETTING = "TACIT-Switch", "TACIT-Switch, no marks", "TACIT-Switch, memory and clock"
RECOMMENDED = "recommended"
"""What `recommend` names under each budget, from training and development tasks."""

CHOSEN = "best on development"
"""For each budget, whichever policy has the most success on the development tasks."""


def recommendable(development: World) -> tuple[Policy, ...]:
    """Return every policy that `recommend` tries on these logs."""
    return families(development, FITTING)


def beside() -> tuple[Policy, ...]:
    """Return what is compared besides; one more is one more line."""
    return (tacit_switch(NO_MARKS, fit_without_marks),)


def tacit_switch(name: str, estimator: Callable[[Episodes], MapFit]) -> TacitSwitch:
    """Return TACIT-Switch with an estimator of its own."""
    return TacitSwitch(estimator=estimator, handoff="restart", name=name)


def fit_with_marks(training: Episodes) -> MapFit:
    """Fit as the paper does, with the marks of the rule."""
    return fit_map(training, **FITTING)


def fit_without_marks(training: Episodes) -> MapFit:
    """Fit without a single mark: where only Strong succeeds the handoff was due by the end."""
    return fit_map(unmarked(training), restarts=2, unmarked="due")


def fit_with_memory(training: Episodes) -> MapFit:
    """Fit with marks, with the memory that the likelihood prefers and a clock."""
    return fit_map(training, **FITTING, memory="profile", clock=True)
