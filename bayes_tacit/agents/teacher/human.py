"""Marks that people made, from a table."""

from __future__ import annotations

import csv
import os

from bayes_tacit.agents.teacher.marks import Mark
from bayes_tacit.errors import FileFormatError, InvalidDataError
from bayes_tacit.files import regular_file

COLUMNS = ("episode", "window_start", "window_end")


def read_marks(path: str | os.PathLike[str]) -> dict[str, Mark]:
    """Read marks from a CSV with the columns `episode`, `window_start`, `window_end` and, if wanted, `recommended`.

    Checkpoints count from 0, both ends are included. Without a recommended checkpoint it is the first of the range.
    Other columns, such as remarks, are let pass; a row whose checkpoints are all empty is an episode without a mark.

    Raises
    ------
    InvalidDataError
        With line, column and value, for what is no whole number, for a reversed range, and for an episode that comes
        twice.
    """
    file = regular_file(path, "a table of marks")
    marks: dict[str, Mark] = {}
    seen: set[str] = set()
    try:
        # The mark at the start that some spreadsheets write is no part of the first name.
        with file.open(encoding="utf-8-sig", newline="") as handle:
            table = csv.DictReader(handle, restkey="more", strict=True)
            missing = [name for name in COLUMNS if name not in (table.fieldnames or ())]
            if missing:
                raise FileFormatError(f"{file}: no column {missing[0]!r}; expected {', '.join(COLUMNS)}")
            names = list(table.fieldnames or ())
            if any("\0" in name for name in names):
                raise FileFormatError(f"{file}, line 1: a name has a NUL character; expected {', '.join(COLUMNS)}")
            repeated = [name for name in (*COLUMNS, "recommended") if names.count(name) > 1]
            if repeated:
                raise FileFormatError(f"{file}: column {repeated[0]!r} is there twice; expected it once")
            for row in table:
                where = f"{file}, line {table.line_num}"
                if any("\0" in cell for cell in row.values() if isinstance(cell, str)):
                    raise InvalidDataError("text without NUL characters", field="a cell", value="\0", where=where)
                episode = (row["episode"] or "").strip()
                if not episode or episode in seen:
                    raise InvalidDataError("an id that comes once", field="episode", value=episode, where=where)
                seen.add(episode)
                if "more" in row:
                    raise InvalidDataError("as many values as columns", episode=episode, where=where)
                mark = _mark(row, episode, where)
                if mark is not None:
                    marks[episode] = mark
    except (UnicodeDecodeError, csv.Error) as error:
        raise FileFormatError(f"{file}: not a CSV in UTF-8 ({error}); expected a table of marks") from None
    return marks


def _mark(row: dict[str, str | None], episode: str, where: str) -> Mark | None:
    given = {name: (row.get(name) or "").strip() for name in ("window_start", "window_end", "recommended")}
    if not any(given.values()):
        return None
    numbers = {}
    for name, text in given.items():
        if not text and name == "recommended":
            continue
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise InvalidDataError("a whole number >= 0", episode=episode, field=name, value=text, where=where)
        numbers[name] = int(text)
    start, end = numbers["window_start"], numbers["window_end"]
    recommended = numbers.get("recommended", start)
    if not start <= recommended <= end:
        raise InvalidDataError(
            "window_start <= recommended <= window_end",
            episode=episode,
            field="mark",
            value=(start, recommended, end),
            where=where,
        )
    return Mark(start, end, recommended)
