"""Who makes the next call: what passes between a loop and whatever decides in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from bayes_tacit.data.timing import Timing
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.router.decision import Call


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


GO_ON = Choice("cheap")


@dataclass(frozen=True)
class Checkpoint:
    """What a controller sees of one of Cheap's checkpoints.

    Attributes
    ----------
    diagnostics
        Diagnostics by name; empty without an extractor.
    nll
        Negative log-likelihood of Cheap's action; None where it is not known.
    moment
        What else the loop can show, for controllers of your own that read words: `bayes_tacit.agents.run_episode` gives
        a `Moment`. No controller of the library looks at it.
    """

    diagnostics: Mapping[str, float]
    nll: float | None = None
    moment: object = None


class Pilot(Protocol):
    """Decides in one episode."""

    def before(self) -> Choice:
        """Say who makes the next call; asked before each call unless Strong is in control for good."""
        ...

    def checkpoint(self, checkpoint: Checkpoint) -> Choice:
        """Say what follows from one of Cheap's checkpoints.

        After an action: who makes the next call (if it is "cheap", `before` is still asked). At a proposal: whether it
        is executed. Asked after the action that ends the episode too, so that its score is on record; the answer then
        has no effect.
        """
        ...

    def end(self) -> Choice:
        """Say whether the finished episode stands ("cheap") or Strong starts anew ("restart").

        Asked once, when the task is over or the budget spent, unless Strong is in control for good.
        """
        ...


class Controller(Protocol):
    """A policy with its setting: makes a pilot for each episode."""

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


class GoingOn:
    """A pilot that lets Cheap go on whatever happens; others say where they decide otherwise and what they remember."""

    def memory(self) -> tuple[float, ...]:
        """Give all that it remembers of the episode, besides its features."""
        return ()

    def recall(self, memory: tuple[float, ...]) -> None:
        """Go on from what `memory` gave."""

    def before(self) -> Choice:
        """Let Cheap make the next call."""
        return GO_ON

    def checkpoint(self, checkpoint: Checkpoint) -> Choice:  # noqa: ARG002
        """Let Cheap go on."""
        return GO_ON

    def end(self) -> Choice:
        """Let the episode stand."""
        return GO_ON


def chosen(
    values: Mapping[str, float], names: tuple[str, ...], field: str, episode: str | int | None = None
) -> dict[str, float]:
    """Take numbers by name out of all that an extractor gives."""
    missing = [name for name in names if name not in values]
    if missing:
        raise InvalidDataError(
            f"{missing[0]!r} among them: the extractor must give it", episode=episode, field=field, value=[*values]
        )
    return {name: values[name] for name in names}
