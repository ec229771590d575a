"""LiteLLM: a callback for its proxy, and the same for calls from Python. Needs the extra `litellm`."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar, Unpack, cast
from uuid import uuid4

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.frameworks import Options, record_end, sessions_of, without
from bayes_tacit.gateway import RedisStore, Reply, Ticket, forwarded, identify
from bayes_tacit.gateway.protocols import CHAT, MESSAGES, RESPONSES, Protocol
from bayes_tacit.gateway.sessions import TASK, features_in, items_in
from bayes_tacit.router import Router

try:
    import litellm
    from litellm.integrations.custom_logger import CustomLogger
except ImportError as error:
    raise without("LiteLLM", "litellm", error) from error

CALLS = {
    **dict.fromkeys(("completion", "acompletion"), CHAT),
    **dict.fromkeys(("responses", "aresponses"), RESPONSES),
    **dict.fromkeys(("anthropic_messages", "anthropic_messages_async"), MESSAGES),
}
"""What the proxy calls requests of each protocol."""

CALL_ID = "litellm_call_id"
OUTCOME = "x-tacit-outcome"
"""A header by which a client says how a session ended; such a request is sent to no model."""

MOST_OPEN = 10_000
"""Calls of the proxy that may be under way; of the oldest beyond, the reply is not recorded."""

T = TypeVar("T")


class TacitLiteLLM(CustomLogger):
    """Sends each request to Cheap or to Strong, and a session that was handed off to Strong for good.

    In LiteLLM's proxy it is a callback: requests for `model` are rewritten before they are routed, in OpenAI's chat and
    responses and in Anthropic's messages; all others pass. Where the proxy has a Redis, sessions are kept there, and
    otherwise in memory, unless `store` says where. In Python, `completion` and `acompletion` take what LiteLLM's
    functions of these names take. Sessions are distinguished as the gateway does: by headers, by fields such as
    `litellm_session_id` or `metadata={"session_id": ...}`, else by the conversation itself. A request with the header
    `x-tacit-outcome: {"success": true}` says how its session ended, and is answered without a model.

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
    **options
        As for `bayes_tacit.frameworks.Options`: shadow, canary, handoff, store, log, prices, plan.

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
        **options: Unpack[Options],
    ) -> None:
        super().__init__()
        self._sides = {"cheap": _settings("cheap", cheap), "strong": _settings("strong", strong)}
        self._model = model
        self._through = litellm if through is None else through
        self._looks_for_redis = options.get("store") is None
        self.sessions = sessions_of(router, options)
        self._open: OrderedDict[str, Any] = OrderedDict()
        self._told: OrderedDict[str, Any] = OrderedDict()

    def completion(self, messages: list[Any], **settings: Any) -> Any:  # noqa: ANN401  as LiteLLM has it
        """Decide who answers, and call it; a stream is passed on as it comes."""
        asked, call = self._called(messages, settings)
        try:
            response = self._through.completion(**call)
        except Exception as failure:
            self._record(asked, None, failure)
            raise
        if settings.get("stream"):
            return self._streamed(asked, response)
        self._record(asked, asked.read(response))
        return response

    async def acompletion(self, messages: list[Any], **settings: Any) -> Any:  # noqa: ANN401
        """Decide who answers, and call it; a stream is passed on as it comes."""
        asked, call = await self._aside(lambda: self._called(messages, settings))
        try:
            response = await self._through.acompletion(**call)
        except Exception as failure:
            await self._arecord(asked, None, failure)
            raise
        if settings.get("stream"):
            return self._astreamed(asked, response)
        await self._arecord(asked, asked.read(response))
        return response

    # What the proxy calls.

    async def async_pre_call_hook(
        self,
        user_api_key_dict: Any,  # noqa: ANN401
        cache: Any,  # noqa: ANN401
        data: dict[str, Any],
        call_type: str,
    ) -> dict[str, Any] | None:
        """Rewrite a request for our model before it is routed; answer one that tells an outcome."""
        protocol = CALLS.get(call_type)
        if protocol is None or data.get("model") != self._model:
            return None
        self._share(cache)
        headers = _lower((data.get("proxy_server_request") or {}).get("headers") or {})
        scope = _scope(user_api_key_dict)
        if OUTCOME in headers:
            # What LiteLLM answers in a model's place.
            told = await self._aside(lambda: self._outcome(scope, headers, data))
            return {**data, **self._sides["cheap"], "mock_response": told}
        asked, changes = await self._aside(lambda: self._asked(protocol, data, headers, scope))
        data.update(changes)
        for name in [name for name, value in changes.items() if value is None]:
            del data[name]
        call = data.setdefault(CALL_ID, uuid4().hex)
        for known, value in ((self._open, asked), (self._told, _headers(asked.ticket))):
            known[call] = value
            if len(known) > MOST_OPEN:
                known.popitem(last=False)
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
            await self._arecord(asked, asked.read(response))
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

    async def async_post_call_response_headers_hook(
        self,
        data: dict[str, Any],
        user_api_key_dict: Any,  # noqa: ANN401, ARG002
        response: Any,  # noqa: ANN401, ARG002
        request_headers: dict[str, str] | None = None,  # noqa: ARG002
        litellm_call_info: dict[str, Any] | None = None,  # noqa: ARG002
    ) -> dict[str, str] | None:
        """Tell in headers of the answer who served and why."""
        return self._told.pop(data.get(CALL_ID, ""), None)

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
            await self._arecord(asked, None, original_exception)

    def _called(self, messages: list[Any], settings: Mapping[str, Any]) -> tuple[_Asked, dict[str, Any]]:
        plain = [one if isinstance(one, dict) else one.model_dump(exclude_none=True) for one in messages]
        headers = _lower(settings.get("extra_headers") or {})
        asked, changes = self._asked(CHAT, {**settings, "messages": plain}, headers, "")
        return asked, {**settings, "messages": messages, **changes}

    def _asked(
        self, protocol: Protocol, body: Mapping[str, Any], headers: Mapping[str, str], scope: str
    ) -> tuple[_Asked, dict[str, Any]]:
        """Decide, and return what is to be changed in the call."""
        identity = identify(headers, body, scope)
        changes: dict[str, Any] = {}
        last = body.get("previous_response_id") if protocol is RESPONSES else None
        if last is not None and (recalled := self.sessions.recalled(scope, str(last))) is not None:
            changes = {"input": [*recalled[0], *items_in(body.get("input"))], "previous_response_id": None}
            identity = identity._replace(session=identity.session or recalled[1])
        messages = protocol.read({**body, **changes}) or []
        ticket = self.sessions.begin(identity, messages, body.get("tools"), features_in(headers), headers.get(TASK))
        sent = forwarded(messages, ticket.ruling)
        if sent is not messages:
            changes |= protocol.write(sent, messages)
        asked = _Asked(protocol, ticket, time.perf_counter(), {**body})
        return asked, {**changes, **self._sides[ticket.ruling.side]}

    def _outcome(self, scope: str, headers: Mapping[str, str], data: Mapping[str, Any]) -> str:
        identity = identify(headers, data)
        try:
            content = json.loads(headers[OUTCOME])
        except ValueError:
            content = None
        known = self.sessions.outcome(scope, identity.session or "", content)
        return "no such session" if known is None else json.dumps(known)

    def _record(self, asked: _Asked, reply: Reply | None, failure: Exception | None = None) -> None:
        if reply is not None and failure is None:
            self.sessions.remember(asked.ticket, asked.body, reply)
        record_end(self.sessions, asked.ticket, asked.began, reply, failure)

    async def _arecord(self, asked: _Asked, reply: Reply | None, failure: Exception | None = None) -> None:
        await self._aside(lambda: self._record(asked, reply, failure))

    async def _aside(self, work: Callable[[], T]) -> T:
        """Do what takes time in a thread, so that others are served."""
        return await asyncio.to_thread(work) if self.sessions.store.remote else work()

    def _share(self, cache: Any) -> None:  # noqa: ANN401
        """Keep sessions in the proxy's Redis, if it has one; looked for in the first request."""
        if not self._looks_for_redis:
            return
        self._looks_for_redis = False
        found = getattr(cache, "redis_cache", None)
        proxy = sys.modules.get("litellm.proxy.proxy_server")
        if found is None and proxy is not None:
            found = proxy.redis_usage_cache
        if found is not None:
            self.sessions.store = RedisStore("", client=found.redis_client)

    def _streamed(self, asked: _Asked, response: Any) -> Iterator[Any]:  # noqa: ANN401
        seen: list[bytes] = []
        try:
            for chunk in response:
                seen.append(_event(chunk))
                yield chunk
        except Exception as failure:
            self._record(asked, asked.protocol.stream(b"".join(seen)), failure)
            raise
        self._record(asked, asked.protocol.stream(b"".join(seen)))

    async def _astreamed(self, asked: _Asked, response: Any) -> AsyncIterator[Any]:  # noqa: ANN401
        seen: list[bytes] = []
        try:
            async for chunk in response:
                seen.append(_event(chunk))
                yield chunk
        except Exception as failure:
            await self._arecord(asked, asked.protocol.stream(b"".join(seen)), failure)
            raise
        await self._arecord(asked, asked.protocol.stream(b"".join(seen)))


class _Asked(NamedTuple):
    """One call that was decided."""

    protocol: Protocol
    ticket: Ticket
    began: float
    body: Mapping[str, Any]

    def read(self, response: Any) -> Reply:  # noqa: ANN401
        """Read a whole reply."""
        return self.protocol.reply(response.model_dump() if hasattr(response, "model_dump") else response)


def _event(chunk: Any) -> bytes:  # noqa: ANN401
    """Return a piece of a stream as it is sent."""
    if isinstance(chunk, bytes | str):
        return chunk if isinstance(chunk, bytes) else chunk.encode()
    text = chunk.model_dump_json() if hasattr(chunk, "model_dump_json") else json.dumps(chunk, default=str)
    return b"data: " + text.encode() + b"\n\n"


def _lower(headers: Mapping[str, Any]) -> dict[str, str]:
    return {str(name).lower(): str(value) for name, value in headers.items()}


def _headers(ticket: Ticket) -> dict[str, str]:
    """Tell who serves and why, as the gateway does."""
    ruling = ticket.ruling
    told = {"session": ticket.identity.session, "step": ruling.step, "served": ruling.side, "why": ruling.why}
    told |= {"handoff": ruling.handoff, "fault": ruling.fault}
    return {
        f"x-tacit-{name}": "".join(letter if " " <= letter <= "~" else "?" for letter in str(value))[:1000]
        for name, value in told.items()
        if value is not None
    }


def _settings(side: str, given: str | Mapping[str, Any]) -> dict[str, Any]:
    settings = {"model": given} if isinstance(given, str) else dict(given)
    if not isinstance(settings.get("model"), str) or not settings["model"]:
        raise InvalidDataError("a model's name, or what its calls need with `model` among it", field=side, value=given)
    return settings


def _scope(key: object) -> str:
    """Return the digest of who asks the proxy; the key itself is kept nowhere."""
    known = cast("str", getattr(key, "token", None) or getattr(key, "api_key", None) or "")
    return blake2b(known.encode(), digest_size=8, person=b"tacit scope").hexdigest()
