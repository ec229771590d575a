"""mini-swe-agent's trajectories: a file for each task, its messages in OpenAI's format or with commands in their text.

Whether the patch resolves the issue is not in them: it comes from the report of SWE-bench.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from bayes_tacit.logs.documents import Document
from bayes_tacit.logs.readers.base import Found, called, optional, required

NAME = "mini-swe-agent"
PATTERN = "*.traj.json"

_COMMAND = re.compile(r"```[\w-]*\s*\n(.*?)\n?```", re.DOTALL)


def recognizes(content: object) -> bool:
    """Tell it by the name of its version."""
    return isinstance(content, dict) and str(content.get("trajectory_format", "")).startswith("mini-swe-agent")


def rollouts(document: Document) -> Iterator[Found]:
    """Give the one rollout of a trajectory; the task is `instance_id`, or the name of the file."""
    content = document.content
    messages = required(content, "messages", list, "a list of messages")
    info = required(content, "info", dict, "an object with model_stats")
    stats = optional(info, "model_stats")
    config = optional(info, "config")
    yield (
        "",
        {
            "task": content.get("instance_id") or document.path.name.removesuffix(".traj.json"),
            "success": info.get("resolved"),
            "model": optional(config, "model").get("model_name"),
            "messages": list(_messages(messages)),
            "cost": stats.get("instance_cost"),
        },
    )


def _messages(messages: list[Any]) -> Iterator[Any]:
    written = None
    for number, message in enumerate(messages):
        role = message.get("role") if isinstance(message, Mapping) else None
        if role == "assistant":
            said = {**message, **_spent(optional(message, "extra"))}
            written = None
            if not message.get("tool_calls"):
                written = f"bash-{number}"
                said |= _calls(message, written)
                written = written if "tool_calls" in said else None
            yield said
        elif role == "user" and written is not None:
            yield {"role": "tool", "tool_call_id": written, "content": message.get("content")}
            written = None
        elif role != "exit":
            yield message


def _spent(extra: Mapping[str, Any]) -> dict[str, Any]:
    response = optional(extra, "response")
    choices = response.get("choices") or [{}]
    found = {
        "usage": response.get("usage"),
        "cost": extra.get("cost"),
        "finish_reason": choices[0].get("finish_reason"),
    }
    return {name: value for name, value in found.items() if value is not None}


def _calls(message: Mapping[str, Any], identity: str) -> dict[str, Any]:
    """Give the command that is written in a message as a call; more than one block is no command."""
    extra = optional(message, "extra")
    actions = [one["command"] for one in extra.get("actions") or () if isinstance(one, Mapping) and "command" in one]
    text = message.get("content")
    if not actions and isinstance(text, str):
        found = _COMMAND.findall(text)
        actions = found if len(found) == 1 else []
    return {"tool_calls": [called("bash", {"command": one}, identity) for one in actions]} if actions else {}
