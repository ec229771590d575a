"""Effective draws a second of the slowest parameter, by sampler and model, and the first posterior of a process.

Seconds are those of the processor, so that other work on the machine does not count. Stan runs where `BENCH_STAN`
names a Python that has the package `stan` (PyStan).
"""

from __future__ import annotations

import json
import os
import pickle
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import arviz_stats
import numpy as np
import nutpie
import pymc as pm
import xarray as xr
from rich.table import Table
from simulate import simulate_model

from bayes_tacit import Episodes, Noise, WeaklyInformativePrior, build_model
from bayes_tacit.estimates.samplers import compiled_model
from bayes_tacit.model.evidence import collect_evidence, typical_log_threshold
from bayes_tacit.model.likelihood import crossing_steps, model_data
from benchmarks.timing import median_seconds

DRAWS, FEWER = 1000, 300
"""Draws of a chain, after as many of warm-up; the fewer where a draw takes long."""

Run = Callable[[], tuple[xr.Dataset, float, float]]


def tables() -> Iterator[Table]:
    """All tables, one after the other."""
    episodes = simulate_model(np.random.default_rng(1), 2000, widest=1)
    yield samplers(episodes)
    yield density(episodes)
    yield first_posterior()


def samplers(episodes: Episodes) -> Table:
    """n = 2,000, 4 diagnostics, 3 features; the paper's model by each sampler, then models over strata."""
    model = build_model(episodes)
    runs: dict[str, Run] = {
        "nutpie, compiled density, 4 chains (sample_posterior)": lambda: by_nutpie(
            lambda: own_model(episodes), 4, DRAWS
        ),
        "nutpie, PyMC's density, 2 chains": lambda: by_nutpie(lambda: theirs(model), 2, FEWER),
        "PyMC, 2 chains": lambda: by_pymc(model, 2),
    }
    if "BENCH_STAN" in os.environ:
        runs["Stan, 4 chains"] = lambda: by_stan(episodes, 4)
    for name, noise in (("marks wrong", Noise(mark_error=(1, 9))), ("outcomes noisy", Noise((8, 2), (8, 2)))):
        noisy = build_model(episodes, noise=noise)
        runs[f"{name}: nutpie, PyMC's density, 2 chains"] = lambda noisy=noisy: by_nutpie(
            lambda: theirs(noisy), 2, FEWER
        )
    title = f"NUTS, n = 2,000, {DRAWS:,} draws a chain ({FEWER} with PyMC's density) after as many of warm-up"
    table = Table("sampler", "compile", "sampling", "smallest ESS", "ESS a second", title=title)
    for name, run in runs.items():
        posterior, compiling, sampling = run()
        found = arviz_stats.ess(xr.DataTree.from_dict({"posterior": posterior}), method="bulk").to_dataset()
        least = min(float(values.min()) for values in found.data_vars.values())
        table.add_row(name, f"{compiling:.1f} s", f"{sampling:.1f} s", f"{least:,.0f}", f"{least / sampling:,.0f}")
    return table


def density(episodes: Episodes) -> Table:
    """One evaluation with its gradient, beside PyMC's."""
    table = Table("density", "an evaluation", title="log density and gradient, n = 2,000, by nutpie's own timer")
    for name, compiled in (("compiled", own_model(episodes)), ("PyMC's", theirs(build_model(episodes)))):
        times = compiled.benchmark_logp(np.zeros(compiled.n_dim), 2000, [1])
        table.add_row(name, f"{1e6 * float(np.median(times.to_numpy())):,.0f} us")
    return table


def own_model(episodes: Episodes) -> nutpie.compile_pymc.CompiledPyMCModel:
    evidence = collect_evidence(episodes)
    table = model_data(episodes, evidence, crossing_steps(episodes, evidence))
    return compiled_model(evidence, WeaklyInformativePrior(), table)


def theirs(model: pm.Model) -> object:
    return nutpie.compile_pymc_model(model, freeze_model=False)


FIRST = """
import json, time
start = time.process_time()
from bayes_tacit import load_example, sample_posterior
imported = time.process_time()
sample_posterior(load_example(), progress=False)
first = time.process_time()
sample_posterior(load_example(), progress=False, seed=1)
print(json.dumps([imported - start, first - imported, time.process_time() - first]))
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


def by_nutpie(compile_model: Callable[[], object], chains: int, draws: int) -> tuple[xr.Dataset, float, float]:
    start = time.process_time()
    compiled = compile_model()
    ready, settings = time.process_time(), {"seed": 1, "target_accept": 0.9, "progress_bar": False}
    tree = nutpie.sample(compiled, draws=draws, tune=draws, chains=chains, **settings)
    return tree["posterior"].to_dataset(), ready - start, time.process_time() - ready


def by_pymc(model: pm.Model, chains: int) -> tuple[xr.Dataset, float, float]:
    """One chain after the other in this process; the function is compiled before the clock of sampling starts."""
    start = time.process_time()
    settings = {"cores": 1, "random_seed": 1, "progressbar": False, "compute_convergence_checks": False}
    with model:
        step = pm.NUTS(target_accept=0.9)
        ready = time.process_time()
        tree = pm.sample(FEWER, tune=FEWER, chains=chains, step=step, **settings)
    return tree["posterior"].to_dataset(), ready - start, time.process_time() - ready


STAN = """
data {
  int<lower=1> n; int<lower=1> p; int<lower=1> m; int<lower=1> d; int n_left; int n_interval;
  array[n] int<lower=0, upper=1> b; matrix[n, p] x; matrix[m, p] timed; matrix[m, d] before; matrix[m, d] after;
  real center;
}
parameters { real gamma0; vector[p] gamma; real beta0; vector[p] beta; real<lower=0> s; simplex[d] w; }
model {
  vector[m] mu = beta0 + timed * beta;
  vector[m] low = (log(before * w) - mu) / s;
  vector[m] high = (log(after * w) - mu) / s;
  int stop = n_left + n_interval;
  gamma0 ~ normal(0, 1.5); gamma ~ normal(0, 1); beta0 ~ normal(center, 1.5); beta ~ normal(0, 0.5);
  s ~ lognormal(log(0.7), 0.5);
  b ~ bernoulli_logit_glm(x, gamma0, gamma);
  target += std_normal_lcdf(head(high, n_left));
  target += sum(log(Phi(segment(high, n_left + 1, n_interval)) - Phi(segment(low, n_left + 1, n_interval))));
  target += std_normal_lccdf(low[(stop + 1):m]);
}
"""

RUN_STAN = """
import json, pickle, resource
import stan
program, data, draws, tune, chains = json.load(open("in.json"))
model = stan.build(program, data=data, random_seed=1)
used = resource.getrusage(resource.RUSAGE_SELF)
fit = model.sample(num_chains=chains, num_samples=draws, num_warmup=tune, delta=0.9)
names = ("gamma0", "gamma", "beta0", "beta", "s", "w")
pickle.dump(({name: fit[name] for name in names}, used.ru_utime + used.ru_stime), open("out.pickle", "wb"))
"""


def by_stan(episodes: Episodes, chains: int) -> tuple[xr.Dataset, float, float]:
    """The same model in Stan, vectorized where Stan has it; its draws lie chain by chain in each run of `chains`."""
    evidence = collect_evidence(episodes)
    above = evidence.bounded_above
    until = np.where(np.arange(len(evidence.timed))[:, None] < above.stop, evidence.before + evidence.within, 1.0)
    before = np.where(np.arange(len(evidence.timed))[:, None] < evidence.n_left, 1.0, evidence.before)
    data = {
        "n": evidence.n,
        "p": evidence.features.shape[1],
        "m": len(before),
        "d": before.shape[1],
        "n_left": evidence.n_left,
        "n_interval": evidence.n_interval,
        "b": evidence.strong_success.astype(int),
        "x": evidence.features,
        "timed": evidence.features[evidence.timed],
        "before": before,
        "after": until,
        "center": typical_log_threshold(episodes),
    }
    plain = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in data.items()}
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "in.json").write_text(json.dumps([STAN, plain, DRAWS, DRAWS, chains]), encoding="utf-8")
        command, seconds = [os.environ["BENCH_STAN"], "-c", RUN_STAN], []
        for _ in range(2):  # the second finds the program compiled
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, cwd=name, check=True, capture_output=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        draws, started = pickle.loads((Path(name) / "out.pickle").read_bytes())
    compiling, sampling = seconds[0] - seconds[1], seconds[1] - started
    shaped = {each: np.moveaxis(values.reshape(-1, DRAWS, chains), 0, -1) for each, values in draws.items()}
    arrays = {each: (("draw", "chain", f"{each}_at"), values) for each, values in shaped.items()}
    return xr.Dataset(arrays).transpose("chain", "draw", ...), compiling, sampling
