"""What a format of logs is, and the JSON documents of a log: lines of a file, or whole files."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError
from bayes_tacit.files import regular_file

LINES = (".jsonl", ".ndjson")
"""Suffixes of files with one document a line."""

_CHUNK = 1 << 20

Progress = Callable[[int], None]
"""Called with the bytes that were read since the last call."""


class Document(NamedTuple):
    """One JSON value and where it is.

    Attributes
    ----------
    content
        The value; where it could not be read, the error that says so.
    path
        Its file.
    line
        Its line, from 1; 0 where the document is the whole file.
    """

    content: Any
    path: Path
    line: int = 0

    @property
    def place(self) -> str:
        """File and line, for an error."""
        return f"{self.path}:{self.line}" if self.line else str(self.path)


Found = tuple[str, Mapping[str, Any] | InvalidDataError]
"""Where in the document a rollout is, empty if it is all of it, and the rollout as `bayes_tacit.logs.Rollout`.

In place of one that is wrong there may be the error, so that those after it can be read.
"""


@dataclass(frozen=True)
class ImportFormat:
    """A format of logs.

    Attributes
    ----------
    name, pattern
        What `--format` calls it, and which files are read in a folder.
    recognizes
        Returns whether a document, parsed from JSON, is of this format.
    rollouts
        Yields the rollouts of a document, each with its place in it.
    documents, opens
        For logs whose files are not JSON, or whose lines belong together: yields the documents of a log, and returns
        whether a file is to be read so.
    """

    name: str
    pattern: str
    recognizes: Callable[[object], bool]
    rollouts: Callable[[Document], Iterator[Found]]
    documents: Callable[[Path, Progress | None], Iterator[Document]] | None = None
    opens: Callable[[Path], bool] = lambda _: True

    def read(self, path: Path, progress: Progress | None = None) -> Iterator[Document]:
        """Yield the documents of a log."""
        return documents(path, self.pattern, progress) if self.documents is None else self.documents(path, progress)


def required(record: object, key: str, kind: type, expected: str) -> Any:  # noqa: ANN401  of that kind
    """Return the value of a key that must be there and of that kind."""
    value = record.get(key) if isinstance(record, Mapping) else None
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise InvalidDataError(expected, field=key, value=value)
    return value


def optional(record: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return an object of a record, empty where there is none.

    Examples
    --------
    >>> optional({"info": {"cost": 1}}, "info"), optional({}, "info")
    ({'cost': 1}, {})
    """
    value = record.get(key)
    if value is not None and not isinstance(value, Mapping):
        raise InvalidDataError("an object", field=key, value=value)
    return value or {}


def called(name: str, arguments: object, identity: str) -> dict[str, Any]:
    """Return a call in OpenAI's format."""
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def turn(text: str, action: str | None, answer: str | None, number: int, tool: str = "act") -> list[dict[str, Any]]:
    """Return a turn of an agent that writes its actions as text: a message, and the answer of the environment.

    Examples
    --------
    >>> [message["role"] for message in turn("", "SELECT 1", "[(1,)]", 0)]
    ['assistant', 'tool']
    """
    identity = f"{tool}-{number}"
    said: dict[str, Any] = {"role": "assistant", "content": text}
    if action is None or not action.strip():
        return [said]
    said["tool_calls"] = [called(tool, {"text": action}, identity)]
    return [said] if answer is None else [said, {"role": "tool", "tool_call_id": identity, "content": answer}]


def documents(path: Path, pattern: str, progress: Progress | None = None) -> Iterator[Document]:
    """Yield the documents of a file, or of the files in a folder whose names match.

    Raises
    ------
    MissingFileError
        If there is no such file, or none in the folder.
    FileFormatError
        If a file is empty or not JSON, with its line.
    """
    for file in files_of(path, pattern):
        yield from documents_of(file, progress)


def documents_of(file: Path, progress: Progress | None = None) -> Iterator[Document]:
    """Yield the documents of one file: its lines, or all of it."""
    if file.suffix.lower() in LINES or _is_lines(file):
        yield from lines_of(file, progress)
        return
    raw = file.read_bytes()
    content: Any
    try:
        content = decoded(raw, str(file)) if raw.strip() else FileFormatError(f"{file}: empty; expected a log as JSON")
    except FileFormatError as error:
        content = error
    yield Document(content, file)
    if progress is not None:
        progress(file.stat().st_size)


def files_of(path: Path, pattern: str) -> list[Path]:
    """Return the files of a log in order: the file itself, or those of a folder that match."""
    if not path.exists():
        raise MissingFileError(f"{path}: no such file or folder; expected a log")
    if not path.is_dir():
        return [regular_file(path, "a log")]
    found = sorted(file for file in path.rglob(pattern) if file.is_file())
    if not found:
        raise MissingFileError(f"{path}: no file in it is called {pattern}; expected a folder of logs")
    return found


def decoded(raw: bytes, place: str) -> Any:  # noqa: ANN401  any JSON value
    """Parse JSON, or say in one line what is wrong with it."""
    try:
        return json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{place}: not UTF-8 (byte {error.start}); expected JSON") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}" if error.lineno > 1 else f"column {error.colno}"
        raise FileFormatError(f"{place}: not valid JSON ({error.msg}, {where}); is it cut short?") from None
    except RecursionError:
        raise FileFormatError(f"{place}: nested too deeply; expected JSON") from None
    except ValueError as error:  # a number of more digits than Python takes
        raise FileFormatError(f"{place}: not valid JSON ({error})") from None


def lines_of(file: Path, progress: Progress | None = None, *, start: int = 0, before: int = 0) -> Iterator[Document]:
    """Yield the documents on the lines of a file, from byte `start` on, which `before` lines precede."""
    loads, read, line = json.loads, 0, before
    with file.open("rb") as handle:
        if start:
            handle.seek(start - 1)
            handle.readline()
        for line, raw in enumerate(handle, start=before + 1):
            try:
                content = loads(raw.decode())
            except (ValueError, RecursionError):
                if not raw.strip():
                    continue
                try:
                    content = decoded(raw, f"{file}:{line}")
                except FileFormatError as error:
                    content = error
            yield Document(content, file, line)
            read += len(raw)
            if progress is not None and read > _CHUNK:
                progress(read)
                read = 0
    if not line:
        raise FileFormatError(f"{file}: empty; expected one rollout a line")
    if progress is not None:
        progress(read)


def _is_lines(file: Path) -> bool:
    """Return whether a file of another name has one document a line: the first line is one, and more follow."""
    with file.open("rb") as handle:
        first = handle.readline(_CHUNK * 16)
        if not first.strip().startswith(b"{") or not handle.read(1):
            return False
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        return False
    return True


def read_table(
    path: Path, expected: str, columns: Sequence[str] = ()
) -> tuple[list[str], list[tuple[str, dict[str, Any]]]]:
    """Read a CSV with at least these columns: its header, and its rows with their places."""
    regular_file(path, expected)
    try:
        # The mark at the start that some spreadsheets write is no part of the first name.
        with path.open(encoding="utf-8-sig", newline="") as handle:
            table = csv.DictReader(handle, strict=True)
            header = list(table.fieldnames or ())
            rows = [(f"{path}:{table.line_num}", row) for row in table]
    except (UnicodeDecodeError, csv.Error) as error:
        raise FileFormatError(f"{path}: not a CSV in UTF-8 ({error}); expected {expected}") from None
    missing = [name for name in columns if name not in header]
    if missing:
        raise FileFormatError(f"{path}: no column {missing[0]!r}; expected {', '.join(columns)}")
    # Spreadsheets leave columns without a name at the end.
    named = [name for name in header if name]
    if len(set(named)) < len(named) or any("\0" in name for name in named):
        raise FileFormatError(f"{path}: columns are {header}; expected names that differ, without NUL characters")
    for where, row in rows:
        if None in row:
            value = next(iter(row.values()))
            raise InvalidDataError("as many values as columns", field="row", value=value, where=where)
        if any("\0" in cell for cell in row.values() if isinstance(cell, str)):
            raise InvalidDataError("text without NUL characters", field="a cell", value="\0", where=where)
    return header, rows
