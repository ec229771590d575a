"""What is kept of a reply: tokens and their cost, log-likelihoods, and the mark by which it is known again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bayes_tacit.data.costs import Price
from bayes_tacit.gateway.engine import Assignment
from bayes_tacit.gateway.session_state import MOST_REPLIES, SessionState, Side, reply_mark
from bayes_tacit.logs.messages import Message


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
    error
        What the server says went wrong after it had begun to answer.
    stored
        Of OpenAI's responses, the id and the items by which a later request may go on from it.
    """

    mark: str | None = None
    model: str | None = None
    finish_reason: str | None = None
    usage: Usage | None = None
    nll: tuple[float, int] | None = None
    letters: int = 0
    error: str | None = None
    stored: tuple[str, list[Any]] | None = None


def reply_of(
    message: Message | None,
    *,
    model: object = None,
    finish_reason: object = None,
    usage: Usage | None = None,
    tokens: Sequence[object] = (),
    error: str | None = None,
) -> Reply:
    """Return what is kept of a reply; of what is not as it should be, nothing is.

    Parameters
    ----------
    message
        The turn of the assistant in OpenAI's chat format.
    model, finish_reason, usage, error
        What else the server says.
    tokens
        Log-probabilities of tokens, bare or under `logprob`.
    """
    values = [token.get("logprob") if isinstance(token, Mapping) else token for token in tokens]
    numbers = [value for value in values if isinstance(value, int | float) and -math.inf < value <= 1e-6]
    return Reply(
        mark=None if message is None else reply_mark(message),
        model=text_in(model),
        finish_reason=text_in(finish_reason),
        usage=usage,
        nll=(max(0.0, -math.fsum(numbers)), len(numbers)) if numbers else None,
        letters=0 if message is None else _letters(message),
        error=error,
    )


def text_in(value: object) -> str | None:
    """Return a text, None where there is none."""
    return value if isinstance(value, str) else None


def count_in(value: object) -> int | None:
    """Return a count, None where there is none."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**53
    return int(value) if fits else None  # type: ignore[call-overload]


def _letters(message: Message) -> int:
    content, calls = message.get("content"), message.get("tool_calls")
    parts = [part.get("text") for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []
    said = sum(len(text_in(part) or "") for part in (content, *parts))
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, Mapping) else None
        said += len(text_in(function.get("arguments")) or "") if isinstance(function, Mapping) else 0
    return said


def record(kept: SessionState, ruling: Assignment, side: Side, reply: Reply) -> None:
    """Keep who made a call, and what the request that shows its turn will not say."""
    waiting = kept.replies
    if "" in waiting and waiting[""][0] == ruling.call:
        del waiting[""]
    total, count = reply.nll or (0.0, 0)
    waiting[reply.mark or ""] = (ruling.call, side, total, count)
    while len(waiting) > MOST_REPLIES:
        del waiting[next(iter(waiting))]


@dataclass(frozen=True)
class Prices:
    """What both models cost; by default 1 and 10 a call.

    A handoff sends Strong a conversation that its cache does not hold: the first call after it pays for one whole
    prefix. Where a server does not say what was cached, it is the prompt that the same model was sent before.

    Examples
    --------
    >>> prices, kept = Prices(Price(input=1.0, cached=0.1), Price(input=10.0, cached=1.0)), SessionState()
    >>> long = Usage(prompt=1_000_000, completion=0)
    >>> [prices.charge(kept, side, long)[0] for side in ("cheap", "cheap", "strong", "strong")]
    [1.0, 0.1, 10.0, 1.0]
    >>> kept.strong_cost
    13.0
    """

    cheap: Price = Price(call=1.0)  # noqa: RUF009 - a frozen value
    strong: Price = Price(call=10.0)  # noqa: RUF009 - a frozen value

    def charge(self, kept: SessionState, side: Side, usage: Usage | None) -> tuple[float, float]:
        """Add a call to what the session has cost; give its cost, and what it would have cost with Strong alone."""
        own = self.strong if side == "strong" else self.cheap
        assumed = kept.prompts.get(side, 0)
        cached = assumed if usage is None or usage.cached is None else usage.cached
        cost = _cost(own, usage, cached)
        # Strong alone would have had all that was sent before in its cache, whoever it was sent to.
        alone = _cost(self.strong, usage, max(kept.prompts.values(), default=0))
        if usage is not None:
            kept.prompts[side] = usage.prompt
        kept.cost += cost
        kept.strong_cost += alone
        kept.calls[side] = kept.calls.get(side, 0) + 1
        return cost, alone


def _cost(price: Price, usage: Usage | None, cached: int) -> float:
    """Return the cost of a call of which so many tokens in were cached; without tokens, that of the call alone."""
    return price.call if usage is None else float(price.tokens(usage.prompt, usage.completion, cached))
