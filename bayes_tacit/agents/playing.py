"""Playing many tasks: paired rollouts, every continuation of them, and policies; each is played once and kept.

The Cheap rollout of a task is on record, and so is Strong's; an episode under a policy takes from there what is the
same, and plays what is new. What comes of a handoff depends only on the task, the recorded rollout, its step and
Strong, who takes over for good: a continuation serves every policy and every threshold that hands off there.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bayes_tacit.agents.benchmark import Benchmark, Suite, Task, file_stem, find_suite
from bayes_tacit.agents.loop import Budget, run_episode
from bayes_tacit.agents.protocols import Actor, Agent, BrokenTranscriptError, Environment, TornTranscriptError
from bayes_tacit.agents.recorded import RecordedActor, Remembering
from bayes_tacit.agents.transcript import Transcript, read_transcript, set_aside
from bayes_tacit.agents.work import FolderInUseError, Progress, owned, shown, work_through
from bayes_tacit.data.costs import Outcomes, StepCost, cost_of_calls
from bayes_tacit.data.counterfactuals import Counterfactuals
from bayes_tacit.data.timing import DEFAULT_TIMING, Timing, discards_proposal
from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError, TacitWarning
from bayes_tacit.files import as_path, atomic_path
from bayes_tacit.router import Router, handoff_at, pure
from bayes_tacit.router.rule import plain
from bayes_tacit.router.rules import Always, Never, Signal

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
    """Return the file of a rollout."""
    return folder / f"{file_stem(task)}.{agent}.jsonl"


def printed(thing: object) -> str:
    """Return how a thing prints, without addresses in memory: those differ from process to process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(thing))


def same_budget(transcript: Transcript, players: Players) -> bool:
    """Check whether an episode was played within the players' budget."""
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
        pure(agent, benchmark.timing),
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
            make_room(_played_path(home, pairs[at], entry) for at in todo for entry in entries)
            work = partial(_play_task, benchmark=benchmark, entries=list(entries), folder=home, players=players)
            for at, known in work_through(work, [(at, pairs[at]) for at in todo], workers, progress, held):
                found[at] = known
    return {entry.name: [known[entry.name] for known in found] for entry in entries}


def outcomes_of(transcripts: Sequence[Transcript]) -> Outcomes:
    """Return what came of played episodes.

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
        try:
            transcript = read_transcript(_played_path(folder, pair, entry))
        except (MissingFileError, TornTranscriptError, BrokenTranscriptError):
            continue
        same = dict(transcript.header.info) == _info(entry, players)
        if same and same_budget(transcript, players) and transcript.conclusive:
            known[entry.name] = transcript
    return known


def _info(entry: Entry, players: Players) -> dict[str, str]:
    return {**players.info(), "policy": entry.name, "identity": entry.router.fingerprint}


def _played_path[T: Task](folder: Path, pair: Pair[T], entry: Entry) -> Path:
    return folder / f"{file_stem(pair.task)}.{_slug(entry.name)}.jsonl"


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


Key = tuple[Any, ...]


@dataclass(frozen=True)
class Continued:
    """What came of an episode: success, and calls of both agents."""

    success: int
    cheap_calls: int
    strong_calls: int


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
        more = ("proposal",) if discards_proposal(self.handoff_timing) else ()
        asked = [[("handoff", step, *(more if step else ())) for step in steps] for steps in handoffs]
        return [{key[1]: result for key, result in found.items()} for found in self._look_up(asked)]

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

    def single_steps(self, router: Router, thresholds: np.ndarray) -> np.ndarray:
        """Play a router that calls Strong for single steps at thresholds, as `World` wants it: (4, threshold, episode).

        Where its score of Cheap's step reaches the threshold, Strong takes one action (under "proposal" in place of the
        one that was scored, and Cheap's call is paid for; else the next one), then Cheap acts again. A rule's opening
        and its tasks' own thresholds are the world's to look at.
        """
        rule, features = router.rule, router.feature_names
        if isinstance(rule, Signal):
            # Step Deferral by task scores as Step Deferral does, and is played with it.
            rule, features = Signal(), ()
        design = router.design if features else None
        played = replace(
            router, rule=rule, feature_names=features, design=design, ranges=None, alpha_start=math.inf, pace=0.0
        )
        scores = json.dumps([rule.policy, plain(rule), features, router.diagnostic_names, router.timing])
        # As text, since JSON has no infinity: with that threshold Cheap plays alone.
        keys = [("single steps", scores, repr(float(level))) for level in np.asarray(thresholds)]
        found = self._look_up([keys] * len(self.pairs), played)
        rows = [[one[key] for one in found] for key in keys]
        success, cheap, strong = (
            np.array([[getattr(one, name) for one in row] for row in rows], dtype=float).reshape(len(keys), -1)
            for name in ("success", "cheap_calls", "strong_calls")
        )
        return np.stack([success, cost_of_calls(self.players.cost, cheap, strong), cheap, strong])

    def _look_up(self, asked: Sequence[Sequence[Key]], router: Router | None = None) -> list[dict[Key, Continued]]:
        """Return what comes of each key, playing what was never played; the router is that of single steps."""
        home = as_path(self.folder)
        home.mkdir(parents=True, exist_ok=True)
        known, todo = self._on_record(home, asked)
        if todo:
            with owned(home) as held:
                # Another run may have played some of them until a moment ago.
                known, todo = self._on_record(home, asked)
                work = partial(_play_all, benchmark=self.benchmark, folder=home, players=self.players, router=router)
                for at, results in work_through(work, todo, self.workers, self.progress, held):
                    known[at] = results
        return [{key: known[at][key] for key in keys} for at, keys in enumerate(asked)]

    def _on_record(
        self, home: Path, asked: Sequence[Sequence[Key]]
    ) -> tuple[list[dict[Key, Continued]], list[tuple[int, Pair[T], list[Key]]]]:
        """Return what is kept for each rollout, and what is asked for beyond it."""
        known = [_read(home, pair) for pair in self.pairs]
        todo = []
        for at, (pair, keys) in enumerate(zip(self.pairs, asked, strict=True)):
            missing = [key for key in dict.fromkeys(keys) if key not in known[at]]
            if missing:
                todo.append((at, pair, missing))
        return known, todo


def _play_all[T: Task](
    job: tuple[int, Pair[T], list[Key]],
    benchmark: Benchmark[T],
    folder: Path,
    players: Players,
    router: Router | None,
) -> tuple[int, dict[Key, Continued]]:
    at, pair, keys = job
    known = _read(folder, pair)
    with benchmark.environment(pair.task) as environment:
        for key in keys:
            known[key] = _continue(environment, benchmark, pair, key, players, router)
    with atomic_path(_path(folder, pair)) as temporary:
        temporary.write_text("".join(_line(pair, key, result) for key, result in known.items()), encoding="utf-8")
    return at, known


def _continue[T: Task](
    environment: Environment,
    benchmark: Benchmark[T],
    pair: Pair[T],
    key: Key,
    players: Players,
    router: Router | None,
) -> Continued:
    if key == ("handoff", 0):
        return _continued(pair.strong)
    extractor = None
    if key[0] == "handoff":
        router = handoff_at(key[1], timing="proposal", discards=True) if len(key) > 2 else handoff_at(key[1])
    else:
        assert router is not None
        router = replace(router, alpha=float(key[-1]))
        extractor = benchmark.extractor(pair.task, players.budget, descriptors=bool(router.feature_names))
    played = run_episode(
        environment,
        players.cheap,
        players.strong,
        router,
        episode=pair.task.id,
        extractor=extractor,
        budget=players.budget,
        cost=players.cost,
        recorded=pair.cheap,
    )
    if not played.conclusive:
        raise InvalidDataError(
            "'done' or 'budget'",
            episode=pair.task.id,
            field="status",
            value=played.end.status,
            where=str(played.end.error),
        )
    return _continued(played)


def _continued(transcript: Transcript) -> Continued:
    end = transcript.end
    return Continued(int(end.success), end.cheap_calls, end.strong_calls)


def _path[T: Task](folder: Path, pair: Pair[T]) -> Path:
    return folder / f"{file_stem(pair.task)}.continuations.jsonl"


def _line[T: Task](pair: Pair[T], key: Key, result: Continued) -> str:
    content = {
        "key": list(key),
        "success": result.success,
        "cheap_calls": result.cheap_calls,
        "strong_calls": result.strong_calls,
        "rollout": _fingerprint(pair),
    }
    return json.dumps(content) + "\n"


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
            raise InvalidDataError(
                f"{expected!r}, that of the rollouts: use another folder",
                episode=pair.task.id,
                field="rollout",
                value=rollout,
                where=str(path),
            )
        known[key] = result
    return known


def _fingerprint[T: Task](pair: Pair[T]) -> str:
    """Tell these rollouts from others of the same task."""
    actions = [[step.proposal.action for step in rollout.executed] for rollout in (pair.cheap, pair.strong)]
    return hashlib.sha256(json.dumps(actions).encode()).hexdigest()[:16]
