"""A transcript as a value: a header, what happened in order, and the end."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from bayes_tacit.agents.protocols import Agent, History, Observation, Proposal, Step, StepResult
from bayes_tacit.agents.retry import Failure
from bayes_tacit.data.timing import Timing
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.router.control import Choice

Status = Literal["done", "budget", "actor_error", "environment_error"]
"""How an episode ended: the environment said so, the budget was spent, or something broke."""

CONCLUSIVE: tuple[Status, ...] = ("done", "budget")
"""Ends that say something about the agents."""


@dataclass(frozen=True)
class Header:
    """Who played what under which rules.

    Attributes
    ----------
    episode
        Id of the task.
    policy
        Name of the controller.
    timing
        Where Cheap's checkpoints were.
    cheap, strong
        Names of the actors; None where there was none.
    max_actions, max_calls
        The budget.
    info
        Anything else worth keeping, as JSON values.
    """

    episode: str
    policy: str
    timing: Timing
    cheap: str | None
    strong: str | None
    max_actions: int
    max_calls: int | None
    info: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ResetRecord:
    """The environment began, for the first time (run 0) or again (run 1).

    Attributes
    ----------
    features
        The task's features by name; None without an extractor, and after a restart.
    """

    run: int
    observation: Observation
    features: Mapping[str, float] | None
    seconds: float


@dataclass(frozen=True)
class ChoiceRecord:
    """What a controller said before a call or at the end, where it was more than that Cheap goes on."""

    run: int
    step: int
    choice: Choice
    cost: float


@dataclass(frozen=True)
class StepRecord:
    """One call that was answered.

    Attributes
    ----------
    run, step
        Position: how often the environment was reset before, and how many actions were executed since.
    agent, proposal
        Who was asked, and the answer.
    executed
        Whether the action was sent to the environment. A discarded proposal was not.
    result
        What came of it; None if it was not executed or the environment broke.
    diagnostics
        Of Cheap's checkpoint; None for Strong and without an extractor.
    choice
        What the controller said at Cheap's checkpoint; None for Strong.
    failures
        Earlier attempts at this call that gave no answer.
    cost
        What the call, and one-off calls at its checkpoint, added to the cost.
    seconds
        How long the environment took.
    """

    run: int
    step: int
    agent: Agent
    proposal: Proposal
    executed: bool
    result: StepResult | None
    diagnostics: Mapping[str, float] | None
    choice: Choice | None
    failures: tuple[Failure, ...]
    cost: float
    seconds: float


@dataclass(frozen=True)
class End:
    """How it ended.

    Attributes
    ----------
    success
        Whether the task was solved; false wherever something broke.
    actions
        Executed actions of the last run.
    cheap_calls, strong_calls, one_off_calls, cost
        Of the whole episode, restarts included.
    handoff_step
        The step from which Strong acted for good, None if it did not; 0 after a restart.
    restarted
        Whether Strong began again from the initial state.
    seconds
        From the first reset to the end.
    error
        What broke.
    failures
        The attempts at the call that was given up, if one was.
    """

    status: Status
    success: bool
    actions: int
    cheap_calls: int
    strong_calls: int
    one_off_calls: int
    cost: float
    handoff_step: int | None
    restarted: bool
    seconds: float
    error: str | None = None
    failures: tuple[Failure, ...] = ()


Record = ResetRecord | ChoiceRecord | StepRecord


@dataclass(frozen=True)
class Transcript:
    """A finished episode."""

    header: Header
    records: tuple[Record, ...]
    end: End

    @property
    def episode(self) -> str:
        """Id of the task."""
        return self.header.episode

    @property
    def conclusive(self) -> bool:
        """Whether the end says something about the agents, and not about a server or an engine that broke."""
        return self.end.status in CONCLUSIVE

    @property
    def task(self) -> str:
        """What was to be done; empty if the environment never began."""
        first = next(self._of(ResetRecord), None)
        return "" if first is None else first.observation.task

    @property
    def features(self) -> Mapping[str, float] | None:
        """The task's features, if there was an extractor."""
        first = next(self._of(ResetRecord), None)
        return None if first is None else first.features

    @property
    def steps(self) -> tuple[StepRecord, ...]:
        """Every answered call, in order."""
        return tuple(self._of(StepRecord))

    @property
    def executed(self) -> tuple[StepRecord, ...]:
        """The actions of the last run that have a result."""
        run = max((record.run for record in self._of(ResetRecord)), default=0)
        return tuple(step for step in self._of(StepRecord) if step.run == run and step.result is not None)

    @property
    def checkpoints(self) -> tuple[StepRecord, ...]:
        """Cheap's checkpoints."""
        return tuple(step for step in self._of(StepRecord) if step.choice is not None)

    def history(self, n_steps: int | None = None) -> History:
        """Give what was seen in the last run, up to so many actions.

        Raises
        ------
        InvalidDataError
            If the environment never began.
        """
        seen = [record.observation for record in self._of(ResetRecord)]
        if not seen:
            raise InvalidDataError(
                "an environment that began", episode=self.episode, field="status", value=self.end.status
            )
        taken = self.executed if n_steps is None else self.executed[:n_steps]
        steps = tuple(Step(step.agent, step.proposal, step.result) for step in taken if step.result is not None)
        return History(seen[-1], steps, self.episode)

    def fingerprint(self) -> str:
        """Digest all but the seconds: equal for two plays that went the same way."""
        return hashlib.sha256(json.dumps(_without_seconds(asdict(self)), sort_keys=True).encode()).hexdigest()

    def _of[T: Record](self, kind: type[T]) -> Iterator[T]:
        return (record for record in self.records if isinstance(record, kind))


EVENTS: dict[str, type[Header] | type[Record] | type[End]] = {
    "start": Header,
    "reset": ResetRecord,
    "choice": ChoiceRecord,
    "step": StepRecord,
    "end": End,
}
_NAMES = {kind: event for event, kind in EVENTS.items()}


def event_of(record: Header | Record | End) -> str:
    """Return the name of a line's event."""
    return _NAMES[type(record)]


def _without_seconds(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _without_seconds(inner) for key, inner in value.items() if key not in ("seconds", "waited")}
    return [_without_seconds(inner) for inner in value] if isinstance(value, list | tuple) else value
