"""Fitted policies as controllers: what was chosen on tables of outcomes is what is played."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bayes_tacit.agents.control import Controller
from bayes_tacit.agents.controllers import FirstAlarm, Prefix, PrefixRestart, Pure, StepDeferral, Tacit, TaskRouter
from bayes_tacit.data.timing import NEVER, Timing
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.policies.base import FittedPolicy, Setting, number_in
from bayes_tacit.policies.first_alarm import FittedFirstAlarm
from bayes_tacit.policies.logistic import LogisticFit
from bayes_tacit.policies.prefix_router import FittedPrefixRouter
from bayes_tacit.policies.pure import FittedPure
from bayes_tacit.policies.step_deferral import FittedStepDeferral
from bayes_tacit.policies.tacit_switch import FittedTacitSwitch
from bayes_tacit.policies.task_router import FittedTaskRouter


def controller_for(fitted: FittedPolicy, setting: Setting, *, deferral: Timing = "proposal") -> Controller:
    """Give the controller that decides as a fitted policy does.

    Parameters
    ----------
    fitted
        A fitted Pure Cheap, Pure Strong, Task Router, Prefix router, Step Deferral, First Alarm or
        TACIT-Switch.
    setting
        A row of its candidates, such as `choose(...).point`.
    deferral
        For Step Deferral: "proposal" gives the step itself to Strong, as in the paper's agents; "post_action" the step
        after, as in its mechanism study.

    Raises
    ------
    InvalidDataError
        If the policy is another, or sees episodes through a view: a controller sees them as they are.

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> from bayes_tacit.policies import PureStrong, TacitSwitch
    >>> training = load_example()
    >>> controller_for(PureStrong().fit(training), {"handoff": 0}).name
    'pure_strong'
    >>> controller_for(TacitSwitch().fit(training), {"alpha": 0.3}).router
    <Router: a point estimate >= alpha 0.3, post_action; 4 diagnostics, 3 features>
    """
    match fitted:
        case FittedPure():
            return Pure("cheap" if number_in(setting, "handoff") == NEVER else "strong")
        case FittedTaskRouter():
            return TaskRouter(LikelyToFail(fitted.model, number_in(setting, "alpha")))
        case FittedPrefixRouter():
            steps = int(number_in(setting, "k"))
            if steps not in fitted.models:
                expected = f"one of {list(fitted.models)}, the prefixes it was fitted for"
                raise InvalidDataError(expected, field="k", value=steps)
            return PrefixRestart(steps, PrefixValue(fitted.models[steps]), number_in(setting, "alpha"))
        case FittedStepDeferral():
            return StepDeferral(number_in(setting, "alpha"), signal=fitted.diagnostic, timing=deferral)
        case FittedFirstAlarm():
            return FirstAlarm(number_in(setting, "alpha"), signal=fitted.diagnostic, timing=fitted.timing)
        case FittedTacitSwitch(view=None):
            return Tacit(fitted.router(setting))
    expected = "a fitted Pure, TaskRouter, PrefixRouter, StepDeferral, FirstAlarm, or TacitSwitch without a view"
    raise InvalidDataError(expected, field="fitted", value=fitted)


@dataclass(frozen=True, eq=False)
class LikelyToFail:
    """Says from the task's features whether Cheap's chance is below a threshold."""

    model: LogisticFit
    alpha: float

    def __call__(self, features: Mapping[str, float]) -> bool:
        """Tell whether Strong plays."""
        return _probability(self.model, features) < self.alpha


@dataclass(frozen=True, eq=False)
class PrefixValue:
    """Gives Cheap's chance from the task's features and the diagnostics of its first steps."""

    model: LogisticFit

    def __call__(self, prefix: Prefix) -> float:
        """Give the probability that Cheap succeeds."""
        shown = {
            f"{name}[{step}]": value for step, given in enumerate(prefix.diagnostics) for name, value in given.items()
        }
        return _probability(self.model, {**prefix.features, **shown})


def _probability(model: LogisticFit, known: Mapping[str, float]) -> float:
    missing = [name for name in model.names if name not in known]
    if missing:
        raise InvalidDataError(f"{missing[0]!r} among them: the extractor must give it", field="names", value=[*known])
    return float(model.probability(np.array([[known[name] for name in model.names]], dtype=float))[0])


def identity_of(controller: Controller) -> str:
    """Give a text that differs wherever two controllers may decide differently.

    It is for telling kept episodes of one from those of another. A controller with a function of your own is told by
    how that prints.

    Examples
    --------
    >>> identity_of(Pure("cheap"))
    "Pure(agent='cheap', timing='post_action')"
    """
    match controller:
        case Tacit(router=router, shadow=shadow):
            return f"router {router.fingerprint}" + (" in shadow" if shadow else "")
        case TaskRouter(takes_strong=LikelyToFail(model=model, alpha=alpha)):
            return f"task router {_digest(model)} < {alpha!r}"
        case PrefixRestart(steps=steps, value=PrefixValue(model=model), threshold=threshold):
            return f"prefix router after {steps}: {_digest(model)} < {threshold!r}"
    return repr(controller)


def _digest(model: LogisticFit) -> str:
    scaling = model.standardization
    numbers = [model.intercept, model.slopes.tolist(), scaling.mean.tolist(), scaling.scale.tolist()]
    return hashlib.sha256(json.dumps([model.names, numbers]).encode()).hexdigest()
