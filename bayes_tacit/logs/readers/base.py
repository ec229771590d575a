"""What a reader is: two functions on a JSON document, and a name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.logs.documents import Document

Found = tuple[str, Mapping[str, Any]]
"""Where in the document a rollout is, empty if it is all of it, and the rollout in the generic format."""


class Reader(Protocol):
    """A module that knows one format.

    Attributes
    ----------
    NAME
        What `--format` calls it.
    PATTERN
        How its files are called in a folder.
    """

    NAME: str
    PATTERN: str

    def recognizes(self, content: object) -> bool:
        """Tell whether a document, parsed from JSON, looks like this format."""
        ...

    def rollouts(self, document: Document) -> Iterator[Found]:
        """Give the rollouts of a document in the generic format.

        What is wrong with a rollout's messages, its outcome or its usage is found where all rollouts are checked. A
        reader says only what it must know itself.
        """
        ...


def required(record: object, key: str, kind: type, expected: str) -> Any:  # noqa: ANN401  of that kind
    """Give a key of a record that must be there and of that kind."""
    value = record.get(key) if isinstance(record, Mapping) else None
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise InvalidDataError(expected, field=key, value=value)
    return value


def optional(record: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Give an object of a record, empty where there is none.

    Examples
    --------
    >>> optional({"info": {"cost": 1}}, "info"), optional({}, "info")
    ({'cost': 1}, {})
    """
    value = record.get(key)
    if value is not None and not isinstance(value, Mapping):
        raise InvalidDataError("an object", field=key, value=value)
    return value or {}


def called(name: str, arguments: object, identity: str) -> dict[str, Any]:
    """Give a call in OpenAI's format."""
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def turn(text: str, action: str | None, answer: str | None, number: int, tool: str = "act") -> list[dict[str, Any]]:
    """Give a turn of an agent that writes its actions as text: a message, and the answer of the environment.

    Examples
    --------
    >>> [message["role"] for message in turn("", "SELECT 1", "[(1,)]", 0)]
    ['assistant', 'tool']
    """
    identity = f"{tool}-{number}"
    said: dict[str, Any] = {"role": "assistant", "content": text}
    if action is None or not action.strip():
        return [said]
    said["tool_calls"] = [called(tool, {"text": action}, identity)]
    if answer is None:
        return [said]
    return [said, {"role": "tool", "tool_call_id": identity, "content": answer}]
