"""A corridor that one walks along: the smallest world in which the right behaviour is obvious."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bayes_tacit import Router
from bayes_tacit.agents import ActorError, History, Observation, Proposal, StepResult
from bayes_tacit.data.timing import Timing
from bayes_tacit.router.rule import failing_below
from bayes_tacit.router.rules import Chance, Ended, Prefix, Signal
from bayes_tacit.router.tacit import HandoffScore


class Corridor:
    """Walk right to the door at the end; anything but `left`, `right` and `wait` is not understood."""

    def __init__(self, length: int = 3, breaks_at: int | None = None) -> None:
        self.length = length
        self.breaks_at = breaks_at
        self.resets = 0
        self.taken: list[str] = []

    def reset(self) -> Observation:
        self.resets += 1
        self.taken = []
        self.place = 0
        return self._seen()

    def step(self, action: str) -> StepResult:
        if len(self.taken) == self.breaks_at:
            raise OSError("the engine is gone")
        self.taken.append(action)
        moves = {"right": 1, "left": -1, "wait": 0}
        self.place = max(0, self.place + moves.get(action, 0))
        there = self.place >= self.length
        return StepResult(self._seen(), float(there), done=there, success=there, valid=action in moves)

    def _seen(self) -> Observation:
        return Observation(f"place {self.place}", ("left", "right", "wait"), task=f"reach {self.length}")


@dataclass
class Walker:
    """Takes the actions of a list, then the last one for ever; what it was shown is kept."""

    name: str
    actions: tuple[str, ...]
    nll: tuple[float | None, ...] = (None,)
    seen: list[History] = field(default_factory=list)

    def act(self, history: History) -> Proposal:
        self.seen.append(history)
        at = len(history)
        return Proposal(
            self.actions[min(at, len(self.actions) - 1)],
            nll=self.nll[min(at, len(self.nll) - 1)],
            usage={"tokens": 1.5},
            seconds=0.25,
        )


@dataclass
class Moody:
    """Fails as its list says before each answer."""

    inner: Walker
    errors: list[ActorError]
    name: str = "moody"

    def act(self, history: History) -> Proposal:
        if self.errors:
            raise self.errors.pop(0)
        return self.inner.act(history)


class Stalled:
    """One diagnostic: did this action fail to bring us on? At a proposal: will it?"""

    feature_names = ("length", "spare")
    diagnostic_names = ("stalled", "third")

    def features(self, first: Observation) -> Mapping[str, float]:
        return {"length": float(first.task.split()[-1]), "spare": 1 / 3}

    def diagnostics(self, history: History, proposal: Proposal, result: StepResult | None) -> Mapping[str, float]:
        if result is None:
            return {"stalled": float(proposal.action != "right"), "third": 1 / 3}
        return {"stalled": float(result.observation.text == history.observation.text), "third": 1 / 3}


def threshold_router(threshold: float, timing: Timing = "post_action", **settings: Any) -> Router:
    """Hands off when `stalled` has summed to the threshold: the scale is so small that q jumps from 0 to 1 there."""
    rule = HandoffScore(
        w=[[1.0]],
        gamma0=[20.0],
        gamma=[[0.0]],
        beta0=[math.log(threshold - 0.5)],
        beta=[[0.0]],
        s=[1e-3],
        family="lognormal",
        memory=[1.0],
        clock=False,
        mean=[0.0],
        scale=[1.0],
    )
    return Router(
        rule=rule, alpha=0.5, timing=timing, feature_names=("length",), diagnostic_names=("stalled",), **settings
    )


def deferral(threshold: float, signal: str = "nll", timing: Timing = "proposal") -> Router:
    """Strong takes one step where the signal reaches the threshold."""
    return Router(rule=Signal(), alpha=threshold, call="strong_once", timing=timing, diagnostic_names=(signal,))


def prefix_router(steps: int, chance: Chance | float, timing: Timing = "post_action") -> Router:
    """Asks once after so many steps, and restarts with Strong where Cheap's chance is below a half."""
    wrong = Prefix(steps, chance if isinstance(chance, Chance) else sure(chance, 2 + 2 * steps))
    return Router(rule=wrong, alpha=failing_below(0.5), call="restart", timing=timing, **NAMES)


def cascade(chance: Chance | float, timing: Timing = "post_action") -> Router:
    """Judges the finished episode by totals, means, highest and last values likewise."""
    chance = chance if isinstance(chance, Chance) else sure(chance, 10)
    rule = Ended(("total", "mean", "highest", "last"), chance)
    return Router(rule=rule, alpha=failing_below(0.5), call="restart", timing=timing, **NAMES)


def sure(chance: float, columns: int) -> Chance:
    """The same chance whatever the columns are."""
    return Chance(np.zeros(columns), np.ones(columns), math.log(chance / (1 - chance)), np.zeros(columns))


NAMES: Any = {"feature_names": Stalled.feature_names, "diagnostic_names": Stalled.diagnostic_names}


def ticking() -> Callable[[], float]:
    """A clock that goes on by a second each time it is looked at."""
    times = iter(range(10**6))
    return lambda: float(next(times))


RIGHT = ("right",)
WAIT = ("wait",)
