"""Who makes the next call: the protocol between the loop and whatever decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from bayes_tacit.agents.protocols import History, Proposal, StepResult
from bayes_tacit.data.timing import Timing

Call = Literal["cheap", "strong", "strong_once", "restart"]
"""Who acts: Cheap; Strong from here to the end; Strong for one step; Strong from a fresh start to the end."""


@dataclass(frozen=True)
class Choice:
    """What a controller says.

    Attributes
    ----------
    call
        Who acts. At an unexecuted proposal "cheap" executes it, and everything else discards it.
    one_off_calls
        Calls that were made to decide and are no steps, such as that of a value head.
    facts
        Why: numbers and words for the transcript, such as the score.
    """

    call: Call
    one_off_calls: int = 0
    facts: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Checkpoint:
    """What a controller sees of one of Cheap's checkpoints.

    Attributes
    ----------
    history
        What came before this action.
    proposal
        Cheap's action.
    result
        What came of it; None where it was not executed yet.
    diagnostics
        Diagnostics by name; empty without an extractor.
    """

    history: History
    proposal: Proposal
    result: StepResult | None
    diagnostics: Mapping[str, float]


class Pilot(Protocol):
    """Decides in one episode."""

    def before(self, history: History) -> Choice:
        """Say who makes the next call; asked before each call unless Strong is in control for good."""
        ...

    def checkpoint(self, checkpoint: Checkpoint) -> Choice:
        """Say what follows from one of Cheap's checkpoints.

        After an action: who makes the next call (if it is "cheap", `before` is still asked). At a proposal: whether it
        is executed. Asked after the action that ends the episode too, so that its score is on record; the answer then
        has no effect.
        """
        ...


class Controller(Protocol):
    """A policy: makes a pilot for each episode."""

    @property
    def name(self) -> str:
        """A name for transcripts."""
        ...

    @property
    def timing(self) -> Timing:
        """Where Cheap's checkpoints are."""
        ...

    def begin(self, features: Mapping[str, float], episode: str) -> Pilot:
        """Begin an episode with the task's features, empty without an extractor."""
        ...
