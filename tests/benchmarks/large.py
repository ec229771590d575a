"""How reading, fitting and scoring grow with the number of episodes, and the most memory that each takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from rich.table import Table
from simulate import simulate_model

FIGURE = Path("benchmarks_growth.svg")
SIZES = (10_000, 100_000, 1_000_000)
"""`BENCH_EPISODES=10000000 make bench` adds a larger one."""

RUN = """
import json, re, sys, time, warnings
from pathlib import Path
warnings.simplefilter("ignore")
from bayes_tacit import Episodes, decisive_scores, fit_map
path, chunk = sys.argv[1], int(sys.argv[2])
times = [time.process_time()]
episodes = Episodes.read(path, chunks={"episode": chunk} if chunk else None)
times.append(time.process_time())
fit = fit_map(episodes, restarts=1)
times.append(time.process_time())
decisive_scores(fit, episodes)
times.append(time.process_time())
# Not ru_maxrss: a child process starts with its parent's.
peak = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
print(json.dumps([*(after - before for before, after in zip(times, times[1:])), peak]))
"""


def tables() -> Iterator[Table]:
    """One table: Parquet of rollouts of up to ten steps, four diagnostics, three features; one start; CPU seconds."""
    rows: list[tuple[int, list[float]]] = []
    table = Table("episodes", "read", "fit_map", "score", "peak memory", title="growth with the number of episodes")
    sizes = [*SIZES, *([int(os.environ["BENCH_EPISODES"])] if "BENCH_EPISODES" in os.environ else [])]
    for size in sizes:
        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / "episodes.parquet"
            write(path, size)
            for chunk in (0, 50_000) if size <= 1_000_000 else (50_000,):
                done = subprocess.run(
                    [sys.executable, "-c", RUN, str(path), str(chunk)], capture_output=True, text=True, check=True
                )
                *seconds, peak = json.loads(done.stdout)
                label = f"{size:,}{' in chunks' if chunk else ''}"
                if chunk or size > 1_000_000:
                    rows.append((size, [*seconds, peak / 2**20]))
                table.add_row(label, *(f"{each:.1f} s" for each in seconds), f"{peak / 2**10:,.0f} MiB")
    yield table
    draw(rows)


def draw(rows: list[tuple[int, list[float]]]) -> None:
    """Draw seconds and memory of what is read in chunks, on logarithmic axes, into the page."""
    sizes, found = [size for size, _ in rows], np.array([values for _, values in rows])
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    for at, name in enumerate(("read", "fit_map", "score")):
        left.loglog(sizes, found[:, at], "o-", label=name)
    right.loglog(sizes, found[:, 3], "o-", color="C3")
    left.set(xlabel="episodes, read in chunks", ylabel="CPU seconds")
    right.set(xlabel="episodes", ylabel="peak memory, GiB")
    left.legend(frameon=False)
    figure.savefig(FIGURE)
    plt.close(figure)


def write(path: Path, size: int) -> None:
    """Write so many episodes, a hundred thousand at a time: the same ones again under other ids."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    some = min(size, 100_000)
    simulate_model(np.random.default_rng(1), some, horizon=10).write(path)
    for name in ("tasks.parquet", "steps.parquet"):
        table = pq.read_table(path / name)
        column = table.column_names.index("episode")
        with pq.ParquetWriter(path / name, table.schema) as writer:
            for first in range(0, size, some):
                ids = pa.array(table["episode"].to_numpy() + first)
                writer.write_table(table.set_column(column, "episode", ids), row_group_size=1 << 17)
