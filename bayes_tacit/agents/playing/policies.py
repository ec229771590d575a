"""Playing policies on tasks: every episode through the loop, with the controller that decides live.

The Cheap rollout of a task is on record, and so is Strong's; an episode takes from there what is the same, and plays
what is new. All policies are played on a task one after the other in one environment, so whatever two of them have in
common, such as what follows a handoff at the same step, is played once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from bayes_tacit.agents.errors import BrokenTranscriptError, TornTranscriptError
from bayes_tacit.agents.loop import run_episode
from bayes_tacit.agents.memory import Remembering
from bayes_tacit.agents.playing.benchmark import Benchmark, Task, file_stem
from bayes_tacit.agents.playing.collect import Pair, Players, make_room, printed, same_budget
from bayes_tacit.agents.playing.ownership import owned
from bayes_tacit.agents.playing.workers import Progress, work_through
from bayes_tacit.agents.transcript import Transcript, read_transcript
from bayes_tacit.data.costs import Outcomes
from bayes_tacit.errors import InvalidDataError, MissingFileError
from bayes_tacit.files import as_path
from bayes_tacit.router.control import Controller, PureController, RouterController


@dataclass(frozen=True, eq=False)
class Entry:
    """A policy that is to be played.

    Attributes
    ----------
    name
        As in tables; also in the names of files.
    controller
        Decides; it can be pickled where there are several workers.
    """

    name: str
    controller: Controller

    @property
    def identity(self) -> str:
        """Tell it from others of the same name: kept episodes are only taken where this is the same.

        It is how the controller prints, without addresses in memory; a router is told by its fingerprint.
        """
        match self.controller:
            case RouterController(router=router, shadow=shadow):
                return f"router {router.fingerprint}" + (" in shadow" if shadow else "")
        return printed(self.controller)


def play_policies[T: Task](
    benchmark: Benchmark[T],
    pairs: Sequence[Pair[T]],
    entries: Sequence[Entry],
    folder: str | os.PathLike[str],
    players: Players,
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> dict[str, list[Transcript]]:
    """Play every policy on every task; what is there already is not played again.

    Pure Cheap and Pure Strong are the rollouts themselves.

    Parameters
    ----------
    benchmark
        What is played.
    pairs
        The rollouts of each task.
    entries
        The policies, with different names.
    folder
        Where the transcripts are kept; made if it is not there.
    players
        Who plays; the same as in the rollouts.
    workers
        Number of processes.
    progress
        Told after each task for which something had to be played.

    Returns
    -------
    dict
        By name of the policy, a transcript for each task in their order. One that ended because something broke is not
        conclusive, and is played again the next time; so is one whose file is damaged, which is set aside.

    Raises
    ------
    FolderInUseError
        If another run plays into the folder.
    """
    files = {_slug(entry.name) for entry in entries}
    if len(files) < len(entries):
        names = [entry.name for entry in entries]
        raise InvalidDataError("names that differ in letters or figures", field="names of policies", value=names)
    home = as_path(folder)
    home.mkdir(parents=True, exist_ok=True)
    found = [_kept(pair, entries, home, players) for pair in pairs]
    if any(len(known) < len(entries) for known in found):
        with owned(home) as held:
            found = [_kept(pair, entries, home, players) for pair in pairs]
            todo = [at for at, known in enumerate(found) if len(known) < len(entries)]
            make_room(_path(home, pairs[at], entry) for at in todo for entry in entries)
            work = partial(_play_task, benchmark=benchmark, entries=list(entries), folder=home, players=players)
            for at, known in work_through(work, [(at, pairs[at]) for at in todo], workers, progress, held):
                found[at] = known
    return {entry.name: [known[entry.name] for known in found] for entry in entries}


def outcomes_of(transcripts: Sequence[Transcript]) -> Outcomes:
    """Give what came of played episodes.

    Raises
    ------
    InvalidDataError
        If an episode ended because something broke: it says nothing about the policy.
    """
    for transcript in transcripts:
        if not transcript.conclusive:
            raise InvalidDataError(
                "'done' or 'budget': play it again",
                episode=transcript.episode,
                field="status",
                value=transcript.end.status,
                where=str(transcript.end.error),
            )
    ends = [transcript.end for transcript in transcripts]
    columns = ("success", "cost", "cheap_calls", "strong_calls")
    return Outcomes(**{name: np.array([getattr(end, name) for end in ends], dtype=float) for name in columns})


def _play_task[T: Task](
    job: tuple[int, Pair[T]], benchmark: Benchmark[T], entries: Sequence[Entry], folder: Path, players: Players
) -> tuple[int, dict[str, Transcript]]:
    at, pair = job
    known = _kept(pair, entries, folder, players)
    before = [pair.cheap, pair.strong, *known.values()]
    cheap = Remembering(players.cheap, "cheap", before)
    strong = Remembering(players.strong, "strong", before)
    with benchmark.environment(pair.task) as environment:
        for entry in entries:
            if entry.name in known:
                continue
            known[entry.name] = run_episode(
                environment,
                cheap,
                strong,
                entry.controller,
                episode=pair.task.id,
                extractor=benchmark.extractor(pair.task, players.budget, descriptors=True),
                budget=players.budget,
                cost=players.cost,
                recorded=pair.cheap,
                path=_path(folder, pair, entry),
                info=_info(entry, players),
            )
    return at, known


def _kept[T: Task](pair: Pair[T], entries: Sequence[Entry], folder: Path, players: Players) -> dict[str, Transcript]:
    known = {}
    for entry in entries:
        if isinstance(entry.controller, PureController):
            known[entry.name] = pair.cheap if entry.controller.agent == "cheap" else pair.strong
            continue
        try:
            transcript = read_transcript(_path(folder, pair, entry))
        except (MissingFileError, TornTranscriptError, BrokenTranscriptError):
            continue
        same = dict(transcript.header.info) == _info(entry, players)
        if same and same_budget(transcript, players) and transcript.conclusive:
            known[entry.name] = transcript
    return known


def _info(entry: Entry, players: Players) -> dict[str, str]:
    return {**players.info(), "policy": entry.name, "identity": entry.identity}


def _path[T: Task](folder: Path, pair: Pair[T], entry: Entry) -> Path:
    return folder / f"{file_stem(pair.task)}.{_slug(entry.name)}.jsonl"


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
