"""What comes of every handoff: each continuation of a Cheap rollout is really played, once, and kept.

A continuation depends only on the task, the recorded rollout, the step of the handoff and Strong, who takes over for
good. So it serves every policy and every threshold that hands off there. The steps of a task are played in one
environment, which may know how to come back to a known place at little cost. Deferral of single steps is played and
kept likewise, one line for each task, signal and threshold.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bayes_tacit.agents.loop import run_episode
from bayes_tacit.agents.playing.benchmark import Benchmark, Task, file_stem
from bayes_tacit.agents.playing.collect import Pair, Players
from bayes_tacit.agents.playing.ownership import owned
from bayes_tacit.agents.playing.workers import Progress, work_through
from bayes_tacit.agents.protocols import Environment
from bayes_tacit.agents.transcript import Transcript
from bayes_tacit.data.costs import cost_of_calls
from bayes_tacit.data.counterfactuals import Counterfactuals
from bayes_tacit.data.timing import DEFAULT_TIMING, Timing, discards_proposal
from bayes_tacit.errors import FileFormatError, InvalidDataError
from bayes_tacit.files import as_path, atomic_path
from bayes_tacit.router.control import (
    Chance,
    Controller,
    ForcedHandoffController,
    StepDeferralController,
    TrimController,
)

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
    deferral_timing
        Which step is deferred to Strong: the one that gave the signal ("proposal": Cheap's proposal is paid for and
        discarded, as in the paper's agents), or the one after ("post_action", as in its mechanism study).
    handoff_timing
        Whether a handoff on the way comes after an action ("post_action"), or discards a proposal ("proposal"), which
        then is one of the calls that the budget allows.
    judged_timing
        As `deferral_timing`, for steps that a model judges to be wrong: "proposal" only where the diagnostics that it
        was fitted on are those of proposals.
    """

    benchmark: Benchmark[T]
    pairs: Sequence[Pair[T]]
    folder: str | os.PathLike[str]
    players: Players
    workers: int = 1
    progress: Progress | None = None
    deferral_timing: Timing = DEFAULT_TIMING
    handoff_timing: Timing = DEFAULT_TIMING
    judged_timing: Timing = DEFAULT_TIMING

    def at(self, handoffs: Sequence[Iterable[int]]) -> list[dict[int, Continued]]:
        """Give what comes of handoffs at these steps of each rollout, playing only what was never played."""
        more = ("proposal",) if discards_proposal(self.handoff_timing) else ()
        asked = [[("handoff", step, *(more if step else ())) for step in steps] for steps in handoffs]
        return [{key[1]: result for key, result in found.items()} for found in self._look_up(asked)]

    def counterfactuals(self, handoffs: Sequence[Iterable[int]] | None = None) -> Counterfactuals:
        """Give what comes of every handoff, or of those that will be looked up.

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

    def deferral(self, signal: str, thresholds: np.ndarray) -> np.ndarray:
        """Play step deferral, as `World.deferral` wants it: (4, threshold, episode).

        Where the signal of Cheap's step is at least the threshold, Strong takes one action, then Cheap acts again.
        """
        levels = _levels(thresholds)
        return self._deferred([("deferral", self.deferral_timing, signal, level) for level in levels])

    def judged(self, wrong: Chance, thresholds: np.ndarray) -> np.ndarray:
        """Play deferral of steps that look wrong, as `World.judged` wants it: (4, threshold, episode).

        Where the probability that Cheap's step is wrong is at least the threshold, Strong takes one action, then Cheap
        acts again.
        """
        numbers = json.dumps([wrong.names, wrong.mean, wrong.scale, wrong.intercept, wrong.slopes])
        return self._deferred([("judged", self.judged_timing, numbers, level) for level in _levels(thresholds)])

    def _deferred(self, keys: list[Key]) -> np.ndarray:
        """Play each on every task: (4, key, episode)."""
        found = self._look_up([keys] * len(self.pairs))
        rows = [[found[at][key] for at in range(len(self.pairs))] for key in keys]
        success, cheap, strong = (
            np.array([[getattr(one, name) for one in row] for row in rows], dtype=float).reshape(len(keys), -1)
            for name in ("success", "cheap_calls", "strong_calls")
        )
        return np.stack([success, cost_of_calls(self.players.cost, cheap, strong), cheap, strong])

    def _look_up(self, asked: Sequence[Sequence[Key]]) -> list[dict[Key, Continued]]:
        home = as_path(self.folder)
        home.mkdir(parents=True, exist_ok=True)
        known, todo = self._on_record(home, asked)
        if todo:
            with owned(home) as held:
                # Another run may have played some of them until a moment ago.
                known, todo = self._on_record(home, asked)
                work = partial(_play_all, benchmark=self.benchmark, folder=home, players=self.players)
                for at, results in work_through(work, todo, self.workers, self.progress, held):
                    known[at] = results
        return [{key: known[at][key] for key in keys} for at, keys in enumerate(asked)]

    def _on_record(
        self, home: Path, asked: Sequence[Sequence[Key]]
    ) -> tuple[list[dict[Key, Continued]], list[tuple[int, Pair[T], list[Key]]]]:
        """Give what is kept for each rollout, and what is asked for beyond it."""
        known = [_read(home, pair) for pair in self.pairs]
        todo = []
        for at, (pair, keys) in enumerate(zip(self.pairs, asked, strict=True)):
            missing = [key for key in dict.fromkeys(keys) if key not in known[at]]
            if missing:
                todo.append((at, pair, missing))
        return known, todo


def _levels(thresholds: np.ndarray) -> list[str]:
    """Give thresholds as text, since JSON has no infinity: that threshold is Pure Cheap."""
    return [repr(float(threshold)) for threshold in np.asarray(thresholds)]


def _play_all[T: Task](
    job: tuple[int, Pair[T], list[Key]], benchmark: Benchmark[T], folder: Path, players: Players
) -> tuple[int, dict[Key, Continued]]:
    at, pair, keys = job
    known = _read(folder, pair)
    with benchmark.environment(pair.task) as environment:
        for key in keys:
            known[key] = _play(environment, benchmark, pair, key, players)
    with atomic_path(_path(folder, pair)) as temporary:
        temporary.write_text("".join(_line(pair, key, result) for key, result in known.items()), encoding="utf-8")
    return at, known


def _play[T: Task](
    environment: Environment, benchmark: Benchmark[T], pair: Pair[T], key: Key, players: Players
) -> Continued:
    if key == ("handoff", 0):
        return _continued(pair.strong)
    controller: Controller
    if key[0] == "handoff":
        discards = key[2:] == ("proposal",)
        controller = ForcedHandoffController(key[1], key[2] if discards else DEFAULT_TIMING, discards)
    elif key[0] == "deferral":
        _, timing, signal, level = key
        controller = StepDeferralController(float(level), signal=signal, timing=timing)
    else:
        _, timing, numbers, level = key
        names, mean, scale, intercept, slopes = json.loads(numbers)
        wrong = Chance(tuple(names), tuple(mean), tuple(scale), intercept, tuple(slopes))
        looked_at = tuple(name.removeprefix("last ") for name in names if name.startswith("last "))
        controller = TrimController(looked_at, wrong, float(level), timing)
    played = run_episode(
        environment,
        players.cheap,
        players.strong,
        controller,
        episode=pair.task.id,
        extractor=benchmark.extractor(pair.task, players.budget) if key[0] != "handoff" else None,
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
