"""Reading a log line by line: the totals of each session, on disk where there are many, and counts for drift."""

from __future__ import annotations

import math
import os
import sqlite3
from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from bayes_tacit.errors import FileFormatError, InvalidDataError, short
from bayes_tacit.events import LONGEST, is_cut, parse_event
from bayes_tacit.files import regular_file
from bayes_tacit.gateway.store import LOG
from bayes_tacit.router import Router
from bayes_tacit.router.files import PROBABILITIES, Ranges

MOST_IN_MEMORY = 5_000
"""Sessions that are held while their lines are read; the one that was silent longest goes to disk."""


@dataclass(slots=True)
class Record:
    """The totals of one session's lines; each attribute is a column of the table on disk."""

    scope: str
    session: str
    task: str | None = None
    # Fingerprints of who decides and of who is in shadow; None where the log does not say.
    router: str | None = None
    shadow: str | None = None
    first: float = 0.0
    last: float = 0.0
    steps: int = 0
    requests: int = 0
    handed: int = 0
    handoff_step: int | None = None
    # The last score before or at the handoff and the incidence with it, if the policy has them; why, in words.
    score: float | None = None
    pi: float | None = None
    why: str = ""
    # Turns of each side, what they cost, and what they would have cost with Strong alone.
    cheap_calls: int = 0
    strong_calls: int = 0
    cost: float = 0.0
    strong_cost: float = 0.0
    success: int | None = None
    # Where the one in shadow would have handed off; None if not as far as it could be seen.
    shadow_step: int | None = None
    # Requests with a fault of router or extractor, without something that the router needs, with an error of the
    # server, and those that the other side served.
    faults: int = 0
    missing: int = 0
    errors: int = 0
    fallbacks: int = 0
    # The last step whose diagnostics were counted.
    counted: int = -1
    # Which way to serve it was drawn.
    arm: str = "router"


BIN = 1.1
"""How much longer answers of one bin took than those of the bin before."""

NAMES = tuple(field.name for field in fields(Record))


class Records:
    """The sessions of a log, by scope and name: `most` in memory, the others in a file of its own, at `path`.

    `seconds` counts by side how many answers took so long, in bins each a tenth longer than the one before.

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
        self.seconds: dict[str, Counter[int]] = {"cheap": Counter(), "strong": Counter()}
        self._insert = f"INSERT OR REPLACE INTO record VALUES ({', '.join('?' * len(NAMES))})"

    def of(self, scope: str, session: str) -> Record:
        """Return the record of a session; change it in place before you ask for the next one."""
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
        """Query the table `record`."""
        return self._base.execute(query, values)

    def one(self, query: str, values: tuple[object, ...] = ()) -> tuple[Any, ...]:
        """Return the one row that a query has."""
        return self.rows(query, values).fetchone()

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    def _write(self, records: list[Record]) -> None:
        self._base.execute("BEGIN")
        self._base.executemany(self._insert, ([getattr(one, name) for name in NAMES] for one in records))
        self._base.execute("COMMIT")


SMALL = 0.1
"""A shift of a tenth of all values, below which nothing is called drift however many there are."""

LEVEL = 0.01
"""How often one log without drift may be said to have some."""

Kind = Literal["feature", "diagnostic"]
Verdict = Literal["alike", "higher", "lower", "both"]


class Counts:
    """Counts of values below, at and between training quantiles, one for each of `router.files.PROBABILITIES`.

    Memory does not grow with the log.

    Examples
    --------
    >>> counts = Counts((0, 1, 2, 3, 4, 5, 6))
    >>> for value in (5, 6, 7, 8):
    ...     counts.add(value)
    >>> counts.higher, counts.lower, counts.outside
    (0.75, 0.0, 0.5)
    """

    def __init__(self, quantiles: Sequence[float]) -> None:
        self.quantiles = tuple(float(value) for value in quantiles)
        self.levels = sorted(set(self.quantiles))
        # A level takes two places: below it since the last one, and exactly at it. The last place is above all.
        self._places = [0] * (2 * len(self.levels) + 1)

    def add(self, value: float) -> None:
        """Count one value."""
        level = bisect_left(self.levels, value)
        at = level < len(self.levels) and self.levels[level] == value
        self._places[2 * level + at] += 1

    @property
    def n(self) -> int:
        """How many were counted."""
        return sum(self._places)

    def share(self, level: int, *, included: bool) -> float:
        """Return the share of values up to the level of this number, with or without those at it."""
        return sum(self._places[: 2 * level + 1 + included]) / self.n if self.n else math.nan

    @property
    def higher(self) -> float:
        """By how much of all values they lie higher than in training, at least."""
        return self._apart(higher=True)

    @property
    def lower(self) -> float:
        """By how much of all values they lie lower than in training, at least."""
        return self._apart(higher=False)

    @property
    def outside(self) -> float:
        """The share that is below or above all values of training."""
        return (self._places[0] + self._places[-1]) / self.n if self.n else math.nan

    def _apart(self, *, higher: bool) -> float:
        """Compute the largest gap between both distribution functions that the quantiles prove.

        It is at most the one-sided Kolmogorov-Smirnov distance, and needs no training data: in training at least p of
        all values are up to the quantile of p, and at most p are below it.
        """
        gaps = [0.0]
        for level, value in enumerate(self.levels) if self.n else ():
            known = list(zip(PROBABILITIES, self.quantiles, strict=True))
            if higher:
                gaps.append(max(p for p, quantile in known if quantile <= value) - self.share(level, included=True))
            else:
                gaps.append(self.share(level, included=False) - min(p for p, quantile in known if quantile >= value))
        return max(gaps)


@dataclass(frozen=True)
class Drift:
    """One feature or diagnostic beside its training quantiles.

    `n` values of so many `sessions`, the `training` quantiles, and `shares` of values up to each of them. `higher` and
    `lower` are by how much of all values they lie higher or lower than in training, at least: the gap between the two
    distribution functions that the quantiles prove; `outside` the share beyond all that training had. A gap has to
    exceed `limit` to be more than chance.
    """

    kind: Kind
    name: str
    n: int
    sessions: int
    training: tuple[float, ...]
    shares: tuple[float, ...]
    higher: float
    lower: float
    outside: float
    limit: float

    @property
    def verdict(self) -> Verdict:
        """How values lie compared with training."""
        up, down = self.higher > self.limit, self.lower > self.limit
        return "both" if up and down else "higher" if up else "lower" if down else "alike"


def limit_of(sessions: int, names: int) -> float:
    """Return the gap that chance exceeds in at most one of a hundred logs (Dvoretzky, Kiefer, Wolfowitz).

    Steps of one session are alike, so that sessions count and not steps; and of several names any may exceed it.

    Examples
    --------
    >>> round(limit_of(100, 5), 3), limit_of(1_000_000, 5)
    (0.186, 0.1)
    """
    return max(SMALL, math.sqrt(math.log(2 * max(1, names) / LEVEL) / (2 * max(1, sessions))))


def drift_of(kind: Kind, name: str, counts: Counts, sessions: int, names: int) -> Drift:
    """Compare counts of values with training."""
    shares = tuple(counts.share(counts.levels.index(value), included=True) for value in counts.quantiles)
    gaps = (counts.higher, counts.lower, counts.outside, limit_of(sessions, names))
    return Drift(kind, name, counts.n, sessions, counts.quantiles, shares, *gaps)


EXPECTED = "a log of sessions, .jsonl, from bayes-tacit serve"


@dataclass(frozen=True)
class Event:
    """One line: where it stands (file and line), its event, whose and when, and the whole object."""

    where: str
    kind: str
    scope: str
    session: str
    time: float
    content: Mapping[str, Any]

    def wrong(self, field: str, expected: str) -> FileFormatError:
        """Return the error of a field that is not what it must be."""
        return FileFormatError(f"{self.where}: {field} is {short(self.content.get(field))}; expected {expected}")

    def number(self, field: str) -> float | None:
        """Return a number, None where there is none."""
        value = self.content.get(field)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self.wrong(field, "a finite number or null")
        return float(value)

    def count(self, field: str) -> int:
        """Return a whole number of at least 0."""
        value = self.content.get(field)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.wrong(field, "a whole number of at least 0")
        return value

    def flag(self, field: str) -> bool:
        """Return true or false; what is not there is false."""
        value = self.content.get(field, False)
        if not isinstance(value, bool):
            raise self.wrong(field, "true or false")
        return value

    def text(self, field: str) -> str | None:
        """Return a text, None where there is none."""
        value = self.content.get(field)
        if value is not None and not isinstance(value, str):
            raise self.wrong(field, "a text or null")
        return value

    def inner(self, field: str) -> Event | None:
        """Return an object inside this one, as an event; None where there is none."""
        value = self.content.get(field)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.wrong(field, "an object or null")
        return Event(f"{self.where}, {field}", self.kind, self.scope, self.session, self.time, value)

    def steps(self) -> Iterator[Event]:
        """Yield the steps of a decision."""
        for number, one in enumerate(self.content.get("steps") or ()):
            yield Event(f"{self.where}, steps[{number}]", self.kind, self.scope, self.session, self.time, one)

    def numbers(self, field: str) -> dict[str, float]:
        """Return an object of numbers; an empty one where there is none."""
        found = self.inner(field)
        if found is None:
            return {}
        return {name: value for name in found.content if (value := found.number(name)) is not None}


class Lines:
    """The events of a log, one at a time; `cut` counts the lines that a crash or a full disk cut short.

    It may still be written to: what is not a whole line yet is left out. Where something is no event of a session, that
    is a `FileFormatError` with file and line.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = regular_file(path, EXPECTED)
        self.cut = 0
        self.read = 0

    def __iter__(self) -> Iterator[Event]:
        with self.path.open("rb") as file:
            while line := file.readline(LONGEST):
                self.read += 1
                where = f"{self.path}, line {self.read}"
                try:
                    content = parse_event(line, where, LOG)
                except FileFormatError:
                    if not is_cut(line):
                        raise
                    self.cut += 1
                    continue
                event = Event(where, content["event"], "", "", 0.0, content)
                scope, session, time = event.text("scope"), event.text("episode"), event.number("time")
                for field, given, expected in (
                    ("scope", scope is not None, "a name"),
                    ("episode", session, "a name"),
                    ("time", time is not None, "a time"),
                ):
                    if not given:
                        raise event.wrong(field, expected)
                yield replace(event, scope=str(scope), session=str(session), time=float(time or 0.0))


ERRORS = 400
"""Status from which on an answer is an error."""


@dataclass
class Training:
    """Counts of what sessions of one router had, beside its training quantiles, by default those that it carries."""

    router: Router
    ranges: Ranges | None = None
    features: dict[str, Counts] = field(default_factory=dict)
    diagnostics: dict[str, Counts] = field(default_factory=dict)
    feature_sessions: int = 0
    diagnostic_sessions: int = 0

    def __post_init__(self) -> None:
        ranges = self.router.ranges if self.ranges is None else self.ranges
        if ranges is None:
            expected = (
                "a router with the quantiles of its training data, as recommend writes it, or the training episodes"
            )
            raise InvalidDataError(expected, field="ranges of the router", value=None)
        self.features = {name: Counts(levels) for name, levels in ranges.features.items()}
        self.diagnostics = {name: Counts(levels) for name, levels in ranges.diagnostics.items()}
        self.fingerprint = self.router.fingerprint

    def add(self, kind: Kind, values: Mapping[str, float]) -> None:
        """Count the values of one session or step."""
        counts = self.features if kind == "feature" else self.diagnostics
        for name, value in values.items():
            if name in counts:
                counts[name].add(value)

    def drifts(self) -> list[Drift]:
        """Compare each with training."""
        names = len(self.features) + len(self.diagnostics)
        features = [drift_of("feature", *one, self.feature_sessions, names) for one in self.features.items()]
        return features + [
            drift_of("diagnostic", *one, self.diagnostic_sessions, names) for one in self.diagnostics.items()
        ]


def read_into(records: Records, lines: Lines, training: Training | None) -> dict[str, str]:
    """Read all lines, and return the routers among them, by fingerprint, in words."""
    routers: dict[str, str] = {}
    for event in lines:
        record = records.of(event.scope, event.session)
        record.first = min(record.first, event.time) if record.last else event.time
        record.last = max(record.last, event.time)
        if event.kind == "start":
            _began(record, event, routers, training)
        elif event.kind == "step":
            _decided(record, event, training)
        elif event.kind == "reply":
            _replied(record, event)
            seconds = event.number("seconds")
            if seconds is not None and seconds > 0 and event.count("status") < ERRORS:
                records.seconds[str(event.text("side"))][round(math.log(seconds, BIN))] += 1
        elif event.kind == "outcome":
            _ended(record, event)
        elif event.flag("new_handoff"):
            record.handed = 1
            closing = event.inner("closing")
            if closing is not None:
                _scored(record, closing)
    records.flush()
    return routers


def _began(record: Record, event: Event, routers: dict[str, str], training: Training | None) -> None:
    record.task, record.arm = event.text("task"), event.text("arm") or "router"
    for name in ("router", "shadow"):
        settings = event.inner(name)
        fingerprint = None if settings is None else settings.text("router")
        setattr(record, name, fingerprint)
        if settings is not None and fingerprint is not None and fingerprint not in routers:
            shown = {key: settings.content.get(key) for key in ("policy", "alpha", "rule", "handoff")}
            words = ", ".join(f"{key} {value}" for key, value in shown.items() if value is not None)
            routers[fingerprint] = words if name == "router" else f"{words}, in shadow"
    if training is not None and record.router == training.fingerprint:
        features = event.numbers("features")
        training.add("feature", features)
        training.feature_sessions += bool(features.keys() & training.features.keys())


def _decided(record: Record, event: Event, training: Training | None) -> None:
    step = event.count("step")
    latched, new = event.flag("latched"), event.flag("new_handoff")
    record.requests += 1
    record.steps = max(record.steps, step)
    record.faults += event.text("fault") is not None
    record.missing += bool(event.content.get("missing"))
    decision, shadow = event.inner("decision"), event.inner("shadow")
    if decision is not None and not (latched and not new):
        _scored(record, decision)
    if new or not latched:
        record.why = event.text("why") or ""
    record.handed = int(record.handed or latched)
    if shadow is not None and record.shadow_step is None and shadow.content.get("handoff_step") is not None:
        record.shadow_step = int(shadow.number("handoff_step") or 0)
    if training is None or record.router != training.fingerprint or (latched and not new):
        return
    for inner in event.steps():
        if inner.count("step") > record.counted and inner.text("side") != "strong":
            values = inner.numbers("diagnostics")
            training.add("diagnostic", values)
            training.diagnostic_sessions += record.counted < 0 and bool(values)
            record.counted = inner.count("step")


def _scored(record: Record, decision: Event) -> None:
    record.score, record.pi = decision.number("score"), decision.number("pi")
    if decision.content.get("handoff_step") is not None:
        record.handoff_step = int(decision.number("handoff_step") or 0)


def _replied(record: Record, event: Event) -> None:
    side = event.text("side")
    if side not in ("cheap", "strong"):
        raise event.wrong("side", "'cheap' or 'strong'")
    failed = event.count("status") >= ERRORS
    record.errors += failed
    record.fallbacks += not failed and event.text("fault") is not None
    # What was cut short was paid for as well.
    record.cost += event.number("cost") or 0.0
    record.strong_cost += event.number("strong_cost") or 0.0
    record.strong_calls += not failed and side == "strong"
    record.cheap_calls += not failed and side == "cheap"


def _ended(record: Record, event: Event) -> None:
    if event.content.get("success") is not None:
        record.success = int(event.flag("success"))
    record.task = event.text("task") or record.task
