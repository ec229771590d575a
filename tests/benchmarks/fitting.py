"""How long a fit takes: against its peers, as the data grow, and in a new process."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import statsmodels.api as sm
from lifelines import LogNormalAFTFitter
from rich.table import Table
from simulate import TRUTH, simulate_model

from bayes_tacit import Episodes, fit_map
from bayes_tacit.model.evidence import collect_evidence
from benchmarks.timing import median_seconds, milliseconds

R_SCRIPT = """
library(survival)
tasks <- read.csv("tasks.csv"); timed <- read.csv("timed.csv")
run <- function() {
  glm(B ~ x0 + x1 + x2, family = binomial, data = tasks)
  survreg(Surv(lower, upper, type = "interval2") ~ x0 + x1 + x2, data = timed, dist = "lognormal")
}
run()
cat(median(sapply(1:9, function(i) sum(system.time(for (j in 1:5) run())[1:2]) / 5)))
"""


def tables() -> Iterator[Table]:
    """All tables, one after the other."""
    yield against_peers()
    yield growth()
    yield first_fit()


def simulated(n: int, horizon: int = 20) -> Episodes:
    return simulate_model(np.random.default_rng(n), n, horizon=horizon, widest=1)


def against_peers(n: int = 8000) -> Table:
    """Warm fit with learned weights, beside packages that are given the weights; seconds of the processor."""
    episodes = simulated(n)
    ours = median_seconds(lambda: fit_map(episodes, restarts=1), clock=time.process_time)
    tasks, timed = peer_frames(episodes)
    peers = {"statsmodels Logit + lifelines LogNormalAFT, w given": python_peers(tasks, timed)}
    if shutil.which("Rscript"):
        peers["R glm + survreg, w given"] = r_peers(tasks, timed)
    table = Table("fit", "median", "times ours", title=f"n = {n:,}, 4 diagnostics, 3 features, one start")
    table.add_row("fit_map, w learned", milliseconds(ours), "1")
    for name, seconds in peers.items():
        table.add_row(name, milliseconds(seconds), f"{seconds / ours:.1f}")
    return table


def peer_frames(episodes: Episodes) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What the peers need: outcomes by task, and interval bounds under the true weights."""
    evidence = collect_evidence(episodes)
    tasks = pd.DataFrame(evidence.features, columns=["x0", "x1", "x2"]).assign(B=evidence.strong_success.astype(int))
    lower = evidence.before @ TRUTH["w"]
    upper = lower + evidence.within @ TRUTH["w"]
    upper[evidence.n_left + evidence.n_interval :] = np.inf
    timed = tasks.iloc[evidence.timed].drop(columns="B").assign(lower=lower, upper=upper).reset_index(drop=True)
    return tasks, timed


def python_peers(tasks: pd.DataFrame, timed: pd.DataFrame) -> float:
    positive = timed.assign(lower=timed["lower"].clip(lower=1e-12))
    design = sm.add_constant(tasks[["x0", "x1", "x2"]])

    def run() -> None:
        sm.Logit(tasks["B"], design).fit(disp=0)
        LogNormalAFTFitter().fit_interval_censoring(positive, "lower", "upper")

    return median_seconds(run, repeats=3, clock=time.process_time)


def r_peers(tasks: pd.DataFrame, timed: pd.DataFrame) -> float:
    with tempfile.TemporaryDirectory() as folder:
        tasks.to_csv(Path(folder) / "tasks.csv", index=False)
        bounds = timed.assign(
            lower=timed["lower"].where(timed["lower"] > 0), upper=timed["upper"].replace(np.inf, np.nan)
        )
        bounds.to_csv(Path(folder) / "timed.csv", index=False, na_rep="NA")
        done = subprocess.run(["Rscript", "-e", R_SCRIPT], cwd=folder, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def growth(sizes: tuple[int, ...] = (2_000, 8_000, 32_000, 128_000)) -> Table:
    """The same fit on more and more episodes."""
    table = Table("episodes", "median", "a thousand episodes", title="growth with n, one start")
    for n in sizes:
        episodes = simulated(n)
        seconds = median_seconds(lambda episodes=episodes: fit_map(episodes, restarts=1), repeats=5)
        table.add_row(f"{n:,}", milliseconds(seconds), milliseconds(1000 * seconds / n))
    return table


FIRST_FIT = """
import json, time
start = time.perf_counter()
import bayes_tacit
fit_map, load_example = bayes_tacit.fit_map, bayes_tacit.load_example
imported = time.perf_counter()
episodes = load_example()
loaded = time.perf_counter()
fit_map(episodes)
first = time.perf_counter()
fit_map(episodes)
print(json.dumps([imported - start, loaded - imported, first - loaded, time.perf_counter() - first]))
"""


def first_fit() -> Table:
    """Import, load, first and second fit in a new process; the two fits differ by what is left to compile."""
    runs = [
        json.loads(subprocess.run([sys.executable, "-c", FIRST_FIT], capture_output=True, text=True, check=True).stdout)
        for _ in range(5)
    ]
    imported, loaded, first, second = np.median(runs, axis=0)
    table = Table("stage", "median", title="first fit of the example set (five starts) in a new process")
    for name, seconds in (
        ("import", imported),
        ("load the example", loaded),
        ("compile", max(first - second, 0.0)),
        ("fit", second),
    ):
        table.add_row(name, milliseconds(seconds))
    return table
