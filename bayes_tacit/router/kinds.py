"""The policies that a file can hold besides TACIT-Switch: each one's controller as plain JSON values, and back.

========================  =========================================================================================
policy                    numbers
========================  =========================================================================================
`pure_cheap`              none
`pure_strong`             none
`task_router`             threshold, chance
`first_alarm`             threshold, signal
`step_deferral`           threshold, signal
`step_deferral_by_task`   signal, levels, level, cheap, strong (chance, mean, scale, shift each), start_weight, start
`count`                   threshold, levels (by diagnostic)
`landmark`                threshold, cheap, strong
`prefix_router`           threshold, steps, chance
`cascade`                 threshold, chance
`trim`                    threshold, wrong
`evoroute`                threshold, price, start, experience
========================  =========================================================================================

A chance, and `wrong`, is a logistic model: names, mean, scale, intercept, slopes. An experience has names, mean, scale,
places and for each place count, cheap, strong, cost; and nearest. A threshold that nothing reaches is null.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from bayes_tacit import validate
from bayes_tacit.data.timing import Handoff, Timing
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.router.control import (
    CascadeController,
    Chance,
    CountController,
    EvoRouteController,
    Experience,
    FirstAlarmController,
    LandmarkController,
    PrefixRouterController,
    PureController,
    StepDeferralController,
    TaskDeferralController,
    TaskRouterController,
    TrimController,
)
from bayes_tacit.router.control.experience import MOST, SUMS

Played = (
    CascadeController
    | CountController
    | EvoRouteController
    | FirstAlarmController
    | LandmarkController
    | PrefixRouterController
    | PureController
    | StepDeferralController
    | TaskDeferralController
    | TaskRouterController
    | TrimController
)
"""A controller that a file can hold."""

Numbers = dict[str, Any]
CHANCE = ("names", "mean", "scale", "intercept", "slopes")
AGENT = ("chance", "mean", "scale", "shift")
EXPERIENCE = ("names", "mean", "scale", "places", *SUMS, "nearest")


@dataclass(frozen=True)
class Setup:
    """What all policies have: timing, what Strong does after a handoff, and the diagnostics."""

    timing: Timing
    handoff: Handoff
    diagnostics: tuple[str, ...]


@dataclass(frozen=True)
class Kind:
    """How one policy is written and read.

    Attributes
    ----------
    keys
        Of its numbers.
    write
        Gives the numbers.
    read
        Makes the controller from the numbers and what all policies have.
    score
        Which of the controller's facts is compared with the threshold.
    """

    keys: tuple[str, ...]
    write: Callable[[Any], Numbers]
    read: Callable[[Numbers, Setup], Played]
    score: str = "value"


def kind_of(controller: object) -> str:
    """Name the policy of a controller."""
    for kind, made in CONTROLLERS.items():
        if type(controller) is made and (made is not PureController or controller.name == kind):  # type: ignore[attr-defined]
            return kind
    expected = "that of a policy that a router file can hold"
    raise InvalidDataError(expected, field="controller", value=type(controller).__name__)


def thresholds(controller: Played, features: Mapping[str, float]) -> tuple[float | None, float | None]:
    """Give what is compared with before the first step, and later; None where nothing is, or nothing reaches it."""
    match controller:
        case TaskDeferralController():
            return finite(controller.start), finite(controller.threshold_of(features))
        case TaskRouterController():
            return controller.threshold, None
        case PureController():
            return None, None
        case EvoRouteController():
            return controller.threshold if controller.start else None, controller.threshold
    return None, finite(controller.threshold)


def finite(threshold: float) -> float | None:
    """Give a threshold as JSON has it."""
    return None if threshold == math.inf else float(threshold)


def _threshold(numbers: Numbers, key: str = "threshold") -> float:
    return math.inf if numbers[key] is None else validate.number(f"numbers.{key}", numbers[key])


def _written(chance: object) -> Numbers:
    if not isinstance(chance, Chance):
        raise InvalidDataError("a Chance: a file holds no other function", field="chance", value=chance)
    content = (chance.names, chance.mean, chance.scale, chance.intercept, chance.slopes)
    return {key: list(value) if isinstance(value, tuple) else value for key, value in zip(CHANCE, content, strict=True)}


def _chance(given: object, name: str) -> Chance:
    content: Numbers = validate.record(name, given, CHANCE)
    names = validate.names(f"{name}.names", content["names"])
    columns = {
        key: tuple(validate.numbers(f"{name}.{key}", content[key], (len(names),)).tolist())
        for key in ("mean", "scale", "slopes")
    }
    return Chance(names, columns["mean"], columns["scale"], content["intercept"], columns["slopes"])


def _signal(numbers: Numbers, setup: Setup) -> str:
    return validate.choice("numbers.signal", numbers["signal"], setup.diagnostics)


def _pure(agent: Literal["cheap", "strong"]) -> Kind:
    return Kind((), lambda _: {}, lambda _, setup: PureController(agent, setup.timing))


def _read_by_task(numbers: Numbers, setup: Setup) -> Played:
    levels = numbers["levels"]
    if not isinstance(levels, list):
        raise InvalidDataError("a list of numbers", field="numbers.levels", value=levels)
    agents: list[Numbers] = [validate.record(f"numbers.{name}", numbers[name], AGENT) for name in ("cheap", "strong")]
    cheap, strong = (_chance(one["chance"], "chance") for one in agents)
    return TaskDeferralController(
        _signal(numbers, setup),
        tuple(validate.numbers("numbers.levels", levels, (len(levels),)).tolist()),
        numbers["level"],
        (cheap, strong),
        ((agents[0]["mean"], agents[0]["scale"]), (agents[1]["mean"], agents[1]["scale"])),
        (agents[0]["shift"], agents[1]["shift"]),
        numbers["start_weight"],
        _threshold(numbers, "start"),
        setup.timing,
    )


def _write_by_task(controller: TaskDeferralController) -> Numbers:
    agents = {
        agent: {"chance": _written(chance), "mean": mean, "scale": scale, "shift": shift}
        for agent, chance, (mean, scale), shift in zip(
            ("cheap", "strong"), controller.chances, controller.spread, controller.shifts, strict=True
        )
    }
    return {
        "signal": controller.signal,
        "levels": list(controller.levels),
        "level": controller.level,
        **agents,
        "start_weight": controller.start_weight,
        "start": finite(controller.start),
    }


def _read_count(numbers: Numbers, setup: Setup) -> Played:
    levels = validate.record("numbers.levels", numbers["levels"], setup.diagnostics)
    known = {name: validate.number(f"numbers.levels.{name}", levels[name]) for name in setup.diagnostics}
    return CountController(known, _threshold(numbers), setup.timing, setup.handoff)


def _write_evoroute(controller: EvoRouteController) -> Numbers:
    experience = controller.experience
    kept = {name: getattr(experience, name) for name in EXPERIENCE}
    known = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in kept.items()}
    return {
        "threshold": controller.threshold,
        "price": controller.price,
        "start": controller.start,
        "experience": {name: list(value) if isinstance(value, tuple) else value for name, value in known.items()},
    }


def _read_evoroute(numbers: Numbers, setup: Setup) -> Played:
    known: Numbers = validate.record("numbers.experience", numbers["experience"], EXPERIENCE)
    name = "numbers.experience"
    names = validate.names(f"{name}.names", known["names"])
    if not isinstance(known["places"], list) or not 1 <= len(known["places"]) <= MOST:
        raise InvalidDataError(f"a list of 1 to {MOST:,} places", field=f"{name}.places", value=known["places"])
    n = len(known["places"])
    shapes = {"mean": (len(names),), "scale": (len(names),), "places": (n, len(names)), **dict.fromkeys(SUMS, (n,))}
    read = {key: validate.numbers(f"{name}.{key}", known[key], shape) for key, shape in shapes.items()}
    mean, scale = (tuple(read.pop(key).tolist()) for key in ("mean", "scale"))
    experience = Experience(names, mean, scale, **read, nearest=known["nearest"])
    common = numbers["price"], numbers["threshold"], numbers["start"]
    return EvoRouteController(setup.diagnostics, experience, *common, setup.timing, setup.handoff)


KINDS: Mapping[str, Kind] = {
    "pure_cheap": _pure("cheap"),
    "pure_strong": _pure("strong"),
    "task_router": Kind(
        ("threshold", "chance"),
        lambda one: {"threshold": finite(one.threshold), "chance": _written(one.chance)},
        lambda given, setup: TaskRouterController(_chance(given["chance"], "chance"), _threshold(given), setup.timing),
    ),
    "first_alarm": Kind(
        ("threshold", "signal"),
        lambda one: {"threshold": finite(one.threshold), "signal": one.signal},
        lambda given, setup: FirstAlarmController(
            _threshold(given), _signal(given, setup), setup.timing, setup.handoff
        ),
        "signal",
    ),
    "step_deferral": Kind(
        ("threshold", "signal"),
        lambda one: {"threshold": finite(one.threshold), "signal": one.signal},
        lambda given, setup: StepDeferralController(_threshold(given), _signal(given, setup), setup.timing),
        "signal",
    ),
    "step_deferral_by_task": Kind(
        ("signal", "levels", "level", "cheap", "strong", "start_weight", "start"),
        _write_by_task,
        _read_by_task,
        "signal",
    ),
    "count": Kind(
        ("threshold", "levels"),
        lambda one: {"threshold": finite(one.threshold), "levels": dict(one.levels)},
        _read_count,
        "signs",
    ),
    "landmark": Kind(
        ("threshold", "cheap", "strong"),
        lambda one: {
            "threshold": finite(one.threshold),
            "cheap": _written(one.cheap),
            "strong": _written(one.strong),
        },
        lambda given, setup: LandmarkController(
            setup.diagnostics,
            _chance(given["cheap"], "cheap"),
            _chance(given["strong"], "strong"),
            _threshold(given),
            setup.timing,
            setup.handoff,
        ),
        "score",
    ),
    "prefix_router": Kind(
        ("threshold", "steps", "chance"),
        lambda one: {"threshold": finite(one.threshold), "steps": one.steps, "chance": _written(one.chance)},
        lambda given, setup: PrefixRouterController(
            given["steps"],
            _chance(given["chance"], "chance"),
            _threshold(given),
            setup.timing,
            diagnostics=setup.diagnostics,
        ),
    ),
    "cascade": Kind(
        ("threshold", "chance"),
        lambda one: {"threshold": finite(one.threshold), "chance": _written(one.chance)},
        lambda given, setup: CascadeController(
            _chance(given["chance"], "chance"), _threshold(given), setup.timing, diagnostics=setup.diagnostics
        ),
    ),
    "trim": Kind(
        ("threshold", "wrong"),
        lambda one: {"threshold": finite(one.threshold), "wrong": _written(one.wrong)},
        lambda given, setup: TrimController(
            setup.diagnostics, _chance(given["wrong"], "wrong"), _threshold(given), setup.timing
        ),
        "wrong",
    ),
    "evoroute": Kind(("threshold", "price", "start", "experience"), _write_evoroute, _read_evoroute, "score"),
}

CONTROLLERS: Mapping[str, type] = {
    "pure_cheap": PureController,
    "pure_strong": PureController,
    "task_router": TaskRouterController,
    "first_alarm": FirstAlarmController,
    "step_deferral": StepDeferralController,
    "step_deferral_by_task": TaskDeferralController,
    "count": CountController,
    "landmark": LandmarkController,
    "prefix_router": PrefixRouterController,
    "cascade": CascadeController,
    "trim": TrimController,
    "evoroute": EvoRouteController,
}
