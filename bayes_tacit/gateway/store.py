"""Where sessions are kept: in memory, or in a file that several processes share and that outlives them."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

from bayes_tacit import validate
from bayes_tacit.errors import FileFormatError, MissingFileError
from bayes_tacit.gateway.kept import Kept

IDLE = 24 * 3600.0
"""Seconds without a request after which a session is forgotten."""

MOST = 100_000
"""Sessions that are kept at a time; beyond, those that were idle longest are forgotten."""

BETWEEN = 512
"""Openings between two looks for sessions to forget in a file."""

LIVE = 2_048
"""States of routers that a process keeps beside a file, so as not to compute them anew."""

Clock = Callable[[], float]


class Store(Protocol):
    """What keeps sessions. A session is opened by one request at a time."""

    def opened(self, scope: str, session: str) -> AbstractContextManager[Kept]:
        """Give what is kept of a session, a new one if nothing is; what it is after the block is kept."""
        ...

    def found(self, scope: str, session: str) -> Kept | None:
        """Give what is kept of a session, to be read only."""
        ...

    def beginning(self, scope: str, start: str) -> list[tuple[str, Kept]]:
        """Give the sessions whose ids begin so, to be read only, the latest first, at most a hundred."""
        ...

    def count(self) -> int:
        """Count the sessions."""
        ...

    def close(self) -> None:
        """Let go of what is held open."""
        ...


class MemoryStore:
    """Sessions of one process, for as long as it runs.

    Parameters
    ----------
    most, idle
        How many sessions are kept, and for how many idle seconds.
    clock
        Gives the time.

    Examples
    --------
    >>> store = MemoryStore(most=2)
    >>> for name in ("a", "b", "c"):
    ...     with store.opened("", name) as kept:
    ...         kept.handoff_step = 3
    >>> store.count(), store.found("", "a"), store.found("", "c").latched
    (2, None, True)
    """

    def __init__(self, most: int = MOST, idle: float = IDLE, clock: Clock = time.time) -> None:
        self._most, self._idle, self._clock = validate.whole("sessions", most, 1), idle, clock
        self._kept: OrderedDict[tuple[str, str], tuple[float, Kept]] = OrderedDict()
        self._starts: dict[tuple[str, str], list[str]] = {}
        self._lock = threading.RLock()

    @contextmanager
    def opened(self, scope: str, session: str) -> Iterator[Kept]:
        """Give what is kept of a session; after an error in the block, all of what was done to it stands."""
        with self._lock:
            self._forget()
            _, kept = self._kept.pop((scope, session), (0.0, None))
            if kept is None:
                kept = Kept()
                self._starts.setdefault((scope, _start(session)), []).append(session)
            self._kept[scope, session] = (self._clock(), kept)
            self._forget()
            yield kept

    def found(self, scope: str, session: str) -> Kept | None:
        """Give what is kept of a session."""
        with self._lock:
            self._forget()
            return self._kept.get((scope, session), (0.0, None))[1]

    def beginning(self, scope: str, start: str) -> list[tuple[str, Kept]]:
        """Give the sessions whose ids begin so."""
        with self._lock:
            self._forget()
            names = self._starts.get((scope, start), [])[-100:]
            return [(name, self._kept[scope, name][1]) for name in reversed(names)]

    def count(self) -> int:
        """Count the sessions."""
        return len(self._kept)

    def close(self) -> None:
        """Forget everything."""
        self._kept.clear()
        self._starts.clear()

    def _forget(self) -> None:
        oldest = self._clock() - self._idle
        while self._kept:
            (scope, session), (seen, _) = next(iter(self._kept.items()))
            if seen > oldest and len(self._kept) <= self._most:
                return
            del self._kept[scope, session]
            names = self._starts[scope, _start(session)]
            names.remove(session)
            if not names:
                del self._starts[scope, _start(session)]


class FileStore:
    """Sessions in an SQLite file (WAL): of several processes, and after a restart still there.

    What a request changes is in the file before it is served: a process that is killed between two requests loses
    nothing.

    Parameters
    ----------
    path
        The file; made if it does not exist. It belongs on a local disk.
    most, idle, clock
        As for `MemoryStore`.
    patience
        Seconds to wait for another process that writes.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "sessions.sqlite"
    >>> one, other = FileStore(path), FileStore(path)
    >>> with one.opened("", "a") as kept:
    ...     kept.handoff_step = 3
    >>> other.found("", "a").handoff_step
    3
    """

    def __init__(
        self, path: Path, most: int = MOST, idle: float = IDLE, clock: Clock = time.time, patience: float = 10.0
    ) -> None:
        if not path.absolute().parent.is_dir():
            raise MissingFileError(f"{path.parent}: no such folder; expected the folder in which to keep sessions")
        self.path = path
        self._most, self._idle, self._clock = validate.whole("sessions", most, 1), idle, clock
        self._lock = threading.RLock()
        self._live: OrderedDict[tuple[str, str], dict[str, Any]] = OrderedDict()
        self._opened = 0
        try:
            self._base = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
            self._base.execute("PRAGMA journal_mode=WAL")
            self._base.execute("PRAGMA synchronous=NORMAL")
            self._base.execute(
                "CREATE TABLE IF NOT EXISTS session (scope TEXT, session TEXT, seen REAL, kept TEXT,"
                " PRIMARY KEY (scope, session)) WITHOUT ROWID"
            )
            self._base.execute("CREATE INDEX IF NOT EXISTS by_time ON session (seen)")
        except sqlite3.DatabaseError as error:
            raise FileFormatError(f"{path}: {error}; expected sessions in an SQLite file, or no such file") from None

    @contextmanager
    def opened(self, scope: str, session: str) -> Iterator[Kept]:
        """Give what is kept of a session, while no other process can; after an error in the block nothing is."""
        with self._lock:
            self._base.execute("BEGIN IMMEDIATE")
            try:
                self._forget_some()
                kept = self._read(scope, session) or Kept()
                kept.live = self._live.pop((scope, session), {})
                yield kept
                self._base.execute(
                    "INSERT OR REPLACE INTO session VALUES (?, ?, ?, ?)",
                    (scope, session, self._clock(), kept.to_json()),
                )
            except BaseException:
                self._base.execute("ROLLBACK")
                raise
            self._base.execute("COMMIT")
            self._live[scope, session] = kept.live
            if len(self._live) > LIVE:
                self._live.popitem(last=False)

    def found(self, scope: str, session: str) -> Kept | None:
        """Give what is kept of a session."""
        with self._lock:
            return self._read(scope, session)

    def beginning(self, scope: str, start: str) -> list[tuple[str, Kept]]:
        """Give the sessions whose ids begin so."""
        with self._lock:
            rows = self._base.execute(
                "SELECT session, kept FROM session WHERE scope = ? AND session >= ? AND session < ? AND seen > ?"
                " ORDER BY seen DESC LIMIT 100",
                (scope, f"{start}-", f"{start}.", self._clock() - self._idle),
            ).fetchall()
        return [(name, Kept.from_json(text)) for name, text in rows]

    def count(self) -> int:
        """Count the sessions."""
        with self._lock:
            return int(self._base.execute("SELECT count(*) FROM session").fetchone()[0])

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._base.close()

    def _read(self, scope: str, session: str) -> Kept | None:
        oldest = self._clock() - self._idle
        row = self._base.execute(
            "SELECT kept FROM session WHERE scope = ? AND session = ? AND seen > ?", (scope, session, oldest)
        ).fetchone()
        return None if row is None else Kept.from_json(row[0])

    def _forget_some(self) -> None:
        self._opened += 1
        if self._opened % BETWEEN != 1:
            return
        self._base.execute("DELETE FROM session WHERE seen <= ?", (self._clock() - self._idle,))
        over = self.count() - self._most
        if over > 0:
            self._base.execute(
                "DELETE FROM session WHERE (scope, session) IN"
                " (SELECT scope, session FROM session ORDER BY seen LIMIT ?)",
                (over,),
            )


def _start(session: str) -> str:
    return session.rpartition("-")[0]
