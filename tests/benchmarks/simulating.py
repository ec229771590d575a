"""How long a replicate of the mechanism study takes to simulate, beside the same simulator in plain NumPy."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from functools import partial

import numpy as np
from mechanism_peer import Peer
from rich.table import Table

from bayes_tacit.router import Router, rules
from benchmarks.timing import milliseconds, once
from simulations.mechanism import calibrated
from simulations.mechanism.draws import draw
from simulations.mechanism.world import SIZES, world_of
from simulations.studies.contest import ABLATIONS, ALL, contest, draw_worlds

MECHANISM = calibrated()
THRESHOLDS = np.linspace(0.0, 2.0, 101)
BY_RISK = Router(rule=rules.Signal(), call="strong_once", diagnostic_names=("risk",))


def tables() -> Iterator[Table]:
    """One table: 8,000, 4,000 and 20,000 tasks with every handoff, and step deferral at 101 thresholds."""
    draws = {split: draw(n, MECHANISM.steps, seed=1) for split, n in SIZES.items()}
    worlds = {split: world_of(MECHANISM, one) for split, one in draws.items()}
    worlds["development"].single_steps(BY_RISK, THRESHOLDS)

    def ours() -> None:
        for one in draws.values():
            world_of(MECHANISM, one)

    def plain() -> None:
        for one in draws.values():
            peer = Peer(MECHANISM, one)
            peer.features(), peer.table(), peer.windows()

    def our_deferral() -> None:
        worlds["development"].single_steps(BY_RISK, THRESHOLDS)

    def plain_deferral() -> None:
        peer = Peer(MECHANISM, draws["development"])
        for threshold in THRESHOLDS:
            peer.deferral(threshold)

    title = "one replicate, 32,000 tasks; ours also checks it and puts it into containers"
    table = Table("", "compiled", "plain NumPy", "ratio", title=title)
    table.add_row("draw the random numbers", *_pair(_draw_all, None))
    table.add_row("simulate, every handoff", *_pair(ours, plain))
    table.add_row("step deferral, 4,000 tasks, 101 thresholds", *_pair(our_deferral, plain_deferral))
    yield table
    yield whole(plain)


def whole(plain) -> Table:
    """A whole replicate: simulate, fit all policies, choose each among its candidates, evaluate."""

    def replicate(policies) -> None:
        contest(policies, draw_worlds(MECHANISM, np.random.SeedSequence(1)))

    replicate((*ALL, *ABLATIONS))
    title = "a whole replicate on one core: simulated, fitted, 101 thresholds a policy, evaluated"
    table = Table("", "seconds", "times plain NumPy simulating alone", title=title)
    bare = statistics.median(once(plain) for _ in range(5))
    ours = "the paper's policies, the cascade and First Alarm"
    for name, policies in ((ours, ALL), ("and both ablations", (*ALL, *ABLATIONS))):
        seconds = statistics.median(once(partial(replicate, policies)) for _ in range(5))
        table.add_row(name, f"{seconds:.2f}", f"{seconds / bare:.2f}")
    return table


def _draw_all() -> None:
    for n in SIZES.values():
        draw(n, MECHANISM.steps, seed=1)


def _pair(ours, plain, repeats: int = 5) -> tuple[str, str, str]:
    """Medians, taken in turns so that a slow moment of the machine falls on both."""
    pairs = [(once(ours), once(plain) if plain else 0.0) for _ in range(repeats)]
    compiled, numpy = (statistics.median(times) for times in zip(*pairs, strict=True))
    return milliseconds(compiled), milliseconds(numpy) if plain else "same", f"{numpy / compiled:.1f}" if plain else ""
