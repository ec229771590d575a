"""The gateway as an ASGI application: its routes, what it opens and closes, and how it is run."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.gateway.engine import Engine, default_router
from bayes_tacit.gateway.kept import Side
from bayes_tacit.gateway.log import SessionLog
from bayes_tacit.gateway.replies import Price, Prices
from bayes_tacit.gateway.server.exchange import (
    Chat,
    ClientGoneError,
    Desk,
    RefusedError,
    conversation,
    error_body,
    parse_object,
    read_body,
)
from bayes_tacit.gateway.server.metrics import Metrics, SharedMetrics
from bayes_tacit.gateway.server.settings import Settings
from bayes_tacit.gateway.server.upstreams import Upstreams
from bayes_tacit.gateway.sessions import Sessions, checked_id, scope_of
from bayes_tacit.gateway.store import FileStore, MemoryStore
from bayes_tacit.router import Router

logger = logging.getLogger("bayes_tacit.gateway")

BETWEEN = 1.0
"""Seconds between two times that counters are written where workers share them."""


def engine_of(settings: Settings) -> Engine:
    """Load the routers, and check that they can decide from messages."""
    router: Router = default_router() if settings.router is None else Router.load(settings.router)
    shadow = None if settings.shadow is None else Router.load(settings.shadow)
    return Engine(router, shadow, handoff=settings.handoff)


def remarks_of(settings: Settings, engine: Engine) -> list[str]:
    """What is to be said before the first request."""
    said = list(engine.remarks)
    if settings.router is None:
        said.append("no router was given: four bad signs hand off, a rule that nothing was learned for")
    if settings.logprobs and not engine.checkpoints.needs_logprobs:
        said.append("the router looks at no log-probabilities; --logprobs asks for them in vain")
    if settings.cheap.origin != settings.strong.origin and settings.strong.key_variable is None:
        said.append("Strong is sent no key: the client's goes to Cheap's host only, and --strong-key names none")
    return said


def create_app(settings: Settings) -> Starlette:
    """Make the application that serves with these settings; routers and files are opened now, connections later.

    Parameters
    ----------
    settings
        How it is set up.
    """
    limits = settings.limits
    engine = engine_of(settings)
    log = None if settings.log is None else SessionLog(settings.log)
    prices = Prices(Price.parse(settings.cheap.price), Price.parse(settings.strong.price))
    metrics: Metrics = Metrics()
    if settings.state is None:
        sessions = Sessions(engine, MemoryStore(limits.sessions, limits.idle), log, prices)
    else:
        place = Path(settings.state)
        sessions = Sessions(engine, FileStore(place, limits.sessions, limits.idle), log, prices)
        metrics = SharedMetrics(place)

    def close() -> None:
        if isinstance(metrics, SharedMetrics):
            metrics.close()
        sessions.store.close()
        if log is not None:
            log.close()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        desk = Desk(settings, sessions, Upstreams(settings), metrics)
        app.state.desk = desk
        writing = asyncio.ensure_future(_keep_writing(metrics))
        try:
            yield
        finally:
            writing.cancel()
            await desk.upstreams.close()
            close()

    routes = [
        Route("/v1/chat/completions", Chat(), methods=["POST"]),
        Route("/v1/models", _answered(_models), methods=["GET"]),
        Route("/v1/decision", _answered(_decision), methods=["POST"]),
        Route("/v1/sessions/{session:path}/outcome", _answered(_outcome), methods=["POST"]),
        Route("/v1/sessions/{session:path}", _answered(_session), methods=["GET"]),
        Route("/metrics", _answered(_metrics), methods=["GET"]),
        Route("/health", _answered(_health), methods=["GET"]),
    ]
    missing = {404: _nothing_here, 405: _nothing_here, 500: _broken}
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=missing)
    app.state.remarks, app.state.close = remarks_of(settings, engine), close
    return app


Handler = Callable[[Request, Desk], Awaitable[Response]]


def _answered(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """Turn what is refused into an answer."""

    async def answer(request: Request) -> Response:
        desk: Desk = request.app.state.desk
        try:
            return await handler(request, desk)
        except RefusedError as error:
            status, said = error.status, str(error)
        except InvalidDataError as error:
            status, said = 400, str(error)
        except sqlite3.Error as error:
            status, said = 503, f"sessions cannot be read ({error})"
        except ClientGoneError:
            status, said = 400, "the request was cut short"
        return Response(error_body(status, said), status, media_type="application/json")

    return answer


async def _decision(request: Request, desk: Desk) -> Response:
    """Decide on messages without sending them anywhere."""
    body = await _body(request, desk)
    if conversation(body) is None:
        raise RefusedError(400, "messages are missing; expected a list of at least one message")
    ticket, _ = desk.begin(request.headers, body)
    if ticket is None:  # messages are there
        raise RefusedError(400, "messages are missing")
    ruling = ticket.ruling
    told = {
        "session": ticket.identity.session,
        "source": ticket.identity.source,
        "side": ruling.side,
        "step": ruling.step,
        "latched": ruling.latched,
        "new_handoff": ruling.new_handoff,
        "restart": ruling.restart,
        "why": ruling.why,
        "missing": ruling.missing,
        "fault": ruling.fault,
        "decision": None if ruling.decision is None else ruling.decision._asdict(),
        "shadow": None if ruling.shadow is None else ruling.shadow._asdict(),
    }
    return JSONResponse(told)


async def _outcome(request: Request, desk: Desk) -> Response:
    """Take how a session ended."""
    session = checked_id(request.path_params["session"], "session")
    known = desk.sessions.outcome(scope_of(request.headers), session, await _body(request, desk))
    if known is None:
        raise RefusedError(404, f"there is no session {session!r} under this key")
    desk.metrics.add("tacit_outcomes_total")
    return JSONResponse({"session": session, **known})


async def _session(request: Request, desk: Desk) -> Response:
    """Say what is known of a session."""
    session = checked_id(request.path_params["session"], "session")
    known = desk.sessions.look(scope_of(request.headers), session)
    if known is None:
        raise RefusedError(404, f"there is no session {session!r} under this key")
    return JSONResponse({"session": session, **known})


async def _models(request: Request, desk: Desk) -> Response:
    """List the models of both servers."""
    sides: tuple[Side, ...] = ("cheap", "strong")
    asked = [desk.upstreams.models(side, request.scope["headers"]) for side in sides]
    found: dict[str, Any] = {}
    refused: list[int] = []
    for answer in await asyncio.gather(*asked, return_exceptions=True):
        if isinstance(answer, aiohttp.ClientError | TimeoutError | OSError):
            continue
        if isinstance(answer, BaseException):
            raise answer
        status, raw = answer
        if status >= 300:
            refused.append(status)
            continue
        with suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
            found |= {str(one["id"]): one for one in json.loads(raw)["data"]}
    if not found and refused:
        raise RefusedError(refused[0], "the models' servers refuse to list their models")
    if not found:
        raise RefusedError(502, "the models' servers do not list their models")
    return JSONResponse({"object": "list", "data": list(found.values())})


async def _metrics(_: Request, desk: Desk) -> Response:
    return PlainTextResponse(desk.metrics.text(desk.sessions.store.count()), media_type="text/plain; version=0.0.4")


async def _health(_: Request, desk: Desk) -> Response:
    return JSONResponse({"status": "ok", "sessions": desk.sessions.store.count()})


async def _nothing_here(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    known = "/v1/chat/completions, /v1/models, /v1/decision, /v1/sessions/ID, /metrics and /health are"
    said = f"{request.method} {request.url.path[:200]} is not served here; {known}"
    return Response(error_body(status, said), status, media_type="application/json")


async def _broken(_: Request, error: Exception) -> Response:
    said = f"the gateway failed ({type(error).__name__})"
    return Response(error_body(500, said), 500, media_type="application/json")


async def _body(request: Request, desk: Desk) -> dict[str, Any]:
    declared = request.headers.get("content-length")
    return parse_object(await read_body(request.receive, declared, desk.settings.limits.body))


async def _keep_writing(metrics: Metrics) -> None:
    while isinstance(metrics, SharedMetrics):
        await asyncio.sleep(BETWEEN)
        with suppress(sqlite3.Error):
            metrics.write()


VARIABLE = "BAYES_TACIT_GATEWAY"
"""The environment variable by which worker processes are given their settings; there is no key in it."""

KEPT_OPEN = 75
"""Seconds that a client's connection may be idle."""


def app_from_environment() -> Starlette:
    """Make the application of a worker process."""
    return create_app(Settings.from_json(os.environ[VARIABLE]))


def serve(settings: Settings, host: str, port: int, workers: int = 1) -> None:
    """Serve until the process is told to stop.

    Parameters
    ----------
    settings
        How the gateway is set up.
    host, port
        Where to listen.
    workers
        How many processes; more than one need `settings.state`, which they share. One that dies is replaced.
    """
    import uvicorn

    if workers > 1 and settings.state is None:
        raise InvalidDataError("a file, with --state, that all workers share", field="state", value=None)
    os.environ[VARIABLE] = settings.to_json()
    uvicorn.run(
        "bayes_tacit.gateway.server.app:app_from_environment",
        factory=True,
        host=host,
        port=port,
        workers=workers,
        log_level="warning",
        access_log=False,
        ws="none",
        server_header=False,
        timeout_keep_alive=KEPT_OPEN,
        timeout_graceful_shutdown=10,
    )
