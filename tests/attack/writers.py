"""The commands that write, with what they need and how their output is compared."""

from __future__ import annotations

import hashlib
import io
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import patient_world
from attack import base
from attack.signals import Writer
from attack.valid_logs import FORMATS, write
from routers import random_router

from bayes_tacit import Episodes, load_example, load_posterior, save_posterior
from bayes_tacit.agents import read_pairs
from bayes_tacit.cli.route import answer
from bayes_tacit.errors import TacitWarning
from bayes_tacit.router import DecisionLog, replay

ROUTER = random_router(draws=20)
STEPS = 4000
"""Decisions of the router whose log is cut off."""


def read_bytes(path: Path) -> object:
    """All of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_episodes(path: Path) -> object:
    """Episodes by their digest."""
    return Episodes.read(path).fingerprint()


def read_draws(path: Path) -> object:
    """A posterior by the digest that its file carries, and by all numbers."""
    from bayes_tacit.estimates.posterior.digest import digest

    return digest(load_posterior(path))


def read_new_draws(path: Path) -> object:
    """A posterior by its draws: when it was sampled differs from run to run."""
    return load_posterior(path, finite=False)["posterior"].to_dataset().to_dataframe().to_csv()


def read_page(path: Path) -> object:
    """A page to its end; it says when it was written."""
    text = path.read_text(encoding="utf-8")
    assert text[:15].lower() == "<!doctype html>"
    assert text.rstrip().endswith("</html>")
    return text.count("<section")


def read_whole(path: Path) -> object:
    """A picture to its end."""
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG")
    assert b"IEND" in content[-12:]
    return "a picture"


def read_table(path: Path) -> object:
    """A Parquet table."""
    return pd.read_parquet(path).to_csv()


def needed(home: Path) -> Path:
    """Write all that the writers read."""
    base.written(home, "few.jsonl", "fit.json", "p.nc", "c.csv")
    with warnings.catch_warnings(action="ignore", category=TacitWarning):
        load_example().take(range(80)).write(home / "more.jsonl")
    for name in ("cheap.jsonl", "strong.jsonl"):
        write(home / name, FORMATS["openai"][1])
    due = [name for name, outcome in zip(base.episodes().ids, base.episodes().outcomes, strict=True) if outcome == "01"]
    (home / "m.csv").write_text("episode,window_start,window_end\n" + "".join(f"{name},0,1\n" for name in due))
    return home


def _again(out: str) -> Callable[[], object]:
    def work() -> None:
        save_posterior(load_posterior("p.nc"), out)

    return work


def _routed() -> None:
    """Decide and log; a log that is there already is gone on with."""
    begun = len(Path("d.jsonl").read_bytes().splitlines()) if Path("d.jsonl").exists() else 0
    with DecisionLog("d.jsonl") as log:
        requests = io.BytesIO(
            b"".join(
                b'{"episode": %d, "features": [1, 0.5]}\n{"episode": %d, "diagnostics": [0.5, 0, 1]}\n' % (at, at)
                for at in range(begun, begun + STEPS)
            )
        )
        answer(ROUTER, io.BufferedReader(requests), Path(os.devnull).open("w"), log=log)  # noqa: SIM115


def read_log(path: Path) -> object:
    """A log that a router computes again; how long it is depends on when it was stopped."""
    with warnings.catch_warnings(action="ignore", category=TacitWarning):
        assert replay(path, ROUTER).agrees
    return "agrees"


def _played(workers: int) -> Callable[[], object]:
    def work() -> None:
        # A program of its own: workers are processes that begin as it does.
        script = f"import patient_world; patient_world.play('rollouts', {workers})"
        path = os.pathsep.join([str(Path(patient_world.__file__).parent), *filter(None, sys.path)])
        environment = {**os.environ, "PYTHONPATH": path}
        os.execve(sys.executable, [sys.executable, "-c", script], environment)

    return work


def read_rollouts(folder: Path) -> object:
    """What was done in every pair that is whole."""
    return {
        cheap.episode: [[step.proposal.action for step in each.steps] for each in (cheap, strong)]
        for cheap, strong in read_pairs(folder)
    }


WORKERS = ("import", "cheap.jsonl", "strong.jsonl", "--out", "w.jsonl", "--workers", "2", "--force")
EPISODES = {
    ("example", "o.{}", "--force"): "o.{}",
    ("import", "cheap.jsonl", "strong.jsonl", "--out", "i.{}", "--workers", "1", "--force"): "i.{}",
    ("teach", "few.jsonl", "--marks", "m.csv", "--out", "t.{}", "--force"): "t.{}",
}
SELECT = ("select", "fit.json", "few.jsonl", "--cap", "50", "--counterfactuals", "c.csv", "--out", "r.json", "--force")
RECOMMEND = ("recommend", "more.jsonl", "--cap", "50", "--step-budget", "40", "--out", "n.json", "--force")
SAMPLE = ("sample", "few.jsonl", "--out", "y.nc", "--draws", "30", "--tune", "30", "--chains", "1", "--force")
REPORT = ("report", "real.nc", "few.jsonl", "--out", "h.html", "--force")


def commands() -> list[Writer]:
    """Give the commands that write one file, one for each format."""
    found = [
        Writer(f"{words[0]} .{suffix}", out.format(suffix), read_episodes, [word.format(suffix) for word in words])
        for words, out in EPISODES.items()
        for suffix in ("jsonl", "parquet", "nc", "zarr")
    ]
    return [
        *found,
        Writer("import --workers 2", "w.jsonl", read_episodes, [*WORKERS]),
        Writer("fit", "f.json", read_bytes, ["fit", "more.jsonl", "--out", "f.json", "--ridge", "1", "--force"]),
        Writer("score .csv", "s.csv", read_bytes, ["score", "p.nc", "few.jsonl", "--out", "s.csv", "--force"]),
        Writer(
            "score .parquet", "s.parquet", read_table, ["score", "p.nc", "few.jsonl", "--out", "s.parquet", "--force"]
        ),
        Writer("select", "r.json", read_bytes, [*SELECT]),
        Writer("select --plot", "c.png", read_whole, [*SELECT, "--plot", "c.png"], beside=("r.json",)),
        Writer("recommend", "n.json", read_bytes, [*RECOMMEND]),
    ]


def slow_commands() -> list[Writer]:
    """Give those that load PyMC, or read what it has sampled."""
    return [Writer("sample", "y.nc", read_new_draws, [*SAMPLE]), Writer("report", "h.html", read_page, [*REPORT])]


def functions() -> list[Writer]:
    """Give what is written from Python, and what grows."""
    return [
        Writer("save_posterior .nc", "q.nc", read_draws, work=_again("q.nc")),
        Writer("save_posterior .zarr", "q.zarr", read_draws, work=_again("q.zarr")),
        Writer("route --log", "d.jsonl", read_log, work=_routed, grows=True),
        Writer("collect", "rollouts", read_rollouts, work=_played(1), grows=True),
        Writer("collect --workers 2", "rollouts", read_rollouts, work=_played(2), grows=True),
    ]
