"""The event log: JSON Lines that say what happened in episodes, with one writer and one reader for every room.

Each line is one object, `{"event": ..., "episode": ..., ...}`, and is written at once. These are common to all logs:

===========  ===========================================================================================================
event        what the line holds besides
===========  ===========================================================================================================
`start`      an episode began: `format` and `schema_version`, then the settings and the task
`restore`    it goes on from a snapshot: `format` and `schema_version`, then the snapshot
`step`       something was decided or done
`end`        how it ended
===========  ===========================================================================================================

Beside them, transcripts (`bayes_tacit.agents`) have `reset` and `choice`, decisions (`bayes_tacit.router`) nothing, and
sessions (`bayes_tacit.gateway`) `reply` and `outcome`. A room says so by a `LogFormat`.
"""

from __future__ import annotations

import json
import os
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import BufferedReader, FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bayes_tacit import validate
from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError, TacitError, TacitWarning
from bayes_tacit.files import as_path, regular_file, strict_json

OPENINGS = ("start", "restore")
"""Events that carry the format and its version."""

BEGINNING = b'{"event": "'
"""How every line begins."""

LONGEST = 2**26
"""Bytes of a line: more than a thousand draws of a snapshot take."""

PATIENCE = 1.0
"""Seconds within which other processes must have written their lines to a shared log."""

_encode = json.JSONEncoder(allow_nan=False, ensure_ascii=False).encode


@dataclass(frozen=True)
class LogFormat:
    """What the lines of one kind of log have.

    Attributes
    ----------
    name
        Its `format`, such as "bayes_tacit.transcript".
    words
        What it is, for errors, such as "a transcript".
    events
        Every event.
    first
        Those that the first line may have.
    version
        Its `schema_version`.
    broken
        What a line that no such log has raises.
    """

    name: str
    words: str
    events: tuple[str, ...]
    first: tuple[str, ...] = OPENINGS
    version: int = 1
    broken: type[FileFormatError] = FileFormatError


class EventLog:
    """Appends events to a file.

    Lines are written whole, by whichever thread, in the process that opened the log. A line that a crash cut short at
    the end of the file is removed, with a warning. A file that is anything else than such a log is refused and left as
    it is.

    Parameters
    ----------
    path
        The file; made if it does not exist.
    log
        What its lines have.
    shared
        Whether several processes may append to the file, each with an `EventLog` of its own; otherwise one at a time
        may have it open. Where such a file is moved away, the next line begins a new one.
    fresh
        Whether what the file holds is thrown away.
    keep_going
        What happens where a line cannot be written, such as on a full disk: by default it is an error, and the file
        stays as it was. If true, that line and all later ones are left out, with one warning; `failure` says why.
    mode
        Permissions of a new file.

    Raises
    ------
    FileFormatError
        If the file holds something else.
    TacitError
        If another process, or another log in this one, has the file open.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "log.jsonl"
    >>> walks = LogFormat("walks", "a log of walks", ("start", "step", "end"))
    >>> with EventLog(path, walks) as log:
    ...     log.append("start", "a", {"from": "home"})
    ...     log.append("end", "a")
    >>> print(path.read_text().rstrip())
    {"event": "start", "episode": "a", "format": "walks", "schema_version": 1, "from": "home"}
    {"event": "end", "episode": "a"}
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        log: LogFormat,
        *,
        shared: bool = False,
        fresh: bool = False,
        keep_going: bool = False,
        mode: int = 0o666,
    ) -> None:
        self.path = as_path(path)
        self.failure: str | None = None
        if not self.path.absolute().parent.is_dir():
            raise MissingFileError(f"{self.path.parent}: no such folder; expected the folder for {log.words}")
        if self.path.is_dir() or self.path.is_fifo():
            kind = "folder" if self.path.is_dir() else "pipe"
            raise FileFormatError(f"{self.path} is a {kind}; expected a file for {log.words}")
        self._log, self._shared, self._keep_going = log, shared, keep_going
        self._thread, self._process = threading.Lock(), os.getpid()
        self._mode = mode
        self._file = self._opened()
        # A device holds nothing that could be lost, or cut, or kept from another.
        self._is_device = not self.path.is_file()
        try:
            self._acquire()
            if fresh and not self._is_device:
                self._file.truncate(0)
            self._remove_cut_line()
            if shared:
                self._release()
        except BaseException:
            self._file.close()
            raise

    def append(self, event: str, episode: str | int | None, content: Mapping[str, object] | None = None) -> None:
        """Write one line.

        Raises
        ------
        OSError
            If there is no room for it, unless the log keeps going.
        """
        self.extend([(event, episode, content or {})])

    def extend(self, events: Iterable[tuple[str, str | int | None, Mapping[str, object]]]) -> None:
        """Write several lines, each an event, an episode and what it holds besides, all at once.

        Raises
        ------
        OSError
            If there is no room for them, unless the log keeps going.
        """
        lines = b"".join(self._line(*event) for event in events)
        if os.getpid() != self._process:
            expected = f"{self._process}, which opened it: a log for each process"
            raise InvalidDataError(expected, field="process", value=os.getpid(), where=str(self.path))
        with self._thread:
            if self._file.closed:
                raise InvalidDataError("one that is open", field="log", value="closed", where=str(self.path))
            if self.failure is not None:
                return
            try:
                self._write(lines)
            except OSError as error:
                if not self._keep_going:
                    raise
                self.failure = str(error)
                said = f"{error}; decisions go on, and from here on none is logged"
                warnings.warn(said, TacitWarning, stacklevel=3)

    def _line(self, event: str, episode: str | int | None, content: Mapping[str, object]) -> bytes:
        if episode is None:
            raise InvalidDataError("a name, by which the log tells episodes apart", field="episode", value=None)
        opening = {"format": self._log.name, "schema_version": self._log.version} if event in OPENINGS else {}
        text = _encode({"event": event, "episode": episode, **opening, **content})
        # What UTF-8 cannot hold, half of a pair of surrogates, is written as JSON writes it.
        return text.encode("utf-8", "backslashreplace") + b"\n"

    def sync(self) -> None:
        """Have the operating system write everything to the disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        if not self._file.closed:
            # A process that was forked meanwhile may hold the file, and with it the lock, but must not let it go.
            if os.getpid() == self._process:
                self._release()
            self._file.close()

    def __del__(self) -> None:
        with suppress(AttributeError):
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, line: bytes) -> None:
        if not self._shared:
            self._write_locked(line)
            return
        if not self._is_device and not self._is_there():
            self._file.close()  # moved away: whoever rotates logs expects a new file under the name
            self._file = self._opened()
        self._acquire()
        try:
            if not self._ends_whole():
                self._remove_cut_line()
            self._write_locked(line)
        finally:
            self._release()

    def _write_locked(self, line: bytes) -> None:
        try:
            written = self._file.write(line) or 0
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from None
        if written != len(line):
            with suppress(OSError):  # a device cannot be cut, and the first error is the one to report
                end = self._file.tell()
                if os.fstat(self._file.fileno()).st_size == end:  # nobody else has written after it
                    self._file.truncate(end - written)
            raise OSError(f"{self.path}: no room for a line of {len(line)} bytes")

    def _opened(self) -> FileIO:
        return FileIO(self.path, "ab+", opener=lambda name, flags: os.open(name, flags, self._mode))

    def _is_there(self) -> bool:
        """Look whether the file still has the log's name."""
        try:
            return os.path.samestat(self.path.stat(), os.fstat(self._file.fileno()))
        except FileNotFoundError:
            return False

    def _ends_whole(self) -> bool:
        """Look whether another process was killed in the middle of a line."""
        if self._is_device or self._file.seek(0, os.SEEK_END) == 0:
            return True
        self._file.seek(-1, os.SEEK_END)
        return self._file.read(1) == b"\n"

    def _remove_cut_line(self) -> None:
        if self._is_device:
            return
        end = _end_of_lines(self.path, self._log)
        if end < self._file.seek(0, os.SEEK_END):
            self._file.truncate(end)
            warnings.warn(f"{self.path}: removed a last line that was cut short", TacitWarning, stacklevel=3)

    def _acquire(self) -> None:
        """Lock the file, or refuse it."""
        until = time.monotonic() + PATIENCE
        while not self._is_device and not self._is_locked():
            if not self._shared:
                expected = "a file of its own for each, or the other one closed"
                raise TacitError(f"{self.path}: another {type(self).__name__} writes to it; expected {expected}")
            if time.monotonic() > until:
                raise OSError(f"{self.path}: another process has kept it locked for {PATIENCE:g} seconds")
            time.sleep(1e-3)

    def _is_locked(self) -> bool:
        from filelock import lock_descriptor

        try:
            return lock_descriptor(self._file.fileno(), blocking=False)
        except OSError:  # a file system without locks has to do without
            return True

    def _release(self) -> None:
        from filelock import unlock_descriptor

        with suppress(OSError):
            unlock_descriptor(self._file.fileno())


def read_events(path: str | os.PathLike[str], log: LogFormat) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the lines of a log: the number of each, from 1, and what it holds.

    A last line that was cut short is left out, with a warning.

    Raises
    ------
    FileFormatError
        With the file and the line, where something is no event of such a log; `log.broken` if it is damaged.
    """
    source = regular_file(path, log.words)
    with source.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(LONGEST), b""), 1):
            try:
                content = parse_event(line, f"{path}, line {number}", log)
            except log.broken:
                if line.endswith(b"\n") or not is_cut(line):
                    raise
                warnings.warn(f"{path}, line {number}: cut short, left out", TacitWarning, stacklevel=2)
                return
            yield number, content


def parse_event(line: bytes, where: str, log: LogFormat) -> dict[str, Any]:
    """Return what one line of a log holds, if it is an event of an episode.

    Raises
    ------
    FileFormatError
        If it is none, or of another format or version; `log.broken` if it is damaged.
    """
    try:
        content = strict_json(line, finite=True)
    except ValueError as error:
        raise log.broken(f"{where}: not valid JSON ({error}); expected a line of {log.words}") from None
    if not isinstance(content, dict):
        raise log.broken(f"{where}: it is {content!r:.80}; expected an object, a line of {log.words}")
    try:
        event = validate.choice("event", content.get("event"), log.events)
        validate.episode_id("episode", content.get("episode"))
    except InvalidDataError as error:
        raise log.broken(f"{where}: {error}") from None
    if event in OPENINGS:
        found, version = content.get("format"), content.get("schema_version")
        if found != log.name:
            raise FileFormatError(f"{where}: format is {found!r:.80}; expected {log.name!r}")
        if type(version) is not int or version != log.version:
            raise FileFormatError(
                f"{where}: schema_version is {version!r:.80}; expected {log.version}: it was written by another version"
            )
    return content


def is_cut(line: bytes) -> bool:
    """Check whether this is only the beginning of a line, as a crash leaves it."""
    if not BEGINNING.startswith(line[: len(BEGINNING)]):
        return False
    try:
        strict_json(line)
    except ValueError:
        return True
    return False


def _end_of_lines(path: Path, log: LogFormat) -> int:
    """Find where the last whole line of a log ends; refuse what is no such log.

    Only the first line, the last whole one and what follows it are looked at, for a log may be large. What follows may
    be the beginning of a line, which a crash cut short; if it is not, the file is another's.
    """
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        end = _after_last_newline(file, size)
        if end:
            last = _after_last_newline(file, end - 1)
            for start, which, events in ((0, "the first line", log.first), (last, "the last whole line", log.events)):
                file.seek(start)
                line = file.readline(LONGEST)
                try:
                    known = parse_event(line, which, log)["event"] in events
                except FileFormatError as error:
                    raise _foreign(path, str(error), log) from None
                if not known:
                    raise _foreign(path, f"{which} is {line[:40]!r}...", log)
        file.seek(end)
        rest = file.read(len(BEGINNING))
        if not BEGINNING.startswith(rest) or size - end > LONGEST:
            raise _foreign(path, f"the end of it is {rest!r}...", log)
    return end


def _foreign(path: Path, found: str, log: LogFormat) -> FileFormatError:
    return FileFormatError(f"{path}: {found}; expected {log.words}, or a new file; it is left as it is")


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
