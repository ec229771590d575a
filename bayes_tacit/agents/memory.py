"""An actor that is asked only once for each history."""

from __future__ import annotations

from collections.abc import Iterable

from bayes_tacit.agents.protocols import Actor, Agent, History, Proposal
from bayes_tacit.agents.transcript.record import Transcript

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

    Examples
    --------
    >>> from bayes_tacit.agents import Observation
    >>> class Counting:
    ...     name, asked = "counting", 0
    ...     def act(self, history):
    ...         self.asked += 1
    ...         return Proposal("look")
    >>> actor = Remembering(Counting(), "strong")
    >>> history = History(Observation("A door."))
    >>> actor.act(history) is actor.act(history), actor.actor.asked
    (True, 1)
    """

    def __init__(self, actor: Actor, agent: Agent, transcripts: Iterable[Transcript] = ()) -> None:
        self.actor = actor
        self.agent = agent
        self._known: dict[Taken, Proposal] = {}
        for transcript in transcripts:
            self.learn(transcript)

    @property
    def name(self) -> str:
        """The actor's."""
        return self.actor.name

    def learn(self, transcript: Transcript) -> None:
        """Remember what an episode holds of this role; what is known already stays."""
        run, taken = 0, Taken()
        for step in transcript.steps:
            if step.run != run:
                run, taken = step.run, Taken()
            if step.agent == self.agent:
                self._known.setdefault(taken, step.proposal)
            if step.executed:
                taken = (*taken, (step.agent, step.proposal.action))

    def act(self, history: History) -> Proposal:
        """Give the next action."""
        taken = tuple((step.agent, step.proposal.action) for step in history.steps)
        if taken not in self._known:
            self._known[taken] = self.actor.act(history)
        return self._known[taken]
