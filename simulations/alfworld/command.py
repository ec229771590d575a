"""`python -m simulations alfworld` and `alfworld_learned`: play what was not played yet, and write the results."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bayes_tacit.agents.playing import Players, shown
from simulations.alfworld import CheapActor, Game, StrongActor
from simulations.alfworld.experiment import (
    alfworld_setup,
    compared_policies,
    larger_section,
    learned_pair,
    run_experiment,
    without_posterior,
)
from simulations.alfworld.games import Splits, make_splits
from simulations.alfworld.page import SCRIPTED, learned_story
from simulations.played.crossed import cross_validate
from simulations.played.experiment import PARTS
from simulations.played.page import Story, write_results

NAME = "alfworld"
LEARNED = "alfworld_learned"
KEPT = "kept"
PENDING = (
    "## The larger protocol",
    "Not on this page: cross-validation over all games, with windows as ranges, was not played to its end.",
)


def has_data(data: Path | None) -> bool:
    """Return whether it is known where the games are."""
    return data is not None or bool(os.environ.get("ALFWORLD_DATA"))


def run(name: str, data: Path | None, folder: Path, *, kept: Path | None, jobs: int, seed: int) -> None:
    """Run the experiment with a pair; how far it is, is shown on standard error."""
    home = folder / KEPT if kept is None else kept
    splits = make_splits(data)
    games: Sequence[Game] = [game for part in PARTS for game in getattr(splits, part)]
    if name == LEARNED:
        games = [*games, *splits.knowledge]
        learned = learned_pair(sorted(games), home, seed=seed, workers=jobs, report=shown)
        players, story = Players(learned.cheap, learned.strong), learned_story(learned)
    else:
        players, story = Players(CheapActor(seed), StrongActor(seed)), SCRIPTED
    play(players, story, splits, games, home, folder, jobs=jobs, seed=seed)


def play(
    players: Players,
    story: Story,
    splits: Splits,
    games: Sequence[Game],
    home: Path,
    folder: Path,
    *,
    jobs: int,
    seed: int,
) -> None:
    """Play the main experiment on the splits and the larger one on all games, and write the page of both."""
    policies = compared_policies(seed)
    experiment = run_experiment(
        None, home, splits=splits, players=players, policies=policies, workers=jobs, report=shown
    )
    # A page without the larger protocol is there while that is played, which takes as long again.
    write_results(experiment, home, folder, story, PENDING)
    setup = alfworld_setup(home, players, workers=jobs, report=shown)
    found = cross_validate(setup.rollouts("all", games), setup, partial(without_posterior, seed))
    write_results(experiment, home, folder, story, larger_section(found, story.tasks))
