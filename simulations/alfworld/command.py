"""`python -m simulations alfworld`: play what was not played yet, and write the results."""

from __future__ import annotations

import os
import time
from pathlib import Path

from rich.console import Console

from bayes_tacit.agents.alfworld import CheapActor, StrongActor
from bayes_tacit.agents.alfworld.collect import Players
from bayes_tacit.agents.alfworld.workers import Progress
from simulations.alfworld.experiment import Report, run_experiment
from simulations.alfworld.policies import paper_policies
from simulations.alfworld.results import write_results

NAME = "alfworld"
KEPT = "kept"
EVERY = 10.0
"""Seconds between two lines of progress."""


def has_data(data: Path | None) -> bool:
    """Tell whether it is known where the games are."""
    return data is not None or bool(os.environ.get("ALFWORLD_DATA"))


def run(data: Path | None, folder: Path, *, kept: Path | None, jobs: int, seed: int, console: Console) -> None:
    """Run the experiment.

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
    console
        Where progress is shown.
    """
    home = folder / KEPT if kept is None else kept
    players = Players(CheapActor(seed), StrongActor(seed))
    policies = paper_policies(seed)
    experiment = run_experiment(
        data, home, players=players, policies=policies, workers=jobs, report=_report_on(console)
    )
    write_results(experiment, home, folder)


def _report_on(console: Console) -> Report:
    def report(stage: str) -> Progress:
        last = [0.0]

        def progress(done: int, of: int, seconds_left: float) -> None:
            if done == of or time.perf_counter() - last[0] > EVERY:
                last[0] = time.perf_counter()
                console.print(f"{stage}: {done}/{of} games, about {seconds_left / 60:.1f} min left")

        return progress

    return report
