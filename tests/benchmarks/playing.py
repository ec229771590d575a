"""How many steps a second are played on the real ALFWorld engine, and what everything around it adds."""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import textworld
from rich.table import Table
from textworld.envs.pddl import PddlEnv

from bayes_tacit.agents.playing import Pair, Players, collect
from benchmarks.timing import once
from simulations.alfworld import Alfworld, CheapActor, Game, StrongActor, list_games, write_kitchens
from simulations.alfworld.engine import KeptPddlEnv, unchanged

PLAYERS = Players(CheapActor(), StrongActor())
MANY = 24


def tables() -> Iterator[Table]:
    """One table on a single core, one with two workers; on official games where ALFWORLD_DATA says where they are."""
    with tempfile.TemporaryDirectory() as folder:
        if os.environ.get("ALFWORLD_DATA"):
            games, which = list_games("valid_seen")[:MANY], "official games"
        else:
            games, which = write_kitchens(folder, "bench", MANY), "kitchens of our own, ALFWORLD_DATA not being set"
        yield overhead(games, which)
        yield workers(games, which)


def overhead(games: list[Game], which: str) -> Table:
    """Actors, diagnostics, accounts and transcripts, beside the same actions on our engine and on the package's."""
    rows = []
    for game in games[:8]:
        with _folder() as folder:
            whole = once(lambda game=game, folder=folder: collect(Alfworld(), folder, PLAYERS, tasks=[game]))
            (pair,) = collect(Alfworld(), folder, PLAYERS, tasks=[game])
        bare, own = once(lambda pair=pair: _take(KeptPddlEnv(), pair)), once(lambda pair=pair: _take_own(pair))
        rows.append((len(pair.cheap.executed) + len(pair.strong.executed), whole, bare, own))
    rates = [statistics.median(row[0] / row[at] for row in rows) for at in (1, 2, 3)]
    added = statistics.median(whole / bare - 1 for _, whole, bare, _ in rows)
    title = f"both rollouts of a game, its start included; {which}"
    table = Table("", "all that is played", "our engine alone", "the package's engine alone", title=title)
    table.add_row("steps a second", *(f"{rate:.1f}" for rate in rates))
    table.add_row("time added to our engine's", f"{100 * added:.1f}%", "", "")
    return table


def workers(games: list[Game], which: str) -> Table:
    """The same games by one process and by two."""
    seconds = []
    for count in (1, 2):
        with _folder() as folder:
            seconds.append(once(lambda folder=folder, count=count: _collect(games, folder, count)))
    table = Table("one worker", "two workers", "ratio", title=f"rollouts of {len(games)} games; {which}")
    table.add_row(*(f"{one:.1f} s" for one in seconds), f"{seconds[0] / seconds[1]:.2f}")
    return table


def _take(engine: KeptPddlEnv, pair: Pair[Game]) -> None:
    """Take the actions of both rollouts on a fresh engine, one rollout after the other."""
    engine.load(pair.task.path)
    _act(engine, pair)


def _take_own(pair: Pair[Game]) -> None:
    """Take them on the package's own, with its own wrapper for names."""
    with unchanged("ALFWORLD_DATA"):
        from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
    argv = sys.argv
    engine = AlfredDemangler(PddlEnv(textworld.EnvInfos(feedback=True, won=True, admissible_commands=True)))
    engine.load(json.loads(pair.task.path.read_text(encoding="utf-8")))
    _act(engine, pair)
    sys.argv = argv


def _act(engine, pair: Pair[Game]) -> None:
    for transcript in (pair.cheap, pair.strong):
        engine.reset()
        for record in transcript.executed:
            engine.step(record.proposal.action)


def _collect(games: list[Game], folder: Path, workers: int) -> list[Pair[Game]]:
    return collect(Alfworld(), folder, PLAYERS, tasks=games, workers=workers)


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)
