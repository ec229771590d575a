"""Medians of repeated runs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


def median_seconds(
    run: Callable[[], object], repeats: int = 9, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Run once to warm up, then several times; `time.process_time` counts the processor's seconds alone."""
    run()
    return statistics.median(once(run, clock) for _ in range(repeats))


def once(run: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    start = clock()
    run()
    return clock() - start


def milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:,.1f} ms"
