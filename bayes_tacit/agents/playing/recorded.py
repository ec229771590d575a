"""An actor that gives recorded answers again, so that nothing is asked and nothing is paid."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bayes_tacit.agents.errors import ActorError
from bayes_tacit.agents.protocols import Agent, History, Observation, Proposal
from bayes_tacit.agents.transcript import read_pairs
from bayes_tacit.errors import MissingFileError


@dataclass(frozen=True)
class RecordedActor:
    """Gives the answers of recorded rollouts, one after the other.

    At an agent's n-th own action in an episode it gives the n-th answer of that agent's own rollout of the task,
    whatever the other agent did before. So pure rollouts are played again exactly; where Strong takes over on the way,
    it begins with its first answer. Where answers are code that stands for itself, as on DABench, that is a fair
    stand-in for a model; elsewhere it may not be. A task that is not on record, or more actions than there are answers,
    is an `ActorError`.

    Attributes
    ----------
    folder
        Of the transcripts, such as `collect` writes.
    agent
        Whose answers.
    """

    folder: Path
    agent: Agent

    @property
    def name(self) -> str:
        """A name for transcripts."""
        return f"recorded {self.agent}"

    def act(self, history: History) -> Proposal:
        """Give the next answer."""
        answers = _answers(self.folder, self.agent).get(history.first, ())
        turn = sum(step.agent == self.agent for step in history.steps)
        if turn >= len(answers):
            raise ActorError(f"{self.folder}: {len(answers)} recorded answers of {self.agent} for {history.task!r}")
        return answers[turn]


@cache
def _answers(folder: str | os.PathLike[str], agent: Agent) -> Mapping[Observation, tuple[Proposal, ...]]:
    """Read the answers of an agent by what is seen at first, which tells tasks apart."""
    answers = {}
    for pair in read_pairs(folder):
        rollout = pair[0] if agent == "cheap" else pair[1]
        answers[rollout.history(0).first] = tuple(step.proposal for step in rollout.steps)
    if not answers:
        raise MissingFileError(f"{folder}: no finished pair; expected Pure Cheap and Pure Strong transcripts")
    return answers
