"""Paired transcripts: finding them in a folder, and making `Episodes` of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING

from bayes_tacit.agents.protocols import Agent
from bayes_tacit.agents.transcript import Transcript, read_if_whole
from bayes_tacit.errors import InvalidDataError, MissingFileError
from bayes_tacit.files import as_path

if TYPE_CHECKING:
    from bayes_tacit.data.episodes import Episodes

Window = tuple[int, int]
"""First and last checkpoint of a teacher's range, counted from 0."""


def episodes_from_transcripts(
    pairs: Iterable[tuple[Transcript, Transcript]],
    windows: Mapping[str, Window] | None = None,
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
        Teacher's ranges by episode, as marks after an action (also under the timing "proposal").
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
        tasks.append(
            {
                "episode": cheap.episode,
                "cheap_success": cheap.end.success,
                "strong_success": strong.end.success,
                "window_start": start,
                "window_end": end,
                **(cheap.features or {}),
            }
        )
        steps += [
            {"episode": cheap.episode, "step": at, **_diagnostics_of(cheap, at)} for at in range(len(cheap.checkpoints))
        ]
    if not tasks:
        raise InvalidDataError("at least one pair", field="pairs", value=[])
    if marks:
        unknown = next(iter(marks))
        raise InvalidDataError("one of the episodes in the pairs", field="windows", value=unknown)
    frame = pd.DataFrame(tasks).astype({"window_start": float, "window_end": float})
    names = [str(name) for name in frame if name not in _RESERVED]
    return Episodes.from_frames(
        frame,
        pd.DataFrame(steps),
        features=names if features is None else features,
        diagnostics=diagnostics,
    )


_RESERVED = ("episode", "cheap_success", "strong_success", "window_start", "window_end")


def _diagnostics_of(cheap: Transcript, at: int) -> Mapping[str, float]:
    found = cheap.checkpoints[at].diagnostics
    if not found:
        raise InvalidDataError(
            "diagnostics of each checkpoint: play with an extractor",
            episode=cheap.episode,
            field="diagnostics",
            value=found,
            where=f"step {at}",
        )
    return found


def _check_pair(cheap: Transcript, strong: Transcript) -> None:
    episode = cheap.episode
    if strong.episode != episode:
        raise InvalidDataError(
            "a Strong transcript of the same episode", episode=episode, field="episode", value=strong.episode
        )
    check_rollout(cheap, "cheap")
    check_rollout(strong, "strong")
    if cheap.features is not None and strong.features is not None and cheap.features != strong.features:
        raise InvalidDataError(
            f"{cheap.features}, as in the Cheap rollout",
            episode=episode,
            field="features of the strong rollout",
            value=strong.features,
        )


def check_rollout(transcript: Transcript, agent: Agent) -> None:
    """Check that a transcript is a rollout of this agent alone that says something about it.

    Raises
    ------
    InvalidDataError
        If it ended because something broke, has no steps, or has steps of the other agent or discarded ones.
    """
    episode = transcript.episode
    if not transcript.conclusive:
        raise InvalidDataError(
            "'done' or 'budget'; the episode must be played again",
            episode=episode,
            field=f"status of the {agent} rollout",
            value=transcript.end.status,
        )
    others = {step.agent for step in transcript.steps} - {agent}
    if others or not transcript.steps:
        raise InvalidDataError(
            f"at least one step, each by {agent}",
            episode=episode,
            field=f"agents of the {agent} rollout",
            value=sorted({step.agent for step in transcript.steps}),
        )
    discarded = [step.step for step in transcript.steps if not step.executed]
    if discarded:
        raise InvalidDataError(
            "every proposal executed", episode=episode, field="discarded proposals at steps", value=discarded
        )


def read_pairs(folder: str | PathLike[str]) -> list[tuple[Transcript, Transcript]]:
    """Find the finished Pure Cheap and Pure Strong transcripts (`*.jsonl`) below a folder, paired by episode.

    Transcripts of other policies, torn ones, and those whose partner is missing are passed over; broken ones, too, with
    a warning.

    Raises
    ------
    InvalidDataError
        If an episode has two transcripts of the same policy.
    """
    home = as_path(folder)
    if not home.is_dir():
        raise MissingFileError(f"{home}: no such folder; expected a folder of transcripts")
    found: dict[str, dict[str, Transcript]] = {}
    for path in sorted(home.rglob("*.jsonl")):
        transcript = read_if_whole(path)
        policy = None if transcript is None else transcript.header.policy
        if transcript is None or policy not in ("pure_cheap", "pure_strong"):
            continue
        rollouts = found.setdefault(transcript.episode, {})
        if policy in rollouts:
            raise InvalidDataError(
                "one transcript of each policy",
                episode=transcript.episode,
                field="policy",
                value=policy,
                where=str(path),
            )
        rollouts[policy] = transcript
    return [(each["pure_cheap"], each["pure_strong"]) for each in found.values() if len(each) == 2]
