"""A model on this machine that speaks OpenAI's chat protocol and says what a script has: for the demo and for tests."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any, Self

Script = Callable[[list[dict[str, Any]]], dict[str, Any]]
"""From the messages of a request to the message that answers it; one with `status` in it is an error."""

_numbers = count(1)


def call(arguments: Mapping[str, object], name: str = "sql", **more: object) -> dict[str, Any]:
    """Return an answer that calls a tool, under an id that no other call has.

    Examples
    --------
    >>> call({"query": "SELECT 1"})["tool_calls"][0]["function"]
    {'name': 'sql', 'arguments': '{"query": "SELECT 1"}'}
    """
    function = {"name": name, "arguments": json.dumps(arguments)}
    calls = [{"id": f"call_{next(_numbers)}", "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": calls, **more}


class ScriptedModel:
    """A server with one model, on a free port of this machine, while the block runs.

    Parameters
    ----------
    name
        The model's name.
    script
        Decides what it says.

    Attributes
    ----------
    requests
        The bodies of all requests.
    keys
        The Authorization headers that came with them.

    Examples
    --------
    >>> from urllib.request import Request, urlopen
    >>> with ScriptedModel("echo", lambda messages: {"content": messages[-1]["content"]}) as model:
    ...     body = json.dumps({"messages": [{"role": "user", "content": "Hi"}]}).encode()
    ...     answer = json.load(urlopen(Request(f"{model.url}/chat/completions", body)))
    >>> answer["choices"][0]["message"]["content"], model.requests[0]["messages"][0]["role"]
    ('Hi', 'user')
    """

    def __init__(self, name: str, script: Script) -> None:
        self.name, self.script = name, script
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                """Answer a request."""
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                model.keys.append(self.headers.get("Authorization"))
                model.requests.append(body)
                model.answer(self, body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        """The address for a client."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, to: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        """Send what the script says, whole or as a stream."""
        said = self.script(body["messages"])
        if "status" in said:
            _send(to, said["status"], "application/json", json.dumps({"error": {"message": "told to"}}).encode())
        elif body.get("stream"):
            events = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in self._chunks(body, said))
            _send(to, 200, "text/event-stream", f"{events}data: [DONE]\n\n".encode())
        else:
            _send(to, 200, "application/json", json.dumps(self._whole(body, said)).encode())

    def _whole(self, body: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
        choice = {"index": 0, "message": {"role": "assistant", **said}, "finish_reason": _reason(said)}
        choice["logprobs"] = _logprobs() if body.get("logprobs") else None
        return {**self._base("chat.completion"), "choices": [choice], "usage": _usage(body)}

    def _chunks(self, body: dict[str, Any], said: dict[str, Any]) -> Iterator[dict[str, Any]]:
        base = self._base("chat.completion.chunk")
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None if said.get("tool_calls") else ""}]
        more = {key: value for key, value in said.items() if key not in ("role", "content", "tool_calls")}
        deltas += [more] if more else []
        deltas += [{"content": letter} for letter in said.get("content") or ""]
        for index, one in enumerate(said.get("tool_calls", ())):
            begun = {**one, "index": index, "function": {**one["function"], "arguments": ""}}
            deltas.append({"tool_calls": [begun]})
            half = len(one["function"]["arguments"]) // 2
            for piece in (one["function"]["arguments"][:half], one["function"]["arguments"][half:]):
                deltas.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        logprobs = _logprobs() if body.get("logprobs") else None
        for delta in deltas:
            choice = {"index": 0, "delta": delta, "finish_reason": None, "logprobs": logprobs}
            yield {**base, "choices": [choice]}
            logprobs = None
        yield {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": _reason(said)}]}
        if (body.get("stream_options") or {}).get("include_usage"):
            yield {**base, "choices": [], "usage": _usage(body)}

    def _base(self, kind: str) -> dict[str, Any]:
        return {"id": f"chatcmpl-{len(self.requests)}", "object": kind, "created": 1, "model": self.name}


def _reason(said: Mapping[str, object]) -> str:
    return "tool_calls" if said.get("tool_calls") else "stop"


def _usage(body: Mapping[str, Any]) -> dict[str, int]:
    prompt = len(json.dumps(body["messages"])) // 4
    return {"prompt_tokens": prompt, "completion_tokens": 12, "total_tokens": prompt + 12}


def _logprobs() -> dict[str, Any]:
    return {"content": [{"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}]}


def _send(to: BaseHTTPRequestHandler, status: int, kind: str, content: bytes) -> None:
    to.send_response(status)
    to.send_header("Content-Type", kind)
    to.send_header("Content-Length", str(len(content)))
    to.end_headers()
    to.wfile.write(content)
