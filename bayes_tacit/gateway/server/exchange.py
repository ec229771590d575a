"""One request on its way: decided, sent on to one of the two servers, and passed back as it comes."""

from __future__ import annotations

import asyncio
import io
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import aiohttp
import orjson
from starlette.types import Receive, Scope, Send

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.gateway.engine import forwarded
from bayes_tacit.gateway.protocols import CHAT, RESPONSES, Protocol
from bayes_tacit.gateway.server.requests import (
    Asked,
    Headers,
    Prefixes,
    RefusedError,
    outgoing,
    parse_object,
    send_json,
)
from bayes_tacit.gateway.server.settings import Settings, Upstream
from bayes_tacit.gateway.server.worker import Metrics, Storage
from bayes_tacit.gateway.session_state import Assignment, Reply, Side, Usage
from bayes_tacit.gateway.sessions import (
    TASK,
    Identity,
    Sessions,
    Ticket,
    checked_id,
    features_in,
    identify,
    items_in,
    named_in,
)
from bayes_tacit.gateway.store import StoreDownError
from bayes_tacit.keys import key_from, masked
from bayes_tacit.logs.messages import Message

PREFIX = b"x-tacit-"
"""How the headers that are ours begin."""

SECRETS = frozenset(
    {b"authorization", b"x-api-key", b"api-key", b"openai-organization", b"openai-project", b"anthropic-api-key"}
)
"""Headers that say who pays."""

HERE = frozenset(
    {
        *(b"host", b"content-length", b"connection", b"keep-alive", b"transfer-encoding", b"te", b"trailer"),
        *(b"proxy-authorization", b"proxy-authenticate", b"proxy-connection", b"cookie", b"set-cookie", b"expect"),
        *(b"upgrade", b"accept-encoding", b"forwarded", b"x-forwarded-for", b"x-real-ip"),
    }
)
"""Headers that belong to one connection, or to nobody else's business, and are not passed on."""

LONG = 2**20
"""Bytes from which on a body is sent in pieces."""

KEPT_OPEN = 4.0
"""Seconds that a connection to a server waits for the next request: less than servers wait before they close it."""


class Upstreams:
    """Connections to both servers, kept open between requests; made inside a running loop."""

    def __init__(self, settings: Settings) -> None:
        limits = settings.limits
        self._sides: dict[Side, Upstream] = {"cheap": settings.cheap, "strong": settings.strong}
        self._keys = {side: key_from(one.key_variable) for side, one in self._sides.items()}
        # The client's key was given for Cheap's server, if it is not one of ours; another must never see it.
        self._ours = settings.doors.client_keys is not None
        self._shares = settings.cheap.origin == settings.strong.origin
        self._client = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEPT_OPEN, ttl_dns_cache=60),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=limits.connecting, connect=limits.connecting, sock_read=limits.silence
            ),
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        )

    def side(self, side: Side) -> Upstream:
        """Return how a side is set up."""
        return self._sides[side]

    async def send(
        self, side: Side, method: str, path: str, query: bytes, headers: Headers, body: bytes = b""
    ) -> aiohttp.ClientResponse:
        """Send a request on, once, and wait for the beginning of the answer."""
        url = f"{self._sides[side].url}{path}{'?' if query else ''}{query.decode('latin-1')}"
        data = None if method == "GET" else body if len(body) < LONG else io.BytesIO(body)
        sent = self._headers(side, headers, by_name=path.startswith("/messages"))
        return await self._client.request(method, url, data=data, headers=sent, allow_redirects=False)

    def without_key(self, side: Side, content: bytes) -> bytes:
        """Mask, in an error or a header of a server, the key that was sent for the client."""
        key = self._keys[side]
        return content if key is None else masked(content.decode("latin-1"), key).encode("latin-1")

    def passed_back(self, side: Side, headers: Iterable[tuple[bytes, bytes]]) -> Headers:
        """Return the headers of an answer that the client is to see."""
        lower = [(name.lower(), self.without_key(side, value)) for name, value in headers]
        return [(name, value) for name, value in lower if name not in HERE and not name.startswith(PREFIX)]

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    def _headers(self, side: Side, headers: Headers, *, by_name: bool) -> list[tuple[str, str]]:
        key = self._keys[side]
        own = key is None and not self._ours and (side == "cheap" or self._shares)
        passed = [
            (name.decode("latin-1"), value.decode("utf-8", "replace"))
            for name, value in headers
            if name not in HERE and not name.startswith(PREFIX) and (own or name not in SECRETS)
        ]
        passed.append(("accept-encoding", "identity"))
        if key is None:
            return passed
        return [*passed, ("x-api-key", key) if by_name else ("authorization", f"Bearer {key}")]


def ruling_headers(
    session: str | None, ruling: Assignment, side: Side, model: str | None, fault: str | None
) -> Headers:
    """Tell in headers who serves and why.

    Examples
    --------
    >>> from bayes_tacit.gateway import Engine, SessionState, default_router
    >>> ruling = Engine(default_router()).consider(SessionState(), [{"role": "user", "content": "Hi"}])
    >>> dict(ruling_headers("a", ruling, "cheap", None, None))[b"x-tacit-why"]
    b'nothing to judge before the first step'
    """
    told: dict[str, object] = {"session": None if session is None else quote(session, safe=" #:/@+=,;|")}
    told |= {"step": ruling.step, "served": side, "model": model}
    decision = ruling.decision
    if decision is not None:
        told["score"] = None if decision.score is None else f"{decision.score:.6g}"
        if decision.lower is not None and decision.upper is not None:
            told["band"] = f"{decision.lower:.6g},{decision.upper:.6g}"
    told |= {"why": ruling.why, "missing": ", ".join(ruling.missing) or None, "fault": fault or ruling.fault}
    told["handoff"] = ruling.handoff
    return [(PREFIX + name.encode(), _visible(value)) for name, value in told.items() if value is not None]


def _visible(value: object) -> bytes:
    """Return a text that a header can carry, on one line."""
    text = str(value)[:1000]
    return (text if text.isascii() and text.isprintable() else re.sub(r"[^ -~]+", "?", text)).encode()


LOGPROBS = {"logprobs": True, "top_logprobs": 0}
"""What asks for log-probabilities: some servers give none without the second, which asks for no alternatives."""

GONE = 499
"""The status that is logged where the client has left."""

CUT = 502
"""The status that is logged where an answer broke off, or ended with an error."""

TOO_MANY, BROKEN = 429, 500
"""Statuses that stand for a server that cannot serve now: the first, and those from the second on."""

_OVERFLOW = re.compile(
    rb"context_length_exceeded|context[ _]length|context window|maximum context|prompt is too long|too many tokens",
    re.IGNORECASE,
)
LARGE = 2**20
"""Bytes from which on a body is read in a thread."""


async def _aside[T](
    raw: bytes, work: Callable[[], T], run: Callable[[Callable[[], T]], Awaitable[T]] | None = None
) -> T:
    """Do what takes as long as a request is large: in a thread where it is, else at once, or as it is run else."""
    if len(raw) > LARGE:
        return await asyncio.to_thread(work)
    return work() if run is None else await run(work)


class Service:
    """What one worker serves with: sessions, connections and counters."""

    def __init__(
        self, settings: Settings, sessions: Sessions, upstreams: Upstreams, metrics: Metrics, storage: Storage
    ) -> None:
        self.settings = settings
        self.sessions = sessions
        self.upstreams = upstreams
        self.metrics = metrics
        self.storage = storage
        self._prefixes = Prefixes()

    async def asked(
        self, protocol: Protocol, raw: bytes, scope: str, headers: Mapping[str, str]
    ) -> tuple[Asked, str | None]:
        """Read a request; return it, and the session that it goes on where it names an earlier answer."""
        name = named_in(headers) if protocol is CHAT else None
        found = None
        if name is not None:
            found = await _aside(raw, lambda: self._prefixes.read((scope, name), raw, self.sessions.engine.readers))
        if found is not None:
            return Asked(raw, found[0], None, seen=found[1]), None
        body = await _aside(raw, lambda: parse_object(raw))
        last = body.get("previous_response_id") if protocol is RESPONSES else None
        if protocol is RESPONSES and body.get("conversation") is not None:
            raise RefusedError(400, "conversation is kept by one server; expected the whole of it in input")
        if not isinstance(last, str):
            return Asked(raw, body, protocol.read(body)), None
        recalled = await self.storage.run(lambda: self.sessions.recalled(scope, last))
        if recalled is None:
            said = f"there is no answer {last[:80]!r} under this key; expected the whole conversation in input"
            raise RefusedError(404, said)
        changes = {"input": [*recalled[0], *items_in(body.get("input"))], "previous_response_id": None}
        return Asked(raw, body, protocol.read({**body, **changes}), changes), recalled[1]

    async def begin(self, headers: Mapping[str, str], asked: Asked, scope: str, session: str | None) -> Ticket | None:
        """Decide who serves; return no ticket for what is no conversation, whose server will say what is wrong."""
        started = time.perf_counter()
        try:
            identity, features = identify(headers, asked.body, scope), features_in(headers)
            task = checked_id(headers[TASK], TASK) if headers.get(TASK) else None
        except InvalidDataError as error:
            raise RefusedError(400, str(error)) from None
        if identity.session is None and session is not None:
            identity = identity._replace(session=session, source="previous_response_id")
        if asked.messages is None and identity.session is None:
            return None
        messages = asked.seen or asked.messages or ()
        try:
            ticket = await _aside(
                asked.raw,
                lambda: self.sessions.begin(identity, messages, asked.body.get("tools"), features, task),
                self.storage.run,
            )
        except (StoreDownError, InvalidDataError) as error:
            self.metrics.add("tacit_faults_total", "kind", "store")
            how = self.settings.store_down
            if how == "fail":
                raise RefusedError(503, f"sessions cannot be read ({error}); nothing was sent on") from None
            # What this process remembers as handed off stays with Strong, whatever else was asked for.
            side: Side = "strong" if how == "strong" or self.sessions.is_latched(identity) else "cheap"
            why = f"the store is down ({error})"
            ruling = Assignment(side, 0, 0, side == "strong", False, False, why, fault=why)
            return Ticket(identity._replace(session=None), ruling)
        self.metrics.took("tacit_decision_seconds", time.perf_counter() - started)
        self._count(ticket.ruling)
        return ticket

    def _count(self, ruling: Assignment) -> None:
        add = self.metrics.add
        if ruling.new_handoff:
            add("tacit_handoffs_total")
        if ruling.shadow is not None and ruling.shadow.handoff_step == ruling.shadow.step:
            add("tacit_shadow_handoffs_total")
        if ruling.skipped:
            add("tacit_skipped_messages_total", amount=ruling.skipped)
        if ruling.fault is not None:
            add("tacit_faults_total", "kind", "router" if "router" in ruling.fault else "messages")
        if ruling.missing:
            add("tacit_undecided_total")
        self._count_lost()

    async def replied(self, ticket: Ticket | None, side: Side, reply: Reply | None, **about: Any) -> None:  # noqa: ANN401
        """Keep what came of a request; the client has its answer, whatever happens here."""
        if ticket is None or ticket.identity.session is None:
            return
        try:
            cost = await self.storage.run(lambda: self.sessions.replied(ticket, side, reply, **about))
        except (StoreDownError, InvalidDataError):
            self.metrics.add("tacit_faults_total", "kind", "store")
        else:
            if cost:
                self.metrics.add("tacit_cost_total", "side", side, amount=cost)
        if reply is not None and reply.usage is not None:
            for kind, count in zip(("prompt", "completion"), reply.usage[:2], strict=True):
                self.metrics.add("tacit_tokens_total", "side", side, "kind", kind, amount=count)
        self._count_lost()

    def _count_lost(self) -> None:
        """Count lines that the log had no room for."""
        if self.sessions.lost_lines:
            self.metrics.add("tacit_faults_total", "kind", "log", amount=self.sessions.lost_lines)
            self.sessions.lost_lines = 0


class Exchange:
    """One request on its way to a server and back; it has no ticket where it is no conversation."""

    def __init__(self, desk: Service, protocol: Protocol, scope: Scope, asked: Asked, ticket: Ticket | None) -> None:
        self.desk, self.protocol, self.asked, self.ticket = desk, protocol, asked, ticket
        self.headers: Headers = scope["headers"]
        self.query: bytes = scope["query_string"]
        self.side: Side = "cheap" if ticket is None else ticket.ruling.side
        self.fault: str | None = None
        self.started = time.perf_counter()
        self.status = 0
        self.copy: list[bytes] = []
        self.room = desk.settings.limits.copied
        self.is_stream = False
        self.recorded = False

    async def run(self, receive: Receive, send: Send) -> None:
        """Serve, and stop at once when the client has gone."""
        task = asyncio.current_task()
        gone = False

        def left(_: object) -> None:
            nonlocal gone
            gone = True
            if task is not None:
                task.cancel()

        listening = asyncio.ensure_future(receive())
        listening.add_done_callback(left)
        try:
            await self._serve(send)
        except asyncio.CancelledError:
            if not gone or task is None:
                raise
            task.uncancel()
            self.desk.metrics.add("tacit_disconnects_total")
            # The server may have read all of the request, and made what was passed on so far.
            await self._done("client gone", GONE)
        finally:
            listening.remove_done_callback(left)
            listening.cancel()

    async def _serve(self, send: Send) -> None:
        try:
            answer, beginning = await self._answer()
        except (RefusedError, aiohttp.ClientError, TimeoutError, OSError) as error:
            said = f"the {self.side} model's server {_failure(error)}"
            self.status = 504 if isinstance(error, TimeoutError) else 502
            if isinstance(error, RefusedError):
                self.status, said = error.status, str(error)
            await send_json(send, self.status, self.protocol.error(self.status, said), self._told())
            await self._done(said, self.status, read=False)
            return
        try:
            await self._pass_back(answer, beginning, send)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            # The beginning is with the client already; the connection is closed without an end, as the server's was.
            await self._done(f"broke off: {_failure(error)}", CUT)
        finally:
            answer.close()

    async def _answer(self) -> tuple[aiohttp.ClientResponse, bytes]:
        """Ask the side that serves, or where it cannot and that is allowed, the other; return what was read already."""
        allowed = self.desk.settings.fallback
        other: Side = "strong" if self.side == "cheap" else "cheap"
        beginning = b""
        try:
            answer = await self._post()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if other not in allowed:
                raise
            why = _failure(error)
        else:
            if answer.status >= 400 and ({other, "overflow"} & set(allowed)):
                beginning = await answer.content.read(2**20)
            down = other in allowed and (answer.status == TOO_MANY or answer.status >= BROKEN)
            full = "overflow" in allowed and answer.status in (400, 413) and _OVERFLOW.search(beginning)
            if not (down or full):
                return answer, beginning
            answer.close()
            why = "has too short a context" if full else f"answered {answer.status}"
        self.fault = f"{other.title()} stood in: {self.side.title()}'s server {why}"
        self.side = other
        self.desk.metrics.add("tacit_fallbacks_total", "side", other)
        return await self._post(), b""

    async def _post(self) -> aiohttp.ClientResponse:
        upstream, asked = self.desk.upstreams.side(self.side), self._needed()
        if self.protocol.name not in upstream.speaks:
            said = (
                f"the {self.side} model's server speaks {' and '.join(upstream.speaks)}, not {self.protocol.name}; "
                "expected a request in a protocol of both (LiteLLM's proxy translates, with the plugin of this gateway)"
            )
            raise RefusedError(400, said)
        changes = dict(asked.changes)
        if asked.messages is not None and self.ticket is not None:
            sent: Sequence[Message] = forwarded(asked.messages, self.ticket.ruling, self.side)
            if sent is not asked.messages:
                changes |= self.protocol.write(sent, asked.messages)
        if self.desk.settings.logprobs and self.side == "cheap" and self.protocol.name == "chat":
            changes |= {} if "logprobs" in asked.body else LOGPROBS
        content = outgoing(asked.raw, asked.body, changes, upstream.model)
        return await self.desk.upstreams.send(self.side, "POST", self.protocol.path, self.query, self.headers, content)

    def _needed(self) -> Asked:
        """Return the request with its messages where something in them may have to be changed."""
        asked, ticket, upstream = self.asked, self.ticket, self.desk.upstreams.side(self.side)
        if asked.seen is None or ticket is None:
            return asked
        turns, by_strong = len(asked.seen.marks), len(ticket.ruling.by_strong)
        foreign = by_strong < turns if self.side == "strong" else by_strong > 0
        rename = upstream.model is not None and asked.raw.count(b'"model"') != 1
        ask = self.desk.settings.logprobs and self.side == "cheap"
        return asked.whole() if foreign or ticket.ruling.cut or rename or ask else asked

    async def _pass_back(self, answer: aiohttp.ClientResponse, beginning: bytes, send: Send) -> None:
        self.status = answer.status
        self.desk.metrics.took("tacit_first_byte_seconds", self._seconds(), "side", self.side)
        self.is_stream = answer.content_type == "text/event-stream"
        failed = answer.status >= 400
        headers = [*self.desk.upstreams.passed_back(self.side, answer.raw_headers), *self._told()]
        length = answer.headers.get("content-length")
        if length is not None and not failed:
            headers.append((b"content-length", length.encode()))
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        # Nobody can use a whole answer before its end, so it is passed on in one piece, after it was recorded; of a
        # stream, that is the last event. So what the client sends next finds its session as it is to be.
        held: list[bytes] = [beginning] if beginning else []
        waiting = not self.is_stream
        async for piece in answer.content.iter_any():
            self.room -= len(piece)
            if self.room >= 0:
                self.copy.append(piece)
            waiting = waiting and self.room >= 0
            waiting = waiting or (self.is_stream and self.protocol.end in piece)
            if waiting or failed:
                held.append(piece)
                continue
            if held:
                piece, held = b"".join([*held, piece]), []
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if answer.headers.get("content-encoding", "identity") != "identity":
            self.room = -1
        await self._done(None, self.status)
        rest = b"".join(held)
        await send(
            {"type": "http.response.body", "body": self.desk.upstreams.without_key(self.side, rest) if failed else rest}
        )

    def _reply(self) -> Reply:
        """Read what came, whole or cut; where nobody counted tokens, four letters are taken for one."""
        raw = b"".join(self.copy) if self.room >= 0 else b""
        try:
            reply = self.protocol.stream(raw) if self.is_stream else self.protocol.reply(orjson.loads(raw or b"{}"))
        except (ValueError, RecursionError):
            reply = Reply()
        if reply.usage is None:
            return replace(reply, usage=Usage(len(self.asked.raw) // 4, reply.letters // 4, estimated=True))
        return reply

    async def _done(self, fault: str | None, status: int, *, read: bool = True) -> None:
        """Record what came of the request, once."""
        if self.recorded:
            return
        self.recorded = True
        known = self._reply() if read and self.status < 300 else None
        if known is not None and known.error is not None:
            # What it says may repeat what was asked, or a key; the client has read it.
            fault, status = fault or "ended with an error", CUT
        if fault is not None and status != GONE:
            self.desk.metrics.add("tacit_faults_total", "kind", "upstream")
        self.desk.metrics.add("tacit_requests_total", "side", self.side, "status", status)
        self.desk.metrics.took("tacit_answer_seconds", self._seconds(), "side", self.side)
        ticket, sessions = self.ticket, self.desk.sessions
        if known is not None and known.stored is not None and fault is None and ticket is not None:
            with suppress(StoreDownError):
                await self.desk.storage.run(lambda: sessions.remember(ticket, self.asked.body, known))
        faults = "; ".join(one for one in (self.fault, fault) if one) or None
        about = {"status": status, "seconds": round(self._seconds(), 6), "fault": faults}
        await self.desk.replied(self.ticket, self.side, known, **about)

    def _told(self) -> Headers:
        if self.ticket is None:
            return [(b"x-tacit-served", self.side.encode()), (b"x-tacit-why", b"not a conversation")]
        identity: Identity = self.ticket.identity
        named = self.asked.body.get("model")
        model = self.desk.upstreams.side(self.side).model or (named if isinstance(named, str) else None)
        return ruling_headers(identity.session, self.ticket.ruling, self.side, model, self.fault)

    def _seconds(self) -> float:
        return time.perf_counter() - self.started


def _failure(error: Exception) -> str:
    """Tell what happened, without addresses or keys."""
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return "could not be reached"
    if isinstance(error, TimeoutError):
        return "did not answer in time"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "closed the connection without an answer"
    return f"failed ({type(error).__name__})"
