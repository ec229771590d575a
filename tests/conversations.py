"""Rollouts to import, made as short as they can be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def call(name: str = "sql", identity: str = "1", **arguments: object) -> dict[str, Any]:
    """A call, with its arguments as the text that a model writes."""
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def turn(*calls: dict[str, Any], text: str = "", **more: object) -> dict[str, Any]:
    """A turn of the assistant."""
    return {"role": "assistant", "content": text, **({"tool_calls": list(calls)} if calls else {}), **more}


def answer(text: str = "ok", identity: str = "1", **more: object) -> dict[str, Any]:
    """A tool's answer."""
    return {"role": "tool", "tool_call_id": identity, "content": text, **more}


def asked(text: str = "Do it.") -> dict[str, Any]:
    """The user's message."""
    return {"role": "user", "content": text}


def rollout(task: object = "a", *, success: object = True, turns: int = 2, **more: object) -> dict[str, Any]:
    """A rollout with so many turns, each with another call and another answer."""
    messages = [asked()]
    for number in range(turns):
        messages += [turn(call(query=f"{task} {number}")), answer(f"row {number}")]
    return {"task": task, "success": success, "messages": messages} | more


def write(path: Path, *rollouts: object) -> Path:
    """Write one rollout a line."""
    path.write_text("".join(json.dumps(one) + "\n" for one in rollouts), encoding="utf-8")
    return path
