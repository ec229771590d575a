"""`python -m simulations dabench`: play what was not played yet, and write the results."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from bayes_tacit.agents.playing import shown
from bayes_tacit.errors import MissingFileError
from simulations.dabench.experiment import (
    compared_policies,
    dabench_setup,
    replaying,
    run_experiment,
    without_posterior,
)
from simulations.dabench.page import COMMAND, crossed_section, story_of
from simulations.dabench.questions import make_splits
from simulations.played.crossed import cross_validate
from simulations.played.page import write_results

NAME = COMMAND
KEPT = "kept"
VARIABLE = "DABENCH_DATA"
PENDING = (
    "## Every question once a test question",
    "Not on this page: cross-validation over all questions was not played to its end.",
)


def has_data() -> bool:
    """Return whether the variable says where the questions are."""
    return bool(os.environ.get(VARIABLE))


def run(
    data: Path | None,
    folder: Path,
    *,
    kept: Path | None,
    jobs: int,
    seed: int,
    cheap: Path | None = None,
    strong: Path | None = None,
) -> None:
    """Run the experiment; how far it is, is shown on standard error."""
    given = data or os.environ.get(VARIABLE)
    if not given:
        raise MissingFileError(f"no folder of DABench: pass --data, or set the variable {VARIABLE}")
    splits = make_splits(given)
    players = replaying(seed, cheap, strong, splits.all)
    home = folder / KEPT if kept is None else kept
    experiment = run_experiment(
        given, home, splits=splits, players=players, policies=compared_policies(seed), workers=jobs, report=shown
    )
    story = story_of(splits, cheap, strong)
    # A page without the second table is there while that is played, which takes as long again.
    write_results(experiment, home, folder, story, PENDING)
    setup = dabench_setup(given, home, players, workers=jobs, report=shown)
    pairs = setup.rollouts("all", splits.all)
    found = cross_validate(pairs, setup, partial(without_posterior, seed), evidence="one_step")
    write_results(experiment, home, folder, story, crossed_section(found, experiment))
