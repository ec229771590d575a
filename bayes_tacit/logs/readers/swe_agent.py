"""SWE-agent's trajectories: a file for each task, with its steps of thought, action and observation.

Whether the patch resolves the issue is not in them: it comes from the report of SWE-bench.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.logs.documents import Document
from bayes_tacit.logs.readers.base import Found, optional, required, turn

NAME = "swe-agent"
PATTERN = "*.traj"


def recognizes(content: object) -> bool:
    """Tell it by its steps."""
    steps = content.get("trajectory") if isinstance(content, dict) else None
    return isinstance(steps, list) and (not steps or (isinstance(steps[0], dict) and "action" in steps[0]))


def rollouts(document: Document) -> Iterator[Found]:
    """Give the one rollout of a trajectory; the task is `instance_id`, or the name of the file."""
    content = document.content
    steps = required(content, "trajectory", list, "a list of steps")
    info = content.get("info") if isinstance(content.get("info"), Mapping) else {}
    stats = optional(info, "model_stats")
    messages = _prompt(content.get("history"))
    for number, step in enumerate(steps):
        action = required(step, "action", str, f"a text, in step {number}")
        said, seen = step.get("response"), step.get("observation")
        if not isinstance(said, str | None) or not isinstance(seen, str | None):
            raise InvalidDataError("texts", field=f"response and observation of step {number}", value=(said, seen))
        # Where an answer cannot be parsed SWE-agent asks again and writes no action.
        messages += turn(said or "", action, seen, number, tool="shell")
    yield (
        "",
        {
            "task": content.get("instance_id") or document.path.stem,
            "success": info.get("resolved"),
            "messages": messages,
            "usage": {"prompt_tokens": stats.get("tokens_sent"), "completion_tokens": stats.get("tokens_received")},
            "cost": stats.get("instance_cost"),
        },
    )


def _prompt(history: object) -> list[dict[str, Any]]:
    """Give what was said before the first turn, demonstrations left out."""
    found: list[dict[str, Any]] = []
    for message in history if isinstance(history, list) else ():
        if not isinstance(message, Mapping) or message.get("is_demo"):
            continue
        if message.get("role") not in ("system", "user"):
            break
        found.append({"role": message["role"], "content": message.get("content")})
    return found
