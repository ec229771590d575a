"""The answers that an agent gave in its own rollouts, read from a folder of transcripts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from bayes_tacit.agents.accounts import Budget
from bayes_tacit.agents.errors import BrokenTranscriptError, TornTranscriptError
from bayes_tacit.agents.protocols import Agent, Observation, Proposal
from bayes_tacit.agents.transcript import Transcript, read_transcript
from bayes_tacit.agents.transcript.pairs import check_rollout
from bayes_tacit.errors import InvalidDataError, MissingFileError
from bayes_tacit.files import as_path, strict_json


@dataclass(frozen=True)
class Answers:
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
class AnswersOnRecord:
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

    answers: Mapping[str, Answers]
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


def read_answers(folder: Path, agent: Agent) -> AnswersOnRecord:
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
    answers: dict[str, Answers] = {}
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
    return AnswersOnRecord(answers, refused, tuple(unread))


def _answers(rollout: Transcript, agent: Agent, path: Path) -> Answers | str:
    """Give the answers of a rollout, or why they do not count."""
    if not rollout.conclusive:
        return f"{path}: status is {rollout.end.status!r}, not 'done' or 'budget'"
    try:
        check_rollout(rollout, agent)
    except InvalidDataError as error:
        return f"{path}: {error.field} is {error.value}, not {error.expected}"
    proposals = tuple(step.proposal for step in rollout.steps)
    return Answers(path, rollout.history(0).first, proposals, rollout.end.status == "done")


def _about(path: Path) -> dict[str, object]:
    """Give what a file's first line says, as far as it can be read."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            content = strict_json(file.readline())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _short(text: str, width: int = 60) -> str:
    return repr(text if len(text) <= width else f"{text[: width - 3]}...")
