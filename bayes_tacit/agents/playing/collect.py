"""Paired rollouts: Cheap alone and Strong alone on each of many tasks, kept as transcripts."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bayes_tacit.agents.accounts import Budget
from bayes_tacit.agents.errors import BrokenTranscriptError, TornTranscriptError
from bayes_tacit.agents.loop import run_episode
from bayes_tacit.agents.playing.benchmark import Benchmark, Task, file_stem
from bayes_tacit.agents.playing.ownership import owned
from bayes_tacit.agents.playing.workers import Progress, work_through
from bayes_tacit.agents.protocols import Actor, Agent, Environment
from bayes_tacit.agents.transcript import Transcript, read_transcript
from bayes_tacit.agents.transcript.storage import set_aside
from bayes_tacit.data.costs import StepCost
from bayes_tacit.errors import InvalidDataError, MissingFileError, TacitWarning
from bayes_tacit.files import as_path
from bayes_tacit.router.control import PureController

PAPER_COST = StepCost.paper("4b")
"""4B Cheap and 27B Strong, in calls of the 4B model."""

PAPER_BUDGET = Budget(actions=50)
"""The paper's for ALFWorld."""

AGENTS: tuple[Agent, ...] = ("cheap", "strong")


@dataclass(frozen=True)
class Players:
    """Who plays, at what cost, for how long.

    Attributes
    ----------
    cheap, strong
        The actors. What they print as tells them from others: a collection is only continued with the same.
    cost
        What their calls cost.
    budget
        How long an episode may be.
    """

    cheap: Actor
    strong: Actor
    cost: StepCost = PAPER_COST
    budget: Budget = PAPER_BUDGET

    def info(self) -> dict[str, str]:
        """Say what a recording depends on."""
        return {"cheap": printed(self.cheap), "strong": printed(self.strong)}


@dataclass(frozen=True)
class Pair[T: Task]:
    """Both rollouts of a task."""

    task: T
    cheap: Transcript
    strong: Transcript

    @property
    def outcome(self) -> str:
        """The paper's AB: "01" where Cheap fails and Strong succeeds."""
        return f"{self.cheap.end.success:d}{self.strong.end.success:d}"

    @property
    def conclusive(self) -> bool:
        """Whether both ended because the task was over or the budget spent, and not because something broke."""
        return self.cheap.conclusive and self.strong.conclusive


def collect[T: Task](
    benchmark: Benchmark[T],
    folder: str | os.PathLike[str],
    players: Players,
    *,
    tasks: Iterable[T] | None = None,
    workers: int = 1,
    progress: Progress | None = None,
) -> list[Pair[T]]:
    """Play every task with Cheap alone and with Strong alone; what is there already is not played again.

    Each finished rollout is a file of its own, so a run that was stopped goes on where it was. A rollout that ended
    because something broke is played again. So is one whose file is damaged, which is kept under a name that ends in
    `.broken`, with a warning. While a run plays, the folder is its own.

    Parameters
    ----------
    benchmark
        What is played.
    folder
        Where the transcripts are kept; made if it is not there.
    players
        Who plays.
    tasks
        Some of its tasks; by default all.
    workers
        Number of processes.
    progress
        Told after each task that had to be played.

    Returns
    -------
    list
        A pair for each task, in their order.

    Raises
    ------
    InvalidDataError
        If the folder holds rollouts of other players.
    FolderInUseError
        If another run plays into the folder.
    """
    wanted = list(benchmark.tasks() if tasks is None else tasks)
    home = as_path(folder)
    home.mkdir(parents=True, exist_ok=True)
    known = {task.id: _known(task, home, players) for task in wanted}
    if None in known.values():
        with owned(home) as held:
            # Another run may have played some of them until a moment ago.
            known = {task.id: known[task.id] or _known(task, home, players) for task in wanted}
            missing = [task for task in wanted if known[task.id] is None]
            make_room(transcript_path(home, task, agent) for task in missing for agent in AGENTS)
            work = partial(_play_pair, benchmark=benchmark, folder=home, players=players)
            for played in work_through(work, missing, workers, progress, held):
                known[played.task.id] = played
    return [pair for task in wanted if (pair := known[task.id]) is not None]


def collected[T: Task](tasks: Iterable[T], folder: str | os.PathLike[str], players: Players) -> list[Pair[T]]:
    """Read the pairs that are there, and play nothing."""
    found = (_known(task, as_path(folder), players) for task in tasks)
    return [pair for pair in found if pair is not None]


def make_room(paths: Iterable[Path]) -> None:
    """Set broken transcripts aside, with a warning each."""
    for path in paths:
        try:
            read_transcript(path)
        except BrokenTranscriptError as error:
            aside = set_aside(path)
            warnings.warn(f"{error}; set aside as {aside.name} and played again", TacitWarning, stacklevel=3)
        except (MissingFileError, TornTranscriptError):
            continue


def transcript_path(folder: Path, task: Task, agent: Agent) -> Path:
    """Give the file of a rollout."""
    return folder / f"{file_stem(task)}.{agent}.jsonl"


def printed(thing: object) -> str:
    """Give how a thing prints, without addresses in memory: those differ from process to process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(thing))


def same_budget(transcript: Transcript, players: Players) -> bool:
    """Tell whether an episode was played within the players' budget."""
    return Budget(transcript.header.max_actions, transcript.header.max_calls) == players.budget


def _play_pair[T: Task](task: T, benchmark: Benchmark[T], folder: Path, players: Players) -> Pair[T]:
    """Play what is missing of one task."""
    with benchmark.environment(task) as environment:
        played = []
        for agent in AGENTS:
            path = transcript_path(folder, task, agent)
            found = _finished(path, players)
            played.append(found or _play(environment, benchmark, task, agent, path, players))
    return Pair(task, *played)


def _play[T: Task](
    environment: Environment, benchmark: Benchmark[T], task: T, agent: Agent, path: Path, players: Players
) -> Transcript:
    return run_episode(
        environment,
        players.cheap if agent == "cheap" else None,
        players.strong if agent == "strong" else None,
        PureController(agent, benchmark.timing),
        episode=task.id,
        extractor=benchmark.extractor(task, players.budget),
        budget=players.budget,
        cost=players.cost,
        path=path,
        info=players.info(),
    )


def _known[T: Task](task: T, folder: Path, players: Players) -> Pair[T] | None:
    cheap, strong = (_finished(transcript_path(folder, task, agent), players) for agent in AGENTS)
    return None if cheap is None or strong is None else Pair(task, cheap, strong)


def _finished(path: Path, players: Players) -> Transcript | None:
    try:
        transcript = read_transcript(path)
    except (MissingFileError, TornTranscriptError, BrokenTranscriptError):
        return None
    if dict(transcript.header.info) != players.info() or not same_budget(transcript, players):
        raise InvalidDataError(
            f"rollouts of {players.info()} within {players.budget.actions} actions: use another folder",
            episode=transcript.episode,
            field="players",
            value=dict(transcript.header.info),
            where=str(path),
        )
    return transcript if transcript.conclusive else None
