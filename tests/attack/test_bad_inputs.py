"""Bad input through every door: one clear line each, no traceback, nothing accepted wrongly, nothing left."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from random import Random

import pytest
from attack import doors, doors_logs
from attack.cases import Case, run_all

SEED = int(os.environ.get("ATTACK_SEED", "15"))
SAMPLE = 12
"""Cases of a family that `make test` tries, drawn from all of them."""

FAMILIES: dict[str, Callable[[Path, Random], Iterator[Case]]] = {
    "episodes, lines": doors.episodes_by_line,
    "episodes, netCDF": lambda home, rng: doors.arrays(home, rng, "e.nc", "summary", "e.nc", "--json"),
    "episodes, Zarr": lambda home, rng: doors.arrays(home, rng, "e.zarr", "summary", "e.zarr", "--json"),
    "episodes, Parquet": doors.episodes_in_tables,
    "fits": doors.fits,
    "posteriors, netCDF": lambda home, rng: doors.arrays(
        home, rng, "p.nc", "score", "p.nc", "few.jsonl", "--out", "out.csv"
    ),
    "posteriors, Zarr": lambda home, rng: doors.arrays(
        home, rng, "p.zarr", "score", "p.zarr", "few.jsonl", "--out", "out.csv"
    ),
    "routers": doors.routers,
    "lines to route": doors.requests,
    "decision logs": doors.decision_logs,
    "snapshots": doors.snapshots,
    "counterfactuals": doors.tables_of_counterfactuals,
    "imported logs": doors_logs.imported,
    "outcomes and tasks": doors_logs.tables_beside,
    "marks": doors.marks,
    "session logs": doors.session_logs,
    "transcripts": doors.transcripts,
    "questions": doors.questions,
    "options": doors_logs.options,
}
"""By name, what makes the bad inputs of a door in a folder."""

SAMPLED = frozenset({"episodes, lines", "fits", "lines to route", "decision logs", "snapshots", "marks", "questions"})
"""Families that `make test` samples; `make attack` tries all of every one."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "family", [pytest.param(name, marks=[] if name in SAMPLED else pytest.mark.attack) for name in FAMILIES]
)
def test_bad_input_is_refused_in_one_line_and_harmless_input_is_not(family, tmp_path, request, record_property):
    (tmp_path / "base").mkdir()
    cases: Iterator[Case] = FAMILIES[family](tmp_path / "base", Random(SEED))
    if not request.config.getoption("--attack"):
        known = list(islice(cases, 400))
        cases = iter(Random(SEED).sample(known, min(SAMPLE, len(known))))
    failures = []
    for door, tally in run_all(cases, tmp_path).items():
        counts = f"{len(tally.cases):4d} distinct, {tally.refused:4d} refused, {tally.accepted:3d} accepted"
        record_property("figure", f"bad inputs, seed {SEED}, {door}: {counts}, {len(tally.failures)} wrong")
        failures += tally.failures
    assert not failures, "\n".join(failures)
