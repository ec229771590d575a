"""Rollouts of imported logs as transcripts, so that a teacher can read both."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_tacit.agents.protocols import Agent, Observation, Proposal, StepResult
from bayes_tacit.agents.transcript import End, Header, ResetRecord, RouterCall, StepRecord, Transcript
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.files import as_path
from bayes_tacit.logs import read_rollouts
from bayes_tacit.logs.messages import text_of

if TYPE_CHECKING:
    from bayes_tacit.data.episodes import Episodes

LONGEST = 2000
"""Characters of an observation that are kept: a teacher sees fewer."""


def pairs_from_logs(
    episodes: Episodes,
    cheap: str | os.PathLike[str],
    strong: str | os.PathLike[str],
    *,
    format: str = "auto",  # noqa: A002  the word of the command line
) -> list[tuple[Transcript, Transcript]]:
    """Return Cheap's and Strong's rollouts of the episodes with AB = 01, as transcripts.

    Only these are kept in memory, with long observations cut.

    Parameters
    ----------
    episodes
        What `import_logs` made of these logs.
    cheap, strong
        The logs.
    format
        As for `import_logs`.

    Raises
    ------
    InvalidDataError
        If the logs do not hold an episode's rollouts, or they have other steps: the episodes are of other logs.
    """
    due = {str(episodes.ids[at]): at for at in np.flatnonzero(episodes.outcomes == "01")}
    data = episodes.dataset
    tasks = data["task"].values if "task" in data else episodes.ids
    ranks = data["trial"].values if "trial" in data else np.ones(len(episodes), dtype=int)
    wanted = {str(tasks[at]) for at in due.values()}
    steps = {"cheap": episodes.n_steps, "strong": data["strong_steps"].values if "strong_steps" in data else None}
    found = {}
    sides: tuple[tuple[Agent, Any], ...] = (("cheap", cheap), ("strong", strong))
    for side, log in sides:
        trials = _trials(log, format, wanted)
        for episode, at in due.items():
            rank, expected = int(ranks[at]) - 1, steps[side]
            rollouts = trials.get(str(tasks[at]), [])
            if rank >= len(rollouts):
                raise InvalidDataError(f"a rollout of it in {log}", episode=episode, field="task", value=str(tasks[at]))
            made = _transcript(rollouts[rank], episode, side)
            if expected is not None and len(made.executed) != expected[at]:
                raise InvalidDataError(
                    f"{expected[at]}, as the episode has it; is {log} the log that was imported?",
                    episode=episode,
                    field=f"steps of {side}",
                    value=len(made.executed),
                )
            found[episode, side] = made
    return [(found[episode, "cheap"], found[episode, "strong"]) for episode in due]


def _trials(log: str | os.PathLike[str], form: str, wanted: set[str]) -> dict[str, list[Mapping[str, Any]]]:
    """Return the rollouts of the tasks wanted, in the order in which an import pairs them."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for _, rollout in read_rollouts(as_path(log), form)[1]:
        if str(rollout.get("task")) in wanted:
            found.setdefault(str(rollout["task"]), []).append({**rollout, "messages": _cut(rollout["messages"])})
    return {task: sorted(several, key=_order) for task, several in found.items()}


def _order(rollout: Mapping[str, Any]) -> tuple[bool, int, str]:
    trial = rollout.get("trial")
    return trial is None, len(str(trial)), str(trial)


def _cut(messages: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**one, "content": text_of(one.get("content"))[:LONGEST]} for one in messages]


def _transcript(rollout: Mapping[str, Any], episode: str, agent: Agent) -> Transcript:
    messages = rollout["messages"]
    first = next((at for at, one in enumerate(messages) if one["role"] == "assistant"), len(messages))
    task = next((one["content"] for one in messages[:first] if one["role"] == "user"), "")
    reset = ResetRecord(0, Observation("", task=task), None, 0.0)
    steps = list(_steps(messages[first:], agent))
    calls = {"cheap": 0, "strong": 0, agent: len(steps)}
    cheap, strong = (rollout.get("model") or "log" if side == agent else None for side in ("cheap", "strong"))
    end = End(
        "done", agent == "strong", len(steps), calls["cheap"], calls["strong"], 0, float(len(steps)), None, False, 0.0
    )
    header = Header(episode, f"Pure {agent.title()}", "post_action", cheap, strong, max(1, len(steps)), None)
    return Transcript(header, (reset, *steps), end)


def _steps(messages: list[dict[str, Any]], agent: Agent) -> Iterator[StepRecord]:
    turns: list[list[dict[str, Any]]] = []
    for message in messages:
        if message["role"] == "assistant":
            turns.append([message])
        else:
            turns[-1].append(message)
    for number, (said, *answers) in enumerate(turns):
        seen = Observation("\n".join(one["content"] for one in answers))
        choice = RouterCall() if agent == "cheap" else None
        yield StepRecord(0, number, agent, Proposal(_action(said)), True, StepResult(seen), None, choice, (), 1.0, 0.0)


def _action(said: Mapping[str, Any]) -> str:
    """Return what a turn did, in a line for each call; its text where it called nothing."""
    calls = [call["function"] for call in said.get("tool_calls") or ()]
    if not calls:
        return str(said["content"])
    return "\n".join(f"{one['name']} {_written(one.get('arguments'))}" for one in calls)


def _written(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)
