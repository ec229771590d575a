"""Playing many tasks: paired rollouts, every continuation of them, and policies; each is played once and kept.

The Cheap rollout of a task is on record, and so is Strong's; an episode under a policy takes from there what is the
same, and plays what is new. What comes of a handoff depends only on the task, the recorded rollout, its step and
Strong, who takes over for good: a continuation serves every policy and every threshold that hands off there.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bayes_tacit.agents.benchmark import Benchmark, Suite, Task, file_stem, find_suite
from bayes_tacit.agents.loop import Budget, run_episode
from bayes_tacit.agents.protocols import Actor, Agent, BrokenTranscriptError, TornTranscriptError
from bayes_tacit.agents.recorded import RecordedActor, Remembering
from bayes_tacit.agents.transcript import Transcript, read_transcript, set_aside
from bayes_tacit.agents.work import FolderInUseError, Progress, owned, shown, work_through
from bayes_tacit.data.costs import Outcomes, StepCost
from bayes_tacit.data.counterfactuals import Counterfactuals
from bayes_tacit.data.timing import DEFAULT_TIMING, Timing, discards_proposal
from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError, TacitWarning
from bayes_tacit.files import as_path, atomic_path
from bayes_tacit.router import Router, handoff_at, pure
from bayes_tacit.router.rules import Always, Never

__all__ = [
    "Benchmark",
    "Continuations",
    "Continued",
    "Entry",
    "FolderInUseError",
    "Pair",
    "Players",
    "Progress",
    "RecordedActor",
    "Suite",
    "Task",
    "collect",
    "collected",
    "find_suite",
    "outcomes_of",
    "play_policies",
    "shown",
]

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
    benchmark, players
        What is played, and who plays.
    folder
        Where the transcripts are kept; made if it is not there. One with rollouts of other players is refused.
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
    """
    wanted, home = list(benchmark.tasks() if tasks is None else tasks), as_path(folder)

    def known() -> dict[int, Pair[T]]:
        found = ((at, _known(task, home, players)) for at, task in enumerate(wanted))
        return {at: pair for at, pair in found if pair is not None}

    def room(at: int) -> list[Path]:
        return [transcript_path(home, wanted[at], agent) for agent in AGENTS]

    work = partial(_play_pair, benchmark=benchmark, folder=home, players=players)
    return _filled(home, wanted, known, work, room, workers, progress)


def _filled[J, R](
    home: Path,
    jobs: Sequence[J],
    known: Callable[[], dict[int, R]],
    work: Callable[[tuple[int, J]], tuple[int, R]],
    room: Callable[[int], Iterable[Path]],
    workers: int,
    progress: Progress | None,
) -> list[R]:
    """Return what comes of each job: what is kept, by position, and what is played now, as one run at a time may.

    Broken transcripts in the `room` of what is played are set aside, with a warning each.
    """
    home.mkdir(parents=True, exist_ok=True)
    found = known()
    if len(found) < len(jobs):
        with owned(home) as held:
            found = known()  # another run may have played some of them until a moment ago
            todo = [(at, job) for at, job in enumerate(jobs) if at not in found]
            for path in (path for at, _ in todo for path in room(at)):
                try:
                    read_transcript(path)
                except BrokenTranscriptError as error:
                    aside = set_aside(path)
                    warnings.warn(f"{error}; set aside as {aside.name} and played again", TacitWarning, stacklevel=3)
                except (MissingFileError, TornTranscriptError):
                    continue
            found.update(work_through(work, todo, workers, progress, held))
    return [found[at] for at in range(len(jobs))]


def collected[T: Task](tasks: Iterable[T], folder: str | os.PathLike[str], players: Players) -> list[Pair[T]]:
    """Read the pairs that are there, and play nothing."""
    found = (_known(task, as_path(folder), players) for task in tasks)
    return [pair for pair in found if pair is not None]


def transcript_path(folder: Path, task: Task, agent: Agent) -> Path:
    """Return the file of a rollout."""
    return folder / f"{file_stem(task)}.{agent}.jsonl"


def printed(thing: object) -> str:
    """Return how a thing prints, without addresses in memory: those differ from process to process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(thing))


def _play_pair[T: Task](
    job: tuple[int, T], benchmark: Benchmark[T], folder: Path, players: Players
) -> tuple[int, Pair[T]]:
    """Play what is missing of one task."""
    at, task = job
    with benchmark.environment(task) as environment:
        played = []
        for agent in AGENTS:
            path = transcript_path(folder, task, agent)
            played.append(
                _finished(path, players)
                or run_episode(
                    environment,
                    players.cheap if agent == "cheap" else None,
                    players.strong if agent == "strong" else None,
                    pure(agent, benchmark.timing),
                    episode=task.id,
                    extractor=benchmark.extractor(task, players.budget),
                    budget=players.budget,
                    cost=players.cost,
                    path=path,
                    info=players.info(),
                )
            )
    return at, Pair(task, *played)


def _known[T: Task](task: T, folder: Path, players: Players) -> Pair[T] | None:
    cheap, strong = (_finished(transcript_path(folder, task, agent), players) for agent in AGENTS)
    return None if cheap is None or strong is None else Pair(task, cheap, strong)


def _finished(path: Path, players: Players) -> Transcript | None:
    transcript = _whole(path)
    if transcript is None:
        return None
    if dict(transcript.header.info) != players.info() or not _same_budget(transcript, players):
        raise InvalidDataError(
            f"rollouts of {players.info()} within {players.budget.actions} actions: use another folder",
            episode=transcript.episode,
            field="players",
            value=dict(transcript.header.info),
            where=str(path),
        )
    return transcript if transcript.conclusive else None


def _whole(path: Path) -> Transcript | None:
    try:
        return read_transcript(path)
    except (MissingFileError, TornTranscriptError, BrokenTranscriptError):
        return None


def _same_budget(transcript: Transcript, players: Players) -> bool:
    return Budget(transcript.header.max_actions, transcript.header.max_calls) == players.budget


@dataclass(frozen=True, eq=False)
class Entry:
    """A policy that is to be played: its name, as in tables and in the names of files, and the router that decides."""

    name: str
    router: Router

    @property
    def alone(self) -> Agent | None:
        """The agent that plays alone under it, if it is a pure one."""
        return {Never: "cheap", Always: "strong"}.get(type(self.router.rule))  # type: ignore[return-value]


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

    Parameters are those of `collect`, with the rollouts of each task, and policies with different names.

    Returns
    -------
    dict
        By name of the policy, a transcript for each task in their order. One that ended because something broke is not
        conclusive, and is played again the next time; so is one whose file is damaged, which is set aside.
    """
    names, home = [entry.name for entry in entries], as_path(folder)
    if len({_slug(name) for name in names}) < len(names):
        raise InvalidDataError("names that differ in letters or figures", field="names of policies", value=names)

    def known() -> dict[int, dict[str, Transcript]]:
        found = ((at, _kept(pair, entries, home, players)) for at, pair in enumerate(pairs))
        return {at: kept for at, kept in found if len(kept) == len(entries)}

    def room(at: int) -> list[Path]:
        return [_played_path(home, pairs[at], entry) for entry in entries]

    work = partial(_play_task, benchmark=benchmark, entries=list(entries), folder=home, players=players)
    found = _filled(home, pairs, known, work, room, workers, progress)
    return {name: [one[name] for one in found] for name in names}


def outcomes_of(transcripts: Sequence[Transcript]) -> Outcomes:
    """Return what came of played episodes; one that ended because something broke says nothing and is refused."""
    for transcript in transcripts:
        _refuse_inconclusive(transcript)
    ends = [transcript.end for transcript in transcripts]
    columns = ("success", "cost", "cheap_calls", "strong_calls")
    return Outcomes(**{name: np.array([getattr(end, name) for end in ends], dtype=float) for name in columns})


def _refuse_inconclusive(transcript: Transcript) -> None:
    if not transcript.conclusive:
        raise InvalidDataError(
            "'done' or 'budget': play it again",
            episode=transcript.episode,
            field="status",
            value=transcript.end.status,
            where=str(transcript.end.error),
        )


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
                entry.router,
                episode=pair.task.id,
                extractor=benchmark.extractor(pair.task, players.budget, descriptors=True),
                budget=players.budget,
                cost=players.cost,
                recorded=pair.cheap,
                path=_played_path(folder, pair, entry),
                info=_info(entry, players),
            )
    return at, known


def _kept[T: Task](pair: Pair[T], entries: Sequence[Entry], folder: Path, players: Players) -> dict[str, Transcript]:
    known = {}
    for entry in entries:
        if entry.alone is not None:
            known[entry.name] = pair.cheap if entry.alone == "cheap" else pair.strong
            continue
        transcript = _whole(_played_path(folder, pair, entry))
        if transcript is None or dict(transcript.header.info) != _info(entry, players):
            continue
        if _same_budget(transcript, players) and transcript.conclusive:
            known[entry.name] = transcript
    return known


def _info(entry: Entry, players: Players) -> dict[str, str]:
    return {**players.info(), "policy": entry.name, "identity": entry.router.fingerprint}


def _played_path[T: Task](folder: Path, pair: Pair[T], entry: Entry) -> Path:
    return folder / f"{file_stem(pair.task)}.{_slug(entry.name)}.jsonl"


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


Key = tuple[Any, ...]
"""What a continuation is kept under: JSON values that say which it is."""


@dataclass(frozen=True)
class Continued:
    """What came of an episode: success, and calls of both agents."""

    success: int
    cheap_calls: int
    strong_calls: int

    @classmethod
    def of(cls, transcript: Transcript) -> Continued:
        """Return what came of a played episode."""
        end = transcript.end
        return cls(int(end.success), end.cheap_calls, end.strong_calls)


@dataclass(frozen=True, eq=False)
class Continuations[T: Task]:
    """Plays continuations of recorded rollouts and remembers what came of them.

    Parameters
    ----------
    benchmark
        What is played.
    pairs
        The rollouts.
    folder
        Where results are kept, a file for each task; made if it is not there. It belongs to these rollouts and players.
    players
        Who plays; the same as in the rollouts.
    workers
        Number of processes.
    progress
        Told after each task for which something had to be played.
    handoff_timing
        Whether a handoff on the way comes after an action ("post_action"), or discards a proposal ("proposal"), which
        then is one of the calls that the budget allows.
    """

    benchmark: Benchmark[T]
    pairs: Sequence[Pair[T]]
    folder: str | os.PathLike[str]
    players: Players
    workers: int = 1
    progress: Progress | None = None
    handoff_timing: Timing = DEFAULT_TIMING

    def at(self, handoffs: Sequence[Iterable[int]]) -> list[dict[int, Continued]]:
        """Return what comes of handoffs at these steps of each rollout, playing only what was never played."""
        discards = discards_proposal(self.handoff_timing)

        def asked(step: int) -> tuple[Key, Router]:
            if discards and step:
                return ("handoff", step, "proposal"), handoff_at(step, timing="proposal", discards=True)
            return ("handoff", step), handoff_at(step)

        found = self.played([dict(map(asked, steps)) for steps in handoffs])
        return [{key[1]: result for key, result in one.items()} for one in found]

    def counterfactuals(self, handoffs: Sequence[Iterable[int]] | None = None) -> Counterfactuals:
        """Return what comes of every handoff, or of those that will be looked up.

        Parameters
        ----------
        handoffs
            Steps of each rollout; all by default. Only these and step 0 are played, which is what models that cost
            money call for. To look up another handoff in the table is an error.
        """
        lengths = [len(pair.cheap.checkpoints) for pair in self.pairs]
        wanted = [range(length) for length in lengths] if handoffs is None else [{0, *steps} for steps in handoffs]
        shape = (len(self.pairs), max(lengths))
        success, strong_calls, played = np.full((3, *shape), np.nan)
        for row, results in enumerate(self.at(wanted)):
            success[row, : lengths[row]] = strong_calls[row, : lengths[row]] = played[row, : lengths[row]] = 0
            for step, result in results.items():
                success[row, step], strong_calls[row, step], played[row, step] = result.success, result.strong_calls, 1
        return Counterfactuals.from_calls(
            [pair.task.id for pair in self.pairs],
            success=success,
            strong_calls=strong_calls,
            never_success=[pair.cheap.end.success for pair in self.pairs],
            cost=self.players.cost,
            played=None if handoffs is None else played,
        )

    def played(self, asked: Sequence[Mapping[Key, Router]]) -> list[dict[Key, Continued]]:
        """Return what comes of some routers on each rollout, by key, playing only what was never played.

        A router that looks at features is shown descriptors, too.
        """
        home = as_path(self.folder)
        jobs = list(zip(self.pairs, asked, strict=True))

        def known() -> dict[int, dict[Key, Continued]]:
            found = ((at, _read(home, pair)) for at, (pair, _) in enumerate(jobs))
            return {at: kept for at, kept in found if kept.keys() >= asked[at].keys()}

        work = partial(_play_all, benchmark=self.benchmark, folder=home, players=self.players)
        found = _filled(home, jobs, known, work, lambda _: (), self.workers, self.progress)
        return [{key: one[key] for key in keys} for one, keys in zip(found, asked, strict=True)]


def _play_all[T: Task](
    job: tuple[int, tuple[Pair[T], Mapping[Key, Router]]], benchmark: Benchmark[T], folder: Path, players: Players
) -> tuple[int, dict[Key, Continued]]:
    at, (pair, asked) = job
    known = _read(folder, pair)
    with benchmark.environment(pair.task) as environment:
        for key, router in asked.items():
            if key in known:
                continue
            if key == ("handoff", 0):
                known[key] = Continued.of(pair.strong)
                continue
            looks, descriptors = router.diagnostic_names or router.feature_names, bool(router.feature_names)
            transcript = run_episode(
                environment,
                players.cheap,
                players.strong,
                router,
                episode=pair.task.id,
                extractor=benchmark.extractor(pair.task, players.budget, descriptors=descriptors) if looks else None,
                budget=players.budget,
                cost=players.cost,
                recorded=pair.cheap,
            )
            _refuse_inconclusive(transcript)
            known[key] = Continued.of(transcript)
    rollout = _fingerprint(pair)
    lines = (json.dumps({"key": key, **asdict(result), "rollout": rollout}) + "\n" for key, result in known.items())
    with atomic_path(_path(folder, pair)) as temporary:
        temporary.write_text("".join(lines), encoding="utf-8")
    return at, known


def _path[T: Task](folder: Path, pair: Pair[T]) -> Path:
    return folder / f"{file_stem(pair.task)}.continuations.jsonl"


def _read[T: Task](folder: Path, pair: Pair[T]) -> dict[Key, Continued]:
    path = _path(folder, pair)
    if not path.is_file():
        return {}
    known, expected = {}, _fingerprint(pair)
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            content = json.loads(line)
            rollout, key = content["rollout"], tuple(content["key"])
            result = Continued(*(int(content[name]) for name in ("success", "cheap_calls", "strong_calls")))
        except (ValueError, KeyError, TypeError) as error:
            raise FileFormatError(
                f"{path}, line {number}: {error!r}; expected what came of a continuation, as this program writes it"
            ) from error
        if rollout != expected:
            wanted, where = f"{expected!r}, that of the rollouts: use another folder", str(path)
            raise InvalidDataError(wanted, episode=pair.task.id, field="rollout", value=rollout, where=where)
        known[key] = result
    return known


def _fingerprint[T: Task](pair: Pair[T]) -> str:
    """Tell these rollouts from others of the same task."""
    actions = [[step.proposal.action for step in rollout.executed] for rollout in (pair.cheap, pair.strong)]
    return hashlib.sha256(json.dumps(actions).encode()).hexdigest()[:16]
