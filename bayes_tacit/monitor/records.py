"""Sessions of a log on disk, a few of them in memory: so that memory stays the same however many there are."""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

MOST_IN_MEMORY = 5_000
"""Sessions that are held while their lines are read; the one that was silent longest goes to disk."""


@dataclass(slots=True)
class Record:
    """What the lines of one session say together.

    Attributes
    ----------
    scope, session
        Which one.
    task
        Its task, by name or digest.
    router, shadow
        Fingerprints of who decides and of who is in shadow; None where the log does not say.
    first, last
        When it began, and when it was heard of last.
    steps, requests
        How many steps it has had, and how many requests were decided.
    handed
        Whether it was handed off.
    handoff_step
        At which checkpoint; None if the log does not say.
    score, pi
        The last score before or at the handoff, and the incidence with it, if the policy has them.
    why
        Why, in words: that of the handoff, or the last one.
    cheap_calls, strong_calls
        How many turns each side made.
    cost, strong_cost
        What was spent, and what it would have been with Strong alone.
    success
        1, 0, or None if it is not known.
    shadow_step
        Where the one in shadow would have handed off; None if not as far as it could be seen.
    faults, missing, errors, fallbacks
        Requests with a fault of router or extractor, without something that the router needs, with an error of the
        server, and those that the other side served.
    counted
        The last step whose diagnostics were counted.
    by_strong
        The last step that Strong made.
    """

    scope: str
    session: str
    task: str | None = None
    router: str | None = None
    shadow: str | None = None
    first: float = 0.0
    last: float = 0.0
    steps: int = 0
    requests: int = 0
    handed: int = 0
    handoff_step: int | None = None
    score: float | None = None
    pi: float | None = None
    why: str = ""
    cheap_calls: int = 0
    strong_calls: int = 0
    cost: float = 0.0
    strong_cost: float = 0.0
    success: int | None = None
    shadow_step: int | None = None
    faults: int = 0
    missing: int = 0
    errors: int = 0
    fallbacks: int = 0
    counted: int = -1
    by_strong: int = -1


NAMES = tuple(field.name for field in fields(Record))


class Records:
    """The sessions of a log, by scope and name.

    Parameters
    ----------
    path
        A file of its own for those that are not in memory; thrown away by whoever made it.
    most
        How many are held in memory.

    Examples
    --------
    >>> import tempfile
    >>> records = Records(Path(tempfile.mkdtemp()) / "sessions.sqlite", most=1)
    >>> for name in ("a", "b", "a"):
    ...     records.of("", name).requests += 1
    >>> records.flush()
    >>> records.rows("SELECT session, requests FROM record ORDER BY session").fetchall()
    [('a', 2), ('b', 1)]
    """

    def __init__(self, path: Path, most: int = MOST_IN_MEMORY) -> None:
        self._most = most
        self._held: OrderedDict[tuple[str, str], Record] = OrderedDict()
        self._base = sqlite3.connect(path, isolation_level=None)
        for setting in ("journal_mode = OFF", "synchronous = OFF", "temp_store = FILE", "cache_size = -32000"):
            self._base.execute(f"PRAGMA {setting}")
        self._base.execute(f"CREATE TABLE record ({', '.join(NAMES)}, PRIMARY KEY (scope, session)) WITHOUT ROWID")
        self._insert = f"INSERT OR REPLACE INTO record VALUES ({', '.join('?' * len(NAMES))})"

    def of(self, scope: str, session: str) -> Record:
        """Give the record of a session, to be changed in place before the next one is asked for."""
        key = scope, session
        held = self._held.get(key)
        if held is not None:
            self._held.move_to_end(key)
            return held
        if len(self._held) >= self._most:
            # A tenth at a time: one transaction for many.
            self._write([self._held.popitem(last=False)[1] for _ in range(max(1, self._most // 10))])
        row = self._base.execute("SELECT * FROM record WHERE scope = ? AND session = ?", key).fetchone()
        record = Record(scope, session) if row is None else Record(*row)
        self._held[key] = record
        return record

    def flush(self) -> None:
        """Put all of them on disk, so that `rows` sees them."""
        self._write(list(self._held.values()))
        self._held.clear()

    def rows(self, query: str, values: tuple[object, ...] = ()) -> sqlite3.Cursor:
        """Ask the table `record`, which has a column for each attribute of `Record`."""
        return self._base.execute(query, values)

    def select(self, query: str) -> Iterator[Record]:
        """Give records, one at a time; the query follows the table's name."""
        for row in self._base.execute(f"SELECT * FROM record {query}"):
            yield Record(*row)

    def one(self, query: str, values: tuple[object, ...] = ()) -> tuple[Any, ...]:
        """Give the one row that a query has."""
        row: tuple[Any, ...] = self._base.execute(query, values).fetchone()
        return row

    def close(self) -> None:
        """Let the file go."""
        self._base.close()

    def _write(self, records: list[Record]) -> None:
        self._base.execute("BEGIN")
        self._base.executemany(self._insert, ([getattr(one, name) for name in NAMES] for one in records))
        self._base.execute("COMMIT")
