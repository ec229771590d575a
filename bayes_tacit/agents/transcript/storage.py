"""A transcript as a JSON Lines file, written as the episode goes and named only when it is whole."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from bayes_tacit.agents.errors import BrokenTranscriptError, TornTranscriptError
from bayes_tacit.agents.transcript.order import check_ends, check_order
from bayes_tacit.agents.transcript.record import (
    EVENTS,
    FORMAT,
    SCHEMA_VERSION,
    ChoiceRecord,
    End,
    Header,
    Record,
    ResetRecord,
    StepRecord,
    Transcript,
    line_of,
)
from bayes_tacit.errors import FileFormatError, MissingFileError, TacitWarning
from bayes_tacit.files import as_path, regular_file, strict_json

if TYPE_CHECKING:
    from pydantic import TypeAdapter

PARTIAL = ".partial"
"""Suffix of a transcript that is being written, or was when its program stopped."""


class TranscriptWriter:
    """Writes each line at once to a file with the suffix `.partial`, which gets its name with the last line.

    So a file under its own name is whole. What a stopped program leaves has the other name and is overwritten when the
    episode is played again.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = as_path(path)
        if not self.path.absolute().parent.is_dir():
            raise MissingFileError(f"{self.path.parent}: no such folder; expected the folder for transcripts")
        self._partial = self.path.with_name(self.path.name + PARTIAL)
        self._file = self._partial.open("w", encoding="utf-8", newline="\n")

    def write(self, record: Header | Record | End) -> None:
        """Write a line; an end gives the file its name."""
        self._file.write(line_of(record) + "\n")
        self._file.flush()
        if isinstance(record, End):
            os.fsync(self._file.fileno())
            self._file.close()
            self._partial.replace(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def write_transcript(transcript: Transcript, path: str | os.PathLike[str]) -> None:
    """Write a finished transcript, whole or not at all."""
    with TranscriptWriter(path) as writer:
        for record in (transcript.header, *transcript.records, transcript.end):
            writer.write(record)


def is_finished(path: str | os.PathLike[str]) -> bool:
    """Tell whether there is a transcript with an end; a torn or missing one is not finished.

    Raises
    ------
    FileFormatError
        If there is a file that is no transcript.
    """
    try:
        read_transcript(path)
    except (TornTranscriptError, MissingFileError):
        return False
    return True


def read_transcripts(folder: str | os.PathLike[str]) -> dict[str, Transcript]:
    """Read the finished transcripts (`*.jsonl`) of a folder, by file name without suffix; of a broken one, warn."""
    home = as_path(folder)
    if not home.is_dir():
        raise MissingFileError(f"{home}: no such folder; expected a folder of transcripts")
    found = {}
    for path in sorted(home.glob("*.jsonl")):
        transcript = read_if_whole(path)
        if transcript is not None:
            found[path.stem] = transcript
    return found


def read_if_whole(path: str | os.PathLike[str]) -> Transcript | None:
    """Read a transcript among others: None for a torn one, and, with a warning, for a broken one."""
    try:
        return read_transcript(path)
    except TornTranscriptError:
        return None
    except BrokenTranscriptError as error:
        warnings.warn(f"{error}; passed over", TacitWarning, stacklevel=3)
        return None


def set_aside(path: Path) -> Path:
    """Rename a broken transcript, so that its episode can be played again and nothing is lost; give the new name."""
    for number in count(1):
        aside = path.with_name(f"{path.name}.broken{'' if number == 1 else number}")
        if not aside.exists():
            path.rename(aside)
            return aside
    raise AssertionError


def read_transcript(path: str | os.PathLike[str]) -> Transcript:
    """Read a transcript, checking all of it.

    Raises
    ------
    TornTranscriptError
        If it has no end, or its last line is cut short.
    BrokenTranscriptError
        If it is no transcript, or a damaged one, such as one that lacks lines.
    FileFormatError
        If it cannot be read, or was written by another version.
    """
    file = regular_file(path, "a transcript")
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BrokenTranscriptError(f"{file}: not UTF-8 text (byte {error.start}); expected a transcript") from None
    except OSError as error:
        raise FileFormatError(f"{file}: cannot be read ({error}); expected a transcript") from None
    whole, _, rest = text.rpartition("\n")
    lines = whole.split("\n") if whole else []
    records = [_record(line, f"{file}, line {number}") for number, line in enumerate(lines, 1)]
    if records and not isinstance(records[0], Header):
        raise BrokenTranscriptError(f"{file}, line 1: expected the event 'start'")
    check_ends(records, file)
    if rest or not records or not isinstance(records[-1], End):
        raise TornTranscriptError(f"{file}: has no end; the program that wrote it was stopped")
    header, end = records[0], records[-1]
    between = tuple(_between(records[1:-1], file))
    check_order(between, end, file)
    assert isinstance(header, Header)
    return Transcript(header, between, end)


def _between(records: list[Header | Record | End], file: Path) -> Iterator[Record]:
    for number, record in enumerate(records, 2):
        if not isinstance(record, ResetRecord | ChoiceRecord | StepRecord):
            raise BrokenTranscriptError(
                f"{file}, line {number}: expected one start and one end, at the start and the end"
            )
        yield record


def _record(line: str, where: str) -> Header | Record | End:
    from pydantic import ValidationError

    try:
        content = strict_json(line, finite=True)
    except ValueError as error:
        raise BrokenTranscriptError(f"{where}: not valid JSON ({error}); expected a line of a transcript") from None
    event = content.pop("event", None) if isinstance(content, dict) else None
    if not isinstance(event, str) or event not in EVENTS:
        raise BrokenTranscriptError(f"{where}: event is {event!r}; expected {', '.join(map(repr, EVENTS))}")
    if event == "start":
        _check_version(content, where)
    unknown = sorted(content.keys() - {field.name for field in fields(EVENTS[event])})
    if unknown:
        raise BrokenTranscriptError(f"{where}: {unknown[0]!r} is unknown; expected the keys of the event {event!r}")
    try:
        return _adapter(event).validate_json(line, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise BrokenTranscriptError(f"{where}: {place} is {first['input']!r}; {first['msg']}") from None


def _check_version(content: dict[str, Any], where: str) -> None:
    if content.get("format") != FORMAT:
        raise FileFormatError(f"{where}: format is {content.get('format')!r}; expected {FORMAT!r}")
    if content.get("schema_version") != SCHEMA_VERSION:
        raise FileFormatError(
            f"{where}: schema_version is {content.get('schema_version')!r}; expected {SCHEMA_VERSION}: "
            "it was written by another version"
        )


@cache
def _adapter(event: str) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(EVENTS[event])
