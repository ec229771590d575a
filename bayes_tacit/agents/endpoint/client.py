"""One call of a chat-completions endpoint, and what each way to fail means."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from bayes_tacit import validate
from bayes_tacit.agents.errors import ActorError
from bayes_tacit.errors import InvalidDataError, MissingDependencyError

if TYPE_CHECKING:
    import httpx

LARGEST = 16 * 2**20
"""Bytes; an answer that is larger is nonsense."""

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
    no log-probabilities in the answer              nothing: `Answer.tokens` is None
    ==============================================  ===================================================================

    Attributes
    ----------
    base_url
        Address up to the version, such as "http://127.0.0.1:8000/v1".
    model
        Name of the model there.
    key_variable
        Name of the environment variable that holds the key; None where none is needed. The key itself is never kept,
        shown or written.
    temperature, max_tokens, seed
        As the endpoint takes them; a seed of None is not sent.
    timeout
        Seconds within which the whole answer must have come.
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
        if not isinstance(self.base_url, str) or not self.base_url.startswith(("http://", "https://")):
            raise InvalidDataError(
                "an address that starts with http:// or https://", field="base_url", value=self.base_url
            )
        validate.number("temperature", self.temperature, "a finite number >= 0", least=0)
        validate.whole("max_tokens", self.max_tokens, 1)
        validate.number("timeout", self.timeout, "a finite number > 0", above=0)
        self._key()

    def complete(self, messages: Sequence[Mapping[str, str]]) -> Answer:
        """Ask once.

        Parameters
        ----------
        messages
            The conversation: {"role": ..., "content": ...} each.
        """
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [dict(message) for message in messages],
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            **self.extra,
        }
        if self.logprobs:
            # Some servers give none unless they are also told how many alternatives to list.
            body |= {"logprobs": True, "top_logprobs": 0}
        if self.seed is not None:
            body["seed"] = self.seed
        return _answer(self._post(body))

    def _post(self, body: Mapping[str, Any]) -> bytes:
        httpx = _httpx()
        key = self._key()
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        deadline = time.monotonic() + self.timeout
        try:
            with (
                httpx.Client(timeout=self.timeout, verify=_certificates()) as client,
                client.stream(
                    "POST", f"{self.base_url.rstrip('/')}/chat/completions", json=body, headers=headers
                ) as response,
            ):
                content = _read(response, deadline, self.timeout)
        except httpx.TimeoutException:
            raise ActorError(f"no answer within {self.timeout:g} s", transient=True) from None
        except httpx.HTTPError as error:
            raise ActorError(f"no answer: {error or type(error).__name__}", transient=True) from None
        if response.status_code != 200:
            raise _refusal(response, content, key)
        return content

    def _key(self) -> str | None:
        if self.key_variable is None:
            return None
        key = os.environ.get(self.key_variable)
        if not key:
            raise InvalidDataError(
                "the name of an environment variable that holds the key", field="key_variable", value=self.key_variable
            )
        return key


def _httpx() -> Any:  # noqa: ANN401
    try:
        import httpx
    except ImportError:
        raise MissingDependencyError("httpx is not installed; expected pip install 'bayes_tacit[agents]'") from None
    return httpx


@cache
def _certificates() -> Any:  # noqa: ANN401
    """Load the certificates once: that takes longer than a call on the same machine."""
    return _httpx().create_ssl_context()


def _read(response: httpx.Response, deadline: float, timeout: float) -> bytes:
    """Read the body, within the time and size allowed: the client's own time-out counts from byte to byte."""
    chunks, size = [], 0
    for chunk in response.iter_bytes():
        chunks.append(chunk)
        size += len(chunk)
        if size > LARGEST:
            raise ActorError(f"an answer of more than {LARGEST:,} bytes", transient=True)
        if time.monotonic() > deadline:
            raise ActorError(f"no whole answer within {timeout:g} s", transient=True)
    return b"".join(chunks)


def _refusal(response: httpx.Response, content: bytes, key: str | None) -> ActorError:
    status = response.status_code
    said = " ".join(content[:300].decode("utf-8", "replace").split())
    if key is not None:
        said = said.replace(key, "***")
    transient = status in TRANSIENT or status >= 500
    after = retry_after(response.headers.get("Retry-After")) if transient else None
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


def _answer(content: bytes) -> Answer:
    try:
        given = json.loads(content)
        choice = given["choices"][0]
        text = choice["message"]["content"]
        usage = given.get("usage") or {}
        counts = {name: float(n) for name, n in usage.items() if type(n) in (int, float) and math.isfinite(n)}
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        start = content[:80].decode("utf-8", "replace")
        raise ActorError(f"not a chat completion ({type(error).__name__}): {start!r}", transient=True) from None
    if text is not None and not isinstance(text, str):
        raise ActorError(f"not a chat completion: content is {text!r}", transient=True)
    return Answer(_sound(text or ""), _tokens(choice.get("logprobs")), counts)


def _tokens(given: object) -> tuple[Token, ...] | None:
    """Read the log-probabilities in the chat format; whatever else is there counts as none."""
    content = given.get("content") if isinstance(given, dict) else None
    if not isinstance(content, list) or not content:
        return None
    tokens = []
    for each in content:
        fields = each if isinstance(each, dict) else {}
        text, logprob = fields.get("token"), fields.get("logprob")
        if not isinstance(text, str) or not isinstance(logprob, int | float) or not math.isfinite(logprob):
            return None
        tokens.append(Token(_sound(text), float(logprob)))
    return tuple(tokens)


def _sound(text: str) -> str:
    """Replace halves of surrogate pairs, which cannot be written to a file."""
    return text.encode("utf-8", "replace").decode("utf-8")
