"""Worker processes that end with the process that started them, however that ends."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection

from bayes_tacit.errors import TacitError


@contextmanager
def tied_pool(workers: int, held: object = None) -> Iterator[ProcessPoolExecutor]:
    """Open a pool of processes, each started anew: a copy of this one would share the state of its libraries.

    However this process ends, killed or interrupted, its workers end at once; so they do where the block raises.

    Parameters
    ----------
    workers
        Number of processes.
    held
        What each worker holds for as long as it lives, such as a lock.
    """
    context = get_context("spawn")
    watched, leash = context.Pipe(duplex=False)
    with watched, leash:
        pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_tied, initargs=(watched, held))
        try:
            yield pool
        except BrokenProcessPool:
            raise TacitError(
                "a worker was killed, as happens where memory runs out; run it again, with fewer workers"
            ) from None
        except BaseException:
            # What workers are at is not waited for: with a language model it may take an hour.
            leash.close()
            pool.shutdown(cancel_futures=True)
            raise
        pool.shutdown()


def submit[**P, R](pool: ProcessPoolExecutor, work: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> Future[R]:
    """Submit work to a pool.

    A worker that is started for it is deaf to interruptions from the keyboard from its beginning on, and is not left
    half started by one: the process that started it tells it to end.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        return pool.submit(work, *arguments, **named)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return pool.submit(work, *arguments, **named)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _tied(watched: Connection, held: object) -> None:  # noqa: ARG001
    # The worker ends as soon as nobody holds the other end of its line.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_ends_with, args=(watched,), daemon=True, name="leash").start()


def _ends_with(watched: Connection) -> None:
    watched.poll(None)
    os._exit(1)
