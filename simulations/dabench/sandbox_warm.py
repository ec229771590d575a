"""A process that has imported the numeric libraries and forks itself for each call. See `warm.WarmProcess`.

It is run as a script, in isolated mode, and imports nothing of ours but the files beside it. It never runs code of an
agent, nor reads any: each call is a fork, which reads its job and raises all walls around itself as if it had just been
started. Forks are ended when their time is over, and with this process, which ends when nobody can ask it any more.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import platform
import select
import signal
import socket
import struct
import sys
import time
from types import ModuleType
from typing import NoReturn

LIBRARIES = ("numpy", "pandas", "scipy.stats")
SECONDS = "!d"
"""A call is asked for by its seconds, and descriptors: its job, where its output goes, where it is reported on."""

GRACE = 2.0
"""Seconds in which a call may end by itself after it was asked to."""


def main() -> None:
    """Answer calls on the socket whose descriptor is the first argument, one after the other."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    runner = _runner()
    # Loaded once, for all forks.
    walls, _, _ = runner.parts()
    walls.readable_paths()
    for name in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    # Some library has asked for the machine's name, which no call is to know.
    vars(platform)["_uname_cache"] = None
    while True:
        asked, handles, _, _ = socket.recv_fds(channel, struct.calcsize(SECONDS), 3)
        if not asked:
            return
        number = os.fork()
        if number == 0:
            _become(runner, *handles)
        for handle in handles:
            os.close(handle)
        stopped = not _ended(number, struct.unpack(SECONDS, asked)[0], channel)
        status = _finish(number)
        channel.sendall(json.dumps({"stopped": stopped, "status": status}).encode() + b"\n")


def _runner() -> ModuleType:
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sandbox_runner.py")
    spec = importlib.util.spec_from_file_location("sandbox_runner", path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _become(runner: ModuleType, job: int, output: int, report: int) -> NoReturn:
    """Run the job in this fork."""
    try:
        os.setsid()
        os.dup2(output, 1)
        # What is random without a seed is to differ from call to call; the standard library sees to that itself.
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed()
        with open(job, "rb") as file:
            content = json.load(file)
        runner.run_job({**content, "parent": os.getppid()}, report)
    finally:
        os._exit(1)


def _ended(number: int, seconds: float, channel: socket.socket) -> bool:
    """Wait until a fork has ended; say no if it has not in this time, or if nobody waits for it any more."""
    until = time.monotonic() + seconds
    handle = os.pidfd_open(number)
    try:
        while (left := until - time.monotonic()) > 0:
            ready = select.select([handle, channel.fileno()], [], [], left)[0]
            if handle in ready:
                return True
            if ready:
                # One call at a time: there is nothing to read but the end.
                return False
        return False
    finally:
        os.close(handle)


def _finish(number: int) -> int:
    """Have the fork end the others and itself, kill whatever is left of its group, and give how it ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(number, signal.SIGTERM)
    handle = os.pidfd_open(number)
    select.select([handle], [], [], GRACE)
    os.close(handle)
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(number, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


if __name__ == "__main__":
    main()
