"""A corridor that one walks along: the smallest world in which the right behaviour is obvious."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from bayes_tacit import Router
from bayes_tacit.agents import ActorError, History, Observation, Proposal, StepResult
from bayes_tacit.model.families import FAMILIES
from bayes_tacit.scores.core import Draws


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


def threshold_router(threshold: float, timing: str = "post_action") -> Router:
    """Hands off when `stalled` has summed to the threshold: the scale is so small that q jumps from 0 to 1 there."""
    return Router(
        diagnostic_names=("stalled",),
        feature_names=("length",),
        feature_mean=np.array([0.0]),
        feature_scale=np.array([1.0]),
        draws=Draws(
            w=np.array([[1.0]]),
            gamma0=np.array([20.0]),
            gamma=np.array([[0.0]]),
            beta0=np.array([math.log(threshold - 0.5)]),
            beta=np.array([[0.0]]),
            s=np.array([1e-3]),
            family=FAMILIES["lognormal"],
        ),
        alpha=0.5,
        timing=timing,
    )


def ticking() -> Callable[[], float]:
    """A clock that goes on by a second each time it is looked at."""
    times = iter(range(10**6))
    return lambda: float(next(times))


RIGHT = ("right",)
WAIT = ("wait",)
