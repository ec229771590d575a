"""Rollouts of both agents on the same tasks: found in a folder, or in imported logs; and `Episodes` made of them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_tacit.agents.protocols import Agent, Observation, Proposal, StepResult
from bayes_tacit.agents.transcript import (
    End,
    Header,
    ResetRecord,
    RouterCall,
    StepRecord,
    Transcript,
    read_if_whole,
)
from bayes_tacit.errors import InvalidDataError, MissingFileError
from bayes_tacit.files import as_path

if TYPE_CHECKING:
    from bayes_tacit.data.episodes import Episodes

LONGEST = 2000
"""Characters of an observation in a log that are kept: a teacher sees fewer."""


def rollouts_in(folder: str | os.PathLike[str], agent: Agent) -> dict[str, Transcript]:
    """Find an agent's own rollouts (`*.jsonl`) below a folder, by episode.

    Transcripts of other policies and torn ones are passed over; broken ones, too, with a warning.

    Raises
    ------
    InvalidDataError
        If an episode has two.
    """
    home = as_path(folder)
    if not home.is_dir():
        raise MissingFileError(f"{home}: no such folder; expected a folder of transcripts")
    found: dict[str, Transcript] = {}
    for path in sorted(home.rglob("*.jsonl")):
        transcript = read_if_whole(path)
        if transcript is None or transcript.header.policy != f"pure_{agent}":
            continue
        episode, expected = transcript.episode, "one transcript of each policy"
        if episode in found:
            value = transcript.header.policy
            raise InvalidDataError(expected, episode=episode, field="policy", value=value, where=str(path))
        found[episode] = transcript
    return found


def read_pairs(folder: str | os.PathLike[str]) -> list[tuple[Transcript, Transcript]]:
    """Find the Pure Cheap and Pure Strong transcripts below a folder that have a partner, as `rollouts_in` does."""
    cheap, strong = rollouts_in(folder, "cheap"), rollouts_in(folder, "strong")
    return [(rollout, strong[episode]) for episode, rollout in cheap.items() if episode in strong]


def episodes_from_transcripts(
    pairs: Iterable[tuple[Transcript, Transcript]],
    windows: Mapping[str, tuple[int, int]] | None = None,
    *,
    features: Iterable[str] | None = None,
    diagnostics: Iterable[str] | None = None,
) -> Episodes:
    """Rebuild episodes from what Pure Cheap and Pure Strong did on the same tasks.

    Parameters
    ----------
    pairs
        A Cheap and a Strong transcript of each task.
    windows
        Teacher's ranges by episode, first and last checkpoint, as marks after an action (also under "proposal").
    features, diagnostics
        Which to take, in the order wanted; all by default.

    Raises
    ------
    InvalidDataError
        If a pair is not of one task, if a rollout has steps of the other agent, no steps, no diagnostics, or ended
        because something broke: such an episode says nothing about the agents and must be played again.
    """
    import pandas as pd

    from bayes_tacit.data.episodes import Episodes

    tasks, steps = [], []
    marks = dict(windows or {})
    for cheap, strong in pairs:
        _check_pair(cheap, strong)
        start, end = marks.pop(cheap.episode, (None, None))
        known = {"episode": cheap.episode, "window_start": start, "window_end": end}
        known |= {"cheap_success": cheap.end.success, "strong_success": strong.end.success}
        tasks.append({**known, **(cheap.features or {})})
        for at, checkpoint in enumerate(cheap.checkpoints):
            if not checkpoint.diagnostics:
                expected, where = "diagnostics of each checkpoint: play with an extractor", f"step {at}"
                value = checkpoint.diagnostics
                raise InvalidDataError(expected, episode=cheap.episode, field="diagnostics", value=value, where=where)
            steps.append({"episode": cheap.episode, "step": at, **checkpoint.diagnostics})
    if not tasks:
        raise InvalidDataError("at least one pair", field="pairs", value=[])
    if marks:
        raise InvalidDataError("one of the episodes in the pairs", field="windows", value=next(iter(marks)))
    frame = pd.DataFrame(tasks).astype({"window_start": float, "window_end": float})
    names = [str(name) for name in frame if name not in known] if features is None else features
    return Episodes.from_frames(frame, pd.DataFrame(steps), features=names, diagnostics=diagnostics)


def _check_pair(cheap: Transcript, strong: Transcript) -> None:
    episode = cheap.episode
    if strong.episode != episode:
        expected = "a Strong transcript of the same episode"
        raise InvalidDataError(expected, episode=episode, field="episode", value=strong.episode)
    _check_rollout(cheap, "cheap")
    _check_rollout(strong, "strong")
    if cheap.features is not None and strong.features is not None and cheap.features != strong.features:
        expected, field = f"{cheap.features}, as in the Cheap rollout", "features of the strong rollout"
        raise InvalidDataError(expected, episode=episode, field=field, value=strong.features)


def _check_rollout(transcript: Transcript, agent: Agent) -> None:
    """Check that a transcript is a rollout of this agent alone that says something about it."""

    def refuse(expected: str, field: str, value: object) -> InvalidDataError:
        return InvalidDataError(expected, episode=transcript.episode, field=field, value=value)

    if not transcript.conclusive:
        expected = "'done' or 'budget'; the episode must be played again"
        raise refuse(expected, f"status of the {agent} rollout", transcript.end.status)
    agents = {step.agent for step in transcript.steps}
    if agents != {agent}:
        raise refuse(f"at least one step, each by {agent}", f"agents of the {agent} rollout", sorted(agents))
    discarded = [step.step for step in transcript.steps if not step.executed]
    if discarded:
        raise refuse("every proposal executed", "discarded proposals at steps", discarded)


def pairs_from_logs(
    episodes: Episodes,
    cheap: str | os.PathLike[str],
    strong: str | os.PathLike[str],
    *,
    format: str = "auto",  # noqa: A002  the word of the command line
) -> list[tuple[Transcript, Transcript]]:
    """Return Cheap's and Strong's rollouts of the episodes with AB = 01, as transcripts that a teacher can read.

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
            rank, lengths = int(ranks[at]) - 1, steps[side]
            rollouts = trials.get(str(tasks[at]), [])
            if rank >= len(rollouts):
                raise InvalidDataError(f"a rollout of it in {log}", episode=episode, field="task", value=str(tasks[at]))
            made = _transcript(rollouts[rank], episode, side)
            if lengths is not None and (n := len(made.executed)) != lengths[at]:
                expected = f"{lengths[at]}, as the episode has it; is {log} the log that was imported?"
                raise InvalidDataError(expected, episode=episode, field=f"steps of {side}", value=n)
            found[episode, side] = made
    return [(found[episode, "cheap"], found[episode, "strong"]) for episode in due]


def _trials(log: str | os.PathLike[str], form: str, wanted: set[str]) -> dict[str, list[Mapping[str, Any]]]:
    """Return the rollouts of the tasks wanted, in the order in which an import pairs them."""
    from bayes_tacit.logs import read_rollouts
    from bayes_tacit.logs.messages import text_of

    def order(rollout: Mapping[str, Any]) -> tuple[bool, int, str]:
        trial = rollout.get("trial")
        return trial is None, len(str(trial)), str(trial)

    found: dict[str, list[Mapping[str, Any]]] = {}
    for _, rollout in read_rollouts(as_path(log), form)[1]:
        if str(rollout.get("task")) in wanted:
            cut = [{**one, "content": text_of(one.get("content"))[:LONGEST]} for one in rollout["messages"]]
            found.setdefault(str(rollout["task"]), []).append({**rollout, "messages": cut})
    return {task: sorted(several, key=order) for task, several in found.items()}


def _transcript(rollout: Mapping[str, Any], episode: str, agent: Agent) -> Transcript:
    messages = rollout["messages"]
    first = next((at for at, one in enumerate(messages) if one["role"] == "assistant"), len(messages))
    task = next((one["content"] for one in messages[:first] if one["role"] == "user"), "")
    reset = ResetRecord(0, Observation("", task=task), None, 0.0)
    steps = list(_steps(messages[first:], agent))
    n = len(steps)
    calls = {"cheap": 0, "strong": 0, agent: n}
    cheap, strong = (rollout.get("model") or "log" if side == agent else None for side in ("cheap", "strong"))
    end = End("done", agent == "strong", n, calls["cheap"], calls["strong"], 0, float(n), None, False, 0.0)
    header = Header(episode, f"Pure {agent.title()}", "post_action", cheap, strong, max(1, n), None)
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
    written = ((one["name"], one.get("arguments")) for one in calls)
    lines = [f"{name} {given if isinstance(given, str) else json.dumps(given)}" for name, given in written]
    return "\n".join(lines) or str(said["content"])
