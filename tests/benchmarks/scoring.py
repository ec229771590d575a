"""How long scores take, and how much memory: one fit against the bare functions, and a band."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import xarray as xr
from rich.table import Table
from scipy import special
from simulate import simulate_model

from bayes_tacit import Episodes, cumulative_risk, fit_map, handoff_score
from benchmarks.timing import milliseconds, once

TESTS = Path(__file__).parent.parent


def tables() -> Iterator[Table]:
    """All tables, one after the other."""
    yield against_bare_functions()
    yield band_memory()


def rollouts(n: int, horizon: int) -> Episodes:
    """Full-length episodes that only serve to be scored."""
    rng = np.random.default_rng(n)
    variables = {
        "features": (("episode", "feature"), rng.normal(size=(n, 3))),
        "diagnostics": (("episode", "step", "diagnostic"), rng.gamma(0.5, 1.0, size=(n, horizon, 4))),
        "n_steps": ("episode", np.full(n, horizon)),
        "cheap_success": ("episode", np.zeros(n, dtype=bool)),
        "strong_success": ("episode", np.zeros(n, dtype=bool)),
    }
    names = {"feature": [f"x{j}" for j in range(3)], "diagnostic": [f"u{j}" for j in range(4)]}
    return Episodes(xr.Dataset(variables, coords={"episode": np.arange(n), **names}))


def against_bare_functions(repeats: int = 25) -> Table:
    """Score a million checkpoints, beside the logarithm and the normal distribution function of as many numbers."""
    fit = fit_map(simulate_model(np.random.default_rng(1), 2000), restarts=1)
    table = Table("episodes x steps", "handoff_score", "log and ndtr", "ratio", title="1,000,000 checkpoints, a fit")
    for n, horizon in ((20_000, 50), (100_000, 10), (2_000, 500)):
        episodes = rollouts(n, horizon)
        risk = cumulative_risk(fit, episodes).values
        z = (np.log(risk) - fit.beta0) / fit.s
        handoff_score(fit, episodes)
        # In turns, so that a slow moment of the machine falls on both.
        pairs = [
            (once(lambda e=episodes: handoff_score(fit, e)), once(lambda r=risk, z=z: (np.log(r), special.ndtr(z))))
            for _ in range(repeats)
        ]
        ours, bare = (statistics.median(times) for times in zip(*pairs, strict=True))
        table.add_row(f"{n:,} x {horizon}", milliseconds(ours), milliseconds(bare), f"{ours / bare:.2f}")
    return table


BAND = """
import json, re, time, warnings
from pathlib import Path
warnings.simplefilter("ignore")
import numpy as np
from benchmarks.scoring import rollouts
from posteriors import random_posterior
from bayes_tacit import credible_band
episodes = rollouts(10_000, 50)
tree = random_posterior(np.random.default_rng(2), episodes, chains=4, draws=1000)
# Not ru_maxrss: a child process starts with its parent's.
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
before = peak()
start = time.process_time()
credible_band(tree, episodes)
print(json.dumps([time.process_time() - start, before, peak()]))
"""


def band_memory() -> Table:
    """A band of 10,000 episodes of 50 steps under 4,000 draws: 2,000,000,000 scores, in a new process."""
    done = subprocess.run([sys.executable, "-c", BAND], cwd=TESTS, capture_output=True, text=True, check=True)
    seconds, before, peak = json.loads(done.stdout)
    table = Table("stage", "", title="credible_band, 10,000 episodes x 50 steps x 4,000 draws")
    table.add_row("CPU time", f"{seconds:,.0f} s")
    table.add_row("peak memory before", f"{before / 2**10:,.0f} MiB")
    table.add_row("peak memory", f"{peak / 2**10:,.0f} MiB")
    return table
