"""`bayes-tacit route` on a pipe: decisions a second on one core, and memory over a million episodes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from rich.table import Table

from benchmarks.deploying import router

PROGRAM = str(Path(sys.executable).parent / "bayes-tacit")
BARE = "import json, sys\nfor line in sys.stdin: sys.stdout.write(json.dumps(json.loads(line)) + '\\n')"
CHECKPOINTS = 10


def tables() -> Iterator[Table]:
    """All tables, one after the other."""
    yield speed()
    yield memory()


def speed(episodes: int = 30_000) -> Table:
    """Decisions a second, beside a loop that only reads and writes the same JSON."""
    table = Table(
        "on one core", "lines a second", "decisions a second", "times the bare loop", title="route from a pipe"
    )
    with tempfile.TemporaryDirectory() as folder:
        for draws in (1, 1000):
            router(draws, 4).save(Path(folder) / f"{draws}.json")
        few = episodes // 20
        commands = {
            "bare loop: json.loads, json.dumps": ([sys.executable, "-c", BARE], episodes),
            "route, point estimate": ([PROGRAM, "route", f"{folder}/1.json"], episodes),
            "route, 1,000 draws": ([PROGRAM, "route", f"{folder}/1000.json"], few),
        }
        bare = 0.0
        for name, (command, n) in commands.items():
            seconds, _ = play(command, n, CHECKPOINTS)
            lines = n * (CHECKPOINTS + 2) / seconds
            bare = bare or 1 / lines
            decisions = f"{n * CHECKPOINTS / seconds:,.0f}" if command[0] == PROGRAM else ""
            table.add_row(name, f"{lines:,.0f}", decisions, f"{1 / lines / bare:.2f}")
    return table


def memory(episodes: int = 1_000_000) -> Table:
    """What the process holds while a million episodes go through."""
    table = Table("episodes so far", "MiB resident", title="memory of route")
    with tempfile.TemporaryDirectory() as folder:
        router(1, 4).save(Path(folder) / "router.json")
        _, held = play([PROGRAM, "route", f"{folder}/router.json"], episodes, 1)
    for done, mebibytes in held:
        table.add_row(f"{done:,}", f"{mebibytes:.1f}")
    return table


def play(command: list[str], episodes: int, checkpoints: int) -> tuple[float, list[tuple[int, float]]]:
    """Run a program on one core, feed it episodes; give seconds from its first answer on, and what it holds."""
    features, diagnostics = {}, dict.fromkeys(("u0", "u1", "u2", "u3"), 0.25)
    core = {sorted(os.sched_getaffinity(0))[0]}
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=lambda: os.sched_setaffinity(0, core)
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps({"episode": "first", "features": features}).encode() + b"\n")
    process.stdin.flush()
    process.stdout.readline()
    drained = threading.Thread(target=drain, args=(process.stdout,))
    drained.start()
    held, start = [], time.perf_counter()
    block = 1000
    for first in range(0, episodes, block):
        lines = []
        for number in range(first, min(first + block, episodes)):
            lines.append(json.dumps({"episode": number, "features": features}))
            lines += [json.dumps({"episode": number, "diagnostics": diagnostics})] * checkpoints
            lines.append(json.dumps({"episode": number, "end": True}))
        process.stdin.write(("\n".join(lines) + "\n").encode())
        done = first + block
        if done % (episodes // 5) == 0:
            pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
            held.append((done, pages * os.sysconf("SC_PAGE_SIZE") / 2**20))
    process.stdin.close()
    drained.join()
    assert process.wait() == 0
    return time.perf_counter() - start, held


def drain(answers: IO[bytes]) -> None:
    """Read everything and forget it."""
    while answers.read(2**16):
        pass
