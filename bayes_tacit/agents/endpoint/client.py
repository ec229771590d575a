"""One call of a chat-completions endpoint, and what each way to fail means."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import islice
from typing import Any

from bayes_tacit import validate
from bayes_tacit.agents.endpoint.transport import Reply, post
from bayes_tacit.agents.errors import ActorError
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.keys import checked_address, excerpt, key_from, masked, no_key_in

LARGEST, PER_TOKEN = 2 * 2**20, 512
"""Bytes of an answer, and more for each token that was asked for; one that is larger is nonsense."""

COUNTS, NAME = 64, 100
"""Numbers of usage that are kept, and letters of their names."""

TRANSIENT = {408, 409, 425, 429}
"""Status codes after which asking again may help, besides those of 500 and more."""


@dataclass(frozen=True)
class Token:
    """A token of an answer and its log-probability."""

    text: str
    logprob: float


@dataclass(frozen=True)
class Answer:
    """What a model said; `tokens` is None where the endpoint gives no log-probabilities."""

    text: str
    tokens: tuple[Token, ...] | None
    usage: Mapping[str, float]


@dataclass(frozen=True)
class Endpoint:
    """A model behind an OpenAI-compatible endpoint.

    ==============================================  ===================================================================
    what happens                                    what `complete` raises
    ==============================================  ===================================================================
    no connection, connection lost, time-out        a transient `ActorError`
    status 408, 409, 425, 429, 500 and above        a transient one, with the server's Retry-After if it gave one
    any other status that is not 200                one that is not transient: the request itself is wrong
    200, but not JSON or not a chat completion      a transient one
    more than 2 MiB and 512 bytes a token, decoded  a transient one
    a text of more than 512 letters a token         a transient one
    no log-probabilities in the answer              nothing: `Answer.tokens` is None
    ==============================================  ===================================================================

    Attributes
    ----------
    base_url
        Address up to the version, such as "http://127.0.0.1:8000/v1", without a password.
    model
        Name of the model there.
    key_variable
        Name of the environment variable that holds the key; None where none is needed. Space around the key is dropped.
        The key itself is never kept, shown or written: where the other side repeats it, `***` stands in its place.
    temperature, max_tokens, seed
        As the endpoint takes them; a seed of None is not sent.
    timeout
        Seconds within which the whole answer must have come, counted from the call.
    logprobs
        Whether to ask for log-probabilities of the answer's tokens.
    extra
        More fields for the request, such as {"top_p": 0.9}.
    """

    base_url: str
    model: str
    key_variable: str | None = None
    temperature: float = 0.0
    max_tokens: int = 256
    seed: int | None = None
    timeout: float = 120.0
    logprobs: bool = True
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the settings."""
        checked_address(self.base_url)
        validate.number("temperature", self.temperature, "a finite number >= 0", least=0)
        validate.whole("max_tokens", self.max_tokens, 1)
        validate.number("timeout", self.timeout, "a finite number > 0", above=0)
        try:
            json.dumps(dict(self.extra), allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            raise InvalidDataError("fields that JSON can hold, by name", field="extra", value=self.extra) from None
        no_key_in(key_from(self.key_variable), base_url=self.base_url, model=self.model, extra=dict(self.extra))

    def complete(self, messages: Sequence[Mapping[str, str]]) -> Answer:
        """Ask once.

        Parameters
        ----------
        messages
            The conversation: {"role": ..., "content": ...} each.
        """
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{name: _sound(text) for name, text in message.items()} for message in messages],
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            **self.extra,
        }
        if self.logprobs:
            # Some servers give none unless they are also told how many alternatives to list.
            body |= {"logprobs": True, "top_logprobs": 0}
        if self.seed is not None:
            body["seed"] = self.seed
        key = key_from(self.key_variable)
        return _answer(self._post(body, key), key, PER_TOKEN * self.max_tokens)

    def _post(self, body: Mapping[str, Any], key: str | None) -> bytes:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        url = f"{self.base_url.rstrip('/')}/chat/completions"
        try:
            reply = post(url, json.dumps(body).encode(), headers, self.timeout, LARGEST + PER_TOKEN * self.max_tokens)
        except ActorError as error:
            raise ActorError(masked(str(error), key), transient=error.transient) from None
        if reply.status != 200:
            raise _refusal(reply, key)
        return reply.content


def _refusal(reply: Reply, key: str | None) -> ActorError:
    status = reply.status
    said = excerpt(" ".join(reply.content.decode("utf-8", "replace").split()), key, 300)
    transient = status in TRANSIENT or status >= 500
    after = retry_after(reply.headers.get("retry-after")) if transient else None
    return ActorError(f"status {status}: {said}", transient=transient, retry_after=after)


def retry_after(given: str | None) -> float | None:
    """Give the seconds that a Retry-After header asks for, as a number or as a date.

    Examples
    --------
    >>> retry_after("1.5"), retry_after("Thu, 01 Jan 1970 00:00:00 GMT"), retry_after("soon")
    (1.5, 0.0, None)
    """
    if given is None:
        return None
    try:
        seconds = float(given)
    except ValueError:
        try:
            date = parsedate_to_datetime(given)
        except ValueError:
            return None
        seconds = (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _answer(content: bytes, key: str | None, longest: int) -> Answer:
    try:
        given = json.loads(content)
        choice = given["choices"][0]
        text = choice["message"]["content"]
        usage = given.get("usage") or {}
        counts = {masked(_sound(name), key): n for name, n in islice(_numbers(usage.items()), COUNTS)}
        logprobs = choice.get("logprobs")
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        start = excerpt(content.decode("utf-8", "replace"), key, 80)
        raise ActorError(f"not a chat completion ({type(error).__name__}): {start!r}", transient=True) from None
    if text is not None and not isinstance(text, str):
        raise ActorError(f"not a chat completion: content is {excerpt(repr(text), key, 80)}", transient=True)
    if len(text or "") > longest:
        raise ActorError(f"a text of more than {longest:,} letters", transient=True)
    return Answer(masked(_sound(text or ""), key), _tokens(logprobs, key, longest), counts)


def _numbers(given: Iterable[tuple[str, object]]) -> Iterator[tuple[str, float]]:
    for name, value in given:
        number = _finite(value)
        if number is not None and len(name) <= NAME:
            yield name, number


def _finite(value: object) -> float | None:
    """Give a number as a float; None for what is none, not finite, or too large for one."""
    try:
        number = float(value) if type(value) in (int, float) else math.nan  # type: ignore[arg-type]
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _tokens(given: object, key: str | None, longest: int) -> tuple[Token, ...] | None:
    """Read the log-probabilities in the chat format; whatever else is there counts as none."""
    content = given.get("content") if isinstance(given, dict) else None
    if not isinstance(content, list) or not content:
        return None
    tokens = []
    for each in content:
        fields = each if isinstance(each, dict) else {}
        text, logprob = fields.get("token"), _finite(fields.get("logprob"))
        if not isinstance(text, str) or logprob is None:
            return None
        tokens.append(Token(_sound(text), logprob))
    # Tokens that spell the key are not kept, and the action's NLL with them.
    whole = "".join(token.text for token in tokens)
    return None if len(whole) > longest or masked(whole, key) != whole else tuple(tokens)


def _sound(text: str) -> str:
    """Replace halves of surrogate pairs, which cannot be written to a file."""
    return text.encode("utf-8", "replace").decode("utf-8")
