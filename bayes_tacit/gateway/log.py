"""The log of sessions: events that several processes append to one file, and that train the next router."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping

from bayes_tacit.events import EventLog, LogFormat

EVENTS = ("start", "step", "reply", "outcome", "end")
LOG = LogFormat("bayes_tacit.gateway", "a log of sessions", EVENTS, first=EVENTS)


class SessionLog:
    r"""Appends what happens in sessions to a log of events; nothing of what was said is in it, and no key.

    Every line has `event`, `episode` (the session), `time` (seconds since 1970) and `scope` (a digest of the API key).
    Any number of processes can share the file.

    =========  =========================================================================================================
    event      what the line holds besides
    =========  =========================================================================================================
    start      the first request: format, schema_version, source of the id, task (its name, or a digest of how the
               conversation begins), features by name, router and shadow (fingerprint, policy, alpha, rule, timing,
               handoff; null without one), handoff
    step       a decision: step (how many steps there have been), turn (the step that the reply will be), side, latched,
               new_handoff, restart, why, decision and shadow (as a `Decision` has them, or null), missing, fault,
               diagnostics by name of the step before (null at the first)
    reply      what came of it: turn, side (who did serve), status, model, finish_reason, usage (prompt, completion,
               cached), nll (sum and tokens), cost, strong_cost (the same turn with Strong alone), seconds, fault
    outcome    success, score, task: what was posted back
    end        closing: what a policy says that judges the whole episode
    =========  =========================================================================================================

    Parameters
    ----------
    path
        The file; made if it does not exist, for this user alone.
    clock
        Returns the time.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "gateway.jsonl"
    >>> SessionLog(path, clock=lambda: 0.0).append("outcome", "d1", "task-1", {"success": True})
    >>> path.read_text()
    '{"event": "outcome", "episode": "task-1", "time": 0.0, "scope": "d1", "success": true}\n'
    """

    def __init__(self, path: str | os.PathLike[str], clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._events = EventLog(path, LOG, shared=True, mode=0o600)
        self.path = self._events.path

    def append(self, event: str, scope: str, session: str, content: Mapping[str, object]) -> None:
        """Write one line.

        Raises
        ------
        OSError
            If there is no room for it.
        """
        named = {"time": self._clock(), "scope": scope}
        self._events.append(event, session, {**named, **{key: _finite(value) for key, value in content.items()}})

    def close(self) -> None:
        """Close the file."""
        self._events.close()


def _finite(value: object) -> object:
    """Return a value as JSON has it: NaN and infinity are null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return value
