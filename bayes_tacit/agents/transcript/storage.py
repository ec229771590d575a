"""A transcript as a JSON Lines file, written as the episode goes and named only when it is whole."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from dataclasses import asdict, fields
from functools import cache
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from bayes_tacit.agents.errors import BrokenTranscriptError, TornTranscriptError
from bayes_tacit.agents.transcript.order import check_ends, check_order
from bayes_tacit.agents.transcript.record import (
    EVENTS,
    ChoiceRecord,
    End,
    Header,
    Record,
    ResetRecord,
    StepRecord,
    Transcript,
    event_of,
)
from bayes_tacit.errors import FileFormatError, MissingFileError, TacitWarning
from bayes_tacit.events import EventLog, LogFormat, parse_event
from bayes_tacit.files import as_path, regular_file

if TYPE_CHECKING:
    from pydantic import TypeAdapter

LOG = LogFormat("bayes_tacit.transcript", "a transcript", tuple(EVENTS), ("start",), broken=BrokenTranscriptError)

PARTIAL = ".partial"
"""Suffix of a transcript that is being written, or was when its program stopped."""


class TranscriptWriter:
    """Writes each line at once to a file with the suffix `.partial`, which gets its name with the last line.

    So a file under its own name is whole. What a stopped program leaves has the other name and is overwritten when the
    episode is played again.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = as_path(path)
        self._log = EventLog(self.path.with_name(self.path.name + PARTIAL), LOG, fresh=True)
        self._episode = ""

    def write(self, record: Header | Record | End) -> None:
        """Write a line; an end gives the file its name."""
        if isinstance(record, Header):
            self._episode = record.episode
        self._log.append(event_of(record), self._episode, asdict(record))
        if isinstance(record, End):
            self._log.sync()
            self._log.close()
            self._log.path.replace(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._log.close()


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
    file = regular_file(path, LOG.words)
    try:
        whole, _, rest = file.read_bytes().rpartition(b"\n")
    except OSError as error:
        raise FileFormatError(f"{file}: cannot be read ({error}); expected a transcript") from None
    lines = whole.split(b"\n") if whole else []
    records: list[Header | Record | End] = []
    for number, line in enumerate(lines, 1):
        first = records[0] if records else None
        known = first.episode if isinstance(first, Header) else None
        records.append(_record(line, f"{file}, line {number}", known))
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


def _record(line: bytes, where: str, episode: object) -> Header | Record | End:
    from pydantic import ValidationError

    content = parse_event(line, where, LOG)
    event = content.pop("event")
    if content["episode"] != episode is not None:
        raise BrokenTranscriptError(
            f"{where}: episode is {content['episode']!r}; expected {episode!r}, as at the start"
        )
    common = ("episode", "format", "schema_version") if event == "start" else ("episode",)
    unknown = sorted(content.keys() - {field.name for field in fields(EVENTS[event])} - set(common))
    if unknown:
        raise BrokenTranscriptError(f"{where}: {unknown[0]!r} is unknown; expected the keys of the event {event!r}")
    try:
        return _adapter(event).validate_json(line, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise BrokenTranscriptError(f"{where}: {place} is {first['input']!r}; {first['msg']}") from None


@cache
def _adapter(event: str) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(EVENTS[event])
