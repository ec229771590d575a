"""Working through games in parallel processes, with the time that is left."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from bayes_tacit import validate

Progress = Callable[[int, int, float], None]
"""Told at the start and after each game: how many are done, of how many, and about how many seconds are left."""


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
        Told at the start, if there is anything to do, and after each item.
    """
    todo = list(items)
    if progress is not None and todo:
        progress(0, len(todo), math.inf)
    began = time.perf_counter()
    for done, result in enumerate(_results(work, todo, validate.whole("workers", workers, 1)), 1):
        if progress is not None:
            progress(done, len(todo), (time.perf_counter() - began) / done * (len(todo) - done))
        yield result


def _results[T, R](work: Callable[[T], R], todo: list[T], workers: int) -> Iterator[R]:
    if workers == 1:
        yield from map(work, todo)
        return
    # Each process loads the search library for itself: a forked copy would share its state.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(work, item) for item in todo]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
