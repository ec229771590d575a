"""Whether what `recommend` says is true: `python -m simulations.said` names on a few tasks and looks at many new ones.

Six simulated worlds, one calibrated and five drawn; handoffs restart the task. Each replicate names a policy under
three caps on 150 or 600 tasks, and its router is evaluated on 10,000 new ones: what is true is known to half a point.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator

import numpy as np
import pandas as pd

from bayes_tacit import World
from bayes_tacit.policies import ByValue, Count, CrossFit, FirstAlarm, Landmark, PureCheap, PureStrong, TaskRouter
from simulations.mechanism import calibrated
from simulations.mechanism.random_mechanisms import random_mechanism
from simulations.mechanism.world import RISK, simulate

SIZES, NEW, SHARES, WORLDS = (150, 600), 10_000, (0.4, 0.6, 0.8), 6
BINS = (0, 0.2, 0.4, 0.6, 0.8, 1.0)


def rows(tasks: int, replicates: int) -> Iterator[dict[str, float]]:
    """Compute what was said and what is true, for each world, replicate and cap."""
    for number in range(WORLDS):
        mechanism = random_mechanism(number) if number else calibrated()
        for seed in range(replicates):
            streams = np.random.SeedSequence((number, seed)).spawn(2)
            known, new = (
                _restarts(simulate(mechanism, n, stream)) for n, stream in zip((tasks, NEW), streams, strict=True)
            )
            fits = CrossFit.of(
                known,
                [
                    PureCheap(),
                    PureStrong(),
                    TaskRouter(),
                    FirstAlarm(RISK, handoff="restart"),
                    Count(handoff="restart"),
                    Landmark(handoff="restart"),
                    ByValue(known.counterfactuals),
                    ByValue(known.counterfactuals, waiting=True, name="Induction"),
                ],
                seed=seed,
            )
            cheap, strong = (one.point() for one in (new.counterfactuals.pure_cheap, new.counterfactuals.pure_strong))
            slope = (strong["success"] - cheap["success"]) / (strong["cost"] - cheap["cost"])
            for share in SHARES:
                cap = share * strong["cost"]
                if cap <= 1.1 * cheap["cost"]:
                    continue
                found, careful = fits.recommend(cap), fits.recommend(cap, confidence=0.9)
                point, spent = (new.outcomes(one.router).point() for one in (found, careful))
                above = point["success"] - cheap["success"] - slope * (point["cost"] - cheap["cost"])
                e = found.expected
                yield {
                    "named": found.gain,
                    "said": e["above"],
                    "said_above": 100 * e["above_coin"],
                    "above": 100 * above,
                    "success_held": e["success_lower"] <= point["success"] <= e["success_upper"],
                    "cost_held": e["cost_lower"] <= point["cost"] <= e["cost_upper"],
                    "over": point["cost"] > 1.05 * cap,
                    "careful_over": spent["cost"] > cap,
                }


def _restarts(world: World) -> World:
    return World(world.episodes, world.handoffs("restart"), world.cost)


def table_of(tasks: int, replicates: int) -> str:
    """Return what was said beside what is true, as lines of text."""
    table = pd.DataFrame(rows(tasks, replicates))
    named = table[table["named"]]
    by = table.assign(true=table["above"] > 0, runs=1).groupby(pd.cut(table["said"], BINS, include_lowest=True))
    return "\n".join(
        [
            f"{tasks} tasks, {len(table)} runs, a policy named in {len(named)}; of these",
            f"points above the coin flip: said {named['said_above'].mean():.1f}, true {named['above'].mean():.1f}",
            f"more than a point below it: {(named['above'] < -1).mean():.1%}",
            f"95% intervals hold: success {named['success_held'].mean():.1%}, cost {named['cost_held'].mean():.1%}",
            f"over 1.05 of the cap: {named['over'].mean():.1%}; over it with 0.9: {table['careful_over'].mean():.1%}",
            by.agg({"runs": "sum", "said": "mean", "true": "mean"}).round(2).to_string(),
        ]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicates", type=int, default=8)
    asked = parser.parse_args().replicates
    warnings.simplefilter("ignore")
    for size in SIZES:
        sys.stdout.write(f"\n{table_of(size, asked)}\n")
