"""Work on the store and the log, off the event loop: whatever they do, other requests go on."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

from bayes_tacit.gateway.store import StoreDownError

T = TypeVar("T")


class Storage:
    """Runs work in threads of its own, each piece for so many seconds at most.

    What has come while a thread worked is done in one go, and told to the event loop in one go: under load, a piece of
    work costs little more than itself.

    Parameters
    ----------
    threads
        How many; with none, work is done at once, as memory needs no waiting.
    patience
        Seconds until work that has not ended counts as failed. It may still end: what it does is safe to do twice.
    quick
        Whether work is first tried at once, since it fails rather than waits there, and done in a thread only then.
    """

    def __init__(self, threads: int, patience: float, *, quick: bool = False) -> None:
        self._patience, self._quick = patience, quick
        self._waiting: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._ready = threading.Condition()
        self._closed = False
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    async def run(self, work: Callable[[], T]) -> T:
        """Do a piece of work.

        Raises
        ------
        StoreDownError
            If it takes too long, or the store does not answer.
        """
        if not self._threads:
            return work()
        if self._quick:
            with suppress(StoreDownError):
                return work()
        return await self.aside(work)

    async def aside(self, work: Callable[[], T]) -> T:
        """Do a piece of work in a thread."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        timer = loop.call_later(self._patience, self._give_up, future)
        with self._ready:
            self._waiting.append((work, future))
            self._ready.notify()
        try:
            return await future
        finally:
            timer.cancel()

    def close(self) -> None:
        """Do what waits, and end the threads."""
        with self._ready:
            self._closed = True
            self._ready.notify_all()
        for thread in self._threads:
            thread.join(self._patience)

    def _give_up(self, future: asyncio.Future[Any]) -> None:
        if not future.done():
            future.set_exception(StoreDownError(f"no answer within {self._patience:g} seconds"))

    def _work(self) -> None:
        while True:
            with self._ready:
                while not self._waiting and not self._closed:
                    self._ready.wait()
                if not self._waiting:
                    return
                # The rest is for the other threads, if there are some.
                share = -(-len(self._waiting) // len(self._threads))
                mine = [self._waiting.popleft() for _ in range(share)]
            done: list[tuple[asyncio.Future[Any], object, bool]] = []
            for work, future in mine:
                if future.done():
                    continue  # nobody waits for it any more
                try:
                    done.append((future, work(), True))
                except BaseException as error:
                    done.append((future, error, False))
            if done:
                loop = done[0][0].get_loop()
                if not loop.is_closed():
                    loop.call_soon_threadsafe(_tell, done)


def _tell(done: list[tuple[asyncio.Future[Any], object, bool]]) -> None:
    for future, result, good in done:
        if future.done():
            continue
        if good:
            future.set_result(result)
        else:
            future.set_exception(cast("BaseException", result))
