"""tau-bench's results: a JSON list, a record for each task and trial with its messages in `traj`."""

from __future__ import annotations

from collections.abc import Iterator

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.logs.documents import Document
from bayes_tacit.logs.readers.base import Found

NAME = "tau-bench"
PATTERN = "*.json"

_SUCCESS = 1e-6  # by how much a reward of 1 may be off, as in tau-bench itself


def recognizes(content: object) -> bool:
    """Tell it by its first record, also where records are on lines of their own."""
    first = content[0] if isinstance(content, list) and content else content
    return isinstance(first, dict) and "traj" in first and "task_id" in first


def rollouts(document: Document) -> Iterator[Found]:
    """Give a rollout for each record; messages are in OpenAI's format already."""
    records = document.content if isinstance(document.content, list) else [document.content]
    for number, record in enumerate(records):
        inside = f"record {number}" if len(records) > 1 else ""
        if not isinstance(record, dict):
            raise InvalidDataError("an object with task_id, reward and traj", field=inside, value=record)
        info = record.get("info")
        # A run that broke off has no messages and no say about the agent.
        if not record.get("traj") and isinstance(info, dict) and "error" in info:
            continue
        yield inside, _rollout(record)


def _rollout(record: dict[str, object]) -> dict[str, object]:
    reward = record.get("reward")
    found = {
        "task": record.get("task_id"),
        "trial": record.get("trial"),
        "score": reward,
        "messages": record.get("traj"),
    }
    if isinstance(reward, float) and abs(reward - 1) <= _SUCCESS:
        found["score"] = 1.0
    return found
