"""Working through tasks: in parallel processes, in a folder that belongs to one run at a time, with a bar."""

from __future__ import annotations

import contextlib
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

LOCK = ".lock"
"""The file in the folder that a run holds while it plays."""

PATIENCE = 5.0
"""Seconds that are waited for the folder: a run that was just stopped has it until its last worker has ended."""


def work_through[T, R](
    work: Callable[[T], R],
    items: Iterable[T],
    workers: int,
    progress: Progress | None = None,
    folder: Owned | None = None,
) -> Iterator[R]:
    """Yield the results as they come; with one worker in this process, in order.

    However this process ends, killed or interrupted, its workers end at once; until then they hold the lock of the
    folder that is written to. With several workers all that is passed can be pickled.
    """
    todo, count = list(items), validate.whole("workers", workers, 1)
    if not todo:
        return
    with nullcontext(lambda _: None) if progress is None else progress(len(todo)) as tell:
        for done, result in enumerate(map(work, todo) if count == 1 else _shared(work, todo, count, folder), 1):
            tell(done)
            yield result


def _shared[T, R](work: Callable[[T], R], todo: list[T], workers: int, folder: Owned | None) -> Iterator[R]:
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
    """Make a progress that shows itself as a bar of that name, by default on standard error."""

    @contextmanager
    def bar(of: int) -> Iterator[Callable[[int], object]]:
        with bars(console, stay=True) as shown_bars:
            task = shown_bars.add_task(stage, total=of)
            yield lambda done: shown_bars.update(task, completed=done)

    return bar


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
def owned(folder: Path) -> Iterator[Owned]:
    """Lock a folder for as long as the block runs; `FolderInUseError` if another run has it and keeps it."""
    until = time.monotonic() + PATIENCE
    while (handle := _claimed(folder / LOCK)) is None:
        if time.monotonic() > until:
            raise FolderInUseError(
                f"{folder}: another run plays into it; expected a folder of its own for each, or the other one ended"
            )
        time.sleep(0.02)
    try:
        yield Owned(handle)
    finally:
        with contextlib.suppress(OSError):
            (folder / LOCK).unlink()
        os.close(handle)


def _claimed(path: Path) -> int | None:
    """Return the handle of a locked file, None if another run has it."""
    from filelock import lock_descriptor

    handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
    # A file system without locks has to do without. Whoever had the lock removes the file when it is done: this may be
    # a file without a name by now.
    with contextlib.suppress(FileNotFoundError):
        try:
            locked = lock_descriptor(handle, blocking=False)
        except OSError:
            locked = True
        if locked and os.path.samestat(os.fstat(handle), path.stat()):
            return handle
    os.close(handle)
    return None
