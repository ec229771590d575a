"""The learned pair of the experiment: walkthroughs of all games, lessons from them, and rankers for every fold."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from bayes_tacit.agents.playing import Progress
from bayes_tacit.agents.playing.workers import work_through
from bayes_tacit.errors import InvalidDataError
from simulations.alfworld import AlfworldEnvironment, Game
from simulations.alfworld.learned import LearnedPair, Lesson, fold_of, learn_pair, lessons_of, walkthrough

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
    """Train the pair, or read the one that was trained.

    Parameters
    ----------
    games
        All games.
    home
        Where the trained pair is kept.
    seed
        For detours, for Cheap's games, and of both actors.
    workers
        Number of processes that make lessons.
    report
        Makes a progress for each stage.

    Raises
    ------
    InvalidDataError
        If the one that is kept was trained with another seed or on other games.
    """
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
    few = [min(CHEAP_GAMES, len(some)) for some in kept.strong_games]
    settings = {
        "seed": ((kept.cheap.seed, kept.strong.seed), (seed, seed)),
        "sharpness": ((kept.cheap.sharpness, kept.strong.sharpness), (SHARPNESS, SHARPNESS)),
        "number of folds": ((len(kept.cheap.rankers), len(kept.strong.rankers)), (FOLDS, FOLDS)),
        "number of games that Cheap learns from": ([len(some) for some in kept.cheap_games], few),
    }
    for name, (has, asked) in settings.items():
        for one, other in zip(has, asked, strict=False):
            if one != other:
                raise InvalidDataError(f"{other}, as asked for: {ELSEWHERE}", field=name, value=one, where=str(path))
    if known != games:
        missing, more = sorted(games - known), sorted(known - games)
        which = f"{missing[0]} among them" if missing else f"{more[0]} not among them"
        raise InvalidDataError(
            f"a pair for the {len(games)} games asked for, {which}, and it is for {len(known)}: {ELSEWHERE}",
            where=str(path),
        )


def _study(game: Game, seed: int) -> tuple[str, str, list[Lesson]]:
    """Give a game's id, its first observation and its lessons."""
    with AlfworldEnvironment(game.path) as environment:
        lessons = lessons_of(environment, walkthrough(environment), COPIES, zlib.crc32(f"{seed}|{game.id}".encode()))
        return game.id, environment.reset().text, lessons
