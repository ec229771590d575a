"""`python -m simulations alfworld`: play what was not played yet, and write the results."""

from __future__ import annotations

import os
from pathlib import Path

from bayes_tacit.agents.alfworld import CheapActor, StrongActor
from bayes_tacit.agents.playing import Players, shown
from simulations.alfworld.experiment import run_experiment
from simulations.alfworld.policies import compared_policies
from simulations.alfworld.results import write_results

NAME = "alfworld"
KEPT = "kept"


def has_data(data: Path | None) -> bool:
    """Tell whether it is known where the games are."""
    return data is not None or bool(os.environ.get("ALFWORLD_DATA"))


def run(data: Path | None, folder: Path, *, kept: Path | None, jobs: int, seed: int) -> None:
    """Run the experiment; how far it is, is shown on standard error.

    Parameters
    ----------
    data
        The folder of games; by default what ALFWORLD_DATA says.
    folder
        For the results.
    kept
        For everything that is played, hundreds of megabytes; by default a folder `kept` in that of the results.
    jobs
        Number of processes.
    seed
        Of both actors, and of the posterior.
    """
    home = folder / KEPT if kept is None else kept
    players = Players(CheapActor(seed), StrongActor(seed))
    policies = compared_policies(seed)
    experiment = run_experiment(data, home, players=players, policies=policies, workers=jobs, report=shown)
    write_results(experiment, home, folder)
