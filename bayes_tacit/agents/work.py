"""Working through tasks: in parallel processes, in a folder that belongs to one run at a time, with a bar."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, nullcontext
from multiprocessing import reduction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayes_tacit import validate
from bayes_tacit.errors import TacitError
from bayes_tacit.processes import submit, tied_pool
from bayes_tacit.progress import bars

if TYPE_CHECKING:
    from rich.console import Console

Progress = Callable[[int], AbstractContextManager[Callable[[int], object]]]
"""Opened with the number of tasks there are to play; what it yields is called with how many are done after each."""


def work_through[T, R](
    work: Callable[[T], R],
    items: Iterable[T],
    workers: int,
    progress: Progress | None = None,
    folder: Owned | None = None,
) -> Iterator[R]:
    """Yield the results as they come; with one worker in this process, in order.

    However this process ends, killed or interrupted, its workers end at once.

    Parameters
    ----------
    work
        Does one item; it and what it takes and gives can be pickled where there are several workers.
    items
        What is to be done.
    workers
        Number of processes.
    progress
        Opened if there is anything to do, and told after each item.
    folder
        The folder that is written to; it stays locked until the last worker has ended.
    """
    todo, count = list(items), validate.whole("workers", workers, 1)
    if not todo:
        return
    with nullcontext(_nothing) if progress is None else progress(len(todo)) as tell:
        for done, result in enumerate(_results(work, todo, count, folder), 1):
            tell(done)
            yield result


def _nothing(done: int) -> None:
    pass


def _results[T, R](work: Callable[[T], R], todo: list[T], workers: int, folder: Owned | None) -> Iterator[R]:
    if workers == 1:
        yield from map(work, todo)
        return
    with tied_pool(workers, folder) as pool:
        futures = [submit(pool, work, item) for item in todo]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BrokenProcessPool:
            raise TacitError(
                "a worker was killed, as happens where memory runs out; what it had finished is kept: run it again, "
                "with fewer workers"
            ) from None


def shown(stage: str, console: Console | None = None) -> Progress:
    """Make a progress that shows itself.

    Parameters
    ----------
    stage
        What is being done.
    console
        Where; by default standard error.
    """

    @contextmanager
    def bar(of: int) -> Iterator[Callable[[int], object]]:
        with bars(console, stay=True) as shown_bars:
            task = shown_bars.add_task(stage, total=of)
            yield lambda done: shown_bars.update(task, completed=done)

    return bar


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
