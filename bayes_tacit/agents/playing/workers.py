"""Working through tasks in parallel processes, with a word on how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, nullcontext

from bayes_tacit import validate
from bayes_tacit.agents.playing.ownership import Owned
from bayes_tacit.errors import TacitError
from bayes_tacit.processes import submit, tied_pool

Progress = Callable[[int], AbstractContextManager[Callable[[int], object]]]
"""Opened with the number of tasks there are to play; what it gives is told how many are done after each."""


def work_through[T, R](
    work: Callable[[T], R],
    items: Iterable[T],
    workers: int,
    progress: Progress | None = None,
    folder: Owned | None = None,
) -> Iterator[R]:
    """Give the results as they come; with one worker in this process, in order.

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
