"""The log of sessions: events that several processes append to one file, and that train the next router."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

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
               conversation begins), features by name; router, shadow and canary (fingerprint, policy, alpha, rule,
               timing, handoff; null without one), handoff; arm (the way to serve that was drawn) and arms (the
               probability of each)
    step       a decision: step (how many steps there have been), call (the number of the request), router (the
               fingerprint of the one that decided), side, latched, new_handoff, restart, why, decision and shadow (as a
               `Decision` has them, or null), missing, fault, skipped (messages that could not be read), steps (those
               that this request shows for the first time: step, call and side that made it, diagnostics by name),
               about (task and features where they are others than at the start)
    reply      what came of it: call, side (who did serve), status, model, finish_reason, usage (prompt, completion,
               cached, estimated), nll (sum and tokens), cost, strong_cost (the same with Strong alone), seconds, fault
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
    >>> SessionLog(path, clock=lambda: 0.0).append("d1", "task-1", [("outcome", {"success": True})])
    >>> path.read_text()
    '{"event": "outcome", "episode": "task-1", "time": 0.0, "scope": "d1", "success": true}\n'
    """

    def __init__(self, path: str | os.PathLike[str], clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._events = EventLog(path, LOG, shared=True, mode=0o600)
        self.path = self._events.path

    def append(self, scope: str, session: str, lines: Sequence[tuple[str, Mapping[str, object]]]) -> None:
        """Write lines of one session at once, each an event and what it holds.

        Raises
        ------
        OSError
            If there is no room for them.
        """
        named = {"time": self._clock(), "scope": scope}
        try:
            self._events.extend((event, session, {**named, **content}) for event, content in lines)
        except ValueError:  # NaN and infinity, which JSON does not have
            self._events.extend((event, session, {**named, **_finite(content)}) for event, content in lines)

    def close(self) -> None:
        """Close the file."""
        self._events.close()


def _finite(value: Any) -> Any:  # noqa: ANN401
    """Return a value as JSON has it: NaN and infinity are null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return value
