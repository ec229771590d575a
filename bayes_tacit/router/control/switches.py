"""Controllers that give Strong the task, the rest of it, or single steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from bayes_tacit import validate
from bayes_tacit.data.timing import (
    DEFAULT_HANDOFF,
    DEFAULT_TIMING,
    HANDOFFS,
    TIMINGS,
    Handoff,
    Timing,
    discards_proposal,
)
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.router.control.pilot import GO_ON, Checkpoint, Choice, GoingOn, Pilot, chosen
from bayes_tacit.router.decision import STRONG_BY, Call
from bayes_tacit.scores.ties import reached_from


@dataclass(frozen=True)
class PureController:
    """One agent plays alone: Pure Cheap or Pure Strong.

    Examples
    --------
    >>> PureController("strong").begin({}, "task-1").before().call
    'strong'
    """

    agent: Literal["cheap", "strong"]
    timing: Timing = DEFAULT_TIMING

    def __post_init__(self) -> None:
        """Check the words."""
        validate.choice("agent", self.agent, ("cheap", "strong"))
        validate.choice("timing", self.timing, TIMINGS)

    @property
    def name(self) -> str:
        """Name for transcripts."""
        return f"pure_{self.agent}"

    def begin(self, features: Mapping[str, float], episode: str) -> Pilot:  # noqa: ARG002
        """Begin an episode."""
        return _Fixed(Choice(self.agent))


@dataclass(frozen=True)
class TaskRouterController:
    """Chooses Cheap or Strong before the first call, from the task's features alone.

    Attributes
    ----------
    chance
        Gives the probability that Cheap succeeds from the features, such as a `Chance`.
    threshold
        Strong plays where the probability is below it.
    """

    chance: Callable[[Mapping[str, float]], float]
    threshold: float
    timing: Timing = DEFAULT_TIMING
    name: str = "task_router"

    def begin(self, features: Mapping[str, float], episode: str) -> Pilot:  # noqa: ARG002
        """Begin an episode: this is where it is decided."""
        value = float(self.chance(features))
        return _Fixed(Choice("strong" if value < self.threshold else "cheap", facts={"value": value}))


@dataclass(frozen=True)
class StepDeferralController:
    """Gives single steps to Strong where a signal of Cheap's checkpoint is at least a threshold.

    With the timing "proposal" (that of the paper's agents) Strong acts in place of the proposal that gave the signal;
    with "post_action" it takes the action after. Then Cheap acts again.

    Attributes
    ----------
    threshold
        Of the signal.
    signal
        "nll", the negative log-likelihood of Cheap's action (never reached where it is missing), or the name of a
        diagnostic.
    """

    threshold: float
    signal: str = "nll"
    timing: Timing = DEFAULT_TIMING
    name: str = "step_deferral"

    def begin(self, features: Mapping[str, float], episode: str) -> Pilot:  # noqa: ARG002
        """Begin an episode."""
        return _Threshold(self.threshold, self.signal, "strong_once", episode)


@dataclass(frozen=True)
class FirstAlarmController:
    """Hands off for good at the first of Cheap's checkpoints where a signal is at least a threshold.

    Attributes
    ----------
    threshold
        Of the signal.
    signal
        As for `StepDeferralController`: "nll", or the name of a diagnostic.
    timing
        With "post_action" Strong takes the next action; with "proposal" it acts in place of the proposal.
    handoff
        Whether Strong resumes from Cheap's state or restarts the task.

    Examples
    --------
    >>> pilot = FirstAlarmController(0.5, "uncertainty").begin({}, "task-1")
    >>> [pilot.checkpoint(Checkpoint({"uncertainty": value})).call for value in (0.2, 0.7)]
    ['cheap', 'strong']
    """

    threshold: float
    signal: str
    timing: Timing = DEFAULT_TIMING
    handoff: Handoff = DEFAULT_HANDOFF
    name: str = "first_alarm"

    def __post_init__(self) -> None:
        """Check the word."""
        validate.choice("handoff", self.handoff, HANDOFFS)

    def begin(self, features: Mapping[str, float], episode: str) -> Pilot:  # noqa: ARG002
        """Begin an episode."""
        return _Threshold(reached_from(self.threshold), self.signal, STRONG_BY[self.handoff], episode)


@dataclass(frozen=True)
class ForcedHandoffController:
    """Hands off for good at a given step: Cheap acts before it, Strong from it on.

    No proposal is discarded, unless it is told to, as a policy does that looks at Cheap's proposal for that step.
    """

    step: int
    timing: Timing = DEFAULT_TIMING
    discards: bool = False

    def __post_init__(self) -> None:
        """Check the number."""
        validate.whole("step of the handoff", self.step, 0)
        if self.discards and not discards_proposal(self.timing):
            raise InvalidDataError("'proposal' where one is discarded", field="timing", value=self.timing)

    @property
    def name(self) -> str:
        """Name for transcripts."""
        return f"handoff_at_{self.step}"

    def begin(self, features: Mapping[str, float], episode: str) -> Pilot:  # noqa: ARG002
        """Begin an episode."""
        return _Forced(self.step, self.discards)


@dataclass
class _Fixed(GoingOn):
    choice: Choice

    def before(self) -> Choice:
        choice = self.choice
        if choice.call == "cheap":
            self.choice = GO_ON
        return choice


@dataclass
class _Forced(GoingOn):
    left: int
    discards: bool

    def before(self) -> Choice:
        return GO_ON if self.left or self.discards else Choice("strong")

    def checkpoint(self, checkpoint: Checkpoint) -> Choice:  # noqa: ARG002
        if not self.left:
            return Choice("strong")
        self.left -= 1
        return GO_ON


@dataclass(frozen=True)
class _Threshold(GoingOn):
    threshold: float
    signal: str
    answer: Call
    episode: str

    def checkpoint(self, checkpoint: Checkpoint) -> Choice:
        if self.signal == "nll":
            value = checkpoint.nll
        else:
            value = chosen(checkpoint.diagnostics, (self.signal,), "diagnostics", self.episode)[self.signal]
        reached = value is not None and value >= self.threshold
        return Choice(self.answer if reached else "cheap", facts={"signal": value})
