"""Processes that a process has started, looked up in /proc."""

from __future__ import annotations

import time
from pathlib import Path

import pytest


def workers_of(process):
    """Its children but the one that only waits to clean up after it."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(one) for one in children if b"spawn_main" in Path(f"/proc/{one}/cmdline").read_bytes()]


def runs(number):
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(condition):
    """Wait for something, a minute at most, and give it."""
    for _ in range(6000):
        if found := condition():
            return found
        time.sleep(0.01)
    pytest.fail("it did not come to that")
