"""The decision log: JSON Lines from which every score can be computed again."""

from __future__ import annotations

import json
import os
import threading
import warnings
from collections.abc import Mapping
from contextlib import suppress
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Self

from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError, TacitError, TacitWarning
from bayes_tacit.files import as_path
from bayes_tacit.router.decision import Decision
from bayes_tacit.router.log_lines import whole_lines
from bayes_tacit.router.snapshots import Progress, write_snapshot

SCHEMA_VERSION = 2
"""Version 1 has no `policy`, `handoff` and `opening` at the start, and no `call` in a decision."""


class DecisionLog:
    """Appends a line for each start, observation and end of an episode.

    Lines are written at once, whole, by whichever thread. One `DecisionLog` writes to a file at a time, in the process
    that opened it: a second one is refused, on systems that lock files. A line that a crash cut short at the end of the
    file is removed, with a warning, when the file is opened again. A file that is anything but a decision log is
    refused and left as it is.

    ================  ==================================================================================================
    event             what the line holds besides the episode's name
    ================  ==================================================================================================
    start             schema_version, router (fingerprint), policy, alpha, rule, timing, handoff, shadow, features by
                      name, opening (the decision before the first step, or null)
    observe           diagnostics by name, and the decision: step, risk, cumulative_risk, pi, score, lower, upper,
                      alpha, handoff, handoff_step, call
    restore           schema_version, snapshot
    finish            closing, where a policy judges the whole episode: its decision
    ================  ==================================================================================================

    Parameters
    ----------
    path
        The file; made if it does not exist.
    keep_going
        What happens where a line cannot be written, such as on a full disk: by default it is an error, and the episode
        stays as it was. If true, that line and all later ones are left out, with one warning, and decisions go on:
        what is in the file can still be replayed. `failure` says why.

    Raises
    ------
    FileFormatError
        If the file holds something else than decisions.
    TacitError
        If another `DecisionLog` has the file open.

    Examples
    --------
    >>> import tempfile
    >>> from bayes_tacit import Router, fit_map, load_example
    >>> router = Router.from_fit(fit_map(load_example()), alpha=0.3)
    >>> path = Path(tempfile.mkdtemp()) / "decisions.jsonl"
    >>> with DecisionLog(path) as log:
    ...     state = router.start(dict.fromkeys(router.feature_names, 0), episode="task-17", log=log)
    ...     decision = state.observe(dict.fromkeys(router.diagnostic_names, 1))
    ...     state.finish()
    >>> [json.loads(line)["event"] for line in path.read_text().splitlines()]
    ['start', 'observe', 'finish']
    """

    def __init__(self, path: str | os.PathLike[str], *, keep_going: bool = False) -> None:
        self.path = as_path(path)
        self.failure: str | None = None
        if not self.path.absolute().parent.is_dir():
            raise MissingFileError(f"{self.path.parent}: no such folder; expected the folder in which to log decisions")
        if self.path.is_dir() or self.path.is_fifo():
            kind = "folder" if self.path.is_dir() else "pipe"
            raise FileFormatError(f"{self.path} is a {kind}; expected a file in which to log decisions")
        self._keep_going = keep_going
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._file = self.path.open("ab", buffering=0)
        try:
            _claim(self._file, self.path)
            # A device holds nothing that could be lost.
            cut = self.path.is_file() and (whole := whole_lines(self.path)) < self.path.stat().st_size
            if cut:
                self._file.truncate(whole)
        except BaseException:
            self._file.close()
            raise
        if cut:
            warnings.warn(f"{self.path}: removed a last line that was cut short", TacitWarning, stacklevel=2)

    def started(
        self,
        progress: Progress,
        settings: Mapping[str, object],
        features: Mapping[str, float],
        opening: Decision | None = None,
    ) -> None:
        """Record the start of an episode: the router's fingerprint and settings, the features, and what they decide."""
        self._append(
            "start",
            progress.episode,
            {
                "schema_version": SCHEMA_VERSION,
                **settings,
                "shadow": progress.shadow,
                "features": dict(features),
                "opening": None if opening is None else opening._asdict(),
            },
        )

    def restored(self, progress: Progress, router: str) -> None:
        """Record that an episode goes on from a snapshot, under the router with this fingerprint."""
        content: dict[str, object] = {"schema_version": SCHEMA_VERSION, "snapshot": write_snapshot(progress, router)}
        self._append("restore", progress.episode, content)

    def observed(self, episode: str | int | None, diagnostics: dict[str, float], decision: Decision) -> None:
        """Record a checkpoint and the decision there."""
        self._append("observe", episode, {"diagnostics": diagnostics, **decision._asdict()})

    def finished(self, episode: str | int | None, closing: Decision | None = None) -> None:
        """Record the end of an episode, and what was decided there."""
        self._append("finish", episode, {} if closing is None else {"closing": closing._asdict()})

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _append(self, event: str, episode: str | int | None, content: dict[str, object]) -> None:
        if episode is None:
            raise InvalidDataError("a name, by which the log tells episodes apart", field="episode", value=None)
        line = json.dumps({"event": event, "episode": episode, **content}, allow_nan=False).encode() + b"\n"
        with self._lock:
            if self._file.closed:
                raise InvalidDataError("one that is open", field="log", value="closed", where=str(self.path))
            if os.getpid() != self._process:
                expected = f"{self._process}, which opened it: a log for each process"
                raise InvalidDataError(expected, field="process", value=os.getpid(), where=str(self.path))
            if self.failure is not None:
                return
            try:
                self._write(line)
            except OSError as error:
                if not self._keep_going:
                    raise
                self.failure = str(error)
                said = f"{error}; decisions go on, and from here on none is logged"
                warnings.warn(said, TacitWarning, stacklevel=2)

    def _write(self, line: bytes) -> None:
        try:
            written = self._file.write(line) or 0
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from None
        if written != len(line):
            with suppress(OSError):  # a device cannot be cut, and the first error is the one to tell
                self._remove_last(written)
            raise OSError(f"{self.path}: no room for a line of {len(line)} bytes")

    def _remove_last(self, written: int) -> None:
        """Take back what was just written, if it still is the end of the file."""
        end = self._file.tell()
        if os.fstat(self._file.fileno()).st_size == end:
            self._file.truncate(end - written)


def _claim(file: FileIO, path: Path) -> None:
    """Lock the file until it is closed, or refuse it."""
    try:
        import fcntl
    except ImportError:  # Windows
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise TacitError(
            f"{path}: another DecisionLog writes to it; expected a file of its own for each, or the other one closed"
        ) from None
    except OSError:  # a file system without locks
        return
