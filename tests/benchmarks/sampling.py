"""Effective draws a second of the slowest parameter, for the samplers that can run the same PyMC model."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator

import arviz_stats
import numpy as np
import nutpie
import pymc as pm
import xarray as xr
from rich.table import Table
from simulate import simulate_model

from bayes_tacit import build_model

DRAWS, TUNE, CHAINS = 1000, 1000, 4


def tables() -> Iterator[Table]:
    """One table: n = 2,000, 4 diagnostics, 3 features, 4 chains."""
    model = build_model(simulate_model(np.random.default_rng(1), 2000, widest=1))
    samplers: dict[str, Callable[[pm.Model], tuple[xr.DataTree, float, float]]] = {
        "nutpie (sample_posterior)": by_nutpie,
        "PyMC": by_pymc,
    }
    # NumPyro brings JAX, which nothing else here needs: it is compared with where it is installed.
    if importlib.util.find_spec("numpyro"):
        samplers["NumPyro"] = by_numpyro
    table = Table("sampler", "compile", "sampling", "smallest ESS", "ESS a second", title="NUTS, n = 2,000, 4 chains")
    for name, run in samplers.items():
        tree, compiling, sampling = run(model)
        found = arviz_stats.ess(tree, method="bulk")
        dataset = found.to_dataset() if isinstance(found, xr.DataTree) else found
        smallest = min(float(values.min()) for values in dataset.data_vars.values())
        table.add_row(
            name, f"{compiling:.1f} s", f"{sampling:.1f} s", f"{smallest:,.0f}", f"{smallest / sampling:,.0f}"
        )
    yield table


def by_nutpie(model: pm.Model) -> tuple[xr.DataTree, float, float]:
    start = time.perf_counter()
    compiled = nutpie.compile_pymc_model(model, freeze_model=False)
    compiled_at = time.perf_counter()
    tree = nutpie.sample(compiled, draws=DRAWS, tune=TUNE, chains=CHAINS, seed=1, target_accept=0.9, progress_bar=False)
    return tree, compiled_at - start, time.perf_counter() - compiled_at


def by_pymc(model: pm.Model) -> tuple[xr.DataTree, float, float]:
    return _through_pymc(model, "pymc")


def by_numpyro(model: pm.Model) -> tuple[xr.DataTree, float, float]:
    return _through_pymc(model, "numpyro")


def _through_pymc(model: pm.Model, sampler: str) -> tuple[xr.DataTree, float, float]:
    start = time.perf_counter()
    with model:
        tree = pm.sample(
            DRAWS,
            tune=TUNE,
            chains=CHAINS,
            random_seed=1,
            target_accept=0.9,
            nuts_sampler=sampler,
            progressbar=False,
            compute_convergence_checks=False,
        )
    total = time.perf_counter() - start
    sampling = float(
        tree["posterior"].attrs.get("sampling_time", tree["sample_stats"].attrs.get("sampling_time", total))
    )
    return tree, total - sampling, sampling
