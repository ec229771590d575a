"""LiteLLM: a pre-call hook for its proxy, and the same for calls from Python. Needs the extra `litellm`."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple, cast
from uuid import uuid4

from bayes_tacit.data.timing import Handoff
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.frameworks.shared import record_end, without
from bayes_tacit.gateway import (
    Engine,
    Prices,
    Reply,
    SessionLog,
    Sessions,
    Store,
    Ticket,
    forwarded,
    identify,
    read_reply,
    read_stream,
)
from bayes_tacit.gateway.sessions import TASK, features_in
from bayes_tacit.router import Router

try:
    import litellm
    from litellm.integrations.custom_logger import CustomLogger
except ImportError as error:
    raise without("LiteLLM", "litellm", error) from error

CHAT = ("completion", "acompletion")
CALL_ID = "litellm_call_id"
MOST_OPEN = 10_000
"""Calls of the proxy that may be under way; of the oldest beyond, the reply is not recorded."""


class TacitLiteLLM(CustomLogger):
    """Sends each request to Cheap or to Strong, and a session that was handed off to Strong for good.

    In LiteLLM's proxy it is a callback: requests for `model` are rewritten before they are routed, all others pass. In
    Python, `completion` and `acompletion` take what LiteLLM's functions of these names take. Sessions are told apart as
    the gateway does: by headers, by fields such as `litellm_session_id` or `metadata={"session_id": ...}`, else by the
    conversation itself.

    Parameters
    ----------
    router
        Any router that looks at what messages show.
    cheap, strong
        A model's name, as LiteLLM or the proxy's list knows it; or all that its calls need, by name: `model`,
        `api_base`, `api_key` and so on.
    model
        What clients of the proxy ask for.
    through
        What makes the calls of `completion` and `acompletion`: a `litellm.Router`; by default LiteLLM itself.
    shadow
        A second router, which decides and is logged, and hands off nothing.
    handoff
        "resume" or "restart", in place of what the router says.
    store
        Keeps sessions; in memory by default. Several processes of the proxy need a `FileStore`.
    log
        Where decisions, replies and outcomes are written.
    prices
        What calls cost.

    Attributes
    ----------
    sessions
        What it knows of sessions; `sessions.outcome(scope, name, {"success": True})` says how one ended.

    Examples
    --------
    >>> from bayes_tacit.gateway import default_router
    >>> two = [{"model": f"openai/{name}", "mock_response": f"I am {name}."} for name in ("small", "large")]
    >>> tacit = TacitLiteLLM(default_router(), *two)
    >>> answer = tacit.completion([{"role": "user", "content": "Who are you?"}], metadata={"session_id": "a"})
    >>> answer.choices[0].message.content, tacit.sessions.look("", "a")["calls"]
    ('I am small.', {'cheap': 1})
    """

    def __init__(
        self,
        router: Router,
        cheap: str | Mapping[str, Any],
        strong: str | Mapping[str, Any],
        *,
        model: str = "tacit",
        through: Any = None,  # noqa: ANN401
        shadow: Router | None = None,
        handoff: Handoff | None = None,
        store: Store | None = None,
        log: SessionLog | None = None,
        prices: Prices | None = None,
    ) -> None:
        super().__init__()
        self._sides = {"cheap": _settings("cheap", cheap), "strong": _settings("strong", strong)}
        self._model = model
        self._through = litellm if through is None else through
        self.sessions = Sessions(Engine(router, shadow, handoff=handoff), store, log, prices)
        self._open: OrderedDict[str, _Asked] = OrderedDict()

    def completion(self, messages: list[Any], **settings: Any) -> Any:  # noqa: ANN401  as LiteLLM has it
        """Decide who answers, and call it; a stream is passed on as it comes."""
        asked, call = self._asked(messages, settings)
        try:
            response = self._through.completion(**call)
        except Exception as failure:
            record_end(self.sessions, asked.ticket, asked.began, None, failure)
            raise
        if settings.get("stream"):
            return self._streamed(asked, response)
        record_end(self.sessions, asked.ticket, asked.began, _reply(response))
        return response

    async def acompletion(self, messages: list[Any], **settings: Any) -> Any:  # noqa: ANN401
        """Decide who answers, and call it; a stream is passed on as it comes."""
        asked, call = self._asked(messages, settings)
        try:
            response = await self._through.acompletion(**call)
        except Exception as failure:
            record_end(self.sessions, asked.ticket, asked.began, None, failure)
            raise
        if settings.get("stream"):
            return self._astreamed(asked, response)
        record_end(self.sessions, asked.ticket, asked.began, _reply(response))
        return response

    # What the proxy calls.

    async def async_pre_call_hook(
        self,
        user_api_key_dict: Any,  # noqa: ANN401
        cache: Any,  # noqa: ANN401, ARG002
        data: dict[str, Any],
        call_type: str,
    ) -> dict[str, Any] | None:
        """Rewrite a request for our model before it is routed."""
        if call_type not in CHAT or data.get("model") != self._model:
            return None
        headers = (data.get("proxy_server_request") or {}).get("headers") or {}
        asked, call = self._asked(data.get("messages") or [], data, headers, _scope(user_api_key_dict))
        data.update(call)
        self._open[data.setdefault(CALL_ID, uuid4().hex)] = asked
        if len(self._open) > MOST_OPEN:
            self._open.popitem(last=False)
        return data

    async def async_post_call_success_hook(
        self,
        data: dict[str, Any],
        user_api_key_dict: Any,  # noqa: ANN401, ARG002
        response: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        """Record a whole reply."""
        asked = self._open.pop(data.get(CALL_ID, ""), None)
        if asked is not None:
            record_end(self.sessions, asked.ticket, asked.began, _reply(response))
        return response

    async def async_post_call_streaming_iterator_hook(
        self,
        user_api_key_dict: Any,  # noqa: ANN401, ARG002
        response: Any,  # noqa: ANN401
        request_data: dict[str, Any],
    ) -> AsyncGenerator[Any, None]:
        """Pass a stream on, and record it at its end."""
        asked = self._open.pop(request_data.get(CALL_ID, ""), None)
        async for chunk in response if asked is None else self._astreamed(asked, response):
            yield chunk

    async def async_post_call_failure_hook(
        self,
        request_data: dict[str, Any],
        original_exception: Exception,
        user_api_key_dict: Any,  # noqa: ANN401, ARG002
        traceback_str: str | None = None,  # noqa: ARG002
    ) -> None:
        """Record an error."""
        asked = self._open.pop(request_data.get(CALL_ID, ""), None)
        if asked is not None:
            record_end(self.sessions, asked.ticket, asked.began, None, original_exception)

    def _asked(
        self,
        messages: list[Any],
        settings: Mapping[str, Any],
        given: Mapping[str, Any] | None = None,
        scope: str = "",
    ) -> tuple[_Asked, dict[str, Any]]:
        """Decide, and give what is to be changed in the call."""
        headers = {
            str(name).lower(): str(value) for name, value in (given or settings.get("extra_headers") or {}).items()
        }
        identity = identify(headers, settings)._replace(scope=scope)
        plain = [one if isinstance(one, dict) else one.model_dump(exclude_none=True) for one in messages]
        ticket = self.sessions.begin(identity, plain, settings.get("tools"), features_in(headers), headers.get(TASK))
        sent = forwarded(plain, ticket.ruling)
        changed = {"messages": messages if sent is plain else sent, **self._sides[ticket.ruling.side]}
        call = changed if given is not None else {**settings, **changed}
        return _Asked(ticket, time.perf_counter()), call

    def _streamed(self, asked: _Asked, response: Any) -> Iterator[Any]:  # noqa: ANN401
        seen = _Stream()
        try:
            for chunk in response:
                seen.add(chunk)
                yield chunk
        except Exception as failure:
            record_end(self.sessions, asked.ticket, asked.began, seen.reply(), failure)
            raise
        record_end(self.sessions, asked.ticket, asked.began, seen.reply())

    async def _astreamed(self, asked: _Asked, response: Any) -> AsyncIterator[Any]:  # noqa: ANN401
        seen = _Stream()
        try:
            async for chunk in response:
                seen.add(chunk)
                yield chunk
        except Exception as failure:
            record_end(self.sessions, asked.ticket, asked.began, seen.reply(), failure)
            raise
        record_end(self.sessions, asked.ticket, asked.began, seen.reply())


class _Asked(NamedTuple):
    """One call that was decided."""

    ticket: Ticket
    began: float


class _Stream:
    """Pieces of a streamed reply, as the gateway reads them."""

    def __init__(self) -> None:
        self._events: list[bytes] = []

    def add(self, chunk: Any) -> None:  # noqa: ANN401
        """Keep a piece, if it is one."""
        if hasattr(chunk, "model_dump_json"):
            self._events.append(b"data: " + chunk.model_dump_json().encode() + b"\n\n")

    def reply(self) -> Reply:
        """Read them together."""
        return read_stream(b"".join(self._events))


def _reply(response: Any) -> Reply:  # noqa: ANN401
    return read_reply(response.model_dump()) if hasattr(response, "model_dump") else Reply()


def _settings(side: str, given: str | Mapping[str, Any]) -> dict[str, Any]:
    settings = {"model": given} if isinstance(given, str) else dict(given)
    if not isinstance(settings.get("model"), str) or not settings["model"]:
        raise InvalidDataError("a model's name, or what its calls need with `model` among it", field=side, value=given)
    return settings


def _scope(key: object) -> str:
    """Return the digest of who asks the proxy; the key itself is kept nowhere."""
    known = cast("str", getattr(key, "token", None) or getattr(key, "api_key", None) or "")
    return blake2b(known.encode(), digest_size=8, person=b"tacit scope").hexdigest()
