"""From a log in any format that is known to rollouts in the generic one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from bayes_tacit import validate
from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError
from bayes_tacit.logs.documents import Document, Progress, documents, lines_of
from bayes_tacit.logs.readers import READERS
from bayes_tacit.logs.readers.base import Reader

AUTO = "auto"


def read_rollouts(
    path: Path,
    format: str = AUTO,  # noqa: A002  the word of the command line
    progress: Progress | None = None,
) -> tuple[str, Iterator[tuple[str, Mapping[str, Any]]]]:
    """Give the name of the format, and each rollout with its place, one at a time.

    Parameters
    ----------
    path
        A file, or a folder of files.
    format
        Name of a reader, or "auto": the one that recognizes the first document.
    progress
        Called with the bytes that were read since the last call.
    """
    validate.choice("format", format, (AUTO, *READERS))
    if not path.exists():
        raise MissingFileError(f"{path}: no such file or folder; expected a log")
    if format != AUTO:
        reader = READERS[format]
        return format, _rollouts(reader, _documents(reader, path, progress))
    readers = [one for one in READERS.values() if path.is_dir() or path.match(one.PATTERN)]
    if path.is_dir():
        readers = [one for one in readers if next(path.rglob(one.PATTERN), None) is not None]
    first: Document | None = None
    own = [one for one in readers if path.is_dir() or (hasattr(one, "documents") and _opens(one, path))]
    for reader in own or [READERS["openai"]]:
        found = _documents(reader, path, progress)
        first = next(found, None)
        known = _recognizing(first, [reader] if path.is_dir() else list(READERS.values()))
        if known is not None and first is not None:
            return known.NAME, _rollouts(known, chain([first], found))
    raise FileFormatError(
        f"{path if first is None else first.place}: {_keys(first)}; expected one of the formats {', '.join(READERS)}, "
        "such as an object with task, success and messages on each line"
    )


def read_on(file: Path, format: str, start: int, before: int) -> Iterator[tuple[str, Mapping[str, Any]]]:  # noqa: A002
    """Give the rollouts of a file of lines from a byte on, which is on a line after so many others."""
    return _rollouts(READERS[format], lines_of(file, start=start, before=before))


def _opens(reader: Reader, path: Path) -> bool:
    """Ask a reader that puts a file's lines together itself whether it should."""
    opens = getattr(reader, "opens", None)
    return opens is None or bool(opens(path))


def _recognizing(document: Document | None, readers: list[Reader]) -> Reader | None:
    return next((one for one in readers if document is not None and one.recognizes(document.content)), None)


def _keys(document: Document | None) -> str:
    if document is None:
        return "no log that is known in it"
    content = document.content
    if isinstance(content, dict):
        return f"an object with the keys {', '.join(map(str, content))[:80]}"
    return f"{type(content).__name__} {str(content)[:40]!r}"


def _documents(reader: Reader, path: Path, progress: Progress | None) -> Iterator[Document]:
    own = getattr(reader, "documents", None)
    found: Iterator[Document] = documents(path, reader.PATTERN, progress) if own is None else own(path, progress)
    return found


def _rollouts(reader: Reader, found: Iterator[Document]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    empty = True
    for document in found:
        if not reader.recognizes(document.content):
            raise FileFormatError(f"{document.place}: not of the format {reader.NAME}{_looks_like(document, reader)}")
        place = document.place
        try:
            for inside, rollout in reader.rollouts(document):
                yield f"{place}, {inside}" if inside else place, rollout
                empty = False
        except InvalidDataError as error:
            if error.where is not None:
                raise
            raise InvalidDataError(
                error.expected, episode=error.episode, field=error.field, value=error.value, where=place
            ) from None
    if empty:
        raise FileFormatError(f"no rollout in the log; expected at least one of the format {reader.NAME}")


def _looks_like(document: Document, reader: Reader) -> str:
    content = document.content
    if reader.NAME == "openai" and isinstance(content, dict):
        absent = [key for key in ("task", "messages") if key not in content]
        return f"; {absent[0]} is missing"
    if not isinstance(content, dict | list):
        return f"; it is {str(content)[:40]!r}, expected an object"
    other = next((one.NAME for one in READERS.values() if one.recognizes(content)), None)
    return "" if other is None else f" as what came before, but {other}: expected one format in a log"
