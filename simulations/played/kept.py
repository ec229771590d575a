"""What is kept of a played experiment beside its page, so that its choice can be made again without the games."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayes_tacit import __version__
from bayes_tacit.decisions.selection import choose
from bayes_tacit.files import atomic_path
from simulations.played.experiment import Experiment
from simulations.studies.storage import write_table
from simulations.tuned import SearchedPolicy

MANIFEST, CANDIDATES = "manifest.json", "candidates.parquet"
DEVELOPMENT, HANDOFFS = "development.nc", "handoffs.parquet"


def write_kept(experiment: Experiment, folder: Path) -> None:
    """Write which tasks were for what, the routers that were frozen, and what every candidate gave on each task.

    The development episodes and what comes of every handoff on them are there for policies that nobody has tried yet.
    The table of candidates has a row for each policy, candidate, part ("development" or "test") and task. A policy that
    searches its numbers has the one setting that it found.
    """
    comparison = experiment.comparison
    content: dict[str, Any] = {
        "version": __version__,
        "cap": comparison.cap,
        "tasks": {part: [pair.task.id for pair in pairs] for part, pairs in experiment.pairs.items()},
        "routers": {
            name: json.loads(one.router(comparison.choices[name].point).to_json())
            for name, one in comparison.fitted.items()
        },
    }
    with atomic_path(folder / MANIFEST) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    experiment.development.episodes.write(folder / DEVELOPMENT)
    experiment.development.counterfactuals.write(folder / HANDOFFS)
    tables = []
    for name, fitted in comparison.fitted.items():
        chosen = comparison.choices[name].point
        table = pd.DataFrame([dict(chosen)]) if isinstance(fitted, SearchedPolicy) else fitted.candidates
        settings = [{str(key): value for key, value in row.items()} for row in table.to_dict("records")]
        for part, world in (("development", experiment.development), ("test", experiment.test)):
            for at, setting in enumerate(settings):
                outcomes = fitted.outcomes(world, setting)
                row = {"policy": name, "candidate": at, "part": part, "episode": world.episodes.ids}
                ties = {key: float(setting.get(key, np.nan)) for key in ("alpha", "target")}
                found = {key: getattr(outcomes, key) for key in ("success", "cost", "strong_calls")}
                tables.append(pd.DataFrame({**row, **ties, **found}))
    table = pd.concat(tables, ignore_index=True).astype(dict.fromkeys(("policy", "part", "episode"), "category"))
    write_table(table, {"cap": comparison.cap, "version": __version__}, folder / CANDIDATES)


def chosen_again(folder: Path) -> dict[str, dict[str, float]]:
    """Choose the candidate of every policy again from what is kept: nothing is played and nothing is fitted.

    A policy with a single candidate, such as Pure Strong, has that one, whatever it costs.
    """
    cap = float(json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["cap"])
    table = pd.read_parquet(folder / CANDIDATES)
    table = table[table["part"] == "development"].assign(intervention_rate=table["strong_calls"] > 0)
    columns = ["success", "cost", "intervention_rate", "alpha", "target"]
    found = {}
    for name, rows in table.groupby("policy", observed=True, sort=False):
        points = rows.groupby("candidate")[columns].mean()
        row = points.iloc[0] if len(points) == 1 else points.iloc[choose(points, cap).position]
        found[str(name)] = {column: float(row[column]) for column in columns}
    return found
