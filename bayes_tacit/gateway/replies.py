"""What a reply tells beside its text: tokens and their cost, log-likelihoods, and its mark in the next request."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bayes_tacit import validate
from bayes_tacit.data.costs import NON_NEGATIVE
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.gateway.engine import Ruling
from bayes_tacit.gateway.kept import Kept, Side, reply_mark

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one call.

    Attributes
    ----------
    prompt, completion
        Tokens in and out.
    cached
        How many of those in were cached; None where the server does not say.
    estimated
        Whether nobody counted, and they were taken from the letters.
    """

    prompt: int
    completion: int
    cached: int | None = None
    estimated: bool = False


@dataclass(frozen=True)
class Price:
    """What one model costs, in any unit.

    Attributes
    ----------
    call
        Of each call.
    input, cached, output
        Of a million tokens in, in and cached, and out.

    Examples
    --------
    >>> Price.parse("10"), Price.parse("0.5,0.05,2")
    (Price(call=10.0, input=0.0, cached=0.0, output=0.0), Price(call=0.0, input=0.5, cached=0.05, output=2.0))
    """

    call: float = 0.0
    input: float = 0.0
    cached: float = 0.0
    output: float = 0.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("call", "input", "cached", "output"):
            validate.number(f"{name} price", getattr(self, name), NON_NEGATIVE, least=0)

    @classmethod
    def parse(cls, text: str) -> Price:
        """Read a price of a call, or those of a million input, cached and output tokens with commas between."""
        try:
            numbers = [float(part) for part in text.split(",")]
        except ValueError:
            numbers = []
        if len(numbers) == 1:
            return cls(call=numbers[0])
        if len(numbers) == 3:
            return cls(0.0, *numbers)
        expected = "the price of a call, or three of a million tokens: input,cached,output"
        raise InvalidDataError(expected, field="price", value=text)

    def cost(self, usage: Usage | None, cached: int) -> float:
        """Give the cost of a call of which so many tokens in were cached; without tokens, that of the call alone."""
        if usage is None:
            return self.call
        known = min(cached, usage.prompt)
        tokens = (usage.prompt - known) * self.input + known * self.cached + usage.completion * self.output
        return self.call + tokens / MILLION


@dataclass(frozen=True)
class Prices:
    """What both models cost; by default 1 and 10 a call.

    A handoff sends Strong a conversation that its cache does not hold: the first call after it pays for one whole
    prefix. Where a server does not say what was cached, it is the prompt that the same model was sent before.

    Examples
    --------
    >>> prices, kept = Prices(Price(input=1.0, cached=0.1), Price(input=10.0, cached=1.0)), Kept()
    >>> long = Usage(prompt=1_000_000, completion=0)
    >>> [prices.charge(kept, side, long)[0] for side in ("cheap", "cheap", "strong", "strong")]
    [1.0, 0.1, 10.0, 1.0]
    >>> kept.strong_cost
    13.0
    """

    cheap: Price = Price(call=1.0)
    strong: Price = Price(call=10.0)

    def charge(self, kept: Kept, side: Side, usage: Usage | None) -> tuple[float, float]:
        """Add a call to what the session has cost; give its cost, and what it would have cost with Strong alone."""
        own = self.strong if side == "strong" else self.cheap
        assumed = kept.prompts.get(side, 0)
        cached = assumed if usage is None or usage.cached is None else usage.cached
        cost = own.cost(usage, cached)
        # Strong alone would have had all that was sent before in its cache, whoever it was sent to.
        alone = self.strong.cost(usage, max(kept.prompts.values(), default=0))
        if usage is not None:
            kept.prompts[side] = usage.prompt
        kept.cost += cost
        kept.strong_cost += alone
        kept.calls[side] = kept.calls.get(side, 0) + 1
        return cost, alone


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
