"""Working through tasks in parallel processes, with a word on how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager, nullcontext
from multiprocessing import get_context

from bayes_tacit import validate

Progress = Callable[[int], AbstractContextManager[Callable[[int], object]]]
"""Opened with the number of tasks there are to play; what it gives is told how many are done after each."""


def work_through[T, R](
    work: Callable[[T], R], items: Iterable[T], workers: int, progress: Progress | None = None
) -> Iterator[R]:
    """Give the results as they come; with one worker in this process, in order.

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
    """
    todo, count = list(items), validate.whole("workers", workers, 1)
    if not todo:
        return
    with nullcontext(_nothing) if progress is None else progress(len(todo)) as tell:
        for done, result in enumerate(_results(work, todo, count), 1):
            tell(done)
            yield result


def _nothing(done: int) -> None:
    pass


def _results[T, R](work: Callable[[T], R], todo: list[T], workers: int) -> Iterator[R]:
    if workers == 1:
        yield from map(work, todo)
        return
    # Each process loads an engine's libraries for itself: a forked copy would share their state.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(work, item) for item in todo]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
