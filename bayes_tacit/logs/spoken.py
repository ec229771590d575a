"""Calls in words: clients that send a model's calls back as text, and what tools answered as a user's message."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from typing import Any

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.logs.messages import Message, text_of

CALLING = "Calling tools:\n["
"""How smolagents writes calls down, at the end of a turn: as a list in Python's notation."""

ANSWERS = ("Observation:", "Error:", "Call id:")
"""How it begins what came of them."""

RETRY = "\nNow let's retry: take care not to repeat previous errors!"
"""What it adds where a call failed."""

LONGEST = 200_000
"""Characters of calls that are read."""


def spelled_out(messages: Sequence[Message]) -> Sequence[Message]:
    r"""Give a conversation with its calls as calls; the very same list where none is in words.

    Examples
    --------
    >>> turn = "Calling tools:\n[{'id': 'c1', 'function': {'name': 'sql', 'arguments': {'query': 'x'}}}]"
    >>> found = spelled_out([{"role": "assistant", "content": turn}, {"role": "user", "content": "Observation:\nno"}])
    >>> found[0]["tool_calls"][0]["function"], found[1]["role"], found[1]["content"]
    ({'name': 'sql', 'arguments': '{"query": "x"}'}, 'tool', 'no')
    """
    plain = list(messages)
    calls: list[dict[str, Any]] = []
    found = False
    for place, message in enumerate(messages):
        role = message.get("role")
        if role == "assistant":
            if message.get("tool_calls"):
                return messages  # who makes calls as calls makes all of them so
            calls = _calls(_text(message))
            if calls:
                found = True
                plain[place] = {**message, "tool_calls": calls}
        elif role == "user" and calls:
            text = _text(message)
            if text.startswith(ANSWERS):
                said = {
                    "role": "tool",
                    "tool_call_id": calls[-1]["id"],
                    "content": text.removeprefix("Observation:").lstrip(),
                }
                plain[place] = {**said, "status": "error" if RETRY in text else "success"}
    return plain if found else messages


def _text(message: Message) -> str:
    try:
        return text_of(message.get("content"))
    except InvalidDataError:
        return ""  # whoever reads the conversation says what is wrong with it


def _calls(text: str) -> list[dict[str, Any]]:
    """Read the calls at the end of a turn; none if they are not as smolagents writes them."""
    start = text.rfind(CALLING)
    if start < 0 or len(text) - start > LONGEST:
        return []
    try:
        written = ast.literal_eval(text[start + len(CALLING) - 1 :])
        return [_call(one["id"], one["function"]["name"], one["function"]["arguments"]) for one in written]
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError):
        return []


def _call(identity: object, name: object, arguments: object) -> dict[str, Any]:
    named = arguments if isinstance(arguments, dict) else {"input": arguments}
    return {"id": str(identity), "function": {"name": str(name), "arguments": json.dumps(named, default=str)}}
