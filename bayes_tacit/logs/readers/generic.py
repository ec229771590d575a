"""The generic format: one rollout a line, as `bayes_tacit.logs.Rollout` describes it."""

from __future__ import annotations

from collections.abc import Iterator

from bayes_tacit.logs.documents import Document
from bayes_tacit.logs.readers.base import Found

NAME = "openai"
PATTERN = "*.jsonl"


def recognizes(content: object) -> bool:
    """Tell a rollout by its task and its messages."""
    return isinstance(content, dict) and "messages" in content and "task" in content


def rollouts(document: Document) -> Iterator[Found]:
    """Give the rollout as it is."""
    yield "", document.content
