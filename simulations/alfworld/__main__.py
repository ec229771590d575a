"""`python -m simulations.alfworld DATA KEPT RESULTS`: run the scripted experiment and write its tables."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from bayes_tacit.agents.alfworld.workers import Progress
from bayes_tacit.files import atomic_path
from simulations.alfworld.experiment import run_experiment


def report(stage: str) -> Progress:
    """Make a progress that prints a line now and then."""
    last = [0.0]

    def progress(done: int, of: int, seconds_left: float) -> None:
        if done == of or time.perf_counter() - last[0] > 10:
            last[0] = time.perf_counter()
            print(f"{stage}: {done}/{of}, about {seconds_left / 60:.1f} min left", file=sys.stderr, flush=True)

    return progress


def main(data: str, kept: str, results: str) -> None:
    """Run it."""
    experiment = run_experiment(data, kept, report=report)
    folder = Path(results)
    folder.mkdir(parents=True, exist_ok=True)
    tables = {
        "outcomes": experiment.outcomes.reset_index(),
        "policies": experiment.comparison.table,
        "gains": experiment.comparison.gains("TACIT-Switch"),
    }
    for name, table in tables.items():
        with atomic_path(folder / f"{name}.csv") as temporary:
            table.to_csv(temporary, index=False)
        print(table.to_string(index=False))


if __name__ == "__main__":
    main(*sys.argv[1:])
