"""Calls in forks of a process that has the numeric libraries already: the same walls, without the time to import."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import IO, Any

from simulations.dabench.sandbox_warm import SECONDS

SCRIPT = "sandbox_warm.py"
PATIENCE = 30.0
"""Seconds beyond those of a call until the process must have answered, the start of its libraries included."""


class WarmProcess:
    """One process that waits for calls and forks itself for each; it ends with this program.

    Parameters
    ----------
    runner
        The script that runs a call; that of the waiting process is beside it.
    environment
        Environment variables of every call.
    """

    def __init__(self, runner: Path, environment: Mapping[str, str]) -> None:
        self._runner = runner
        self._environment = dict(environment)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None

    def call(self, job: Mapping[str, Any], seconds: float, output: IO[bytes], report: int) -> tuple[int, bool] | None:
        """Run a job in a fork.

        Parameters
        ----------
        job
            As `sandbox_runner` takes it. The fork reads it, not the process that waits.
        seconds
            That it may take.
        output, report
            For what it prints; descriptor for how it ended.

        Returns
        -------
        tuple or None
            Its exit code, negative for a signal, and whether it was stopped; None if the process did not answer.
        """
        with self._lock, tempfile.TemporaryFile() as file:
            file.write(json.dumps(dict(job)).encode())
            file.seek(0)
            try:
                channel = self._started()
                channel.settimeout(PATIENCE + seconds)
                handles = [file.fileno(), output.fileno(), report]
                socket.send_fds(channel, [struct.pack(SECONDS, seconds)], handles)
                answer = b""
                while not answer.endswith(b"\n"):
                    more = channel.recv(4096)
                    if not more:
                        self.end()
                        return None
                    answer += more
                found = json.loads(answer)
            except OSError:
                self.end()
                return None
            except BaseException:
                # Interrupted on the way: what the process would still answer belongs to no later call.
                self.end()
                raise
        return int(found["status"]), bool(found["stopped"])

    def _started(self) -> socket.socket:
        if self._channel is not None and self._process is not None and self._process.poll() is None:
            return self._channel
        self.end()
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-B", str(self._runner.with_name(SCRIPT)), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=self._environment,
                start_new_session=True,
                pass_fds=(theirs.fileno(),),
            )
        self._channel = ours
        return ours

    def end(self) -> None:
        """End the process, and with it a call that may still run."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(5)
            self._process.kill()
            self._process.wait()
            self._process = None


def warm_process(runner: Path, environment: Mapping[str, str]) -> WarmProcess:
    """Give the process that this one shares among its calls; a fork of this one gets its own."""
    return _of(os.getpid(), runner, tuple(environment.items()))


@cache
def _of(process: int, runner: Path, environment: tuple[tuple[str, str], ...]) -> WarmProcess:
    found = WarmProcess(runner, dict(environment))

    def end() -> None:
        # A fork of this program has not started it, and is not to wait for it.
        if os.getpid() == process:
            found.end()

    atexit.register(end)
    return found
