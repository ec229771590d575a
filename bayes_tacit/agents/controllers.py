"""The policies as controllers, so that each can be played."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from bayes_tacit import validate
from bayes_tacit.agents.control import Call, Checkpoint, Choice, Pilot
from bayes_tacit.agents.protocols import Agent, History
from bayes_tacit.data.timing import TIMINGS, Timing
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.router import HandoffState, Router

GO_ON = Choice("cheap")


@dataclass(frozen=True)
class Pure:
    """One agent plays alone: Pure Cheap or Pure Strong.

    Examples
    --------
    >>> Pure("strong").begin({}, "task-1").before(History.__new__(History)).call
    'strong'
    """

    agent: Agent
    timing: Timing = "post_action"

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
class Tacit:
    """TACIT-Switch: hands off for good when the router's score reaches alpha.

    The extractor may give more features and diagnostics than the router takes.

    Attributes
    ----------
    router
        Decides; its timing says whether Strong takes the next action or acts in place of a discarded proposal.
    shadow
        Decide and record, but never hand off.
    """

    router: Router
    shadow: bool = False
    name: str = "tacit_switch"

    @property
    def timing(self) -> Timing:
        """The router's."""
        return cast("Timing", self.router.timing)

    def begin(self, features: Mapping[str, float], episode: str) -> Pilot:
        """Begin an episode with the router's features among those given."""
        chosen = _chosen(features, self.router.feature_names, "features", episode)
        return _Tacit(self.router.start(chosen, shadow=self.shadow, episode=episode))


@dataclass(frozen=True)
class TaskRouter:
    """Chooses Cheap or Strong before the first call, from the task's features alone.

    Attributes
    ----------
    takes_strong
        Says from the features whether Strong plays.
    """

    takes_strong: Callable[[Mapping[str, float]], bool]
    timing: Timing = "post_action"
    name: str = "task_router"

    def begin(self, features: Mapping[str, float], episode: str) -> Pilot:  # noqa: ARG002
        """Begin an episode: this is where it is decided."""
        return _Fixed(Choice("strong" if self.takes_strong(features) else "cheap"))


@dataclass(frozen=True)
class StepDeferral:
    """Gives single steps to Strong where a signal of Cheap's checkpoint is at least a threshold.

    With the timing "proposal" (the paper's) Strong acts in place of the proposal that gave the signal; with
    "post_action" it takes the action after. Then Cheap acts again.

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
    timing: Timing = "proposal"
    name: str = "step_deferral"

    def begin(self, features: Mapping[str, float], episode: str) -> Pilot:  # noqa: ARG002
        """Begin an episode."""
        return _Threshold(self.threshold, self.signal, "strong_once", episode)


@dataclass(frozen=True)
class FirstAlarm:
    """Hands off for good at the first of Cheap's checkpoints where a signal is at least a threshold.

    Attributes
    ----------
    threshold
        Of the signal.
    signal
        As for `StepDeferral`: "nll", or the name of a diagnostic.
    timing
        With "post_action" Strong takes the next action; with "proposal" it acts in place of the proposal.
    """

    threshold: float
    signal: str
    timing: Timing = "post_action"
    name: str = "first_alarm"

    def begin(self, features: Mapping[str, float], episode: str) -> Pilot:  # noqa: ARG002
        """Begin an episode."""
        return _Threshold(self.threshold, self.signal, "strong", episode)


@dataclass(frozen=True)
class Prefix:
    """What a prefix router sees: the task's features, and what Cheap did and showed in its first steps."""

    features: Mapping[str, float]
    history: History
    diagnostics: tuple[Mapping[str, float], ...]


@dataclass(frozen=True)
class PrefixRestart:
    """Looks once, after Cheap's first steps, and goes on with Cheap or restarts with Strong.

    An episode that has ended before is not looked at. The look is charged as one one-off call, and the restart as a
    full Strong rollout on top of the prefix.

    Attributes
    ----------
    steps
        Length K of the prefix.
    value
        Predicted chance that Cheap succeeds, given the prefix.
    threshold
        Strong restarts where the value is below it.
    """

    steps: int
    value: Callable[[Prefix], float]
    threshold: float
    timing: Timing = "post_action"
    name: str = "prefix_router"

    def __post_init__(self) -> None:
        """Check the numbers."""
        validate.whole("steps of the prefix", self.steps, 1)
        validate.number("threshold", self.threshold)

    def begin(self, features: Mapping[str, float], episode: str) -> Pilot:  # noqa: ARG002
        """Begin an episode."""
        return _Prefix(self, features)


@dataclass(frozen=True)
class ForcedHandoff:
    """Hands off for good at a given step: Cheap acts before it, Strong from it on. No proposal is discarded."""

    step: int
    timing: Timing = "post_action"

    def __post_init__(self) -> None:
        """Check the number."""
        validate.whole("step of the handoff", self.step, 0)

    @property
    def name(self) -> str:
        """Name for transcripts."""
        return f"handoff_at_{self.step}"

    def begin(self, features: Mapping[str, float], episode: str) -> Pilot:  # noqa: ARG002
        """Begin an episode."""
        return _Forced(self.step)


@dataclass(frozen=True)
class _Fixed:
    choice: Choice

    def before(self, history: History) -> Choice:  # noqa: ARG002
        return self.choice

    def checkpoint(self, checkpoint: Checkpoint) -> Choice:  # noqa: ARG002
        return self.choice


@dataclass(frozen=True)
class _Forced:
    step: int

    def before(self, history: History) -> Choice:
        return Choice("strong") if len(history) >= self.step else GO_ON

    def checkpoint(self, checkpoint: Checkpoint) -> Choice:  # noqa: ARG002
        return GO_ON


@dataclass(frozen=True)
class _Tacit:
    state: HandoffState

    def before(self, history: History) -> Choice:  # noqa: ARG002
        return GO_ON

    def checkpoint(self, checkpoint: Checkpoint) -> Choice:
        names = self.state.router.diagnostic_names
        chosen = _chosen(checkpoint.diagnostics, names, "diagnostics", self.state.episode)
        decision = self.state.observe(chosen)
        facts: dict[str, Any] = decision._asdict()
        return Choice("strong" if decision.handoff else "cheap", facts=facts)


@dataclass(frozen=True)
class _Threshold:
    threshold: float
    signal: str
    answer: Call
    episode: str

    def before(self, history: History) -> Choice:  # noqa: ARG002
        return GO_ON

    def checkpoint(self, checkpoint: Checkpoint) -> Choice:
        if self.signal == "nll":
            value = checkpoint.proposal.nll
        else:
            value = _chosen(checkpoint.diagnostics, (self.signal,), "diagnostics", self.episode)[self.signal]
        reached = value is not None and value >= self.threshold
        return Choice(self.answer if reached else "cheap", facts={"signal": value})


class _Prefix:
    def __init__(self, policy: PrefixRestart, features: Mapping[str, float]) -> None:
        self._policy = policy
        self._features = features
        self._seen: list[Mapping[str, float]] = []
        self._asked = False

    def before(self, history: History) -> Choice:
        if self._asked or len(history) < self._policy.steps:
            return GO_ON
        self._asked = True
        value = float(self._policy.value(Prefix(self._features, history, tuple(self._seen))))
        call = Choice("restart").call if value < self._policy.threshold else GO_ON.call
        return Choice(call, one_off_calls=1, facts={"value": value})

    def checkpoint(self, checkpoint: Checkpoint) -> Choice:
        self._seen.append(checkpoint.diagnostics)
        return GO_ON


def _chosen(
    values: Mapping[str, float], names: tuple[str, ...], field: str, episode: str | int | None
) -> dict[str, float]:
    missing = [name for name in names if name not in values]
    if missing:
        raise InvalidDataError(
            f"{missing[0]!r} among them: the extractor must give it", episode=episode, field=field, value=[*values]
        )
    return {name: values[name] for name in names}
