"""The gateway as an ASGI application: its routes, what it opens and closes, and how it is run."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import os
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from bayes_tacit.data.costs import Price
from bayes_tacit.errors import InvalidDataError, MissingDependencyError, TacitError
from bayes_tacit.gateway.engine import Engine, default_router
from bayes_tacit.gateway.protocols import CHAT, PROTOCOLS, Protocol
from bayes_tacit.gateway.server.exchange import Exchange, Service, Upstreams
from bayes_tacit.gateway.server.requests import ClientGoneError, RefusedError, parse_object, read_body, send_json
from bayes_tacit.gateway.server.settings import Settings
from bayes_tacit.gateway.server.worker import Metrics, Storage
from bayes_tacit.gateway.session_state import Prices, Side
from bayes_tacit.gateway.sessions import Sessions, checked_id, scope_of
from bayes_tacit.gateway.store import FileStore, MemoryStore, SessionLog, StoreDownError, open_store
from bayes_tacit.keys import key_from
from bayes_tacit.router import Router

logger = logging.getLogger("bayes_tacit.gateway")

BETWEEN = 1.0
"""Seconds between two times that counters are written where workers share them, and a file of sessions is settled."""

HELD = 0.01
"""Seconds for which lines of the log are held back while other requests are under way."""

REFRESH = 30.0
"""Seconds for which the page of the log is shown as it is."""

THREADS = 8
"""Threads that speak to a data base; of a file on this machine, one does what would have to wait."""


def engine_of(settings: Settings) -> Engine:
    """Load the routers, and check that they can decide from messages."""
    router: Router = default_router() if settings.router is None else Router.load(settings.router)
    shadow, canary = (None if one is None else Router.load(one) for one in (settings.shadow, settings.canary))
    return Engine(router, shadow, canary=canary, handoff=settings.handoff)


def remarks_of(settings: Settings, engine: Engine) -> list[str]:
    """Return what is to be said before the first request."""
    said = list(engine.remarks)
    if settings.router is None:
        said.append("no router was given: four bad signs hand off, a rule that nothing was learned for")
    if settings.logprobs and not engine.checkpoints.needs_logprobs:
        said.append("the router looks at no log-probabilities; --logprobs asks for them in vain")
    if settings.doors.client_keys is not None:
        said += [
            f"{name} is sent no key: clients' keys are ours, and --{name.lower()}-key names none"
            for name, one in (("Cheap", settings.cheap), ("Strong", settings.strong))
            if one.key_variable is None
        ]
    elif settings.cheap.origin != settings.strong.origin and settings.strong.key_variable is None:
        said.append("Strong is sent no key: the client's goes to Cheap's host only, and --strong-key names none")
    if settings.plan.explore and settings.log is None:
        said.append("sessions are explored and nothing is logged; what they show is lost")
    return said


class Guard:
    """Who may come in: keys of clients, and the one of the operator."""

    def __init__(self, settings: Settings) -> None:
        doors = settings.doors
        keys = key_from(doors.client_keys) if doors.client_keys is not None else None
        self._clients = None if keys is None else [one.encode() for one in keys.split(",") if one]
        admin = key_from(doors.admin_key)
        self._admin = None if admin is None else admin.encode()

    def scope(self, headers: Any) -> str:  # noqa: ANN401  those of ASGI by name, or Starlette's
        """Return the scope of who asks; refuse who has no key that fits."""
        if self._clients is not None and not any(hmac.compare_digest(_key(headers), one) for one in self._clients):
            raise RefusedError(401, "no key that is known here; expected Authorization: Bearer KEY, or x-api-key")
        return scope_of(headers)

    def is_admin(self, request: Request) -> bool:
        """Return whether the operator asks."""
        return self._admin is not None and hmac.compare_digest(_key(request.headers), self._admin)

    def admin(self, request: Request) -> None:
        """Refuse who is not the operator; without a key for that, whoever is not on this machine."""
        if self._admin is None:
            if request.client is None or request.client.host in ("127.0.0.1", "::1"):
                return
            raise RefusedError(403, "this is for the operator, on this machine or with the key that --admin-key names")
        if not self.is_admin(request):
            raise RefusedError(401, "this is for the operator; expected Authorization: Bearer ADMIN_KEY")


def _key(headers: Any) -> bytes:  # noqa: ANN401
    given = str(headers.get("authorization") or headers.get("x-api-key") or "")
    return given.removeprefix("Bearer ").strip().encode("utf-8", "surrogateescape")


def create_app(settings: Settings) -> Starlette:
    """Return the application that serves with these settings; routers and files are opened now, connections later."""
    limits = settings.limits
    engine, guard = engine_of(settings), Guard(settings)
    log = None if settings.log is None else SessionLog(settings.log)
    prices = Prices(Price.parse(settings.cheap.price), Price.parse(settings.strong.price))
    try:
        store = open_store(settings.state, limits.sessions, limits.idle, limits.store)
    except StoreDownError as error:
        raise InvalidDataError(f"a store that answers ({error})", field="state", value=settings.state) from None
    sessions = Sessions(engine, store, log, prices, settings.plan)
    metrics = Metrics(settings.counters)
    threads = {MemoryStore: 0, FileStore: 1}.get(type(store), THREADS)
    storage = Storage(threads, limits.store, quick=isinstance(store, FileStore))
    Patient.reading = limits.reading

    def close() -> None:
        storage.close()
        metrics.close()
        sessions.store.close()
        if log is not None:
            log.close()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        desk = Service(settings, sessions, Upstreams(settings), metrics, storage)
        app.state.desk = desk
        if isinstance(store, FileStore):
            store.hurry()
        sessions.holds = True
        writing = [asyncio.ensure_future(one) for one in (_keep_writing(desk), _keep_logging(desk))]
        # A worker beside others is replaced by the process that watches over it; one alone loads the router anew.
        with suppress(RuntimeError, ValueError, NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, _reload_quietly, desk)
        try:
            yield
        finally:
            for one in writing:
                one.cancel()
            await desk.upstreams.close()
            close()

    conversations = [Route(f"/v1{one.path}", Conversation(one), methods=["POST"]) for one in PROTOCOLS.values()]
    passed = ("/completions", "/embeddings", "/messages/count_tokens")
    routes = [
        *conversations,
        *(Route(f"/v1{path}", PassThrough(path), methods=["POST"]) for path in passed),
        Route("/v1/models/{name:path}", PassThrough("/models/{name}"), methods=["GET"]),
        Route("/v1/models", _answered(_models), methods=["GET"]),
        Route("/v1/decision", _answered(_decision), methods=["POST"]),
        Route("/v1/sessions/{session:path}/outcome", _answered(_outcome), methods=["POST"]),
        Route("/v1/sessions/{session:path}", _answered(_session), methods=["GET"]),
        Route("/admin/reload", _answered(_reload), methods=["POST"]),
        Route("/admin/monitor", _answered(_monitor), methods=["GET"]),
        Route("/metrics", _answered(_metrics), methods=["GET"]),
        Route("/health", _answered(_ready), methods=["GET"]),
        Route("/health/ready", _answered(_ready), methods=["GET"]),
        Route("/health/live", _answered(_live), methods=["GET"]),
    ]
    missing = {404: _nothing_here, 405: _nothing_here, 500: _broken}
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=missing)
    app.state.page, app.state.drawing = None, asyncio.Lock()
    app.state.guard, app.state.remarks, app.state.close = guard, remarks_of(settings, engine), close
    if settings.telemetry:
        _watch(app)
    return app


class Conversation:
    """Serves the conversations of one protocol with the desk of its application."""

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        desk: Service = scope["app"].state.desk
        limits = desk.settings.limits
        named = {name.decode("latin-1"): value.decode("utf-8", "replace") for name, value in scope["headers"]}
        try:
            key = scope["app"].state.guard.scope(named)
            raw = await read_body(receive, named.get("content-length"), limits.body, limits.reading)
            asked, session = await desk.asked(self.protocol, raw, key, named)
            ticket = await desk.begin(named, asked, key, session)
        except (RefusedError, StoreDownError) as error:
            status, said = _refusal(error)
            desk.metrics.add("tacit_requests_total", "side", "none", "status", status)
            await send_json(send, status, self.protocol.error(status, said))
            return
        except ClientGoneError:
            desk.metrics.add("tacit_disconnects_total")
            return
        await Exchange(desk, self.protocol, scope, asked, ticket).run(receive, send)


class PassThrough:
    """Sends what is no conversation to the model that it names; to Cheap's server, if that is neither's name."""

    def __init__(self, path: str) -> None:
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        response = await _answered(self._passed)(Request(scope, receive))
        await response(scope, receive, send)

    async def _passed(self, request: Request, desk: Service) -> Response:
        request.app.state.guard.scope(request.headers)
        raw = b"" if request.method == "GET" else await _raw_body(request, desk)
        name = request.path_params.get("name")
        named = name if name is not None else parse_object(raw).get("model")
        strong = desk.upstreams.side("strong").model
        side: Side = "strong" if named is not None and named == strong else "cheap"
        path, query = self._path.format(name=name), request.scope["query_string"]
        try:
            answer = await desk.upstreams.send(side, request.method, path, query, request.scope["headers"], raw)
            async with answer:
                content = await answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise RefusedError(502, f"the {side} model's server failed ({type(error).__name__})") from None
        if answer.status >= 400:
            content = desk.upstreams.without_key(side, content)
        headers = desk.upstreams.passed_back(side, answer.raw_headers)
        response = Response(content, answer.status)
        response.raw_headers += [*headers, (b"x-tacit-served", side.encode())]
        return response


Handler = Callable[[Request, Service], Awaitable[Response]]


def _answered(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """Turn what is refused into an answer."""

    async def answer(request: Request) -> Response:
        desk: Service = request.app.state.desk
        try:
            return await handler(request, desk)
        except (RefusedError, TacitError, sqlite3.Error) as error:
            status, said = _refusal(error)
        except ClientGoneError:
            status, said = 400, "the request was cut short"
        if status in (401, 403):
            desk.metrics.add("tacit_refused_total")
        return Response(CHAT.error(status, said), status, media_type="application/json")

    return answer


def _refusal(error: Exception) -> tuple[int, str]:
    if isinstance(error, StoreDownError | sqlite3.Error):
        return 503, f"sessions cannot be read ({error})"
    return getattr(error, "status", 400), str(error)


async def _decision(request: Request, desk: Service) -> Response:
    """Decide on messages without sending them anywhere."""
    scope = request.app.state.guard.scope(request.headers)
    asked, session = await desk.asked(CHAT, await _raw_body(request, desk), scope, request.headers)
    if asked.messages is None and asked.seen is None:
        raise RefusedError(400, "messages are missing; expected a list of at least one message")
    ticket = await desk.begin(request.headers, asked, scope, session)
    assert ticket is not None  # messages are there
    await desk.storage.run(desk.sessions.left)
    ruling = ticket.ruling
    told = {
        "session": ticket.identity.session,
        "source": ticket.identity.source,
        **{name: getattr(ruling, name) for name in _TOLD},
        "decision": None if ruling.decision is None else ruling.decision._asdict(),
        "shadow": None if ruling.shadow is None else ruling.shadow._asdict(),
    }
    return JSONResponse(told)


_TOLD = ("side", "step", "latched", "new_handoff", "restart", "why", "missing", "fault")


def _whose(request: Request) -> tuple[str, str]:
    """Return the scope and the name of the session that a request is about; the operator may name another's scope."""
    session, guard = checked_id(request.path_params["session"], "session"), request.app.state.guard
    if guard.is_admin(request) and "scope" in request.query_params:
        return request.query_params["scope"], session
    return guard.scope(request.headers), session


async def _outcome(request: Request, desk: Service) -> Response:
    """Take how a session ended, from who began it or the operator."""
    scope, session = _whose(request)
    content = parse_object(await _raw_body(request, desk))
    answer = await _known(desk, session, lambda: desk.sessions.outcome(scope, session, content))
    desk.metrics.add("tacit_outcomes_total")
    return answer


async def _session(request: Request, desk: Service) -> Response:
    """Return what is known of a session."""
    scope, session = _whose(request)
    return await _known(desk, session, lambda: desk.sessions.look(scope, session))


async def _known(desk: Service, session: str, work: Callable[[], dict[str, Any] | None]) -> Response:
    known = await desk.storage.run(work)
    if known is None:
        raise RefusedError(404, f"there is no session {session!r} under this key")
    return JSONResponse({"session": session, **known})


async def _models(request: Request, desk: Service) -> Response:
    """List the models of both servers."""
    request.app.state.guard.scope(request.headers)

    async def ask(side: Side) -> tuple[int, bytes]:
        query, headers = request.scope["query_string"], request.scope["headers"]
        async with await desk.upstreams.send(side, "GET", "/models", query, headers) as answer:
            return answer.status, await answer.content.read(2**22)

    found: dict[str, Any] = {}
    status, said = 502, "do not list their models"
    for answer in await asyncio.gather(ask("cheap"), ask("strong"), return_exceptions=True):
        if isinstance(answer, tuple) and answer[0] < 300:
            with suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
                found |= {str(one["id"]): one for one in json.loads(answer[1])["data"]}
        elif isinstance(answer, tuple):
            status, said = answer[0], "refuse to list their models"
        elif not isinstance(answer, aiohttp.ClientError | TimeoutError | OSError):
            raise answer
    if not found:
        raise RefusedError(status, f"the models' servers {said}")
    return JSONResponse({"object": "list", "data": list(found.values())})


async def _metrics(request: Request, desk: Service) -> Response:
    request.app.state.guard.admin(request)
    count = await desk.storage.run(desk.sessions.store.count)
    return PlainTextResponse(desk.metrics.text(count), media_type="text/plain; version=0.0.4")


async def _monitor(request: Request, desk: Service) -> Response:
    """Show the monitor's page on the log as it is now, made anew every half a minute at most."""
    request.app.state.guard.admin(request)
    if desk.settings.log is None:
        raise RefusedError(404, "there is no log; expected serve --log FILE.jsonl")
    state = request.app.state
    async with state.drawing:
        if state.page is None or time.monotonic() > state.page[0] + REFRESH:
            state.page = (time.monotonic(), await _drawn(desk))
    return HTMLResponse(state.page[1], headers={"refresh": f"{REFRESH:g}", "cache-control": "no-store"})


async def _drawn(desk: Service) -> bytes:
    """Draw the page in a process of its own, so that requests are served meanwhile, by the command that writes one."""
    settings = desk.settings
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        words = ["monitor", str(settings.log), "--out", str(page), "--title", "Sessions, as they are served"]
        if settings.router is not None and desk.sessions.engine.router.ranges is not None:
            words += ["--router", settings.router]
        if settings.plan.explore and settings.router is not None:
            files = [settings.router, *([settings.canary] if settings.canary is not None else [])]
            words += [word for file in files for word in ("--compare", file)]
        program = "from bayes_tacit.cli import main; main()"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-W", "ignore", "-c", program, *words),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        said = (await process.communicate())[1].decode(errors="replace")
        if process.returncode:
            raise RefusedError(503, said.strip().rpartition("\n")[2][:300] or "the page could not be drawn")
        return page.read_bytes()


async def _live(_: Request, desk: Service) -> Response:  # noqa: ARG001
    """Tell that the process answers; whoever restarts it when it does not, asks this."""
    return JSONResponse({"status": "ok"})


async def _ready(_: Request, desk: Service) -> Response:
    """Check whether requests can be served and recorded: the store answers, and the log has room."""
    try:
        count = await desk.storage.run(desk.sessions.store.count)
    except StoreDownError as error:
        return JSONResponse({"status": "the store is down", "error": str(error)}, 503)
    if desk.sessions.log_failure is not None:
        return JSONResponse({"status": "the log cannot be written", "error": desk.sessions.log_failure}, 503)
    return JSONResponse({"status": "ok", "sessions": count})


async def _reload(request: Request, desk: Service) -> Response:
    """Load the routers anew; if one cannot be, the old ones stay."""
    request.app.state.guard.admin(request)
    if desk.settings.workers > 1:
        engine = engine_of(desk.settings)  # refused here, before all workers are replaced
        os.kill(os.getppid(), signal.SIGHUP)
    else:
        engine = _loaded(desk)
    return JSONResponse({"router": engine.router.fingerprint, "workers": desk.settings.workers})


def _loaded(desk: Service) -> Engine:
    """Load the routers anew, from the files that they were loaded from."""
    desk.sessions.engine = engine_of(desk.settings)
    desk.metrics.add("tacit_reloads_total")
    return desk.sessions.engine


def _reload_quietly(desk: Service) -> None:
    try:
        logger.warning("loaded router %s", _loaded(desk).router.fingerprint[:12])
    except TacitError as error:
        logger.warning("the router stays as it was: %s", error)


async def _nothing_here(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    known = "/v1/chat/completions, /v1/responses, /v1/messages, /v1/models, /v1/decision, /v1/sessions/ID are"
    said = f"{request.method} {request.url.path[:200]} is not served here; {known}"
    return Response(CHAT.error(status, said), status, media_type="application/json")


async def _broken(_: Request, error: Exception) -> Response:
    said = f"the gateway failed ({type(error).__name__})"
    return Response(CHAT.error(500, said), 500, media_type="application/json")


async def _raw_body(request: Request, desk: Service) -> bytes:
    limits = desk.settings.limits
    return await read_body(request.receive, request.headers.get("content-length"), limits.body, limits.reading)


async def _keep_writing(desk: Service) -> None:
    """Now and then do what takes as long as the disk does."""
    store = desk.sessions.store
    while True:
        await asyncio.sleep(BETWEEN)
        with suppress(sqlite3.Error, StoreDownError):
            desk.metrics.write()
            if isinstance(store, FileStore):
                await desk.storage.aside(store.settle)


async def _keep_logging(desk: Service) -> None:
    """Write lines of the log that are held back: those of many requests at once."""
    while True:
        await asyncio.sleep(HELD)
        if desk.sessions.log is not None and desk.sessions.log.held:
            with suppress(StoreDownError):
                await desk.storage.run(desk.sessions.flush)


def _watch(app: Starlette) -> None:
    """Have OpenTelemetry watch requests and calls, by the instrumentations that there are, as its variables say."""
    try:
        from opentelemetry.instrumentation.aiohttp_client import AioHttpClientInstrumentor
        from opentelemetry.instrumentation.auto_instrumentation import initialize
        from opentelemetry.instrumentation.starlette import StarletteInstrumentor
    except ModuleNotFoundError:
        raise MissingDependencyError("--telemetry needs bayes_tacit[telemetry]") from None
    initialize()
    if not AioHttpClientInstrumentor().is_instrumented_by_opentelemetry:
        AioHttpClientInstrumentor().instrument()
    StarletteInstrumentor().instrument_app(app)


class Patient(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """HTTP as uvicorn speaks it, which does not wait for ever for a request's headers."""

    reading = 30.0
    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Wait for the first request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take what came; where a request has begun, wait no more."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        super().connection_lost(exc)
        self._stop()

    def _watch(self) -> None:
        busy = self.cycle is not None and not self.cycle.response_complete
        if busy:
            self._stop()
        elif self._waiting is None:
            self._waiting = self.loop.call_later(self.reading, self._give_up)

    def _give_up(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()

    def _stop(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None


VARIABLE = "BAYES_TACIT_GATEWAY"
"""The environment variable by which worker processes are given their settings; there is no key in it."""

KEPT_OPEN = 75
"""Seconds that a client's connection may be idle."""


def app_from_environment() -> Starlette:
    """Make the application of a worker process."""
    return create_app(Settings.from_json(os.environ[VARIABLE]))


def serve(settings: Settings, host: str, port: int) -> None:
    """Serve until the process has to stop.

    Parameters
    ----------
    settings
        How the gateway is set up. A worker that dies is replaced.
    host, port
        Where to listen.
    """
    import uvicorn

    settings.doors.check(host)
    with tempfile.TemporaryDirectory(prefix="bayes-tacit-gateway-") as folder:
        if settings.workers > 1:
            settings = replace(settings, counters=str(Path(folder) / "counters.sqlite"))
        os.environ[VARIABLE] = settings.to_json()
        uvicorn.run(
            "bayes_tacit.gateway.server.app:app_from_environment",
            factory=True,
            host=host,
            port=port,
            workers=settings.workers,
            http=Patient,
            log_level="warning",
            access_log=False,
            ws="none",
            server_header=False,
            timeout_keep_alive=KEPT_OPEN,
            timeout_graceful_shutdown=max(1, round(settings.limits.drain)),
        )
