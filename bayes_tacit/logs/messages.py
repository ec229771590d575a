"""What messages say: their text, how likely their tokens were, whether they report errors, calls that are in words."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from bayes_tacit.errors import InvalidDataError

Message = Mapping[str, Any]
"""A message as OpenAI's chat format has it: `role`, `content`, and for the assistant `tool_calls`."""

CONTENT = "a text, null, or a list of parts such as {'type': 'text', 'text': ...}"
"""What is expected of a message's content."""

_HINT = re.compile("rror|exit|xception|fa|code|no such|not found|denied")  # most answers hold none of these
_WINDOW = 200  # characters at the start and at the end of an answer that are searched for an error
_OPENING = re.compile(r"[^\w{]*(?:[\w.]*error\b|[\w.]*exception\b|traceback\b|fatal\b|failed\b|failure\b)")
_ANYWHERE = re.compile(
    r"traceback \(most recent call last\)|^[\w.]*(?:error|exception): |command not found|no such file or directory"
    r"|permission denied|syntax error",
    re.MULTILINE,
)
_EXIT = re.compile(r"(?:exit(?:ed with)?[ _-]?(?:code|status)?|return[ _-]?code)[\"'>:=()\s]{0,4}(-?\d+)")
_FIELD = re.compile(
    r'"error(?:_message)?"\s*:\s*(?!\s|null|""|false|\[\]|\{\})|"is_error"\s*:\s*true'
    r'|"status"\s*:\s*"(?:error|failed|failure)"'
)

# How smolagents sends calls back: at the end of a turn, as a list in Python's notation; then what came of them.
_CALLING = "Calling tools:\n["
_ANSWERS = ("Observation:", "Error:", "Call id:")
_RETRY = "\nNow let's retry: take care not to repeat previous errors!"
_LONGEST_CALLS = 200_000

# How agents without calls write what is to be done, the likeliest first: in tags, as ReAct's action, in a fence.
_ACTIONS = (
    re.compile(
        r"<(execute|solution|action|bash|python|code|command|tool_call)\b[^>]*>(?P<action>.*?)</\1\s*>", re.DOTALL
    ),
    re.compile(r"^\s*Action(?: \d+)?:\s*(?P<action>.+(?:\n\s*Action Input(?: \d+)?:.*)?)", re.MULTILINE),
    re.compile(r"```[\w-]*[ \t]*\n(?P<action>.*?)\n?```", re.DOTALL),
)


def text_of(content: object) -> str:
    """Return the text of a message's content: a text, null, or a list of parts, some of which have no text.

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
    raise InvalidDataError(CONTENT, field="content", value=content)


def _part(part: object) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        raise InvalidDataError(CONTENT, field="part of content", value=part)
    text = part.get("text", "")
    if not isinstance(text, str):
        raise InvalidDataError("a text", field="text of a part of content", value=text)
    return text


def mean_nll(logprobs: object) -> float | None:
    """Return the mean negative log-likelihood of the tokens, None where there are none.

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


def reports_error(text: str) -> bool:
    r"""Return whether a tool's answer is an error: it begins with one, a shell says so, or an exit code is not zero.

    Only the first and the last 200 characters are searched, so a word somewhere in a long page does not count, and a
    long page costs no more than a short one.

    Examples
    --------
    >>> [reports_error(text) for text in ("Error: no table", "0 errors", "done\nexit code: 2", "exit code 0")]
    [True, False, True, False]
    """
    start = text.lower() if len(text) <= 2 * _WINDOW else text[:_WINDOW].lower()
    if _HINT.search(start) and (_OPENING.match(start) is not None or _complains(start)):
        return True
    end = text[-_WINDOW:].lower() if len(text) > 2 * _WINDOW else ""
    return _HINT.search(end) is not None and _complains(end)


def _complains(seen: str) -> bool:
    if _ANYWHERE.search(seen) or any(int(code) != 0 for code in _EXIT.findall(seen)):
        return True
    return "{" in seen and _FIELD.search(seen) is not None


def spelled_out(messages: Sequence[Message], action: re.Pattern[str] | None = None) -> Sequence[Message]:
    r"""Return a conversation with its calls as calls, where a client sends them in words or as parts of the content.

    What agents without calls do is recognized where the turns that do it are answered by a user: text in tags such as
    <execute>, ReAct's "Action:", a fence. Where no call is in words, the very same list comes back.

    Parameters
    ----------
    messages
        The conversation.
    action
        How actions are written, in place of those ways: its group `action`, or else its first group or all of it.

    Examples
    --------
    >>> turn = "Calling tools:\n[{'id': 'c1', 'function': {'name': 'sql', 'arguments': {'query': 'x'}}}]"
    >>> found = spelled_out([{"role": "assistant", "content": turn}, {"role": "user", "content": "Observation:\nno"}])
    >>> found[0]["tool_calls"][0]["function"], found[1]["role"], found[1]["content"]
    ({'name': 'sql', 'arguments': '{"query": "x"}'}, 'tool', 'no')
    """
    if not all(isinstance(message, Mapping) for message in messages):
        return messages  # whoever reads the conversation says what is wrong with it
    parts = [part for message in messages for part in _tool_parts(message)]
    if parts:
        return [one for message in messages for one in _without_parts(message)]
    plain = list(messages)
    calls: list[dict[str, Any]] = []
    found = False
    for place, message in enumerate(messages):
        role = message.get("role")
        if role == "assistant":
            if message.get("tool_calls"):
                return messages  # who makes calls as calls makes all of them so
            said = _text(message)
            calls = _calls_in_words(said)
            if not calls and place + 1 < len(messages) and (done := _action(said, action)) is not None:
                calls = [{"id": f"act-{place}", "function": {"name": "act", "arguments": json.dumps({"text": done})}}]
            if calls:
                found = True
                plain[place] = {**message, "tool_calls": calls}
        elif role == "user" and calls and ((text := _text(message)).startswith(_ANSWERS) or "act-" in calls[-1]["id"]):
            plain[place] = {
                "role": "tool",
                "tool_call_id": calls[-1]["id"],
                "content": text.removeprefix("Observation:").lstrip(),
                "status": "error" if _RETRY in text else "success",
            }
    return plain if found else messages


def pattern_of(action: str | None) -> re.Pattern[str] | None:
    """Return the expression for actions, compiled; None for none."""
    try:
        return None if action is None else re.compile(action, re.DOTALL | re.MULTILINE)
    except re.error as error:
        raise InvalidDataError(f"a regular expression ({error})", field="--action", value=action) from None


def _tool_parts(message: Message) -> list[Mapping[str, Any]]:
    """Return the calls and answers that are parts of a content, as Anthropic's messages have them."""
    content = message.get("content")
    kinds = ("tool_use", "tool_result")
    return [
        part
        for part in (content if isinstance(content, list) else ())
        if isinstance(part, Mapping) and part.get("type") in kinds
    ]


def _without_parts(message: Message) -> list[Message]:
    parts = _tool_parts(message)
    if not parts:
        return [message]
    rest = {**message, "content": [part for part in message["content"] if part not in parts]}
    if message.get("role") == "assistant":
        functions = ((part.get("id"), {"name": part.get("name"), "arguments": part.get("input")}) for part in parts)
        return [{**rest, "tool_calls": [{"id": identity, "function": function} for identity, function in functions]}]
    answers: list[Message] = [
        {"role": "tool", "tool_call_id": part.get("tool_use_id"), "content": part.get("content")}
        | ({"is_error": True} if part.get("is_error") else {})
        for part in parts
    ]
    return [*answers, rest] if rest["content"] else answers


def _text(message: Message) -> str:
    try:
        return text_of(message.get("content"))
    except InvalidDataError:
        return ""  # whoever reads the conversation says what is wrong with it


def _action(text: str, pattern: re.Pattern[str] | None) -> str | None:
    """Return what a turn without calls does, as it is written; None if it only talks."""
    hits = (one.search(text[:_LONGEST_CALLS]) for one in (_ACTIONS if pattern is None else (pattern,)))
    hit = next(filter(None, hits), None)
    if hit is None:
        return None
    group = "action" if "action" in hit.re.groupindex else min(hit.re.groups, 1)
    return (hit[group] or "").strip()


def _calls_in_words(text: str) -> list[dict[str, Any]]:
    """Read the calls at the end of a turn; none if they are not as smolagents writes them."""
    start = text.rfind(_CALLING)
    if start < 0 or len(text) - start > _LONGEST_CALLS:
        return []
    calls = []
    try:
        for one in ast.literal_eval(text[start + len(_CALLING) - 1 :]):
            name, arguments = one["function"]["name"], one["function"]["arguments"]
            named = arguments if isinstance(arguments, dict) else {"input": arguments}
            function = {"name": str(name), "arguments": json.dumps(named, default=str)}
            calls.append({"id": str(one["id"]), "function": function})
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError):
        return []
    return calls
