"""Actors that say again what was said before, so that nothing is asked and paid twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bayes_tacit.agents.pairs import rollouts_in
from bayes_tacit.agents.protocols import Actor, ActorError, Agent, History, Proposal
from bayes_tacit.agents.transcript import Transcript
from bayes_tacit.errors import MissingFileError


@dataclass(frozen=True, repr=False)
class RecordedActor:
    """Gives the answers of recorded rollouts, one after the other.

    At an agent's n-th own action in an episode it gives the n-th answer of that agent's own rollout of the task,
    whatever the other agent did before. So pure rollouts are played again exactly; where Strong takes over on the way,
    it begins with its first answer. Where answers are code that stands for itself, as on DABench, that is a fair
    stand-in for a model; elsewhere it may not be. A task that is not on record, or more actions than there are answers,
    is an `ActorError`.

    It is known by its answers, not by the folder: the same ones in another place are the same actor.

    Attributes
    ----------
    folder
        Of the transcripts, such as `collect` writes; the agent's own finished rollouts in it are read.
    agent
        Whose answers.
    rollouts, digest
        By episode; and of all their answers.
    """

    folder: Path = field(compare=False)
    agent: Agent
    rollouts: Mapping[str, Transcript] = field(init=False, compare=False)
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        """Read the answers."""
        rollouts = rollouts_in(self.folder, self.agent)
        own = (
            one for one in rollouts.values() if one.conclusive and {step.agent for step in one.steps} == {self.agent}
        )
        found = {rollout.episode: rollout for rollout in own}
        if not found:
            raise MissingFileError(
                f"{self.folder}: no recorded answers of {self.agent}; "
                f"expected finished Pure {self.agent.capitalize()} transcripts"
            )
        digest = hashlib.sha256()
        for episode, rollout in sorted(found.items()):
            # How long an answer took is not the answer.
            said = [{**asdict(step.proposal), "seconds": 0} for step in rollout.steps]
            content = [episode, asdict(rollout.history(0).first), said]
            digest.update(json.dumps(content, sort_keys=True).encode() + b"\n")
        object.__setattr__(self, "rollouts", found)
        object.__setattr__(self, "digest", digest.hexdigest()[:16])

    @property
    def name(self) -> str:
        """A name for transcripts."""
        return f"recorded {self.agent}"

    def __repr__(self) -> str:
        """Say what its recordings depend on."""
        return f"RecordedActor({self.agent!r}, answers={self.digest})"

    def act(self, history: History) -> Proposal:
        """Return the next answer."""
        rollout = self.rollouts.get(history.episode)
        if rollout is None:
            raise ActorError(f"{self.folder}: no recorded answers of {self.agent} for {history.episode!r}")
        first = rollout.history(0).first
        if first != history.first:
            raise ActorError(
                f"{self.folder}: {rollout.episode!r} is recorded for {first!r}; expected {history.first!r}"
            )
        turn = sum(step.agent == self.agent for step in history.steps)
        if turn >= len(rollout.steps):
            n = len(rollout.steps)
            raise ActorError(f"{self.folder}: {n} recorded answers of {self.agent} for {rollout.episode!r}")
        return rollout.steps[turn].proposal


Taken = tuple[tuple[Agent, str], ...]
"""Who did what since the episode began, or began again."""


class Remembering:
    """Gives the answer that was given before at the same point of the same task, and asks where there is none.

    What follows a handoff at a step is the same under every policy that hands off there, so with this actor it is
    played once, and a model behind it is paid once. One instance is for one task, whose environment answers the same
    actions alike.

    Parameters
    ----------
    actor
        Who is asked.
    agent
        The role in which it plays.
    transcripts
        Episodes of this task that were played before.
    """

    def __init__(self, actor: Actor, agent: Agent, transcripts: Iterable[Transcript] = ()) -> None:
        self.actor = actor
        self.agent = agent
        self.name = actor.name
        self._known: dict[Taken, Proposal] = {}
        for transcript in transcripts:
            run, taken = 0, Taken()
            for step in transcript.steps:
                if step.run != run:
                    run, taken = step.run, Taken()
                if step.agent == agent:
                    self._known.setdefault(taken, step.proposal)
                if step.executed:
                    taken = (*taken, (step.agent, step.proposal.action))

    def act(self, history: History) -> Proposal:
        """Return the next action."""
        taken = tuple((step.agent, step.proposal.action) for step in history.steps)
        if taken not in self._known:
            self._known[taken] = self.actor.act(history)
        return self._known[taken]
