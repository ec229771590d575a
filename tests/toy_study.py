"""A study of two settings that takes no time; other processes can import it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info

from bayes_tacit.errors import EvidenceError
from simulations.studies.study import Setting, Study

FAILING = 2
"""The replicate that fails in the failing study."""


def replicate(setting, number, seeds):  # noqa: ARG001
    rng = np.random.default_rng(seeds)
    values = rng.normal(loc=setting.values["loc"], size=(60, 60))
    return [
        {"part": part, "mean": float(block.mean()), "norm": float(np.linalg.norm(block @ values))}
        for part, block in (("upper", values[:30]), ("lower", values[30:]))
    ]


def failing_replicate(setting, number, seeds):
    if setting.name == "b" and number == FAILING:
        raise EvidenceError("no candidate within the cap")
    return replicate(setting, number, seeds)


def broken_replicate(setting, number, seeds):  # noqa: ARG001
    return [{"ratio": 1 / (number - FAILING)}]


def counting_replicate(setting, number, seeds):  # noqa: ARG001
    return [{"mean": 0.0, "threads": max(pool["num_threads"] for pool in threadpool_info())}]


def summarize(table, folder: Path):
    (folder / "figure.png").write_bytes(b"not a real figure")
    return f"{len(table)} rows, mean {table['mean'].mean():.6f}"


def toy(**changes) -> Study:
    values = {
        "name": "toy",
        "title": "A toy",
        "description": "Draws numbers.",
        "settings": [Setting("a", {"loc": 0.0}), Setting("b", {"loc": 1.0}, share=0.5)],
        "parameters": {"size": 60},
        "replicate": replicate,
        "summarize": summarize,
        "replicates": 6,
        "seed": 11,
    }
    return Study(**(values | changes))
