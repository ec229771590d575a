"""What the loop needs of an environment, an actor and an extractor, what passes between them, and what can go wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from bayes_tacit.errors import FileFormatError, TacitError

Agent = Literal["cheap", "strong"]
"""Which of the two acts."""


@dataclass(frozen=True)
class Observation:
    """What a player sees: the environment's words, the actions that can be taken (None for any), and the task."""

    text: str
    admissible: tuple[str, ...] | None = None
    task: str = ""


@dataclass(frozen=True)
class StepResult:
    """What came of one action: what is seen now, the reward, whether the episode is over and the task solved.

    `valid` says whether the environment understood the action. One that it did not still counts as an action.
    """

    observation: Observation
    reward: float = 0.0
    done: bool = False
    success: bool = False
    valid: bool = True


@dataclass(frozen=True)
class Proposal:
    """What an actor wants to do.

    Attributes
    ----------
    action, raw
        The action, as the environment takes it, and the answer as it came.
    nll
        Negative log-likelihood of the action, the sum or the mean over tokens; None where it is not known.
    fallback
        Whether the action was put in place of an answer that could not be used.
    usage, seconds
        What the call used, such as tokens; how long it took, which the loop measures where it is 0.
    """

    action: str
    nll: float | None = None
    fallback: bool = False
    raw: str = ""
    usage: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True)
class Step:
    """An action that was taken: by whom, what was proposed, and what came of it."""

    agent: Agent
    proposal: Proposal
    result: StepResult


@dataclass(frozen=True)
class History:
    """All that was seen since the episode began, or began again; proposals that were not executed are not in it.

    The `episode` tells apart tasks that begin alike; two histories of which all else is the same are equal.

    Examples
    --------
    >>> history = History(Observation("You are in a kitchen.", ("look", "go to shelf 1"), task="find the cup"))
    >>> after = history.then(Step("cheap", Proposal("look"), StepResult(Observation("You see a shelf 1."))))
    >>> after.task, after.observation.text, len(after)
    ('find the cup', 'You see a shelf 1.', 1)
    """

    first: Observation
    steps: tuple[Step, ...] = ()
    episode: str = field(default="", compare=False)

    @property
    def task(self) -> str:
        """What is to be done."""
        return self.first.task

    @property
    def observation(self) -> Observation:
        """What is seen now."""
        return self.steps[-1].result.observation if self.steps else self.first

    @property
    def actions(self) -> tuple[str, ...]:
        """The actions that were taken."""
        return tuple(step.proposal.action for step in self.steps)

    def then(self, step: Step) -> History:
        """Return the history with one more step."""
        return History(self.first, (*self.steps, step), self.episode)

    def __len__(self) -> int:
        return len(self.steps)


class Environment(Protocol):
    """A task that can be played.

    Whatever exception either method raises ends the episode with the status "environment_error".
    """

    def reset(self) -> Observation:
        """Begin from the initial state, for the first time or again; the task is the same each time."""
        ...

    def step(self, action: str) -> StepResult:
        """Take an action. One that the environment does not understand gives a result that is not valid."""
        ...


class Actor(Protocol):
    """Something that plays.

    An actor depends on the history and its own settings (a seed among them) alone: it may be asked to go on from a
    history that others have made, or to play the same episode again.
    """

    @property
    def name(self) -> str:
        """A name for transcripts, such as that of the model."""
        ...

    def act(self, history: History) -> Proposal:
        """Propose the next action.

        Raises
        ------
        ActorError
            If there is no answer. The loop asks again if the error is transient.
        """
        ...


class Extractor(Protocol):
    """Turns what is seen into numbers.

    At a checkpoint after an action (timing "post_action") the diagnostics get the history before the action, the
    proposal and its result. At an unexecuted proposal (timing "proposal") the result is None.
    """

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the task features, in order."""
        ...

    @property
    def diagnostic_names(self) -> tuple[str, ...]:
        """Names of the diagnostics, in order."""
        ...

    def features(self, first: Observation) -> Mapping[str, float]:
        """Return the finite features of a task from its text and the first observation alone."""
        ...

    def diagnostics(self, history: History, proposal: Proposal, result: StepResult | None) -> Mapping[str, float]:
        """Return the finite, nonnegative diagnostics of one of Cheap's checkpoints."""
        ...


class ActorError(TacitError, RuntimeError):
    """An actor gave no answer: whether asking again may help, and after how many seconds if the other side said so."""

    def __init__(self, message: str, *, transient: bool = False, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.transient = transient
        self.retry_after = retry_after


class ReplayError(TacitError, RuntimeError):
    """An environment did not answer as it did when the transcript was recorded, or the transcript has no such step."""


class TornTranscriptError(TacitError, ValueError):
    """A transcript has no end: the program that wrote it was stopped."""


class BrokenTranscriptError(FileFormatError):
    """A file in the place of a transcript is none, or is damaged; the message has its line."""
