"""Logs of the gateway: sessions with outcomes that were posted back, as rollouts of who served them.

A session is one rollout. Served by Cheap alone, it is one of Cheap's; by Strong alone, one of Strong's. Where a handoff
restarted the task, what Strong did then is a rollout of Strong's, as if it had begun. All other sessions that were
handed over in mid-task say what comes of a handoff there, which is a rollout of neither: they are counted and left out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.logs.documents import Document, Progress, files_of, lines_of
from bayes_tacit.logs.readers.base import Found

NAME = "gateway"
PATTERN = "*.jsonl"
FORMAT = "bayes_tacit.gateway"

_BEGINS = b'{"event":'
_OWN = ("prompt_length", "n_tools")
_NLL = "nll"  # the sum beside the mean, which episodes do not carry
_QUIET = {"repeated_call": 0, "short_cycle": 0, "tool_error": 0, "unchanged_observation": 0, "malformed_call": 0}


def opens(path: Path) -> bool:
    """Tell a log by the bytes that it begins with, before all of it is put together."""
    if not path.is_file():
        return True
    with path.open("rb") as file:
        return file.read(len(_BEGINS)) == _BEGINS


def recognizes(content: object) -> bool:
    """Tell a session that was put together from its lines."""
    return isinstance(content, dict) and content.get("format") == FORMAT


def documents(path: Path, progress: Progress | None) -> Iterator[Document]:
    """Give the sessions of a log, or of all logs in a folder, in the order in which they began."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for file in files_of(path, PATTERN):
        for line in lines_of(file, progress):
            _add(found, line)
    for session in found.values():
        yield Document(session, session.pop("path"), session.pop("line"))


def rollouts(document: Document) -> Iterator[Found]:
    """Give the rollout of a session, if it is one and its outcome is known."""
    session = document.content
    side, first = side_of(session)
    if side is None or session["outcome"] is None:
        return
    steps = _steps(session, first)
    if not steps:
        return
    outcome, features = session["outcome"], session["features"]
    rollout = {
        "side": side,
        "task": outcome.get("task") or session["task"],
        "model": next((one["model"] for one in session["replies"].values() if one.get("model")), None),
        "steps": steps,
        "prompt_length": int(features.get("prompt_length", 0)),
        "n_tools": int(features.get("n_tools", 0)),
        **{key: outcome[key] for key in ("success", "score") if outcome.get(key) is not None},
    }
    more = {name: value for name, value in features.items() if name not in _OWN}
    yield f"session {session['episode']!r}", {**rollout, **({"features": more} if more else {})}


def side_of(session: Mapping[str, Any]) -> tuple[str | None, int]:
    """Say whose rollout a session is and from which turn on; None if it is of neither."""
    sides = [session["sides"][turn] for turn in sorted(session["sides"])]
    if len(set(sides)) == 1:
        return sides[0], 0
    handoff = sides.index("strong") if "strong" in sides else len(sides)
    if session["restart"] and "cheap" not in sides[handoff:]:
        return "strong", sorted(session["sides"])[handoff]
    return None, 0


def notes(path: Path) -> tuple[str, ...]:
    """Say of a log what was left out, and why."""
    counts: Counter[str] = Counter()
    for document in documents(path, None):
        session = document.content
        outcome = session["outcome"]
        if outcome is None:
            counts["without"] += 1
        elif side_of(session)[0] is None:
            counts["between"] += 1
            counts["won"] += bool(outcome.get("success"))
    said = []
    if counts["without"]:
        said.append(f"{counts['without']} sessions have no outcome and were left out")
    if counts["between"]:
        said.append(
            f"{counts['between']} sessions were served by both models ({counts['won']} of them with success) and were "
            "left out: they tell what comes of a handoff there, not what either does alone"
        )
    return tuple(said)


def _add(found: dict[tuple[str, str], dict[str, Any]], line: Document) -> None:
    """Put a line where it belongs; of a turn that was asked for again, the last answer counts."""
    content = line.content
    try:
        event, key = content["event"], (content["scope"], content["episode"])
        if event == "start":
            if content["format"] != FORMAT or content["schema_version"] != 1:
                found_version = [content["format"], content["schema_version"]]
                raise InvalidDataError(
                    f"{FORMAT!r} of version 1", field="format", value=found_version, where=line.place
                )
            known = {name: content[name] for name in ("format", "episode", "task", "features")}
            parts: dict[str, Any] = {"sides": {}, "steps": {}, "replies": {}, "outcome": None, "restart": False}
            found.setdefault(key, {**known, **parts, "path": line.path, "line": line.line})
        session = found.get(key)
        if session is None:
            return  # its beginning is in a log that is not here
        if event == "step":
            session["restart"] = session["restart"] or content["restart"]
            session["sides"][content["turn"]] = content["side"]
            if content["diagnostics"] is not None:
                session["steps"][content["step"] - 1] = content["diagnostics"]
        elif event == "reply" and content["status"] < 300 and content["cost"] is not None:
            session["sides"][content["turn"]] = content["side"]
            kept = {name: content[name] for name in ("model", "usage", "cost", "finish_reason", "nll")}
            session["replies"][content["turn"]] = kept
        elif event == "outcome":
            session["outcome"] = {name: content[name] for name in ("success", "score", "task")}
    except (KeyError, TypeError, AttributeError):
        expected = "a line of a gateway's log"
        raise InvalidDataError(expected, field="line", value=json.dumps(content), where=line.place) from None


def _steps(session: Mapping[str, Any], first: int) -> list[dict[str, Any]]:
    """Give the steps from a turn on; the last turn, which no request followed, only where it ended the task."""
    seen, replies = session["steps"], session["replies"]
    last = max(seen, default=-1) + 1
    steps = []
    for number in range(first, last):
        if number not in seen:
            return []
        values = {name: value for name, value in seen[number].items() if name != _NLL}
        steps.append({"diagnostics": values, **_spent(replies.get(number))})
    end = replies.get(last)
    if end is not None and end["finish_reason"] in ("stop", "length"):
        values = {**_QUIET, "no_action": int(end["finish_reason"] == "length")}
        if end["nll"] is not None and end["nll"][1]:
            values["uncertainty"] = end["nll"][0] / end["nll"][1]
        steps.append({"diagnostics": values, **_spent(end)})
    return steps


def _spent(reply: Mapping[str, Any] | None) -> dict[str, Any]:
    if reply is None:
        return {}
    usage = reply["usage"]
    if usage is None:
        return {"cost": reply["cost"]}
    tokens = {"prompt_tokens": usage["prompt"], "completion_tokens": usage["completion"]}
    return {"cost": reply["cost"], "usage": tokens}
