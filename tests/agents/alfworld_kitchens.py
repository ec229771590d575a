"""Kitchens of our own with things in different places, as folders of games and as lists."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from alfworld_game import KITCHEN, TASKS, write_game

from bayes_tacit.agents.alfworld import Game

LOOK = "look at mug under the desklamp."


def write_kitchens(data: Path, split: str, count: int, seed: int = 0) -> list[Game]:
    """Write games as the official ones lie in a folder; give them as `list_games(split, data)` does."""
    rng = np.random.default_rng(seed)
    tasks = [task for task in TASKS if task != LOOK]
    games = []
    for number in range(count):
        folder = data / "json_2.1.1" / split / f"task-{number:02d}" / "trial_1"
        folder.mkdir(parents=True)
        things = [thing for inside in KITCHEN.values() for thing in inside]
        places = list(KITCHEN)
        kitchen: dict[str, list[str]] = {place: [] for place in places}
        for thing in things:
            # The shelf is where most things are wanted.
            kitchen[places[rng.integers(len(places) - 1)]].append(thing)
        path = write_game(folder, tasks[number % len(tasks)], kitchen)
        games.append(Game(f"{split}/task-{number:02d}/trial_1", path))
    return games
