"""Serving: one process, or several that share a port and a file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.gateway.server.app import create_app
from bayes_tacit.gateway.server.settings import Settings

if TYPE_CHECKING:
    from starlette.applications import Starlette

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
        "bayes_tacit.gateway.server.run:app_from_environment",
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
