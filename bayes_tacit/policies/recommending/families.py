"""The policies that are tried, from the simplest on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from bayes_tacit.data.costs import StepCost
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import DEFAULT_TIMING, Timing
from bayes_tacit.policies.base import Policy
from bayes_tacit.policies.cascade import Cascade
from bayes_tacit.policies.count import Count
from bayes_tacit.policies.evoroute import EvoRoute
from bayes_tacit.policies.first_alarm import FirstAlarm
from bayes_tacit.policies.landmark import Landmark
from bayes_tacit.policies.prefix_router import PrefixRouter
from bayes_tacit.policies.pure import PureCheap, PureStrong
from bayes_tacit.policies.step_deferral import StepDeferral
from bayes_tacit.policies.tacit_switch import TacitSwitch
from bayes_tacit.policies.task_router import TaskRouter
from bayes_tacit.policies.trim import Trim
from bayes_tacit.policies.tuned import Learner, TunedDeferral, TunedSwitch
from bayes_tacit.policies.world import World

BY_LIKELIHOOD = "TACIT-Switch, memory by likelihood"
STARTED_AND_PACED = ("memory", "pace", "start_level")


def families(
    training: Episodes,
    development: World,
    *,
    timing: Timing = DEFAULT_TIMING,
    options: Mapping[str, Any] | None = None,
) -> tuple[Policy, ...]:
    """Give every policy of the library that can be judged in a world, from the simplest on.

    Parameters
    ----------
    training
        Episodes with the diagnostics that rules of one diagnostic look at, one rule each.
    development
        What it knows decides what can be judged: single steps of Strong only where they can be replayed, handoffs that
        resume only where their counterfactuals are known. A restart can always be judged.
    timing
        What a checkpoint is.
    options
        What `fit_map` is called with besides.

    Examples
    --------
    >>> from bayes_tacit import StepCost, load_example
    >>> episodes = load_example()
    >>> world = World.from_restarts(episodes, strong_steps=episodes.n_steps, cost=StepCost(cheap=1, strong=3))
    >>> for policy in families(episodes, world)[2:]:
    ...     print(policy.name)
    Task Router
    First Alarm (repeat)
    First Alarm (uncertainty)
    First Alarm (stalled)
    First Alarm (invalid)
    Count
    Prefix router
    Cascade
    Landmark
    EvoRoute analogue
    TACIT-Switch
    TACIT-Switch with memory
    TACIT-Switch with memory, start and pace
    Tuned switch
    """
    known = development.counterfactuals.handoff
    fitting = {"timing": timing} | dict(options or {})
    learner = Learner(fitting)
    names = training.diagnostic_names
    replayed = names if development.deferral is not None else ()

    def label(name: str, diagnostic: str) -> str:
        return name if len(names) == 1 else f"{name} ({diagnostic})"

    found: list[Policy] = [PureCheap(), PureStrong(), TaskRouter()]
    found += [FirstAlarm(one, timing, known, name=label("First Alarm", one)) for one in names]
    found.append(Count(timing=timing, handoff=known))
    found += [StepDeferral(one, timing=timing, name=label("Step Deferral", one)) for one in replayed]
    found += [
        PrefixRouter(),
        Cascade(),
        *([Trim(timing=timing, unmarked=fitting.get("unmarked", "due"))] if development.judged is not None else []),
        Landmark(timing=timing, handoff=known),
        EvoRoute(cost=_step_cost(development), timing=timing, handoff=known),
        TacitSwitch(options=fitting, handoff=known),
        TunedSwitch(("memory",), learner, known, name="TACIT-Switch with memory"),
        TunedSwitch(STARTED_AND_PACED, learner, known, name="TACIT-Switch with memory, start and pace"),
    ]
    found += [TunedDeferral(one, timing=timing, name=label("Step Deferral by task", one)) for one in replayed]
    found.append(TunedSwitch(learner=learner, handoff=known))
    if known == "resume":
        found.append(TunedSwitch(learner=learner, handoff="restart", name="Tuned switch, restart"))
    return tuple(found)


def _step_cost(world: World) -> StepCost:
    """Give what steps cost in a world; where that is no number a step, what is usual in the paper."""
    priced = isinstance(world.cost, StepCost) and world.cost.strong > 0
    return cast("StepCost", world.cost) if priced else EvoRoute.cost
