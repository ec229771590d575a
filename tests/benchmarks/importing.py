"""Import: rollouts of 20 messages against `json.loads` of their lines, its memory, and a decision of a gateway."""

from __future__ import annotations

import json
import os
import random
import tempfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

from rich.table import Table

from bayes_tacit.logs import StepExtractor, import_logs
from benchmarks.timing import median_seconds, milliseconds, once

ROLLOUTS = 100_000
"""Rollouts of each of the two logs."""

MOST = 3.0
"""How many times as long as reading the JSON an import may take."""

TURNS = 9


def tables() -> Iterator[Table]:
    """All tables, one after the other."""
    with tempfile.TemporaryDirectory() as name:
        yield speed(Path(name))
        yield memory(Path(name))
    yield decisions()


def speed(folder: Path, rollouts: int = ROLLOUTS) -> Table:
    """The time of an import, beside that of reading the JSON alone."""
    table = Table("processes", "seconds", "json.loads", "times", f"at most {MOST:g}", title=f"import, 2 x {rollouts:,}")
    logs = write(folder / "c.jsonl", rollouts, 1), write(folder / "s.jsonl", rollouts, 2)
    for workers in sorted({1, min(4, os.cpu_count() or 1)}):
        parse = once(lambda: parse_all(*logs))
        took = once(lambda workers=workers: import_logs(*logs, folder / "out.jsonl", workers=workers))
        held = "yes" if took <= MOST * parse else "no"
        table.add_row(f"{workers}", f"{took:.1f}", f"{parse:.1f}", f"{took / parse:.2f}", held)
    return table


def memory(folder: Path) -> Table:
    """The most that Python holds while logs of several sizes are imported."""
    table = Table("rollouts of each log", "MB", title="memory of import")
    for n in (500, 5000):
        logs = write(folder / "c.jsonl", n, 1), write(folder / "s.jsonl", n, 2)
        tracemalloc.start()
        import_logs(*logs, folder / "out.jsonl")
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        table.add_row(f"{n:,}", f"{most / 1e6:.2f}")
    return table


def decisions() -> Table:
    """The diagnostics of a whole conversation, as a gateway computes them anew."""
    messages = [one for _ in range(6) for one in json.loads(line(1, random.Random(1)))["messages"][2:]][:100]
    table = Table("messages", "time", title="diagnostics of a conversation")
    table.add_row("100", milliseconds(median_seconds(lambda: StepExtractor().extend(messages))))
    return table


def line(task: int, rng: random.Random) -> str:
    """Return a rollout of 20 messages."""
    messages: list[dict[str, object]] = [
        {"role": "system", "content": "You are an agent that works with tools. " * 8},
        {"role": "user", "content": f"Task {task}: " + "find the number of rows in the table. " * 5},
    ]
    for turn in range(TURNS):
        arguments = {"sql": f"SELECT * FROM t{rng.randrange(40)} WHERE x = {rng.randrange(9)}", "limit": 10}
        function = {"name": "query", "arguments": json.dumps(arguments)}
        calls = [{"id": f"call_{turn}", "type": "function", "function": function}]
        messages.append({"role": "assistant", "content": "I will look at the table next. " * 3, "tool_calls": calls})
        seen = f"[({rng.random()}, 'abc')] " * 8
        messages.append({"role": "tool", "tool_call_id": f"call_{turn}", "content": seen})
    return json.dumps({"task": f"task-{task}", "model": "m", "success": rng.random() < 0.5, "messages": messages})


def write(path: Path, n: int, seed: int) -> Path:
    """Write a log."""
    rng = random.Random(seed)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(line(task, rng) + "\n" for task in range(n))
    return path


def parse_all(*logs: Path) -> None:
    """Parse every line, and nothing more."""
    for log in logs:
        with log.open(encoding="utf-8") as file:
            for text in file:
                json.loads(text)
