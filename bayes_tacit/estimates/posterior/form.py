"""Name and version of the form that a posterior has, in memory and in files, and what it keeps of a sampler."""

from __future__ import annotations

import xarray as xr

FORMAT = "bayes_tacit.posterior"
SCHEMA_VERSION = 3
"""In version 1 the prior stood as Python prints it; since 2 it is JSON. Since 3 a file carries its digest."""

STATISTICS = {
    "diverging": "diverging",
    "energy": "energy",
    "step_size": "step_size",
    "n_steps": "n_steps",
    "depth": "tree_depth",
    "tree_depth": "tree_depth",
    "maxdepth_reached": "reached_max_treedepth",
    "reached_max_treedepth": "reached_max_treedepth",
    "mean_tree_accept": "acceptance_rate",
    "acceptance_rate": "acceptance_rate",
    "logp": "lp",
    "lp": "lp",
}
"""Sampler statistics that are kept, under ArviZ's names."""


def kept_statistics(statistics: xr.Dataset) -> xr.Dataset:
    """Keep the statistics that are known, under one set of names."""
    kept = {old: new for old, new in STATISTICS.items() if old in statistics}
    kept = {old: new for old, new in kept.items() if old == new or new not in kept}
    return statistics[list(kept)].rename({old: new for old, new in kept.items() if old != new})
