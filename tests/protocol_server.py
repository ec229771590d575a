"""A small server that speaks the chat-completions protocol, and can be made to misbehave in every way we know."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

Behaviour = Callable[["Handler", dict[str, Any]], None]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        behaviour = self.server.next_for(self.path, dict(self.headers), body)
        try:
            behaviour(self, body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def send(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True

    def __init__(self, script: list[Behaviour]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script = script
        self.requests: list[dict[str, Any]] = []
        self.released = threading.Event()

    def next_for(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> Behaviour:
        """The next behaviour of the script; the last one is repeated."""
        behaviour = self.script[min(len(self.requests), len(self.script) - 1)]
        self.requests.append({"path": path, "headers": headers, "body": body})
        return behaviour


class ProtocolServer:
    """Serves on a free port of this machine while the block runs."""

    def __init__(self, *script: Behaviour) -> None:
        self.server = Server(list(script))
        self._thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    @property
    def requests(self) -> list[dict[str, Any]]:
        return self.server.requests

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.released.set()
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()


def completion(text: str | None, logprobs: object = None) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "logprobs": logprobs}
    return json.dumps(
        {"object": "chat.completion", "choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 3}}
    ).encode()


def pieces(text: str) -> list[str]:
    return re.findall(r"\s*\S+|\s+$", text)


def says(text: str, logprobs: list[float] | None = None) -> Behaviour:
    """Answer; the n-th token has the n-th log-probability, or -0.1 each."""

    def behave(handler: Handler, body: dict[str, Any]) -> None:
        tokens = pieces(text)
        values = logprobs or [-0.1] * len(tokens)
        content = [{"token": token, "logprob": value} for token, value in zip(tokens, values, strict=True)]
        handler.send(200, completion(text, {"content": content} if body.get("logprobs") else None))

    return behave


def status(code: int, content: bytes = b'{"error": "no"}', **headers: str) -> Behaviour:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler, _: handler.send(code, content, named)


def raw(content: bytes) -> Behaviour:
    """Answer with status 200 and whatever it is."""
    return lambda handler, _: handler.send(200, content)


def stalls(handler: Handler, _: dict[str, Any]) -> None:
    """Say nothing until the test is over."""
    handler.server.released.wait(30)
    handler.close_connection = True


def drips(handler: Handler, _: dict[str, Any]) -> None:
    """Send a byte every so often, for ever."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    while not handler.server.released.wait(0.02):
        handler.wfile.write(b" ")
        handler.wfile.flush()
    handler.close_connection = True


def dies(handler: Handler, _: dict[str, Any]) -> None:
    """Break off in the middle of an answer."""
    content = completion("right")
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content[: len(content) // 2])
    handler.wfile.flush()
    handler.close_connection = True
    handler.connection.close()


def hangs_up(handler: Handler, _: dict[str, Any]) -> None:
    """Close the connection without a word."""
    handler.close_connection = True
    handler.connection.close()
