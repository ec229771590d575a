"""What comes of every handoff: each continuation of a Cheap rollout is really played, once, and kept.

A continuation depends only on the game, the recorded rollout, the step of the handoff and Strong, who takes over for
good. So it serves every policy and every threshold that hands off there. The steps of a game are played in one
environment, which goes back to a known place without deriving its words again. Deferral of single steps is played and
kept likewise, one line for each game, signal and threshold.
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

from bayes_tacit.agents.alfworld.collect import Pair, Players, file_stem
from bayes_tacit.agents.alfworld.diagnostics import AlfworldExtractor
from bayes_tacit.agents.alfworld.environment import AlfworldEnvironment
from bayes_tacit.agents.alfworld.workers import Progress, work_through
from bayes_tacit.agents.loop import run_episode
from bayes_tacit.agents.transcript import Transcript
from bayes_tacit.data.costs import cost_of_calls
from bayes_tacit.data.counterfactuals import Counterfactuals
from bayes_tacit.data.timing import Timing
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.files import as_path, atomic_path
from bayes_tacit.router.control import Controller, ForcedHandoffController, StepDeferralController

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Continued:
    """What came of an episode: success, and calls of both agents."""

    success: int
    cheap_calls: int
    strong_calls: int


@dataclass(frozen=True, eq=False)
class Continuations:
    """Plays continuations of recorded rollouts and remembers what came of them.

    Parameters
    ----------
    pairs
        The rollouts.
    folder
        Where results are kept, a file for each game; made if it is not there. It belongs to these rollouts and players.
    players
        Who plays; the same as in the rollouts.
    workers
        Number of processes.
    progress
        Told after each game for which something had to be played.
    deferral_timing
        Which step is deferred to Strong: the one that gave the signal ("proposal": Cheap's proposal is paid for and
        discarded, as in the paper's agents), or the one after ("post_action", as in its mechanism study).
    """

    pairs: Sequence[Pair]
    folder: str | os.PathLike[str]
    players: Players
    workers: int = 1
    progress: Progress | None = None
    deferral_timing: Timing = "post_action"

    def at(self, handoffs: Sequence[Iterable[int]]) -> list[dict[int, Continued]]:
        """Give what comes of handoffs at these steps of each rollout, playing only what was never played."""
        asked = [[("handoff", step) for step in steps] for steps in handoffs]
        return [{key[1]: result for key, result in found.items()} for found in self._look_up(asked)]

    def counterfactuals(self, handoffs: Sequence[Iterable[int]] | None = None) -> Counterfactuals:
        """Give what comes of every handoff, or of those that will be looked up.

        Parameters
        ----------
        handoffs
            Steps of each rollout; all by default. Only these are played, which is what models that cost money call
            for. The table has a failure of full length in place of the others: it is good for decisions that hand off
            at these steps, or at step 0, or never.
        """
        lengths = [len(pair.cheap.checkpoints) for pair in self.pairs]
        wanted = [range(length) for length in lengths] if handoffs is None else [{0, *steps} for steps in handoffs]
        shape = (len(self.pairs), max(lengths))
        success, strong_calls = np.full(shape, np.nan), np.full(shape, np.nan)
        for row, results in enumerate(self.at(wanted)):
            steps = np.arange(lengths[row])
            success[row, steps], strong_calls[row, steps] = 0, self.players.budget.actions - steps
            for step, result in results.items():
                success[row, step], strong_calls[row, step] = result.success, result.strong_calls
        return Counterfactuals.from_calls(
            [pair.game.id for pair in self.pairs],
            success=success,
            strong_calls=strong_calls,
            never_success=[pair.cheap.end.success for pair in self.pairs],
            cost=self.players.cost,
        )

    def deferral(self, signal: str, thresholds: np.ndarray) -> np.ndarray:
        """Play step deferral, as `World.deferral` wants it: (4, threshold, episode).

        Where the signal of Cheap's step is at least the threshold, Strong takes one action, then Cheap acts again.
        """
        # As text, since JSON has no infinity: that threshold is Pure Cheap.
        levels = [repr(float(threshold)) for threshold in np.asarray(thresholds)]
        keys = [("deferral", self.deferral_timing, signal, level) for level in levels]
        found = self._look_up([keys] * len(self.pairs))
        rows = [[found[at][key] for at in range(len(self.pairs))] for key in keys]
        success, cheap, strong = (
            np.array([[getattr(one, name) for one in row] for row in rows], dtype=float).reshape(len(levels), -1)
            for name in ("success", "cheap_calls", "strong_calls")
        )
        return np.stack([success, cost_of_calls(self.players.cost, cheap, strong), cheap, strong])

    def _look_up(self, asked: Sequence[Sequence[Key]]) -> list[dict[Key, Continued]]:
        home = as_path(self.folder)
        home.mkdir(parents=True, exist_ok=True)
        known = [_read(home, pair) for pair in self.pairs]
        todo = []
        for at, (pair, keys) in enumerate(zip(self.pairs, asked, strict=True)):
            missing = [key for key in dict.fromkeys(keys) if key not in known[at]]
            if missing:
                todo.append((at, pair, missing))
        for at, results in work_through(
            partial(_play_all, folder=home, players=self.players), todo, self.workers, self.progress
        ):
            known[at] = results
        return [{key: known[at][key] for key in keys} for at, keys in enumerate(asked)]


def _play_all(job: tuple[int, Pair, list[Key]], folder: Path, players: Players) -> tuple[int, dict[Key, Continued]]:
    at, pair, keys = job
    known = _read(folder, pair)
    with AlfworldEnvironment(pair.game.path) as environment:
        for key in keys:
            known[key] = _play(environment, pair, key, players)
    with atomic_path(_path(folder, pair)) as temporary:
        temporary.write_text("".join(_line(pair, key, result) for key, result in known.items()), encoding="utf-8")
    return at, known


def _play(environment: AlfworldEnvironment, pair: Pair, key: Key, players: Players) -> Continued:
    if key == ("handoff", 0):
        return _continued(pair.strong)
    controller: Controller
    if key[0] == "handoff":
        controller = ForcedHandoffController(key[1])
    else:
        _, timing, signal, level = key
        controller = StepDeferralController(float(level), signal=signal, timing=timing)
    played = run_episode(
        environment,
        players.cheap,
        players.strong,
        controller,
        episode=pair.game.id,
        extractor=AlfworldExtractor() if key[0] == "deferral" else None,
        budget=players.budget,
        cost=players.cost,
        recorded=pair.cheap,
    )
    if not played.conclusive:
        raise InvalidDataError(
            "'done' or 'budget'",
            episode=pair.game.id,
            field="status",
            value=played.end.status,
            where=str(played.end.error),
        )
    return _continued(played)


def _continued(transcript: Transcript) -> Continued:
    end = transcript.end
    return Continued(int(end.success), end.cheap_calls, end.strong_calls)


def _path(folder: Path, pair: Pair) -> Path:
    return folder / f"{file_stem(pair.game)}.continuations.jsonl"


def _line(pair: Pair, key: Key, result: Continued) -> str:
    content = {
        "key": list(key),
        "success": result.success,
        "cheap_calls": result.cheap_calls,
        "strong_calls": result.strong_calls,
        "rollout": _fingerprint(pair),
    }
    return json.dumps(content) + "\n"


def _read(folder: Path, pair: Pair) -> dict[Key, Continued]:
    path = _path(folder, pair)
    if not path.is_file():
        return {}
    known = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        content = json.loads(line)
        if content["rollout"] != _fingerprint(pair):
            raise InvalidDataError(
                f"{_fingerprint(pair)!r}, that of the rollouts: use another folder",
                episode=pair.game.id,
                field="rollout",
                value=content["rollout"],
                where=str(path),
            )
        counts = (content[name] for name in ("success", "cheap_calls", "strong_calls"))
        known[tuple(content["key"])] = Continued(*counts)
    return known


def _fingerprint(pair: Pair) -> str:
    """Tell these rollouts from others of the same game."""
    actions = [[step.proposal.action for step in rollout.executed] for rollout in (pair.cheap, pair.strong)]
    return hashlib.sha256(json.dumps(actions).encode()).hexdigest()[:16]
