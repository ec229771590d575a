"""The decision log of sessions: JSON Lines that several processes append to, and that train the next router."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from bayes_tacit.errors import FileFormatError, MissingFileError
from bayes_tacit.files import as_path

FORMAT = "bayes_tacit.gateway"
SCHEMA_VERSION = 1

_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False, allow_nan=False).encode


class SessionLog:
    r"""Appends what happens in sessions, one JSON object a line; nothing of what was said is in it, and no key.

    Every line has `event`, `time` (seconds since 1970), `scope` (a digest of the API key) and `session`. A line is one
    write at the end of the file, so that any number of processes can share it.

    =========  =========================================================================================================
    event      what the line holds besides
    =========  =========================================================================================================
    session    the first request: format, schema_version, source of the id, task (its name, or a digest of how the
               conversation begins), features by name, router and shadow (fingerprint, policy, alpha, rule, timing,
               handoff; null without one), handoff
    step       a decision: step (how many steps there have been), turn (the step that the reply will be), side, latched,
               new_handoff, restart, why, decision and shadow (as a `Decision` has them, or null), missing, fault,
               diagnostics by name of the step before (null at the first)
    reply      what came of it: turn, side (who did serve), status, model, finish_reason, usage (prompt, completion,
               cached), nll (sum and tokens), cost, strong_cost (the same turn with Strong alone), seconds, fault
    outcome    success, score, task: what was posted back
    finish     closing: what a policy says that judges the whole episode
    =========  =========================================================================================================

    Parameters
    ----------
    path
        The file; made if it does not exist.
    clock
        Gives the time.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "gateway.jsonl"
    >>> SessionLog(path, clock=lambda: 0.0).append("outcome", "d1", "task-1", {"success": True})
    >>> path.read_text()
    '{"event":"outcome","time":0.0,"scope":"d1","session":"task-1","success":true}\n'
    """

    def __init__(self, path: str | os.PathLike[str], clock: Callable[[], float] = time.time) -> None:
        self.path = as_path(path)
        if not self.path.absolute().parent.is_dir():
            raise MissingFileError(f"{self.path.parent}: no such folder; expected the folder in which to log decisions")
        if self.path.exists() and not self.path.is_file():
            raise FileFormatError(f"{self.path} is no file; expected a log of sessions, .jsonl")
        _refuse_other_files(self.path)
        self._clock = clock
        self._torn = False
        self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        if not _ends_whole(self.path):
            self._torn = True

    def append(self, event: str, scope: str, session: str, content: Mapping[str, object]) -> None:
        """Write one line.

        Raises
        ------
        OSError
            If there is no room for it. The next line begins anew then.
        """
        named = {"event": event, "time": self._clock(), "scope": scope, "session": session}
        line = _encode(plain({**named, **content})).encode() + b"\n"
        if self._torn:
            line = b"\n" + line
        written = os.write(self._file, line)
        self._torn = written != len(line)
        if self._torn:
            raise OSError(f"{self.path}: no room for a line of {len(line)} bytes")

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


def plain(value: object) -> object:
    """Give a value as JSON has it: no NaN and no infinity, which are null.

    Examples
    --------
    >>> plain({"score": float("inf"), "steps": (1, 2)})
    {'score': None, 'steps': [1, 2]}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value


def _refuse_other_files(path: Path) -> None:
    """Append to nothing but a log of sessions: its first line tells."""
    if not path.exists():
        return
    with path.open("rb") as file:
        first = file.readline(1 << 16)
    if first.strip() and not first.startswith(b'{"event":'):
        raise FileFormatError(f"{path}: not a log of sessions; expected one, or a file that does not exist")


def _ends_whole(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
