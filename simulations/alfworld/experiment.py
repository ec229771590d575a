"""Playing every policy on ALFWorld's games, with the scripted pair or one that learned."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bayes_tacit.agents.marks import MarkEvidence
from bayes_tacit.agents.playing import Pair, Players, Progress, shown
from bayes_tacit.agents.teacher import stalled_for
from bayes_tacit.agents.work import work_through
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.decisions.selection import fixed_grid
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.policies import Policy, PosteriorTacitSwitch, StepDeferral, TaskRouter
from models.alfworld import ALFWORLD
from simulations.alfworld import Alfworld, AlfworldEnvironment, CheapActor, Game, StrongActor, router_descriptors
from simulations.alfworld.benchmark import DESCRIPTORS
from simulations.alfworld.games import Splits, make_splits
from simulations.alfworld.learned import LearnedPair, Lesson, fold_of, learn_pair, lessons_of, walkthrough
from simulations.played.crossed import cross_validate
from simulations.played.experiment import PARTS, Experiment, run_played
from simulations.played.page import Story, write_results
from simulations.played.policies import Compared
from simulations.played.setup import Report, Setup

COMPARED = Compared(
    ALFWORLD,
    TaskRouter.alfworld(DESCRIPTORS),
    StepDeferral.alfworld("uncertainty"),
    alarm="repeated_action",
    candidates=fixed_grid(),
)
"""Step Deferral looks at Cheap's uncertainty, 1 - exp(-NLL), whose thresholds are those of the NLL itself. First Alarm,
which the paper does not have, hands off for good where Cheap does what it has done before."""


def compared_policies(seed: int = 0) -> list[Policy]:
    """Return every policy of the library, with the paper's settings for ALFWorld."""
    return COMPARED.policies(seed)


def without_posterior(seed: int = 0) -> list[Policy]:
    """Return the same without those that sample a posterior, where many fits are made."""
    return [policy for policy in compared_policies(seed) if not isinstance(policy, PosteriorTacitSwitch)]


BUDGET_SHARE = 0.9
"""The cap on development data, as a share of what Pure Strong costs there."""

STANDSTILL = 3

BENCHMARK = Alfworld()

SCRIPTED = Players(CheapActor(), StrongActor())


def run_experiment(
    data: str | os.PathLike[str] | None,
    folder: str | os.PathLike[str],
    *,
    players: Players = SCRIPTED,
    splits: Splits | None = None,
    evidence: MarkEvidence = "one_step",
    standstill: int = STANDSTILL,
    workers: int = 2,
    report: Report | None = None,
    policies: Sequence[Policy] | None = None,
    repeatable: bool = True,
) -> Experiment:
    """Play what was not played yet, and compare the policies."""
    games = splits or make_splits(data)
    setup = alfworld_setup(folder, players, standstill=standstill, workers=workers, report=report)
    parts = {part: getattr(games, part) for part in PARTS}
    return run_played(setup, parts, policies or compared_policies(), evidence=evidence, repeatable=repeatable)


def alfworld_setup(
    folder: str | os.PathLike[str],
    players: Players,
    *,
    standstill: int = STANDSTILL,
    workers: int = 1,
    report: Report | None = None,
) -> Setup[Game]:
    """Say how ALFWorld is played."""
    return Setup(
        BENCHMARK,
        players,
        Path(folder),
        stalled_for(standstill),
        BUDGET_SHARE,
        with_descriptors,
        workers=workers,
        report=report,
    )


def with_descriptors(episodes: Episodes, pairs: Sequence[Pair[Game]]) -> Episodes:
    """Return the episodes with what the task router looks at carried along."""
    described = [router_descriptors(pair.cheap.history(0).first) for pair in pairs]
    carried = {
        name: ("episode", np.array([one[name] for one in described]))
        for name in DESCRIPTORS
        if name not in episodes.feature_names
    }
    return Episodes(episodes.dataset.assign(carried))


FOLDS = 5
COPIES = 3
"""Copies of each walkthrough with detours."""

CHEAP_GAMES = 4
"""From how many games Cheap learns."""

SHARPNESS = 1.0
"""By what both actors multiply their scores."""

PAIR = "pair.json"
ELSEWHERE = "give another folder with --kept"


def learned_pair(
    games: Sequence[Game],
    home: Path,
    *,
    seed: int = 0,
    workers: int = 1,
    report: Callable[[str], Progress] | None = None,
) -> LearnedPair:
    """Train the pair, or read the one that was trained."""
    path = home / PAIR
    if path.is_file():
        kept = LearnedPair.read(path)
        _check(kept, {game.id for game in games}, seed, path)
        return kept
    home.mkdir(parents=True, exist_ok=True)
    told = None if report is None else report("walkthroughs and lessons")
    studied = work_through(partial(_study, seed=seed), games, workers, told)
    lessons, rooms = {}, {}
    for game, first, some in studied:
        lessons[game], rooms[game] = some, first
    folds = {game: fold_of(first, FOLDS) for game, first in rooms.items()}
    learned = learn_pair(
        lessons, folds, cheap_games=CHEAP_GAMES, seed=seed, cheap_sharpness=SHARPNESS, strong_sharpness=SHARPNESS
    )
    learned.write(path)
    return learned


def _check(kept: LearnedPair, games: set[str], seed: int, path: Path) -> None:
    """Check that a pair is the one that would be trained."""
    # With two folds or more, every game is one that Strong learns from for the games of some other fold.
    known = {game for some in kept.strong_games for game in some}
    actors = kept.cheap, kept.strong
    has: dict[str, set[Any]] = {
        "seed": {actor.seed for actor in actors},
        "sharpness": {actor.sharpness for actor in actors},
        "number of folds": {len(actor.rankers) for actor in actors},
        "number of games that Cheap learns from": {len(some) for some in kept.cheap_games},
        "games": known,
    }
    few = {min(CHEAP_GAMES, len(some)) for some in kept.strong_games}
    wanted: list[set[Any]] = [{seed}, {SHARPNESS}, {FOLDS}, few, games]
    for (name, found), asked in zip(has.items(), wanted, strict=True):
        if found != asked:
            one, other = (sorted(values)[:3] for values in (found, asked))
            raise InvalidDataError(f"{other}, as asked for: {ELSEWHERE}", field=name, value=one, where=str(path))


def _study(game: Game, seed: int) -> tuple[str, str, list[Lesson]]:
    """Return a game's id, its first observation and its lessons."""
    with AlfworldEnvironment(game.path) as environment:
        lessons = lessons_of(environment, walkthrough(environment), COPIES, zlib.crc32(f"{seed}|{game.id}".encode()))
        return game.id, environment.reset().text, lessons


NAME, LEARNED = "alfworld", "alfworld_learned"
UNIT = "calls of the 4B model"


def has_data(data: Path | None) -> bool:
    """Return whether it is known where the games are."""
    return data is not None or bool(os.environ.get("ALFWORLD_DATA"))


def run(name: str, data: Path | None, folder: Path, *, kept: Path | None, jobs: int, seed: int) -> None:
    """Play what was not played yet with the scripted or the learned pair, and write the results.

    Everything that is played is kept, hundreds of megabytes: by default in a folder `kept` in that of the results.
    """
    home = folder / "kept" if kept is None else kept
    splits = make_splits(data)
    games: Sequence[Game] = [game for part in PARTS for game in getattr(splits, part)]
    if name == LEARNED:
        games = [*games, *splits.knowledge]
        learned = learned_pair(sorted(games), home, seed=seed, workers=jobs, report=shown)
        players = Players(learned.cheap, learned.strong)
    else:
        players = Players(CheapActor(seed), StrongActor(seed))
    story = Story(name, f"{name} --data path/to/alfworld", UNIT)
    policies = compared_policies(seed)
    experiment = run_experiment(
        None, home, splits=splits, players=players, policies=policies, workers=jobs, report=shown
    )
    # A page without the larger protocol is there while that is played, which takes as long again.
    write_results(experiment, folder, story)
    setup = alfworld_setup(home, players, workers=jobs, report=shown)
    found = cross_validate(setup.rollouts("all", games), setup, partial(without_posterior, seed))
    write_results(experiment, folder, story, found)
