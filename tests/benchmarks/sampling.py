"""Effective draws a second of the slowest parameter, by sampler, and the first posterior of a process."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import arviz_stats
import numpy as np
import nutpie
import pymc as pm
import xarray as xr
from rich.table import Table
from simulate import simulate_model

from bayes_tacit import Episodes, WeaklyInformativePrior, build_model
from bayes_tacit.estimates.samplers import compiled_model
from bayes_tacit.model.evidence import collect_evidence
from bayes_tacit.model.likelihood import crossing_steps, model_data
from benchmarks.timing import median_seconds

DRAWS, TUNE, CHAINS = 1000, 1000, 4


def tables() -> Iterator[Table]:
    """All tables, one after the other."""
    episodes = simulate_model(np.random.default_rng(1), 2000, widest=1)
    yield samplers(episodes)
    yield density(episodes)
    yield first_posterior()


def samplers(episodes: Episodes) -> Table:
    """n = 2,000, 4 diagnostics, 3 features, 4 chains; in one process, one after the other."""
    model = build_model(episodes)
    runs: dict[str, Callable[[pm.Model], tuple[xr.DataTree, float, float]]] = {
        "nutpie, compiled density (sample_posterior)": lambda _: by_nutpie(lambda: own_model(episodes)),
        "nutpie, PyMC's density": lambda model: by_nutpie(lambda: nutpie.compile_pymc_model(model, freeze_model=False)),
        "PyMC": by_pymc,
    }
    # NumPyro brings JAX, which nothing else here needs: it is compared with where it is installed.
    if importlib.util.find_spec("numpyro"):
        runs["NumPyro"] = by_numpyro
    table = Table("sampler", "compile", "sampling", "smallest ESS", "ESS a second", title="NUTS, n = 2,000, 4 chains")
    for name, run in runs.items():
        tree, compiling, sampling = run(model)
        found = arviz_stats.ess(tree, method="bulk")
        dataset = found.to_dataset() if isinstance(found, xr.DataTree) else found
        smallest = min(float(values.min()) for values in dataset.data_vars.values())
        table.add_row(
            name, f"{compiling:.1f} s", f"{sampling:.1f} s", f"{smallest:,.0f}", f"{smallest / sampling:,.0f}"
        )
    return table


def density(episodes: Episodes) -> Table:
    """One evaluation with its gradient, beside PyMC's."""
    own, model = own_model(episodes), build_model(episodes)
    theirs = nutpie.compile_pymc_model(model, freeze_model=False)
    table = Table("density", "an evaluation", title="log density and gradient, n = 2,000, by nutpie's own timer")
    for name, compiled in (("compiled", own), ("PyMC's", theirs)):
        times = compiled.benchmark_logp(np.zeros(compiled.n_dim), 2000, [1])
        table.add_row(name, f"{1e6 * float(np.median(times.to_numpy())):,.0f} us")
    return table


def own_model(episodes: Episodes) -> nutpie.compile_pymc.CompiledPyMCModel:
    evidence = collect_evidence(episodes)
    table = model_data(episodes, evidence, crossing_steps(episodes, evidence))
    return compiled_model(evidence, WeaklyInformativePrior(), table)


FIRST = """
import json, time
start = time.perf_counter()
from bayes_tacit import load_example, sample_posterior
imported = time.perf_counter()
sample_posterior(load_example(), progress=False)
first = time.perf_counter()
sample_posterior(load_example(), progress=False, seed=1)
print(json.dumps([imported - start, first - imported, time.perf_counter() - first]))
"""


def first_posterior() -> Table:
    """Import, first and second posterior of the example set in a new process, beside `import pymc`."""
    done = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=True)
    imported, first, second = json.loads(done.stdout)
    pymc = median_seconds(lambda: subprocess.run([sys.executable, "-c", "import pymc"], check=True), repeats=3)
    table = Table("stage", "time", "times `import pymc`", title="a posterior of the example set in a new process")
    for name, seconds in (("import", imported), ("first posterior", first), ("second posterior", second)):
        table.add_row(name, f"{seconds:.1f} s", f"{seconds / pymc:.1f}")
    return table


def by_nutpie(compile_model: Callable[[], object]) -> tuple[xr.DataTree, float, float]:
    start = time.perf_counter()
    compiled = compile_model()
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
