"""A folder that is played into belongs to one run at a time."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import reduction
from pathlib import Path
from typing import Any

from bayes_tacit.errors import TacitError

LOCK = ".lock"
"""The file in the folder that a run holds while it plays."""

PATIENCE = 5.0
"""Seconds that are waited for the folder: a run that was just stopped has it until its last worker has ended."""


class FolderInUseError(TacitError, RuntimeError):
    """Another run plays into the folder."""


class Owned:
    """A folder that this run has locked.

    The operating system keeps the lock for as long as this run or one of the workers that were handed it is alive, and
    not longer, however they end. So what another run left is taken over, but never while something of it still writes.
    """

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __reduce__(self) -> tuple[Any, ...]:
        return _handed_over, (reduction.DupFd(self.handle),)


def _handed_over(handle: Any) -> Owned:  # noqa: ANN401
    return Owned(handle.detach())


@contextmanager
def owned(folder: Path) -> Iterator[Owned | None]:
    """Lock a folder for as long as the block runs; None where the system or the file system has no locks.

    Raises
    ------
    FolderInUseError
        If another run has it and keeps it.
    """
    handle = _claimed(folder, time.monotonic() + PATIENCE)
    if handle is None:
        yield None
        return
    try:
        yield Owned(handle)
    finally:
        with contextlib.suppress(OSError):
            (folder / LOCK).unlink()
        os.close(handle)


def _claimed(folder: Path, until: float) -> int | None:
    try:
        import fcntl
    except ImportError:
        return None
    path = folder / LOCK
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = _said(handle)
            os.close(handle)
            if time.monotonic() > until:
                raise FolderInUseError(
                    f"{folder}: another run plays into it (process {owner or 'unknown'}); expected a folder of its own "
                    "for each, or the other one ended"
                ) from None
            time.sleep(0.02)
            continue
        except OSError:
            os.close(handle)
            return None
        # Whoever had the lock removes the file when it is done: this may be a file without a name by now.
        if _is(handle, path):
            os.ftruncate(handle, 0)
            os.write(handle, json.dumps({"process": os.getpid()}).encode())
            return handle
        os.close(handle)


def _is(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _said(handle: int) -> int | None:
    try:
        said = json.loads(os.pread(handle, 200, 0))
        return int(said["process"])
    except (ValueError, KeyError, TypeError):
        return None
