"""What a reply tells beside its text: tokens, log-likelihoods, and what the next request will know it by."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bayes_tacit.gateway.engine import Ruling
from bayes_tacit.gateway.history import reply_mark
from bayes_tacit.gateway.kept import Kept
from bayes_tacit.gateway.prices import Usage

_DATA = b"data:"


@dataclass(frozen=True, slots=True)
class Reply:
    """What is kept of a reply.

    Attributes
    ----------
    mark
        What it is known by when the client sends it back; None if it could not be read.
    model, finish_reason
        As the server says them.
    usage
        Its tokens, if the server says.
    nll
        Sum of negative log-likelihoods and number of tokens that have one; None without log-probabilities.
    letters
        How long its text and the arguments of its calls are.
    """

    mark: str | None = None
    model: str | None = None
    finish_reason: str | None = None
    usage: Usage | None = None
    nll: tuple[float, int] | None = None
    letters: int = 0


def record(kept: Kept, ruling: Ruling, reply: Reply) -> None:
    """Keep what the next request will not show of this reply."""
    kept.reply = reply.mark
    if reply.nll is not None:
        kept.nll[ruling.turn] = reply.nll


def read_reply(content: object) -> Reply:
    """Read a whole reply, parsed from JSON; of what is not as it should be, nothing is kept.

    Examples
    --------
    >>> reply = read_reply({"model": "m", "choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}],
    ...                     "usage": {"prompt_tokens": 9, "completion_tokens": 1}})
    >>> reply.model, reply.finish_reason, reply.usage
    ('m', 'stop', Usage(prompt=9, completion=1, cached=None, estimated=False))
    """
    if not isinstance(content, Mapping):
        return Reply()
    choices = content.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], Mapping) else {}
    message = choice.get("message")
    return Reply(
        mark=reply_mark(message) if isinstance(message, Mapping) else None,
        model=_text(content.get("model")),
        finish_reason=_text(choice.get("finish_reason")),
        usage=_usage(content.get("usage")),
        nll=_nll(_logprobs(choice)),
        letters=_letters(message),
    )


def read_stream(raw: bytes) -> Reply:
    r"""Read a reply that came as a stream of events, all of it at once.

    Examples
    --------
    >>> chunks = [{"choices": [{"delta": {"content": text}}]} for text in ("Hel", "lo")]
    >>> raw = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"
    >>> read_stream(raw).mark == read_reply({"choices": [{"message": {"content": "Hello"}}]}).mark
    True
    """
    text: list[str] = []
    calls: dict[object, dict[str, Any]] = {}
    tokens: list[object] = []
    said: dict[str, Any] = {}
    seen = False
    for line in raw.splitlines():
        if not line.startswith(_DATA):
            continue
        try:
            chunk = json.loads(line[len(_DATA) :])
        except (ValueError, RecursionError):
            continue  # [DONE], or what is no JSON
        if not isinstance(chunk, Mapping):
            continue
        said.update({key: chunk[key] for key in ("model", "usage") if chunk.get(key)})
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, Mapping) or choice.get("index", 0) != 0:
            continue
        if choice.get("finish_reason"):
            said["finish_reason"] = choice["finish_reason"]
        tokens += _logprobs(choice)
        delta = choice.get("delta")
        if isinstance(delta, Mapping):
            seen = True
            if isinstance(delta.get("content"), str):
                text.append(delta["content"])
            _add_calls(calls, delta.get("tool_calls"))
    message = {"content": "".join(text), "tool_calls": list(calls.values())}
    return Reply(
        mark=reply_mark(message) if seen else None,
        model=_text(said.get("model")),
        finish_reason=_text(said.get("finish_reason")),
        usage=_usage(said.get("usage")),
        nll=_nll(tokens),
        letters=_letters(message),
    )


def _add_calls(calls: dict[object, dict[str, Any]], deltas: object) -> None:
    """Put the pieces of calls together: the first has id and name, the rest more of the arguments."""
    for delta in deltas if isinstance(deltas, list) else ():
        if not isinstance(delta, Mapping):
            continue
        function = delta.get("function")
        function = function if isinstance(function, Mapping) else {}
        call = calls.setdefault(str(delta.get("index", 0)), {"id": None, "function": {"name": "", "arguments": ""}})
        call["id"] = call["id"] or delta.get("id")
        for key in ("name", "arguments"):
            call["function"][key] += _text(function.get(key)) or ""


def _letters(message: object) -> int:
    if not isinstance(message, Mapping):
        return 0
    calls = message.get("tool_calls")
    said = len(_text(message.get("content")) or "")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, Mapping) else None
        said += len(_text(function.get("arguments")) or "") if isinstance(function, Mapping) else 0
    return said


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _logprobs(choice: Mapping[str, Any]) -> list[object]:
    logprobs = choice.get("logprobs")
    if not isinstance(logprobs, Mapping):
        return []
    content = logprobs.get("content") or logprobs.get("token_logprobs")
    return content if isinstance(content, list) else []


def _nll(tokens: list[object]) -> tuple[float, int] | None:
    values = [token.get("logprob") if isinstance(token, Mapping) else token for token in tokens]
    numbers = [value for value in values if isinstance(value, int | float) and -math.inf < value <= 1e-6]
    return (max(0.0, -math.fsum(numbers)), len(numbers)) if numbers else None


def _usage(usage: object) -> Usage | None:
    if not isinstance(usage, Mapping):
        return None
    details = usage.get("prompt_tokens_details")
    cached = _count(details.get("cached_tokens")) if isinstance(details, Mapping) else None
    prompt, completion = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    return None if prompt is None else Usage(prompt, completion or 0, cached)


def _count(value: object) -> int | None:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**53
    return int(value) if fits else None  # type: ignore[call-overload]
