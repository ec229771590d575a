"""The learned pair of the experiment: walkthroughs of all games, lessons from them, and rankers for every fold."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from bayes_tacit.agents.alfworld import AlfworldEnvironment, Game
from bayes_tacit.agents.alfworld.learned import LearnedPair, Lesson, fold_of, learn_pair, lessons_of, walkthrough
from bayes_tacit.agents.playing import Progress
from bayes_tacit.agents.playing.workers import work_through

FOLDS = 5
COPIES = 3
"""Copies of each walkthrough with detours."""

CHEAP_GAMES = 4
"""From how many games Cheap learns."""

PAIR = "pair.json"


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
    """
    path = home / PAIR
    if path.is_file():
        return LearnedPair.read(path)
    home.mkdir(parents=True, exist_ok=True)
    told = None if report is None else report("walkthroughs and lessons")
    studied = work_through(partial(_study, seed=seed), games, workers, told)
    lessons, rooms = {}, {}
    for game, first, some in studied:
        lessons[game], rooms[game] = some, first
    folds = {game: fold_of(first, FOLDS) for game, first in rooms.items()}
    learned = learn_pair(lessons, folds, cheap_games=CHEAP_GAMES, seed=seed)
    learned.write(path)
    return learned


def _study(game: Game, seed: int) -> tuple[str, str, list[Lesson]]:
    """Give a game's id, its first observation and its lessons."""
    with AlfworldEnvironment(game.path) as environment:
        lessons = lessons_of(environment, walkthrough(environment), COPIES, zlib.crc32(f"{seed}|{game.id}".encode()))
        return game.id, environment.reset().text, lessons
