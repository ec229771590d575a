"""What a conversation is known by: marks of its beginnings, so that a longer one is recognized without keeping it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from bayes_tacit.logs.messages import Message

MARK = 8
"""Bytes of a mark: enough to tell the beginnings of one session apart."""

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), check_circular=False).encode


def marks_of(messages: Sequence[Message]) -> tuple[bytes, ...]:
    """Give the marks of a conversation: one of all that stands before each turn of the assistant, and one of all of it.

    Marks are of what was said and called. What moves from request to request without changing the conversation, such as
    a mark where a prompt is to be cached, does not count.

    Examples
    --------
    >>> first = [{"role": "user", "content": "Hi"}]
    >>> later = [*first, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "Bye"}]
    >>> marks_of(first)[0] == marks_of(later)[0], len(marks_of(later))
    (True, 2)
    """
    running, marks = blake2b(digest_size=MARK), []
    for message in messages:
        if message.get("role") == "assistant":
            marks.append(running.digest())
        running.update(_said(message))
    return (*marks, running.digest())


def root_of(messages: Sequence[Message]) -> str:
    """Give what a task is known by where nobody named it: its system prompts and its first message of the user.

    Examples
    --------
    >>> ask = {"role": "user", "content": "Fix it."}
    >>> root_of([ask]) == root_of([ask, {"role": "assistant", "content": "Done."}])
    True
    """
    running = blake2b(digest_size=12)
    for message in messages:
        role = message.get("role")
        if role in ("system", "developer", "user"):
            running.update(_said(message))
        if role not in ("system", "developer"):
            break
    return running.hexdigest()


def reply_mark(message: Message) -> str:
    """Give what an answer of the assistant is known by when it comes back in the next request.

    Clients may trim its text and write a call's arguments anew; the ids of calls stay.
    """
    running = blake2b(digest_size=MARK)
    calls = message.get("tool_calls")
    named = [call for call in calls if isinstance(call, Mapping)] if isinstance(calls, list) else []
    for call in named:
        running.update(_bytes(call.get("id") or _encode(call.get("function"))))
    if not named:
        running.update(_bytes("".join(_texts(message.get("content"))).strip()))
    return running.hexdigest()


def _said(message: Message) -> bytes:
    """Give what a message says and calls as bytes, such that different ones differ."""
    content = message.get("content")
    if content.__class__ is not str:
        content = "" if content is None else "".join(_texts(content))
    text = f"\x00{message.get('role')}\x00{content}"
    calls, answered = message.get("tool_calls"), message.get("tool_call_id")
    if calls:
        text += "".join(map(_called, calls)) if isinstance(calls, list) else _encode(calls)
    if answered is not None:
        text += f"\x01{answered}"
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _called(call: object) -> str:
    if not isinstance(call, Mapping):
        return _encode(call)
    function = call.get("function")
    if isinstance(function, Mapping) and isinstance(function.get("arguments"), str):
        return f"\x02{call.get('id')}\x02{function.get('name')}\x02{function['arguments']}"
    return f"\x02{call.get('id')}\x02{_encode(function)}"


def _texts(content: object) -> Iterator[str]:
    if not isinstance(content, list):
        yield content if isinstance(content, str) else _encode(content)
        return
    for part in content:
        if isinstance(part, str):
            yield part
        elif isinstance(part, Mapping) and isinstance(part.get("text"), str):
            yield part["text"]
        elif isinstance(part, Mapping):
            yield _encode({key: value for key, value in part.items() if key != "cache_control"})
        else:
            yield _encode(part)


def _bytes(text: Any) -> bytes:  # noqa: ANN401  what should be a text
    return str(text).encode("utf-8", "surrogatepass")
