"""What a message must be, and how that is said when it is not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from bayes_tacit.errors import InvalidDataError

Message = Mapping[str, Any]
"""A message as OpenAI's chat format has it: `role`, `content`, and for the assistant `tool_calls`."""

ROLES = ("system", "developer", "user", "assistant", "tool", "function")

_CALLS = "a list of calls, each with a function that has a name and arguments"
_CONTENT = "a text, null, or a list of parts such as {'type': 'text', 'text': ...}"


def text_of(content: object) -> str:
    """Give the text of a message's content: a text, null, or a list of parts, of which those without text are left out.

    Examples
    --------
    >>> text_of([{"type": "text", "text": "look at "}, {"type": "image_url", "image_url": {}}, "this"])
    'look at this'
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_part(part) for part in content)
    raise InvalidDataError(_CONTENT, field="content", value=content)


def _part(part: object) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        raise InvalidDataError(_CONTENT, field="part of content", value=part)
    text = part.get("text", "")
    if not isinstance(text, str):
        raise InvalidDataError("a text", field="text of a part of content", value=text)
    return text


def too_long(text: str, longest: int) -> InvalidDataError:
    """Say that a message is longer than any message is."""
    expected = f"at most {longest:,} (was a file logged in place of a message?)"
    return InvalidDataError(expected, field="number of characters", value=len(text))


def check_answer(message: Message, calls: Sequence[object]) -> None:
    """Refuse a tool's answer that belongs to no call of the turn before it."""
    if not calls:
        raise InvalidDataError(
            "a call by the assistant before a tool's answer", field="role", value=message.get("role")
        )
    given = message.get("tool_call_id")
    if given is not None and given not in calls:
        expected = f"the id of a call of the turn before: {', '.join(map(repr, calls))}"
        raise InvalidDataError(expected, field="tool_call_id", value=given)


def is_flagged(message: Message) -> bool:
    """Tell whether a tool's answer is marked as an error beside its text."""
    return bool(message.get("is_error") or message.get("error") or message.get("status") in ("error", "failed"))


def mean_nll(logprobs: object) -> float | None:
    """Give the mean negative log-likelihood of the tokens, None where there are none.

    Takes what OpenAI's chat and completion formats have, or the bare numbers.

    Examples
    --------
    >>> mean_nll({"content": [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": -1.5}]}), mean_nll([-1.0])
    (1.0, 1.0)
    """
    values = logprobs
    if isinstance(values, Mapping):
        values = values.get("content", values.get("token_logprobs"))
    if values is None:
        return None
    if not isinstance(values, list):
        raise InvalidDataError("a list of log-probabilities, or null", field="logprobs", value=logprobs)
    total, count = 0.0, 0
    for token in values:
        value = token.get("logprob") if isinstance(token, Mapping) else token
        if value is None:
            continue  # the first token of a completion has none
        if isinstance(value, bool) or not isinstance(value, int | float) or not -math.inf < value <= 1e-6:
            raise InvalidDataError("a finite number <= 0", field="logprob", value=value)
        total, count = total - value, count + 1
    return max(total / count, 0.0) if count else None


def check_role(role: object) -> None:
    """Refuse a role that no message has."""
    if role not in ROLES:
        raise InvalidDataError(" or ".join(map(repr, ROLES)), field="role", value=role)


def check_call_name(name: object) -> None:
    """Refuse a call of no tool."""
    if not isinstance(name, str) or not name:
        raise InvalidDataError("the name of a tool", field="name of a call", value=name)


def wrong_message(message: object) -> InvalidDataError:
    """Say what is wrong with the shape of a message."""
    if not isinstance(message, Mapping):
        return InvalidDataError("an object with role and content", field="message", value=message)
    if "role" not in message:
        return InvalidDataError(" or ".join(map(repr, ROLES)), field="role", value=None)
    if message["role"] in ("tool", "function") and "content" not in message:
        return InvalidDataError(_CONTENT, field="content", value=None)
    for name in ("tool_calls", "function_call"):
        if message.get(name):
            return InvalidDataError(_CALLS, field=name, value=message[name])
    return InvalidDataError("a message of OpenAI's chat format", field="message", value=message)


def placed(error: InvalidDataError, number: int) -> InvalidDataError:
    """Add the number of the message, counted from 0, to an error."""
    return InvalidDataError(error.expected, field=error.field, value=error.value, where=f"message {number}")
