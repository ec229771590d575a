"""Work on the store and the log, off the event loop: whatever they do, other requests go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from bayes_tacit.gateway.store import StoreDownError

T = TypeVar("T")


class Storage:
    """Runs work in threads of its own, each piece for so many seconds at most.

    Parameters
    ----------
    threads
        How many; with none, work is done at once, as memory needs no waiting.
    patience
        Seconds until work that has not ended counts as failed. It may still end: what it does is safe to do twice.
    """

    def __init__(self, threads: int, patience: float) -> None:
        self._pool = ThreadPoolExecutor(threads, "tacit-store") if threads else None
        self._patience = patience

    async def run(self, work: Callable[[], T]) -> T:
        """Do a piece of work.

        Raises
        ------
        StoreDownError
            If it takes too long, or the store does not answer.
        """
        if self._pool is None:
            return work()
        try:
            async with asyncio.timeout(self._patience):
                return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        except TimeoutError:
            raise StoreDownError(f"no answer within {self._patience:g} seconds") from None

    def close(self) -> None:
        """Wait for what is being done, and leave out what is not."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
