"""Medians of repeated runs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


def median_seconds(run: Callable[[], object], repeats: int = 9) -> float:
    """Run once to warm up, then several times."""
    run()
    return statistics.median(once(run) for _ in range(repeats))


def once(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:,.1f} ms"
