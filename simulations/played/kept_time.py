"""How long playing took, from the files that it left: a run may have been stopped and gone on with many times."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

PAUSE = 300.0
"""Seconds without a new file after which nobody was playing."""


def seconds_spent(folder: Path) -> float:
    """Add up the time from file to file, pauses left out."""
    times = sorted(path.stat().st_mtime for path in folder.glob("*.jsonl"))
    gaps = (after - before for before, after in pairwise(times))
    return sum(gap for gap in gaps if gap < PAUSE)
