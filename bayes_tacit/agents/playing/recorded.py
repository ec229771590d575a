"""An actor that gives recorded answers again, so that nothing is asked and nothing is paid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bayes_tacit.agents.accounts import Budget
from bayes_tacit.agents.errors import ActorError
from bayes_tacit.agents.playing.answers import Answers, AnswersOnRecord, read_answers
from bayes_tacit.agents.protocols import Agent, History, Proposal
from bayes_tacit.errors import InvalidDataError, MissingFileError


@dataclass(frozen=True, repr=False)
class RecordedActor:
    """Gives the answers of recorded rollouts, one after the other.

    At an agent's n-th own action in an episode it gives the n-th answer of that agent's own rollout of the task,
    whatever the other agent did before. So pure rollouts are played again exactly; where Strong takes over on the way,
    it begins with its first answer. Where answers are code that stands for itself, as on DABench, that is a fair
    stand-in for a model; elsewhere it may not be. A task that is not on record, or more actions than there are answers,
    is an `ActorError`; `lacking` tells beforehand.

    It is known by its answers, not by the folder: the same ones in another place are the same actor.

    Attributes
    ----------
    folder
        Of the transcripts, such as `collect` writes; the agent's own rollouts in it are read.
    agent
        Whose answers.
    digest
        Of all answers.

    Raises
    ------
    MissingFileError
        If there is no such folder, or no finished rollout of the agent in it.
    InvalidDataError
        If an episode has two rollouts.
    """

    folder: Path = field(compare=False)
    agent: Agent
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        """Read the answers."""
        known = read_answers(self.folder, self.agent)
        if not known.answers:
            why = next(iter([*known.refused.values(), *known.unread]), None)
            raise MissingFileError(
                f"{self.folder}: no recorded answers of {self.agent}{_because(why)}; "
                f"expected finished Pure {self.agent.capitalize()} transcripts"
            )
        object.__setattr__(self, "digest", known.digest)
        _READ[self.agent, known.digest] = known

    @property
    def name(self) -> str:
        """A name for transcripts."""
        return f"recorded {self.agent}"

    def __repr__(self) -> str:
        """Say what its recordings depend on."""
        return f"RecordedActor({self.agent!r}, answers={self.digest})"

    def act(self, history: History) -> Proposal:
        """Give the next answer."""
        answers = self._answers(history)
        turn = sum(step.agent == self.agent for step in history.steps)
        if turn >= len(answers.proposals):
            n = len(answers.proposals)
            raise ActorError(f"{answers.path}: {n} recorded answers of {self.agent} for {history.task!r}")
        return answers.proposals[turn]

    def lacking(self, tasks: Mapping[str, str | None], budget: Budget) -> dict[str, str | None]:
        """Tell which tasks cannot be played to their end.

        Parameters
        ----------
        tasks
            By id, what is to be done, in words; None where that is not known.
        budget
            How long an episode may be.

        Returns
        -------
        dict
            By id of each such task, why; None where it is simply not on record.
        """
        known = self._on_record()
        found: dict[str, str | None] = {}
        for episode, task in tasks.items():
            answers = known.answers.get(episode)
            why = known.why(episode) if answers is None else answers.unfit(task, budget)
            if answers is None or why is not None:
                found[episode] = why
        return found

    def _answers(self, history: History) -> Answers:
        """Find the answers for a task: by its id, or, where that is not told, by what is seen at first."""
        known = self._on_record()
        if history.episode:
            one = known.answers.get(history.episode)
            if one is None:
                why = _because(known.why(history.episode))
                raise ActorError(f"{self.folder}: no recorded answers of {self.agent} for {history.episode!r}{why}")
            if one.first != history.first:
                raise ActorError(f"{one.path}: recorded for {one.first!r}; expected {history.first!r}")
            return one
        alike = [answers for answers in known.answers.values() if answers.first == history.first]
        if not alike or any(answers.said != alike[0].said for answers in alike):
            raise ActorError(
                f"{self.folder}: {len(alike)} recorded rollouts of {self.agent} for {history.task!r}; expected one"
            )
        return alike[0]

    def _on_record(self) -> AnswersOnRecord:
        """Give all answers; another process than that in which this was made reads them once."""
        key = self.agent, self.digest
        if key not in _READ:
            known = read_answers(self.folder, self.agent)
            if known.digest != self.digest:
                raise InvalidDataError(
                    f"{self.digest}: the recorded answers must stay as they are while they are replayed",
                    field=f"digest of the answers of {self.agent}",
                    value=known.digest,
                    where=str(self.folder),
                )
            _READ[key] = known
        return _READ[key]


_READ: dict[tuple[Agent, str], AnswersOnRecord] = {}
"""What was read in this process, by agent and digest: an actor that is sent to a worker brings no answers along."""


def _because(why: str | None) -> str:
    return "" if why is None else f" ({why})"
