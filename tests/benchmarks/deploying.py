"""What a decision costs: beside the bare arithmetic, and in a new process beside its imports."""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from rich.table import Table
from scipy.special import expit, ndtr

from bayes_tacit.router import Router
from bayes_tacit.router.tacit import HandoffScore
from benchmarks.timing import milliseconds

DISTRIBUTIONS = {"lognormal": ndtr, "loglogistic": expit}


def tables() -> Iterator[Table]:
    """All tables, one after the other."""
    yield point_estimate()
    yield posterior()
    yield new_process()


def router(draws: int, diagnostics: int, family: str = "lognormal", rule: str | float = "mean") -> Router:
    """A router of random parameters, without features."""
    rng = np.random.default_rng(diagnostics)
    return Router(
        diagnostic_names=tuple(f"u{j}" for j in range(diagnostics)),
        rule=HandoffScore(
            w=rng.dirichlet(np.ones(diagnostics), draws),
            gamma0=rng.normal(1, 0.1, draws),
            gamma=np.zeros((draws, 0)),
            beta0=rng.normal(8, 0.1, draws),
            beta=np.zeros((draws, 0)),
            s=rng.uniform(0.5, 0.6, draws),
            family=family,
            memory=[1.0],
            clock=False,
            mean=[],
            scale=[],
            quantile=None if rule == "mean" else float(rule),
        ),
        alpha=0.3,
    )


def microseconds_each(runs: dict[str, Callable[[], object]], calls: int, rounds: int = 30) -> dict[str, float]:
    """The fastest of many short rounds, taken in turns so that other work on the machine does not count."""
    best = dict.fromkeys(runs, math.inf)
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            for _ in range(calls):
                run()
            best[name] = min(best[name], 1e6 * (time.perf_counter() - start) / calls)
    return best


def point_estimate() -> Table:
    """Observing under a point estimate, at the beginning of an episode and far into it: the cost does not grow."""
    table = Table("family, diagnostics", "from step 0", "from step 300", title="observe, point estimate, microseconds")
    for family in DISTRIBUTIONS:
        for d in (1, 4, 16):
            chosen, begun = router(1, d, family), {}
            u = dict.fromkeys(chosen.diagnostic_names, 0.001)
            for step in (0, 300):
                state = begun[str(step)] = chosen.start()
                for _ in range(step):
                    state.observe(u)
            runs = {name: lambda f=state.observe, u=u: f(u) for name, state in begun.items()}
            cost = microseconds_each(runs, 20, rounds=100)
            table.add_row(f"{family}, {d}", *(f"{value:.2f}" for value in cost.values()))
    return table


def posterior(n: int = 1000, d: int = 4) -> Table:
    """Observing under draws, beside the bare expression in NumPy and SciPy; observe gives a band as well."""
    table = Table("family, rule", "observe", "bare", "times", title=f"observe under {n:,} draws, microseconds")
    for family, cdf in DISTRIBUTIONS.items():
        for rule in ("mean", 0.1):
            chosen = router(n, d, family, rule)
            draws, u = chosen.rule, np.full(d, 0.2)
            pi, given, observe = (
                expit(draws.gamma0),
                dict.fromkeys(chosen.diagnostic_names, 0.2),
                chosen.start().observe,
            )
            risk = np.zeros(n)

            def bare(draws=draws, u=u, pi=pi, cdf=cdf, rule=rule, risk=risk) -> bool:
                risk += draws.w @ u
                q = pi * cdf((np.log(risk) - draws.beta0) / draws.s)
                return (q.mean() if rule == "mean" else np.quantile(q, rule)) >= 0.3

            cost = microseconds_each({"observe": lambda f=observe, u=given: f(u), "bare": bare}, 10, rounds=300)
            row = (cost["observe"], cost["bare"], cost["observe"] / cost["bare"])
            table.add_row(f"{family}, {rule}", *(f"{value:.2f}" for value in row))
    return table


def new_process(runs: int = 15) -> Table:
    """Importing and loading in a new process, beside importing NumPy and scipy.special."""
    table = Table("in a new process", "fastest", "times", title=f"import and load, the fastest of {runs}")
    with tempfile.TemporaryDirectory() as folder:
        paths = {n: Path(folder) / f"{n}.json" for n in (1, 1000)}
        for n, path in paths.items():
            router(n, 4).save(path)
        load = "from bayes_tacit.router import Router; Router.load({!r})"
        code = {
            "import numpy, scipy.special": "import numpy, scipy.special",
            "import, load a point estimate": load.format(str(paths[1])),
            "import, load 1,000 draws": load.format(str(paths[1000])),
        }
        best = dict.fromkeys(code, math.inf)
        for _ in range(runs):
            for name, source in code.items():
                timed = f"import time; start = time.perf_counter(); {source}; print(time.perf_counter() - start)"
                done = subprocess.run([sys.executable, "-c", timed], capture_output=True, text=True, check=True)
                best[name] = min(best[name], float(done.stdout))
    bare = best["import numpy, scipy.special"]
    for name, seconds in best.items():
        table.add_row(name, milliseconds(seconds), f"{seconds / bare:.2f}")
    return table
