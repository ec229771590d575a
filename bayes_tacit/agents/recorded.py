"""Actors that say again what was said before, so that nothing is asked and paid twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path

from bayes_tacit.agents.loop import Budget
from bayes_tacit.agents.pairs import check_rollout
from bayes_tacit.agents.protocols import (
    Actor,
    ActorError,
    Agent,
    BrokenTranscriptError,
    History,
    Observation,
    Proposal,
    TornTranscriptError,
)
from bayes_tacit.agents.transcript import Transcript, read_transcript
from bayes_tacit.errors import InvalidDataError, MissingFileError
from bayes_tacit.files import as_path, strict_json


@dataclass(frozen=True, repr=False)
class RecordedActor:
    """Gives the answers of recorded rollouts, one after the other.

    At an agent's n-th own action in an episode it gives the n-th answer of that agent's own rollout of the task,
    whatever the other agent did before. So pure rollouts are played again exactly; where Strong takes over on the way,
    it begins with its first answer. Where answers are code that stands for itself, as on DABench, that is a fair
    stand-in for a model; elsewhere it may not be. A task that is not on record, or more actions than there are answers,
    is an `ActorError`; `lacking` finds them beforehand.

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
        known = _read_answers(self.folder, self.agent)
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
        """Return the next answer."""
        answers = self._answers(history)
        turn = sum(step.agent == self.agent for step in history.steps)
        if turn >= len(answers.proposals):
            n = len(answers.proposals)
            raise ActorError(f"{answers.path}: {n} recorded answers of {self.agent} for {history.task!r}")
        return answers.proposals[turn]

    def lacking(self, tasks: Mapping[str, str | None], budget: Budget) -> dict[str, str | None]:
        """Find the tasks that cannot be played to their end.

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

    def _answers(self, history: History) -> _Answers:
        """Find the answers for a task: by its id or, without one, by what is seen at first."""
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

    def _on_record(self) -> _AllAnswers:
        """Return all answers; another process than that in which this was made reads them once."""
        key = self.agent, self.digest
        if key not in _READ:
            known = _read_answers(self.folder, self.agent)
            if known.digest != self.digest:
                raise InvalidDataError(
                    f"{self.digest}: the recorded answers must stay as they are while they are replayed",
                    field=f"digest of the answers of {self.agent}",
                    value=known.digest,
                    where=str(self.folder),
                )
            _READ[key] = known
        return _READ[key]


_READ: dict[tuple[Agent, str], _AllAnswers] = {}
"""What was read in this process, by agent and digest: an actor that is sent to a worker brings no answers along."""


def _because(why: str | None) -> str:
    return "" if why is None else f" ({why})"


@dataclass(frozen=True)
class _Answers:
    """What an agent said in its rollout of a task.

    Attributes
    ----------
    path
        The file of the rollout.
    first
        What the agent saw at first.
    proposals
        Its answers, in order.
    done
        Whether the task was over with the last one; else the budget was spent.
    """

    path: Path
    first: Observation
    proposals: tuple[Proposal, ...]
    done: bool

    @property
    def said(self) -> list[dict[str, object]]:
        """The answers without how long they took, which is not the answer."""
        return [{**asdict(proposal), "seconds": 0} for proposal in self.proposals]

    def unfit(self, task: str | None, budget: Budget) -> str | None:
        """Say why these answers cannot be given to a task within a budget; None if they can."""
        if task is not None and self.first.task != task:
            return f"{self.path}: the task was another one, {_short(self.first.task)}"
        calls = budget.actions if budget.calls is None else min(budget.actions, budget.calls)
        if not self.done and len(self.proposals) < calls:
            return f"{self.path}: the budget was spent after {len(self.proposals)} actions, not {calls}"
        return None


@dataclass(frozen=True)
class _AllAnswers:
    """All answers of an agent in a folder.

    Attributes
    ----------
    answers
        By episode.
    refused
        By episode, why a rollout in the folder does not count.
    unread
        Why files do not count of which it is not known whose they are.
    """

    answers: Mapping[str, _Answers]
    refused: Mapping[str, str]
    unread: tuple[str, ...]

    @cached_property
    def digest(self) -> str:
        """Tell these answers from others, wherever they are kept and however long they took."""
        digest = hashlib.sha256()
        for episode, known in sorted(self.answers.items()):
            content = [episode, asdict(known.first), known.said]
            digest.update(json.dumps(content, sort_keys=True).encode() + b"\n")
        return digest.hexdigest()[:16]

    def why(self, episode: str) -> str | None:
        """Say why there are no answers for an episode, as far as that is known."""
        return self.refused.get(episode, self.unread[0] if self.unread else None)


def _read_answers(folder: Path, agent: Agent) -> _AllAnswers:
    """Read an agent's answers from its own rollouts (`*.jsonl`) below a folder.

    Transcripts of other policies and files of other kinds are passed over. So are rollouts that are torn, broken, broke
    off or have steps of the other agent; why is kept.

    Raises
    ------
    MissingFileError
        If there is no such folder.
    InvalidDataError
        If an episode has two rollouts.
    """
    home = as_path(folder)
    if not home.is_dir():
        raise MissingFileError(f"{home}: no such folder; expected a folder of transcripts")
    answers: dict[str, _Answers] = {}
    refused: dict[str, str] = {}
    unread = []
    for path in sorted(home.rglob("*.jsonl")):
        about = _about(path)
        if about.get("policy", f"pure_{agent}") != f"pure_{agent}":
            continue
        try:
            rollout = read_transcript(path)
        except (TornTranscriptError, BrokenTranscriptError) as error:
            if {"episode", "policy"} <= about.keys():
                refused[str(about["episode"])] = str(error)
            elif not about or "event" in about:
                unread.append(str(error))
            continue
        known = answers.get(rollout.episode)
        if known is not None:
            raise InvalidDataError(
                f"one transcript of each policy, as in {known.path}",
                episode=rollout.episode,
                field="policy",
                value=rollout.header.policy,
                where=str(path),
            )
        found = _answers(rollout, agent, path)
        if isinstance(found, str):
            refused[rollout.episode] = found
        else:
            answers[rollout.episode] = found
    return _AllAnswers(answers, refused, tuple(unread))


def _answers(rollout: Transcript, agent: Agent, path: Path) -> _Answers | str:
    """Return the answers of a rollout, or why they do not count."""
    if not rollout.conclusive:
        return f"{path}: status is {rollout.end.status!r}, not 'done' or 'budget'"
    try:
        check_rollout(rollout, agent)
    except InvalidDataError as error:
        return f"{path}: {error.field} is {error.value}, not {error.expected}"
    proposals = tuple(step.proposal for step in rollout.steps)
    return _Answers(path, rollout.history(0).first, proposals, rollout.end.status == "done")


def _about(path: Path) -> dict[str, object]:
    """Return what a file's first line says, as far as it can be read."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            content = strict_json(file.readline())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _short(text: str, width: int = 60) -> str:
    return repr(text if len(text) <= width else f"{text[: width - 3]}...")


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
        """Return the next action."""
        taken = tuple((step.agent, step.proposal.action) for step in history.steps)
        if taken not in self._known:
            self._known[taken] = self.actor.act(history)
        return self._known[taken]
