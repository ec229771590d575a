"""The JSON documents of a log: the lines of a file, a whole file, or the files of a folder, one at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bayes_tacit.errors import FileFormatError, MissingFileError
from bayes_tacit.files import regular_file

LINES = (".jsonl", ".ndjson")
"""Suffixes of files with one document a line."""

Progress = Callable[[int], None]
"""Called with the bytes that were read since the last call."""


class Document(NamedTuple):
    """One JSON value and where it is.

    Attributes
    ----------
    content
        The value.
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


def documents(path: Path, pattern: str, progress: Progress | None = None) -> Iterator[Document]:
    """Give the documents of a file, or of the files in a folder whose names match.

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
    """Give the documents of one file: its lines, or all of it."""
    if file.suffix.lower() in LINES or _is_lines(file):
        yield from lines_of(file, progress)
        return
    yield Document(_whole(file), file)
    if progress is not None:
        progress(file.stat().st_size)


def files_of(path: Path, pattern: str) -> list[Path]:
    """Give the files of a log in order: the file itself, or those of a folder that match."""
    if not path.exists():
        raise MissingFileError(f"{path}: no such file or folder; expected a log")
    if not path.is_dir():
        return [regular_file(path, "a log")]
    found = sorted(file for file in path.rglob(pattern) if file.is_file())
    if not found:
        raise MissingFileError(f"{path}: no file in it is called {pattern}; expected a folder of logs")
    return found


def decoded(raw: bytes, place: str) -> Any:  # noqa: ANN401  any JSON value
    """Parse JSON; whatever is wrong with it is said in one line."""
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
    """Give the documents on the lines of a file, from the first that begins at a byte or later, after others."""
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
                content = decoded(raw, f"{file}:{line}")
            yield Document(content, file, line)
            read += len(raw)
            if progress is not None and read > _CHUNK:
                progress(read)
                read = 0
    if not line:
        raise FileFormatError(f"{file}: empty; expected one rollout a line")
    if progress is not None:
        progress(read)


_CHUNK = 1 << 20


def _is_lines(file: Path) -> bool:
    """Tell whether a file that is not called so has one document a line: the first line is one, and more follow."""
    with file.open("rb") as handle:
        first = handle.readline(_CHUNK * 16)
        if not first.strip().startswith(b"{") or not handle.read(1):
            return False
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        return False
    return True


def _whole(file: Path) -> Any:  # noqa: ANN401  any JSON value
    raw = file.read_bytes()
    if not raw.strip():
        raise FileFormatError(f"{file}: empty; expected a log as JSON")
    return decoded(raw, str(file))
