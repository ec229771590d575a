"""What a worker works with: counters in the text format that Prometheus reads, and threads for work on the store."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from bayes_tacit.gateway.store import StoreDownError

T = TypeVar("T")

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0)
"""Upper ends of the bins of durations."""

COUNTERS = {
    "tacit_requests_total": "Requests by who served them and the status of the answer.",
    "tacit_handoffs_total": "Sessions that were handed off.",
    "tacit_shadow_handoffs_total": "Sessions that the router in shadow would have handed off.",
    "tacit_faults_total": "What went wrong, by kind; the request was served all the same.",
    "tacit_fallbacks_total": "Requests that one side served because the other did not.",
    "tacit_skipped_messages_total": "Messages that could not be read, and were passed over.",
    "tacit_refused_total": "Requests without a key that fits.",
    "tacit_tokens_total": "Tokens, by side and kind.",
    "tacit_reloads_total": "Times that routers were loaded anew.",
    "tacit_disconnects_total": "Clients that left before the end.",
    "tacit_undecided_total": "Requests of sessions that lack what the router looks at.",
    "tacit_cost_total": "What was spent, by side, in the unit of the prices.",
    "tacit_outcomes_total": "Outcomes that were posted back.",
}
DURATIONS = {
    "tacit_decision_seconds": "Time to decide.",
    "tacit_first_byte_seconds": "Time to the first byte of the answer, by side.",
    "tacit_answer_seconds": "Time to the end of the answer, by side.",
}
Series = tuple[object, ...]
"""The name of what is counted, then names and values of labels in turn."""


class Metrics:
    """Counts of one process; of several, where they share a file.

    A process writes its own rows now and then; what a killed one had written stays counted.

    Parameters
    ----------
    path
        The file, if they share one.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.add("tacit_requests_total", "side", "cheap", "status", 200)
    >>> print(metrics.text(sessions=3).splitlines()[2])
    tacit_requests_total{side="cheap",status="200"} 1
    """

    def __init__(self, path: str | None = None) -> None:
        self._values: Counter[Series] = Counter()
        self._base: sqlite3.Connection | None = None
        if path is not None:
            self._base = sqlite3.connect(Path(path), timeout=5, isolation_level=None, check_same_thread=False)
            self._base.execute(
                "CREATE TABLE IF NOT EXISTS metric (worker TEXT, series TEXT, value REAL,"
                " PRIMARY KEY (worker, series)) WITHOUT ROWID"
            )
        self._worker = f"{os.getpid()}-{os.urandom(4).hex()}"
        self._written: Counter[Series] = Counter()

    def add(self, name: str, *labels: object, amount: float = 1) -> None:
        """Count."""
        self._values[name, *labels] += amount  # type: ignore[assignment]

    def took(self, name: str, seconds: float, *labels: object) -> None:
        """Put a duration into its bin."""
        place = bisect_left(SECONDS, seconds)
        end = SECONDS[place] if place < len(SECONDS) else "+Inf"
        values = self._values
        values[f"{name}_bucket", *labels, "le", end] += 1
        values[f"{name}_count", *labels] += 1
        values[f"{name}_sum", *labels] += seconds  # type: ignore[assignment]

    def text(self, sessions: int) -> str:
        """Return all that was counted."""
        values = Counter({_named(series): value for series, value in self._values.items()})
        if self._base is not None:
            self.write()
            values = Counter(dict(self._base.execute("SELECT series, sum(value) FROM metric GROUP BY series")))
        lines = []
        for name, what in COUNTERS.items():
            lines += [f"# HELP {name} {what}", f"# TYPE {name} counter"]
            found = sorted(series for series in values if series.partition("{")[0] == name)
            lines += [f"{series} {values[series]:g}" for series in found] or [f"{name} 0"]
        for name, what in DURATIONS.items():
            lines += [f"# HELP {name} {what}", f"# TYPE {name} histogram"]
            kinds = sorted(series[len(name) + 6 :] for series in values if series.startswith(f"{name}_count"))
            for labels in kinds or [""]:
                below = 0.0
                inner = labels[1:-1] + "," if labels else ""
                for end in (*SECONDS, "+Inf"):
                    series = f'{name}_bucket{{{inner}le="{end}"}}'
                    below += values[series]
                    lines.append(f"{series} {below:g}")
                lines += [f"{name}_{what}{labels} {values[f'{name}_{what}{labels}']:g}" for what in ("sum", "count")]
        lines += ["# HELP tacit_sessions Sessions that are kept.", "# TYPE tacit_sessions gauge"]
        return "\n".join([*lines, f"tacit_sessions {sessions}", ""])

    def write(self) -> None:
        """Bring the file that processes share up to date."""
        changed = [(self._worker, _named(one), n) for one, n in self._values.items() if self._written[one] != n]
        if self._base is not None and changed:
            self._base.execute("BEGIN IMMEDIATE")
            self._base.executemany("INSERT OR REPLACE INTO metric VALUES (?, ?, ?)", changed)
            self._base.execute("COMMIT")
            self._written = Counter(self._values)

    def close(self) -> None:
        """Write for the last time."""
        self.write()
        if self._base is not None:
            self._base.close()


def _named(series: Series) -> str:
    name, *labels = series
    told = ",".join(f'{key}="{value}"' for key, value in zip(labels[::2], labels[1::2], strict=True))
    return f"{name}{{{told}}}" if told else str(name)


class Storage:
    """Runs work on the store and the log in threads of its own, each piece for so many seconds at most.

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
        """Do a piece of work; raise `StoreDownError` if it takes too long, or the store does not answer."""
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
            if done and not (loop := done[0][0].get_loop()).is_closed():
                loop.call_soon_threadsafe(_tell, done)


def _tell(done: list[tuple[asyncio.Future[Any], object, bool]]) -> None:
    for future, result, good in done:
        if not future.done():
            (future.set_result if good else future.set_exception)(result)  # type: ignore[arg-type]
