"""Reading a log of sessions line by line, and saying where it is not one."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bayes_tacit.errors import FileFormatError
from bayes_tacit.files import parse_json, regular_file
from bayes_tacit.gateway.log import FORMAT, SCHEMA_VERSION

EVENTS = ("session", "step", "reply", "outcome", "finish")
EXPECTED = "a log of sessions, .jsonl, from bayes-tacit serve"
BEGINNING = b'{"event":'
LONGEST = 2**24
"""Bytes of a line: far more than an event has."""


@dataclass(frozen=True)
class Event:
    """One line.

    Attributes
    ----------
    where
        File and line, for messages.
    kind
        Which event.
    scope, session
        Whose.
    time
        Seconds since 1970.
    content
        The whole object.
    """

    where: str
    kind: str
    scope: str
    session: str
    time: float
    content: Mapping[str, Any]

    def wrong(self, field: str, expected: str) -> FileFormatError:
        """Say that a field is not what it must be."""
        value = repr(self.content.get(field))
        short = value if len(value) <= 80 else f"{value[:77]}..."
        return FileFormatError(f"{self.where}: {field} is {short}; expected {expected}")

    def number(self, field: str) -> float | None:
        """Give a number, None where there is none."""
        value = self.content.get(field)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self.wrong(field, "a finite number or null")
        return float(value)

    def count(self, field: str) -> int:
        """Give a whole number of at least 0."""
        value = self.content.get(field)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.wrong(field, "a whole number of at least 0")
        return value

    def flag(self, field: str) -> bool:
        """Give true or false; what is not there is false."""
        value = self.content.get(field, False)
        if not isinstance(value, bool):
            raise self.wrong(field, "true or false")
        return value

    def text(self, field: str) -> str | None:
        """Give a text, None where there is none."""
        value = self.content.get(field)
        if value is not None and not isinstance(value, str):
            raise self.wrong(field, "a text or null")
        return value

    def inner(self, field: str) -> Event | None:
        """Give an object inside this one, to be read the same way; None where there is none."""
        value = self.content.get(field)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.wrong(field, "an object or null")
        return Event(f"{self.where}, {field}", self.kind, self.scope, self.session, self.time, value)

    def numbers(self, field: str) -> dict[str, float]:
        """Give an object of numbers; none where there is none."""
        found = self.inner(field)
        if found is None:
            return {}
        return {name: value for name in found.content if (value := found.number(name)) is not None}


class Lines:
    """The events of a log, one at a time; `cut` counts the lines that a crash or a full disk cut short.

    Parameters
    ----------
    path
        The log. It may still be written to: what is not a whole line yet is left out.

    Raises
    ------
    FileFormatError
        With file and line, where something is no event of a session.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = regular_file(path, EXPECTED)
        self.cut = 0
        self.read = 0

    def __iter__(self) -> Iterator[Event]:
        with self.path.open("rb") as file:
            while line := file.readline(LONGEST):
                self.read += 1
                if line.strip():
                    event = self._event(line)
                    if event is not None:
                        yield event

    def _event(self, line: bytes) -> Event | None:
        where = f"{self.path}, line {self.read}"
        try:
            content = parse_json(line, where, "an event of a session")
        except FileFormatError:
            if not BEGINNING.startswith(line[: len(BEGINNING)]):
                raise FileFormatError(f"{where}: {line[:40]!r}... is no event; expected {EXPECTED}") from None
            self.cut += 1
            return None
        kind = content.get("event") if isinstance(content, dict) else None
        if kind not in EVENTS:
            said = f"event is {kind!r}" if isinstance(content, dict) else f"{line[:40]!r}... is no object"
            raise FileFormatError(f"{where}: {said}; expected {EXPECTED}")
        event = Event(where, kind, "", "", 0.0, content)
        scope, session, time = event.text("scope"), event.text("session"), event.number("time")
        if scope is None or not session or time is None:
            field = "scope" if scope is None else "time" if session else "session"
            raise event.wrong(field, "a time" if field == "time" else "a name")
        if kind == "session":
            _check_version(event)
        return Event(where, kind, scope, session, time, content)


def _check_version(event: Event) -> None:
    if event.content.get("format") != FORMAT:
        raise event.wrong("format", repr(FORMAT))
    version = event.content.get("schema_version")
    if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version <= SCHEMA_VERSION:
        raise event.wrong("schema_version", f"at most {SCHEMA_VERSION}, which this version of bayes_tacit reads")
