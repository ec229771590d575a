"""One request on its way: read, decided, sent on, and passed back as it comes."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import aiohttp
from starlette.types import Receive, Scope, Send

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.gateway.engine import Ruling
from bayes_tacit.gateway.forwarding import forwarded
from bayes_tacit.gateway.kept import Side
from bayes_tacit.gateway.replies import Reply, Usage, read_reply, read_stream
from bayes_tacit.gateway.server.metrics import Metrics
from bayes_tacit.gateway.server.settings import Settings
from bayes_tacit.gateway.server.upstreams import PREFIX, Headers, Upstreams
from bayes_tacit.gateway.sessions import TASK, Identity, Sessions, Ticket, checked_id, features_in, identify
from bayes_tacit.logs.messages import Message


class RefusedError(Exception):
    """A request that is answered here, with a status and a sentence.

    Attributes
    ----------
    status
        As HTTP has it.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def error_body(status: int, message: str) -> bytes:
    """Give an error as OpenAI's clients read it."""
    kind = "invalid_request_error" if status < 500 else "upstream_error"
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": f"tacit_{status}"}}).encode()


async def send_json(send: Send, status: int, content: bytes, headers: Headers | None = None) -> None:
    """Answer with JSON."""
    about = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*about, *(headers or ())]})
    await send({"type": "http.response.body", "body": content})


def ruling_headers(session: str | None, ruling: Ruling, side: Side, model: str | None, fault: str | None) -> Headers:
    """Say in headers who serves and why.

    Examples
    --------
    >>> from bayes_tacit.gateway import Engine, Kept, default_router
    >>> ruling = Engine(default_router()).consider(Kept(), [{"role": "user", "content": "Hi"}])
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
    if ruling.latched:
        told["handoff"] = "restart" if ruling.restart else "resume"
    return [(PREFIX + name.encode(), _visible(value)) for name, value in told.items() if value is not None]


def _visible(value: object) -> bytes:
    """Give a text that a header can carry, on one line."""
    return re.sub(r"[^ -~]+", "?", str(value))[:1000].encode()


LOGPROBS = {"logprobs": True, "top_logprobs": 0}
"""What asks for log-probabilities: some servers give none without the second, which asks for no alternatives."""

_MODEL = re.compile(rb'"model"\s*:\s*"(?:[^"\\]|\\.)*"')


class ClientGoneError(Exception):
    """The client left before its request was whole."""


async def read_body(receive: Receive, declared: str | None, most: int) -> bytes:
    """Read a request's body; one that is too long is refused, as soon as that is known."""
    if declared is not None and declared.isdigit() and len(declared) < 20 and int(declared) > most:
        raise too_long(most)
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        piece = message.get("body", b"")
        size += len(piece)
        if size > most:
            raise too_long(most)
        if not message.get("more_body", False):
            return b"".join([*pieces, piece]) if pieces else piece
        pieces.append(piece)


def too_long(most: int) -> RefusedError:
    """Say that a request is longer than any may be."""
    return RefusedError(413, f"the request has too many bytes; expected at most {most:,}")


def parse_object(raw: bytes) -> dict[str, Any]:
    """Parse a request, which is an object; what is not is told in words.

    Examples
    --------
    >>> parse_object(b"[1]")
    Traceback (most recent call last):
        ...
    bayes_tacit.gateway.server.exchange.RefusedError: the body is a list; expected a JSON object
    """
    try:
        content = json.loads(raw)
    except RecursionError:
        raise RefusedError(400, "the body is nested too deeply; expected a JSON object") from None
    except ValueError as error:
        raise RefusedError(400, f"the body is not JSON ({str(error)[:120]}); expected a JSON object") from None
    if not isinstance(content, dict):
        raise RefusedError(400, f"the body is a {type(content).__name__}; expected a JSON object")
    return content


def conversation(body: Mapping[str, Any]) -> list[Message] | None:
    """Give the messages of a request if they are such; what is wrong with others, the model's server says."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(one, dict) for one in messages):
        return None
    return messages


def outgoing(
    raw: bytes, body: Mapping[str, Any], messages: Sequence[Message] | None, model: str | None, *, logprobs: bool
) -> bytes:
    r"""Give the body to send on: the very bytes that came, unless something has to be another.

    Parameters
    ----------
    raw, body
        What came, and the same parsed.
    messages
        The conversation to send; the list in `body` itself if it is to stay.
    model
        The model's name there; None for what the client says.
    logprobs
        Whether to ask for log-probabilities where the client does not.

    Examples
    --------
    >>> raw = b'{"model": "any", "messages": [ ]}'
    >>> outgoing(raw, json.loads(raw), None, "small", logprobs=False)
    b'{"model":"small", "messages": [ ]}'
    """
    same = messages is None or messages is body.get("messages")
    ask = logprobs and "logprobs" not in body
    rename = model is not None and body.get("model") != model
    if same and not ask:
        if not rename:
            return raw
        # Inside a JSON text a quotation mark is escaped, so these bytes are a key or a value, and once means the key.
        if isinstance(body.get("model"), str) and raw.count(b'"model"') == 1:
            named = b'"model":' + json.dumps(model).encode()
            changed, times = _MODEL.subn(lambda _: named, raw)
            if times == 1:
                return changed
    changes = {"model": model} if rename else {}
    content = {**body, **changes, **({} if same else {"messages": messages}), **(LOGPROBS if ask else {})}
    return json.dumps(content, separators=(",", ":")).encode()


GONE = 499
"""The status that is logged where the client has left."""

TOO_MANY, BROKEN = 429, 500
"""Statuses that stand for a server that cannot serve now: the first, and those from the second on."""

PIECE = 2**18


class Desk:
    """What one worker serves with: sessions, connections and counters."""

    def __init__(self, settings: Settings, sessions: Sessions, upstreams: Upstreams, metrics: Metrics) -> None:
        self.settings = settings
        self.sessions = sessions
        self.upstreams = upstreams
        self.metrics = metrics

    def begin(self, headers: Mapping[str, str], body: Mapping[str, Any]) -> tuple[Ticket | None, list[Message] | None]:
        """Decide who serves; give no ticket for what is no conversation, whose server will say what is wrong."""
        started = time.perf_counter()
        try:
            identity, features = identify(headers, body), features_in(headers)
            task = checked_id(headers[TASK], TASK) if headers.get(TASK) else None
        except InvalidDataError as error:
            raise RefusedError(400, str(error)) from None
        messages = conversation(body)
        if messages is None and identity.session is None:
            return None, None
        try:
            ticket = self.sessions.begin(identity, messages or (), body.get("tools"), features, task)
        except (sqlite3.Error, InvalidDataError) as error:
            self.metrics.add("tacit_faults_total", kind="store")
            raise RefusedError(503, f"sessions cannot be read ({error}); nothing was sent on") from None
        self.metrics.took("tacit_decision_seconds", time.perf_counter() - started)
        self._count(ticket.ruling)
        self._count_lost()
        return ticket, messages

    def _count(self, ruling: Ruling) -> None:
        add = self.metrics.add
        if ruling.new_handoff:
            add("tacit_handoffs_total")
        if ruling.shadow is not None and ruling.shadow.handoff_step == ruling.shadow.step:
            add("tacit_shadow_handoffs_total")
        if ruling.fault is not None:
            add("tacit_faults_total", kind="router" if "router" in ruling.fault else "messages")
        if ruling.missing:
            add("tacit_undecided_total")

    def replied(self, ticket: Ticket | None, side: Side, reply: Reply | None, **about: Any) -> None:  # noqa: ANN401
        """Keep what came of a request; the client has its answer, whatever happens here."""
        if ticket is None:
            return
        try:
            cost = self.sessions.replied(ticket, side, reply, **about)
        except (sqlite3.Error, InvalidDataError):
            self.metrics.add("tacit_faults_total", kind="store")
        else:
            if cost:
                self.metrics.add("tacit_cost_total", cost, side=side)
        self._count_lost()

    def _count_lost(self) -> None:
        """Count lines that the log had no room for."""
        if self.sessions.lost_lines:
            self.metrics.add("tacit_faults_total", self.sessions.lost_lines, kind="log")
            self.sessions.lost_lines = 0


class Chat:
    """Serves `/v1/chat/completions` with the desk of its application."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        desk: Desk = scope["app"].state.desk
        headers: Headers = scope["headers"]
        named = {name.decode("latin-1"): value.decode("utf-8", "replace") for name, value in headers}
        try:
            raw = await read_body(receive, named.get("content-length"), desk.settings.limits.body)
            body = parse_object(raw)
            ticket, messages = desk.begin(named, body)
        except RefusedError as error:
            desk.metrics.add("tacit_requests_total", side="none", status=error.status)
            await send_json(send, error.status, error_body(error.status, str(error)))
            return
        except ClientGoneError:
            desk.metrics.add("tacit_disconnects_total")
            return
        await _Exchange(desk, headers, raw, body, messages, ticket).run(receive, send)


class _Exchange:
    """One request on its way to a server and back."""

    def __init__(
        self,
        desk: Desk,
        headers: Headers,
        raw: bytes,
        body: Mapping[str, Any],
        messages: list[Message] | None,
        ticket: Ticket | None,
    ) -> None:
        self.desk, self.headers, self.raw, self.body = desk, headers, raw, body
        self.messages, self.ticket = messages, ticket
        self.side: Side = "cheap" if ticket is None else ticket.ruling.side
        self.fault: str | None = None
        self.started = time.perf_counter()
        self.status = 0
        self.copy: list[bytes] = []
        self.begun = False

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
            self.desk.replied(self.ticket, self.side, None, status=GONE, seconds=self._seconds(), fault="client gone")
        finally:
            listening.remove_done_callback(left)
            listening.cancel()

    async def _serve(self, send: Send) -> None:
        try:
            answer = await self._asked()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self.status = 504 if isinstance(error, TimeoutError) else 502
            said = f"the {self.side} model's server {_failure(error)}"
            await send_json(send, self.status, error_body(self.status, said), self._told())
            self._done(None, said)
            return
        try:
            await self._pass_back(answer, send)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            # The beginning is with the client already; the connection is closed without an end, as the server's was.
            self._done(None, f"broke off: {_failure(error)}")
        finally:
            answer.close()

    async def _asked(self) -> aiohttp.ClientResponse:
        """Ask the side that serves; if that is Cheap and it cannot, and it is allowed, Strong."""
        may_fall_back = self.desk.settings.fallback and self.side == "cheap"
        try:
            answer = await self._post()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if not may_fall_back:
                raise
            why = _failure(error)
        else:
            if not may_fall_back or not (answer.status == TOO_MANY or answer.status >= BROKEN):
                return answer
            answer.close()
            why = f"answered {answer.status}"
        self.side, self.fault = "strong", f"Strong stood in: Cheap's server {why}"
        self.desk.metrics.add("tacit_fallbacks_total")
        return await self._post()

    async def _post(self) -> aiohttp.ClientResponse:
        messages = self.messages
        if messages is not None and self.ticket is not None:
            messages = (
                list(sent) if (sent := forwarded(messages, self.ticket.ruling, self.side)) is not messages else messages
            )
        ask = self.desk.settings.logprobs and self.side == "cheap"
        model = self.desk.upstreams.model(self.side)
        content = outgoing(self.raw, self.body, messages, model, logprobs=ask)
        return await self.desk.upstreams.post(self.side, self.headers, content)

    async def _pass_back(self, answer: aiohttp.ClientResponse, send: Send) -> None:
        self.status = answer.status
        self.desk.metrics.took("tacit_first_byte_seconds", self._seconds())
        headers = [*self.desk.upstreams.passed_back(self.side, answer.raw_headers), *self._told()]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        self.begun = True
        room = self.desk.settings.limits.copied
        masking = self.desk.upstreams.masking(self.side)
        async for piece in answer.content.iter_any():
            room -= len(piece)
            if room >= 0:
                self.copy.append(piece)
            if ready := masking.passed(piece):
                await send({"type": "http.response.body", "body": ready, "more_body": True})
        await send({"type": "http.response.body", "body": masking.rest()})
        plain = room >= 0 and answer.headers.get("content-encoding", "identity") == "identity"
        self._done(self._read(answer) if plain and answer.status < 300 else None, None)

    def _read(self, answer: aiohttp.ClientResponse) -> Reply:
        raw = b"".join(self.copy)
        try:
            reply = read_stream(raw) if answer.content_type == "text/event-stream" else read_reply(json.loads(raw))
        except (ValueError, RecursionError):
            return Reply()
        if reply.usage is None:
            # Nobody counted tokens: four letters are taken for one.
            return replace(reply, usage=Usage(len(self.raw) // 4, reply.letters // 4, estimated=True))
        return reply

    def _done(self, reply: Reply | None, fault: str | None) -> None:
        if reply is None and self.status < 300 and fault is None:
            reply = Reply()
        faults = "; ".join(one for one in (self.fault, fault) if one) or None
        if fault is not None:
            self.desk.metrics.add("tacit_faults_total", kind="upstream")
        self.desk.metrics.add("tacit_requests_total", side=self.side, status=self.status)
        self.desk.replied(
            self.ticket, self.side, reply, status=self.status, seconds=round(self._seconds(), 6), fault=faults
        )

    def _told(self) -> Headers:
        if self.ticket is None:
            return [(b"x-tacit-served", self.side.encode()), (b"x-tacit-why", b"not a conversation")]
        identity: Identity = self.ticket.identity
        model = self.desk.upstreams.model(self.side) or _name(self.body.get("model"))
        return ruling_headers(identity.session, self.ticket.ruling, self.side, model, self.fault)

    def _seconds(self) -> float:
        return time.perf_counter() - self.started


def _name(model: object) -> str | None:
    return model if isinstance(model, str) else None


def _failure(error: Exception) -> str:
    """Say what happened, without addresses or keys."""
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return "could not be reached"
    if isinstance(error, TimeoutError):
        return "did not answer in time"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "closed the connection without an answer"
    return f"failed ({type(error).__name__})"
