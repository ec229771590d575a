"""Workers end with the process that started them, whenever and however that is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from children import runs, until, workers_of

from bayes_tacit.errors import TacitError
from bayes_tacit.processes import submit, tied_pool

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="children are looked up in /proc")

SCRIPT = """
import time
from bayes_tacit.processes import submit, tied_pool
with tied_pool(3) as pool:
    tasks = [submit(pool, time.sleep, seconds) for seconds in (0, 100, 100, 100)]
    tasks[0].result()
    print("at work", flush=True)
    tasks[1].result()
"""


@contextmanager
def begun():
    """A process of a session of its own, which hears what a terminal sends to all of it."""
    words = [sys.executable, "-c", SCRIPT]
    process = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def could_hear(number):
    """Check whether a process has come to where it would hear an interruption, or would not."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{number}/status").read_text().splitlines())
    known = (int(lines[key], 16) >> (signal.SIGINT - 1) & 1 for key in ("SigCgt", "SigIgn", "SigBlk"))
    return any(known)


def test_no_worker_outlives_a_process_that_was_killed():
    with begun() as process:
        assert process.stdout.readline() == b"at work\n"
        workers = workers_of(process)
        assert len(workers) == 3
        process.kill()
        until(lambda: not any(map(runs, workers)))


@pytest.mark.parametrize("others", [pytest.param(1, marks=pytest.mark.attack), 3])
def test_an_interruption_while_workers_start_is_told_by_the_first_process_alone(others):
    with begun() as process:
        until(lambda: sum(map(could_hear, workers_of(process))) >= others)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert said.count(b"Traceback") == 1, said.decode()
    assert said.endswith(b"KeyboardInterrupt\n"), said.decode()


def test_a_worker_that_is_killed_is_told_in_words():
    with pytest.raises(TacitError, match="a worker was killed, as happens where memory runs out"), tied_pool(1) as pool:
        submit(pool, os._exit, 1).result()
