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

from bayes_tacit.model.families import FAMILIES
from bayes_tacit.router import Router
from bayes_tacit.scores.core import Draws
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
        feature_names=(),
        feature_mean=np.zeros(0),
        feature_scale=np.ones(0),
        draws=Draws(
            w=rng.dirichlet(np.ones(diagnostics), draws),
            gamma0=rng.normal(1, 0.1, draws),
            gamma=np.zeros((draws, 0)),
            beta0=rng.normal(8, 0.1, draws),
            beta=np.zeros((draws, 0)),
            s=rng.uniform(0.5, 0.6, draws),
            family=FAMILIES[family],
        ),
        alpha=0.3,
        rule=rule,
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


def written_out(chosen: Router) -> Callable[[dict[str, float]], tuple[float, bool]]:
    """The arithmetic of a point estimate as one would write it by hand for these diagnostics, nothing checked."""
    draws = chosen.draws
    risk = " + ".join(
        f"{w!r} * u[{name!r}]" for w, name in zip(draws.w[0].tolist(), chosen.diagnostic_names, strict=True)
    )
    z = f"(log(R) - {float(draws.beta0[0])!r}) / {float(draws.s[0])!r}"
    score = {
        "lognormal": f"{float(expit(draws.gamma0[0]))!r} * 0.5 * erfc(-{z} * {math.sqrt(0.5)!r})",
        "loglogistic": f"{float(expit(draws.gamma0[0]))!r} / (1.0 + exp(-{z}))",
    }[draws.family.name]
    source = f"def bare(u):\n    global R\n    R += {risk}\n    q = {score}\n    return q, q >= {chosen.alpha!r}\n"
    namespace = {"R": 0.0, "log": math.log, "erfc": math.erfc, "exp": math.exp}
    exec(source, namespace)
    return namespace["bare"]


def point_estimate() -> Table:
    """Observing under a point estimate, beside plain Python that checks nothing."""
    table = Table(
        "family, diagnostics", "observe", "bare", "times", title="observe under a point estimate, microseconds"
    )
    for family in FAMILIES:
        for d in (1, 2, 4, 8, 16):
            chosen = router(1, d, family)
            u = dict.fromkeys(chosen.diagnostic_names, 0.2)
            observe, bare = chosen.start().observe, written_out(chosen)
            cost = microseconds_each(
                {"observe": lambda f=observe, u=u: f(u), "bare": lambda f=bare, u=u: f(u)}, 200, rounds=150
            )
            row = (cost["observe"], cost["bare"], cost["observe"] / cost["bare"])
            table.add_row(f"{family}, {d}", *(f"{value:.2f}" for value in row))
    return table


def posterior(n: int = 1000, d: int = 4) -> Table:
    """Observing under draws, beside the bare expression in NumPy and SciPy; observe gives a band as well."""
    table = Table("family, rule", "observe", "bare", "times", title=f"observe under {n:,} draws, microseconds")
    for family, cdf in DISTRIBUTIONS.items():
        for rule in ("mean", 0.1):
            chosen = router(n, d, family, rule)
            draws, u = chosen.draws, np.full(d, 0.2)
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
