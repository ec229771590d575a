"""Bad input through every door: one clear line each, no traceback, nothing accepted wrongly, nothing left."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from random import Random

import pytest
from attack import base, doors_agents, doors_data, doors_logs, doors_options
from attack.cases import COUNTED as WRONG
from attack.cases import Case, kind_of, run_all

SEED = int(os.environ.get("ATTACK_SEED", "15"))
SAMPLE = 12
"""Cases of each family that `make test` tries, drawn from all of them."""

FAMILIES: dict[str, Callable[[Path, Random], Iterator[Case]]] = {
    "episodes, lines": doors_data.episodes_by_line,
    "episodes, netCDF": lambda home, rng: doors_data.episodes_in_arrays(home, rng, ["nc"]),
    "episodes, Zarr": lambda home, rng: doors_data.episodes_in_arrays(home, rng, ["zarr"]),
    "episodes, Parquet": doors_data.episodes_in_tables,
    "fits": doors_data.fits,
    "posteriors, netCDF": lambda home, rng: doors_data.posteriors(home, rng, ["nc"]),
    "posteriors, Zarr": lambda home, rng: doors_data.posteriors(home, rng, ["zarr"]),
    "routers": lambda home, rng: doors_data.routers(home, rng, list(base.routers())),
    "lines to route": doors_agents.requests,
    "decision logs": doors_agents.decision_logs,
    "snapshots": doors_agents.snapshots,
    "counterfactuals": doors_data.tables_of_counterfactuals,
    "imported logs": lambda home, rng: doors_logs.imported(home, rng, list(doors_logs.FORMATS)),
    "outcomes and tasks": doors_logs.tables_beside,
    "marks": doors_agents.marks,
    "session logs": doors_agents.session_logs,
    "lists of tasks": doors_agents.lists_of_tasks,
    "transcripts": doors_agents.transcripts,
    "questions": doors_agents.questions,
    "options": lambda home, rng: doors_options.options(home, rng, list(doors_options.OPTIONS)),
}
SAMPLED = frozenset({"episodes, lines", "fits", "lines to route", "decision logs", "snapshots", "marks", "questions"})
"""Families that `make test` samples; `make attack` tries all of every one."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "family", [pytest.param(name, marks=[] if name in SAMPLED else pytest.mark.attack) for name in FAMILIES]
)
def test_bad_input_is_refused_in_one_line_and_harmless_input_is_not(family, tmp_path, request, record_property):
    whole = request.config.getoption("--attack")
    (tmp_path / "base").mkdir()
    cases: Iterator[Case] = FAMILIES[family](tmp_path / "base", Random(SEED))
    if not whole:
        known = list(islice(cases, 400))
        cases = iter(Random(SEED).sample(known, min(SAMPLE, len(known))))
    tallies = run_all(cases, tmp_path)
    failures = [failure for tally in tallies.values() for failure in tally.failures]
    for door, tally in tallies.items():
        counts = (
            f"{len(tally.cases):4d} distinct, {tally.refused:4d} refused, {tally.accepted:3d} accepted as they may be"
        )
        record_property("figure", f"bad inputs, seed {SEED}, {door}: {counts}, {len(tally.failures)} wrong")
        record_property("tally", ("bad inputs, distinct", len(tally.cases)))
        record_property("longest", ("bad inputs, the longest case", tally.longest[0], f"{door}: {tally.longest[1]}"))
    for kind in (*WRONG, "wrong otherwise"):
        record_property("found", (f"bad inputs, {kind}", sum(kind_of(failure) == kind for failure in failures)))
    assert not failures, "\n".join(f"{each.door}: {each.case}: {each.why}: {each.said[-300:]}" for each in failures)
