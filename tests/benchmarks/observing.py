"""What memory, clock, pace and start add to a decision: beside a plain router, in the same run."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from rich.table import Table

from bayes_tacit.router import Router, Start
from bayes_tacit.router.tacit import HandoffScore
from benchmarks.deploying import router

CHECKPOINTS = 20


def tables() -> Iterator[Table]:
    """All tables, one after the other; at most 50 microseconds under a point estimate, and 0.3 ms under 1,000 draws."""
    yield beside_plain(1, (1, 2, 4, 8, 16), rounds=200)
    yield beside_plain(1000, (4, 8, 16), rounds=200)
    yield beginning()


def kinds(plain: Router) -> dict[str, Router]:
    """The same router with each thing that the paper's does not have, and with all of them."""
    rule = plain.rule
    assert isinstance(rule, HandoffScore)
    n = len(rule.s)
    start = Start(1.0, np.zeros(n), np.zeros((n, len(plain.feature_names))))
    fading = replace(rule, memory=[0.6])
    ticking = replace(fading, w=np.column_stack([0.9 * rule.w, np.full(n, 0.1)]), clock=True, start=start)
    found = {
        "plain": plain,
        "pace": replace(plain, pace=0.05),
        "start": replace(plain, rule=replace(rule, start=start), alpha_start=0.9),
        "memory": replace(plain, rule=fading),
        "memory, clock, pace, start": replace(plain, rule=ticking, pace=0.05, alpha_start=0.9),
    }
    if n > 1:
        by_draw = np.linspace(0.3, 0.9, n)
        found["learned memory"] = replace(plain, rule=replace(rule, memory=by_draw))
        learned = replace(ticking, memory=by_draw)
        found["learned memory, clock, pace, start"] = replace(found["memory, clock, pace, start"], rule=learned)
    return found


def microseconds(routers: dict[str, Router], rounds: int) -> dict[str, float]:
    """What an observation takes: the fastest of many short rounds of new episodes, taken in turns."""
    episodes = 10 if len(next(iter(routers.values())).rule.s) == 1 else 1
    best = dict.fromkeys(routers, math.inf)
    names = next(iter(routers.values())).diagnostic_names
    values = np.random.default_rng(1).exponential(0.3, (CHECKPOINTS, len(names))).tolist()
    rollout = [dict(zip(names, each, strict=True)) for each in values]
    for _ in range(rounds):
        for name, chosen in routers.items():
            # Peaks stop rising in a long episode, so each is as long as one is.
            observers = [chosen.start().observe for _ in range(episodes)]
            begun = time.perf_counter()
            for observe in observers:
                for diagnostics in rollout:
                    observe(diagnostics)
            took = time.perf_counter() - begun
            best[name] = min(best[name], 1e6 * took / (episodes * CHECKPOINTS))
    return best


def beside_plain(draws: int, counts: tuple[int, ...], rounds: int) -> Table:
    """One row for each number of diagnostics and kind of router."""
    under = "a point estimate" if draws == 1 else f"{draws:,} draws"
    table = Table("diagnostics", "router", "observe", "times plain", title=f"observe under {under}, microseconds")
    for d in counts:
        found = microseconds(kinds(router(draws, d)), rounds)
        for name, cost in found.items():
            table.add_row(str(d), name, f"{cost:.2f}", f"{cost / found['plain']:.2f}")
    return table


def beginning(calls: int = 50, rounds: int = 40) -> Table:
    """What it takes to begin an episode, once: a start is decided there."""
    table = Table("under", "router", "start", title="to begin an episode, microseconds")
    for draws, under in ((1, "a point estimate"), (1000, "1,000 draws")):
        for name, chosen in kinds(router(draws, 4)).items():
            best = math.inf
            for _ in range(rounds):
                begun = time.perf_counter()
                for _ in range(calls):
                    chosen.start()
                best = min(best, 1e6 * (time.perf_counter() - begun) / calls)
            table.add_row(under, name, f"{best:.1f}")
    return table
