"""Whether a file is a decision log, told from its ends, and where the last whole line of it is."""

from __future__ import annotations

import os
from io import BufferedReader
from pathlib import Path

from bayes_tacit.errors import FileFormatError
from bayes_tacit.files import parse_json

BEGINNING = b'{"event": "'
"""How every line of a log begins."""

BEGINS = ("start", "restore")
EVENTS = (*BEGINS, "observe", "finish")

LONGEST = 2**26
"""Bytes of a line: more than a thousand draws of a snapshot take."""


def whole_lines(path: Path) -> int:
    """Say where the last whole line of a decision log ends; refuse what is no decision log.

    Only the first line, the last whole one and what follows it are looked at, for a log may be large. What follows may
    be the beginning of a line, which a crash cut short; if it is not, the file is another's.

    Raises
    ------
    FileFormatError
        With the file, and what in it no log has.
    """
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        whole = _after_last_newline(file, size)
        if whole:
            _check(path, _line_from(file, 0), "the first line", BEGINS)
            _check(path, _line_from(file, _after_last_newline(file, whole - 1)), "the last whole line", EVENTS)
        file.seek(whole)
        begun = file.read(len(BEGINNING))
        if not BEGINNING.startswith(begun) or size - whole > LONGEST:
            raise _foreign(path, f"the end of it is {begun!r}...")
    return whole


def _check(path: Path, line: bytes, which: str, events: tuple[str, ...]) -> None:
    if not line.startswith(BEGINNING):
        raise _foreign(path, f"{which} is {line[:40]!r}...")
    try:
        content = parse_json(line, f"{path}, {which}", "an event of a decision log")
    except FileFormatError as error:
        raise _foreign(path, str(error)) from None
    if not isinstance(content, dict) or content.get("event") not in events or "episode" not in content:
        raise _foreign(path, f"{which} is {line[:40]!r}...")


def _foreign(path: Path, found: str) -> FileFormatError:
    return FileFormatError(f"{path}: {found}; expected a decision log, or a new file; it is left as it is")


def _line_from(file: BufferedReader, start: int) -> bytes:
    file.seek(start)
    return file.readline(LONGEST)


def _after_last_newline(file: BufferedReader, end: int) -> int:
    """Find where the last line that ends before `end` does; 0 where there is none."""
    while end > 0:
        start = max(0, end - 2**16)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0
