"""Where sessions are kept, in memory, a file that processes share, or a data base that hosts share; and their log.

A store is five verbs. What makes it safe is one of them: `put` writes a session only if it still is what was read, so
that of two hosts that change it at once, the second reads it anew, and no handoff is ever lost.
"""

from __future__ import annotations

import math
import os
import sqlite3
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from bayes_tacit import validate
from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingDependencyError, MissingFileError, TacitError
from bayes_tacit.events import EventLog, LogFormat
from bayes_tacit.gateway.session_state import SessionState

IDLE = 24 * 3600.0
"""Seconds without a request after which a session is forgotten."""

MOST = 100_000
"""Sessions that are kept of one API key; beyond, those of this key that were idle longest are forgotten."""

PATIENCE = 1.0
"""Seconds that a store may take to answer."""

RECENT = 60.0
"""Seconds after which it is written anew when a session was seen."""

BETWEEN = 512
"""Sessions that are written between two looks for some to forget."""

Clock = Callable[[], float]


class StoreDownError(TacitError):
    """The store of sessions does not answer, or is locked or full."""


class Store(Protocol):
    """What keeps sessions, by the scope of an API key and a name.

    Attributes
    ----------
    remote
        Whether it takes time to read a session, so that a process does well to remember it.
    """

    remote: bool

    def get(self, scope: str, session: str) -> tuple[int, SessionState] | None:
        """Return how often a session was written, and what is kept of it; None if nothing is."""

    def put(self, scope: str, session: str, kept: SessionState, version: int) -> bool:
        """Write a session if it was written `version` times so far, and return whether it was."""

    def offer(self, scope: str, mark: str, session: str) -> None:
        """Say by which mark a later request of a session without a name will be known."""

    def claim(self, scope: str, mark: str, *, take: bool) -> str | None:
        """Return the session that waits longest for a mark and take it off; or, without taking, the latest."""

    def count(self) -> int:
        """Count the sessions."""

    def close(self) -> None:
        """Let go of what is held open."""


def open_store(place: str | None, most: int = MOST, idle: float = IDLE, patience: float = PATIENCE) -> Store:
    """Open the store at a place: None for memory, redis://..., postgresql://..., or the path of an SQLite file.

    Examples
    --------
    >>> type(open_store(None)).__name__
    'MemoryStore'
    """
    if place is None:
        return MemoryStore(most, idle)
    scheme = urlsplit(place).scheme
    if scheme in ("redis", "rediss", "unix"):
        return RedisStore(place, most, idle, patience)
    if scheme in ("postgresql", "postgres"):
        return SQLStore(_postgres(place, patience), "%s", most, idle, table="tacit_session")
    if "://" in place:
        expected = "the path of a file, redis://... or postgresql://..."
        raise InvalidDataError(expected, field="state", value=f"{scheme}://...")
    return FileStore(Path(place), most, idle, patience=patience)


class MemoryStore:
    """Sessions of one process, for as long as it runs: the `most` latest of each key, for so many `idle` seconds.

    Examples
    --------
    >>> store = MemoryStore(most=2)
    >>> [store.put("key", name, SessionState(handoff_step=3), 0) for name in ("a", "b", "c", "c")]
    [True, True, True, False]
    >>> store.count(), store.get("key", "a"), store.get("key", "c")[1].latched
    (2, None, True)
    """

    remote = False

    def __init__(self, most: int = MOST, idle: float = IDLE, clock: Clock = time.time) -> None:
        self._most, self._idle, self._clock = validate.whole("sessions", most, 1), idle, clock
        self._scopes: dict[str, OrderedDict[str, tuple[float, int, SessionState]]] = {}
        self._marks: OrderedDict[tuple[str, str], deque[str]] = OrderedDict()
        self._lock = threading.RLock()

    def get(self, scope: str, session: str) -> tuple[int, SessionState] | None:
        """Return what is kept of a session."""
        with self._lock:
            found = self._scopes.get(scope, OrderedDict()).get(session)
            return None if found is None or found[0] <= self._clock() - self._idle else found[1:]

    def put(self, scope: str, session: str, kept: SessionState, version: int) -> bool:
        """Write a session if it was written so many times."""
        with self._lock:
            found = self.get(scope, session)
            if (0 if found is None else found[0]) != version:
                return False
            now, own = self._clock(), self._scopes.setdefault(scope, OrderedDict())
            own[session] = (now, version + 1, kept)
            own.move_to_end(session)
            while len(own) > self._most or next(iter(own.values()))[0] <= now - self._idle:
                own.popitem(last=False)
            return True

    def offer(self, scope: str, mark: str, session: str) -> None:
        """Say by which mark a later request will be known."""
        with self._lock:
            self._marks.setdefault((scope, mark), deque()).append(session)
            self._marks.move_to_end((scope, mark))
            if len(self._marks) > 4 * self._most:
                self._marks.popitem(last=False)

    def claim(self, scope: str, mark: str, *, take: bool) -> str | None:
        """Return a session that waits for a mark."""
        with self._lock:
            waiting = self._marks.get((scope, mark))
            if not waiting:
                return None
            return waiting.popleft() if take else waiting[-1]

    def count(self) -> int:
        """Count the sessions."""
        return sum(map(len, self._scopes.values()))

    def close(self) -> None:
        """Forget everything."""
        self._scopes.clear()
        self._marks.clear()


class SQLStore:
    """Sessions in a data base, of which each thread has a connection of its own.

    `connect` opens one that commits each statement, `sign` is how a statement marks a value ("?" or "%s"); `most`,
    `idle` and `clock` are as for `MemoryStore`. The table of marks is called after that of sessions.
    """

    remote = True

    def __init__(
        self,
        connect: Callable[[], Any],
        sign: str = "?",
        most: int = MOST,
        idle: float = IDLE,
        clock: Clock = time.time,
        table: str = "session",
    ) -> None:
        self._most, self._idle, self._clock = validate.whole("sessions", most, 1), idle, clock
        self._connect, self._sign, self._table = connect, sign, table
        self._held = threading.local()
        self._open: list[Any] = []
        self._written = 0
        number, self._skip, self._all = "INTEGER", "", "LIMIT -1"
        if sign == "%s":
            number, self._skip, self._all = "BIGSERIAL", " FOR UPDATE SKIP LOCKED", ""
        self._run(
            "CREATE TABLE IF NOT EXISTS {t} (scope TEXT, session TEXT, version BIGINT, seen DOUBLE PRECISION,"
            " kept TEXT, PRIMARY KEY (scope, session))"
        )
        self._run("CREATE INDEX IF NOT EXISTS {t}_by_time ON {t} (scope, seen)")
        self._run(
            f"CREATE TABLE IF NOT EXISTS {{t}}_mark (id {number} PRIMARY KEY, scope TEXT, mark TEXT, session TEXT,"
            " seen DOUBLE PRECISION)"
        )
        self._run("CREATE INDEX IF NOT EXISTS {t}_mark_by_mark ON {t}_mark (scope, mark, id)")

    def get(self, scope: str, session: str) -> tuple[int, SessionState] | None:
        """Return what is kept of a session."""
        query = "SELECT version, kept FROM {t} WHERE scope = ? AND session = ? AND seen > ?"
        row = self._run(query, scope, session, self._clock() - self._idle)[1]
        return None if row is None else (int(row[0]), SessionState.from_json(row[1]))

    def put(self, scope: str, session: str, kept: SessionState, version: int) -> bool:
        """Write a session if it was written so many times."""
        now, text = self._clock(), kept.to_json()
        self._written += 1
        if self._written % BETWEEN == 1:
            self._forget(scope, now)
        # The index by time is changed no more often than it has to be.
        recent = abs(now - kept.live.get(self._table, -math.inf)) < min(RECENT, self._idle / 1000)
        if not recent:
            kept.live[self._table] = now
        if version:
            query = f"UPDATE {{t}} SET version = version + 1, {'' if recent else 'seen = ?, '}kept = ?"
            values = (text,) if recent else (now, text)
            where = "WHERE scope = ? AND session = ? AND version = ?"
            return self._run(f"{query} {where}", *values, scope, session, version)[0] == 1
        query = "INSERT INTO {t} VALUES (?, ?, 1, ?, ?) ON CONFLICT (scope, session) DO UPDATE"
        change = "SET version = 1, seen = excluded.seen, kept = excluded.kept WHERE {t}.seen <= ?"
        return self._run(f"{query} {change}", scope, session, now, text, now - self._idle)[0] == 1

    def offer(self, scope: str, mark: str, session: str) -> None:
        """Say by which mark a later request will be known."""
        query = "INSERT INTO {t}_mark (scope, mark, session, seen) VALUES (?, ?, ?, ?)"
        self._run(query, scope, mark, session, self._clock())

    def claim(self, scope: str, mark: str, *, take: bool) -> str | None:
        """Return a session that waits for a mark."""
        found = "FROM {t}_mark WHERE scope = ? AND mark = ?"
        if take:
            query = f"DELETE FROM {{t}}_mark WHERE id = (SELECT id {found} ORDER BY id LIMIT 1{self._skip})"
            row = self._run(f"{query} RETURNING session", scope, mark)[1]
        else:
            row = self._run(f"SELECT session {found} ORDER BY id DESC LIMIT 1", scope, mark)[1]
        return None if row is None else str(row[0])

    def count(self) -> int:
        """Count the sessions."""
        return int(self._run("SELECT count(*) FROM {t}")[1][0])

    def close(self) -> None:
        """Close all connections."""
        while self._open:
            with suppress(Exception):
                self._open.pop().close()

    def _forget(self, scope: str, now: float) -> None:
        self._run("DELETE FROM {t} WHERE seen <= ?", now - self._idle)
        self._run("DELETE FROM {t}_mark WHERE seen <= ?", now - self._idle)
        over = f"SELECT session FROM {{t}} WHERE scope = ? ORDER BY seen DESC {self._all} OFFSET ?"
        self._run(f"DELETE FROM {{t}} WHERE scope = ? AND session IN ({over})", scope, scope, self._most)

    def _run(self, query: str, *values: object) -> tuple[int, Any]:
        """Run a statement; return how many rows it changed, and its first row."""
        statement = query.replace("{t}", self._table).replace("?", self._sign)
        try:
            if getattr(self._held, "connection", None) is None:
                self._held.connection = self._connect()
                self._open.append(self._held.connection)
            cursor = self._held.connection.execute(statement, values)
            row = cursor.fetchone() if cursor.description else None
            return cursor.rowcount, row
        except Exception as error:
            self._let_go()
            raise StoreDownError(f"{type(error).__name__}: {' '.join(str(error).split())[:120]}") from error

    def _let_go(self) -> None:
        """Close a connection after an error: the next statement opens another."""
        connection, self._held.connection = getattr(self._held, "connection", None), None
        if connection is not None:
            with suppress(Exception):
                connection.close()
            with suppress(ValueError):
                self._open.remove(connection)


class FileStore(SQLStore):
    """Sessions in an SQLite file (WAL): of several processes, and after a restart still there.

    What a request changes is in the file before it is served: a process that is killed between two requests loses
    nothing. `most`, `idle` and `clock` are as for `MemoryStore`; for another process that writes, it waits for
    `patience` seconds at most.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "sessions.sqlite"
    >>> one, other = FileStore(path), FileStore(path)
    >>> one.put("", "a", SessionState(handoff_step=3), 0), other.put("", "a", SessionState(), 0)
    (True, False)
    >>> other.get("", "a")[1].handoff_step
    3
    """

    def __init__(
        self, path: Path, most: int = MOST, idle: float = IDLE, clock: Clock = time.time, patience: float = PATIENCE
    ) -> None:
        if not path.absolute().parent.is_dir():
            raise MissingFileError(f"{path.parent}: no such folder; expected the folder in which to keep sessions")
        self.path = path
        self._hurried: int | None = None

        def connect() -> sqlite3.Connection:
            hurried = threading.get_ident() == self._hurried
            wait = 0.0 if hurried else patience
            base = sqlite3.connect(path, timeout=wait, isolation_level=None, check_same_thread=False)
            base.execute("PRAGMA journal_mode=WAL")
            base.execute("PRAGMA synchronous=NORMAL")
            if hurried:
                base.execute("PRAGMA wal_autocheckpoint=0")
            return base

        try:
            super().__init__(connect, "?", most, idle, clock)
        except StoreDownError as error:
            if isinstance(error.__cause__, sqlite3.OperationalError):
                raise
            raise FileFormatError(f"{path}: {error}; expected sessions in an SQLite file, or no such file") from None

    def hurry(self) -> None:
        """Never wait in this thread, neither for another process nor for the disk; others have to call `settle`."""
        self._hurried = threading.get_ident()
        self._let_go()

    def settle(self) -> None:
        """Bring what was written into the file proper, which takes as long as the disk does."""
        self._run("PRAGMA wal_checkpoint(PASSIVE)")


def _postgres(place: str, patience: float) -> Callable[[], Any]:
    try:
        import psycopg
    except ModuleNotFoundError:
        raise MissingDependencyError("sessions in PostgreSQL need bayes_tacit[postgres]") from None
    limits = f"-c statement_timeout={round(1000 * patience)} -c lock_timeout={round(1000 * patience)}"
    wait = max(1, round(patience))
    return lambda: psycopg.connect(place, autocommit=True, connect_timeout=wait, options=limits)


_PUT = """
local version = tonumber(redis.call('HGET', KEYS[1], 'version') or '0')
if version ~= tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'version', version + 1, 'kept', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[6])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', ARGV[3] - ARGV[4] / 1000)
redis.call('PEXPIRE', KEYS[2], ARGV[4])
for _ = 1, redis.call('ZCARD', KEYS[2]) - tonumber(ARGV[5]) do
  redis.call('DEL', ARGV[7] .. redis.call('ZPOPMIN', KEYS[2])[1])
end
return 1
"""


class RedisStore:
    """Sessions in Redis, which several hosts share; they are as safe as its file is (`appendonly yes`).

    `place` is its address, such as redis://host:6379/0, or the path of its socket, unix:///path; a `client` speaks to
    it in place of one made from the address. The others are as for `FileStore`.
    """

    remote = True

    def __init__(
        self,
        place: str,
        most: int = MOST,
        idle: float = IDLE,
        patience: float = PATIENCE,
        clock: Clock = time.time,
        client: Any = None,  # noqa: ANN401
    ) -> None:
        try:
            import redis
        except ModuleNotFoundError:
            raise MissingDependencyError("sessions in Redis need bayes_tacit[redis]") from None
        self._most, self._idle, self._clock = validate.whole("sessions", most, 1), idle, clock
        self._error = (redis.RedisError, OSError)
        self._client = client or redis.Redis.from_url(
            place, socket_timeout=patience, socket_connect_timeout=patience, decode_responses=True
        )
        self._put = self._client.register_script(_PUT)
        self._ask(self._client.ping)

    def get(self, scope: str, session: str) -> tuple[int, SessionState] | None:
        """Return what is kept of a session."""
        version, text = self._ask(self._client.hmget, f"tacit:{{{scope}}}:s:{session}", "version", "kept")
        return None if text is None else (int(version), SessionState.from_json(text))

    def put(self, scope: str, session: str, kept: SessionState, version: int) -> bool:
        """Write a session if it was written so many times."""
        prefix = f"tacit:{{{scope}}}:s:"
        keys = [f"{prefix}{session}", f"tacit:{{{scope}}}:seen"]
        values: Sequence[object] = (version, kept.to_json(), self._clock(), round(1000 * self._idle))
        return bool(self._ask(self._put, keys, [*values, self._most, session, prefix]))

    def offer(self, scope: str, mark: str, session: str) -> None:
        """Say by which mark a later request will be known."""
        key = f"tacit:{{{scope}}}:m:{mark}"
        asked = self._client.pipeline(transaction=False)
        asked.rpush(key, session)
        asked.pexpire(key, round(1000 * self._idle))
        self._ask(asked.execute)

    def claim(self, scope: str, mark: str, *, take: bool) -> str | None:
        """Return a session that waits for a mark."""
        key = f"tacit:{{{scope}}}:m:{mark}"
        found = self._ask(self._client.lpop, key) if take else self._ask(self._client.lindex, key, -1)
        return found.decode() if isinstance(found, bytes) else found  # whoever gave the client chose

    def count(self) -> int:
        """Count the sessions."""
        keys = self._ask(lambda: list(self._client.scan_iter("tacit:{*}:seen", count=1000)))
        return sum(int(self._ask(self._client.zcard, key)) for key in keys)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _ask(self, ask: Callable[..., Any], *values: Any) -> Any:  # noqa: ANN401
        try:
            return ask(*values)
        except self._error as error:
            raise StoreDownError(f"{type(error).__name__}: {' '.join(str(error).split())[:120]}") from error


EVENTS = ("start", "step", "reply", "outcome", "end")
LOG = LogFormat("bayes_tacit.gateway", "a log of sessions", EVENTS, first=EVENTS)


class SessionLog:
    r"""Appends what happens in sessions to a log of events; nothing of what was said is in it, and no key.

    Every line has `event`, `episode` (the session), `time` (seconds since 1970) and `scope` (a digest of the API key).
    Any number of processes can share the file.

    =========  =========================================================================================================
    event      what the line holds besides
    =========  =========================================================================================================
    start      the first request: source of the id, task (its name, or a digest of how the conversation begins),
               features; router, shadow and canary (fingerprint, policy, alpha, rule, timing, handoff; null without
               one), handoff; arm (the way to serve that was drawn) and arms (the probability of each)
    step       a decision, as an `Assignment` and two `Decision` say it; router (the fingerprint of the one that
               decided), steps (those that are shown for the first time: step, call and side that made it, diagnostics),
               about (task and features where they are others than at the start)
    reply      what came of it: call, side (who did serve), status, model, finish_reason, usage, nll (sum and tokens),
               cost, strong_cost (the same with Strong alone), seconds, fault
    outcome    success, score, task: what was posted back
    end        closing: what a policy says that judges the whole episode
    =========  =========================================================================================================

    Parameters
    ----------
    path
        The file; made if it does not exist, for this user alone.
    clock
        Returns the time.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "gateway.jsonl"
    >>> SessionLog(path, clock=lambda: 0.0).append("d1", "task-1", [("outcome", {"success": True})])
    >>> path.read_text()
    '{"event": "outcome", "episode": "task-1", "time": 0.0, "scope": "d1", "success": true}\n'
    """

    def __init__(self, path: str | os.PathLike[str], clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._events = EventLog(path, LOG, shared=True, mode=0o600)
        self._held: list[tuple[str, str, dict[str, object]]] = []
        self._lock = threading.Lock()
        self.path = self._events.path

    def append(
        self, scope: str, session: str, lines: Sequence[tuple[str, Mapping[str, object]]], *, hold: bool = False
    ) -> None:
        """Write lines of one session, each an event and what it holds, or hold them back for the next `flush`.

        Raises
        ------
        OSError
            If there is no room for them.
        """
        named = {"time": self._clock(), "scope": scope}
        with self._lock:
            self._held += [(event, session, {**named, **content}) for event, content in lines]
        if not hold:
            self.flush()

    @property
    def held(self) -> int:
        """How many lines are held back."""
        return len(self._held)

    def flush(self) -> None:
        """Write all lines that were held back, at once; where there is no room for them, they are lost."""
        with self._lock:
            lines, self._held = self._held, []
            if not lines:
                return
            try:
                self._events.extend(lines)
            except ValueError:  # NaN and infinity, which JSON does not have
                self._events.extend((event, session, _finite(content)) for event, session, content in lines)

    def close(self) -> None:
        """Write what was held back, and close the file."""
        with suppress(OSError):
            self.flush()
        self._events.close()


def _finite(value: Any) -> Any:  # noqa: ANN401
    """Return a value as JSON has it: NaN and infinity are null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return value
