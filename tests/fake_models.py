"""Two models on this machine that speak OpenAI's chat protocol, and a gateway before them, on real sockets."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import contextmanager
from typing import Any

import uvicorn

from bayes_tacit.gateway.server.app import Patient


class Running:
    """An ASGI application behind uvicorn, in a thread of its own, on a free port of this machine."""

    def __init__(self, app: Any) -> None:
        config = uvicorn.Config(
            app, host="127.0.0.1", port=0, log_level="critical", ws="none", http=Patient, timeout_graceful_shutdown=1
        )
        self.server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready = threading.Event()
        self._thread.start()
        if not self._ready.wait(20):
            raise TimeoutError

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        serving = asyncio.ensure_future(self.server.serve())
        while not self.server.started and not serving.done():
            await asyncio.sleep(0.005)
        self._ready.set()
        await serving

    @property
    def url(self) -> str:
        port = self.server.servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}/v1"

    def stop(self) -> None:
        self.server.should_exit = True
        self._thread.join(10)


class FakeModel:
    """A model whose last user or tool message may be a command; else it makes the call `sql`, numbered.

    | command | what it does |
    | --- | --- |
    | `status N` | answers with this status |
    | `say TEXT` | says it |
    | `stall` | says nothing until the test ends |
    | `break` | breaks off in the middle |
    | `fault` | begins a stream, and ends it with an error |
    | `redirect` | sends elsewhere |

    Attributes
    ----------
    requests
        Path, headers and body of all that came.
    failing
        A status for every chat request, while it is set.
    overflow
        Letters of a request from which on it is too long for the model's context.
    cancelled
        Set when a client left in the middle.
    """

    def __init__(self, name: str, delay: float = 0.0) -> None:
        self.name = name
        self.delay = delay
        self.requests: list[dict[str, Any]] = []
        self.failing: int | None = None
        self.overflow: int | None = None
        self.cancelled = threading.Event()
        self.release = threading.Event()

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] == "lifespan":
            for kind in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{kind}.complete"})
            return
        raw = b""
        while True:
            message = await receive()
            raw += message.get("body", b"")
            if not message.get("more_body"):
                break
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            body = json.loads(raw) if raw else None
        except ValueError:
            body = None
        query = scope["query_string"].decode()
        self.requests.append({"path": scope["path"], "query": query, "headers": headers, "raw": raw, "body": body})
        if (
            scope["path"].endswith(("/embeddings", "/completions", "/count_tokens", "/models/m"))
            and "chat" not in (scope["path"])
        ):
            await respond(send, 200, {"served": self.name, "path": scope["path"]})
            return
        for path, answer in (("/responses", self._responses), ("/messages", self._messages)):
            if scope["path"].endswith(path):
                await answer(body, send)
                return
        if scope["path"].endswith("/models"):
            await respond(send, 200, {"object": "list", "data": [{"id": self.name, "object": "model"}]})
            return
        await self._chat(body, receive, send)

    # The two other protocols say what the first would: a call where there are tools, else words, with a thought before.

    async def _responses(self, body: Any, send) -> None:
        if self.failing is not None or not isinstance(body, dict) or not body.get("input"):
            await respond(send, self.failing or 400, {"error": {"message": "input: expected items", "code": None}})
            return
        said = self._said(body, body["input"] if isinstance(body["input"], list) else [])
        thought = {"type": "reasoning", "id": f"rs_{self.name}_{len(self.requests)}", "summary": []}
        item: dict[str, Any] = {"id": f"fc_{len(self.requests)}", "status": "completed", "type": "function_call"}
        if said.get("tool_calls"):
            call = said["tool_calls"][0]
            item |= {"call_id": call["id"], **call["function"]}
        else:
            text = {"type": "output_text", "text": said["content"], "annotations": []}
            item |= {"id": f"msg_{len(self.requests)}", "type": "message", "role": "assistant", "content": [text]}
        spent = {"input_tokens": 40, "output_tokens": 7, "total_tokens": 47}
        spent |= {"input_tokens_details": {"cached_tokens": 8}, "output_tokens_details": {"reasoning_tokens": 0}}
        whole = {"id": f"resp_{self.name}_{len(self.requests)}", "object": "response", "created_at": 1}
        beside = {"type": "output_text", "text": "Let me look.", "annotations": []}
        words = {"id": f"msg_{len(self.requests)}", "type": "message", "role": "assistant", "status": "completed"}
        output = [thought, *([{**words, "content": [beside]}] if said.get("tool_calls") else []), item]
        whole |= {"model": body.get("model", "?"), "status": "completed", "output": output, "usage": spent}
        whole |= {"error": None, "parallel_tool_calls": True, "tool_choice": "auto", "tools": body.get("tools", [])}
        if not body.get("stream"):
            await respond(send, 200, whole)
            return
        begun = {**whole, "status": "in_progress", "output": [], "usage": None}
        events = [{"type": "response.created", "response": begun}]
        for place, one in enumerate(whole["output"]):
            about = {"output_index": place, "item": one}
            events += [{"type": f"response.output_item.{what}", **about} for what in ("added", "done")]
        events.append({"type": "response.completed", "response": whole})
        await send_events(send, [{"sequence_number": place, **one} for place, one in enumerate(events)])

    async def _messages(self, body: Any, send) -> None:
        if self.failing is not None or not isinstance(body, dict) or not body.get("messages"):
            error = {"type": "invalid_request_error", "message": "messages: expected some"}
            await respond(send, self.failing or 400, {"type": "error", "error": error})
            return
        said = self._said(body, body["messages"])
        blocks: list[dict[str, Any]] = [{"type": "thinking", "thinking": f"{self.name} thinks", "signature": "s"}]
        if said.get("tool_calls"):
            call = said["tool_calls"][0]
            blocks.append({"type": "text", "text": "Let me look."})
            made = {"id": call["id"], "name": call["function"]["name"]}
            blocks.append({"type": "tool_use", **made, "input": json.loads(call["function"]["arguments"])})
        else:
            blocks.append({"type": "text", "text": said["content"]})
        spent = {"input_tokens": 32, "cache_read_input_tokens": 8, "cache_creation_input_tokens": 0, "output_tokens": 7}
        stop = "tool_use" if said.get("tool_calls") else "end_turn"
        whole = {"id": "m1", "type": "message", "role": "assistant", "model": body.get("model", "?")}
        whole |= {"content": blocks, "stop_reason": stop, "stop_sequence": None, "usage": spent}
        if not body.get("stream"):
            await respond(send, 200, whole)
            return
        events = [{"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}]
        for place, block in enumerate(blocks):
            if block["type"] == "tool_use":
                text = json.dumps(block["input"])
                deltas = [{"type": "input_json_delta", "partial_json": part} for part in (text[:4], text[4:])]
                begun = {**block, "input": {}}
            else:
                key, kind = ("thinking", "thinking_delta") if block["type"] == "thinking" else ("text", "text_delta")
                deltas, begun = [{"type": kind, key: block[key]}], {**block, key: ""}
            events.append({"type": "content_block_start", "index": place, "content_block": begun})
            events += [{"type": "content_block_delta", "index": place, "delta": one} for one in deltas]
            events.append({"type": "content_block_stop", "index": place})
        events.append({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 7}})
        await send_events(send, [*events, {"type": "message_stop"}])

    def _said(self, body: dict[str, Any], items: list[Any]) -> dict[str, Any]:
        last = items[-1] if items else {"content": body.get("input")}
        words = last.get("content")
        if isinstance(words, list):
            words = next((one.get("text") for one in words if isinstance(one, dict) and one.get("text")), None)
        command, _, rest = words.partition(" ") if isinstance(words, str) else ("", "", "")
        turns = [{"role": "assistant"} for one in items if {"function_call", "assistant"} & {*map(str, one.values())}]
        return self.message({**body, "messages": turns}, command, rest)

    async def _chat(self, body: Any, receive, send) -> None:
        if self.delay:
            await asyncio.sleep(self.delay)
        if self.failing is not None:
            await respond(send, self.failing, {"error": {"message": f"{self.name} is down", "code": None}})
            return
        if not isinstance(body, dict) or not isinstance(body.get("messages"), list):
            await respond(send, 400, {"error": {"message": "messages: expected a list", "type": "invalid"}})
            return
        if self.overflow is not None and len(json.dumps(body)) > self.overflow:
            await respond(send, 400, {"error": {"message": "too long", "code": "context_length_exceeded"}})
            return
        last = body["messages"][-1] if body["messages"] else {}
        said = last.get("content") if isinstance(last, dict) else None
        command, _, rest = said.partition(" ") if isinstance(said, str) else ("", "", "")
        if command == "status":
            await respond(send, int(rest), {"error": {"message": f"told to answer {rest}", "type": "told"}})
        elif command == "redirect":
            await respond(send, 307, {}, [(b"location", b"http://127.0.0.1:9/v1/chat/completions")])
        elif command == "stall":
            await self._stall(receive)
        elif body.get("stream"):
            await self._stream(body, command, rest, send, receive)
        else:
            content = json.dumps(self.whole(body, command, rest)).encode()
            length = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
            await send({"type": "http.response.start", "status": 200, "headers": length})
            half = command == "break"
            await send({"type": "http.response.body", "body": content[: len(content) // 2] if half else content})

    def message(self, body: dict[str, Any], command: str, rest: str) -> dict[str, Any]:
        turns = sum(isinstance(one, dict) and one.get("role") == "assistant" for one in body["messages"])
        if command == "say" or not body.get("tools"):
            return {"role": "assistant", "content": rest or f"{self.name} says hello", "refusal": None}
        function = {"name": "sql", "arguments": json.dumps({"query": f"SELECT {turns}"})}
        call = {"id": f"{self.name}_{len(self.requests)}", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "refusal": None, "tool_calls": [call]}

    def whole(self, body: dict[str, Any], command: str, rest: str) -> dict[str, Any]:
        message = self.message(body, command, rest)
        choice: dict[str, Any] = {"index": 0, "message": message, "logprobs": None}
        choice["finish_reason"] = "tool_calls" if message.get("tool_calls") else "stop"
        if body.get("logprobs"):
            choice["logprobs"] = {"content": [{"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}]}
        usage = {"prompt_tokens": len(json.dumps(body["messages"])) // 4, "completion_tokens": 7, "total_tokens": 7}
        base = {"id": "c1", "created": 1, "model": body.get("model", "?"), "system_fingerprint": self.name}
        return {"object": "chat.completion", **base, "choices": [choice], "usage": usage}

    async def _stream(self, body: dict[str, Any], command: str, rest: str, send, receive) -> None:
        whole = self.whole(body, command, rest)
        message = whole["choices"][0]["message"]
        base = {"object": "chat.completion.chunk", "id": "c1", "created": 1, "model": whole["model"]}
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        text = message["content"] or ""
        size = len(text) // 50 + 1
        deltas += [{"content": text[start : start + size]} for start in range(0, len(text), size)]
        for call in message.get("tool_calls", ()):
            function = call["function"]
            deltas.append({"tool_calls": [{"index": 0, **call, "function": {**function, "arguments": ""}}]})
            deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": one}}]} for one in function["arguments"]]
        start = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": start})
        for number, delta in enumerate(deltas):
            chunk = {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
            await send_event(send, chunk)
            if command == "break" and number == 1:
                return
            if command == "fault" and number == 1:
                await send_event(send, {"error": {"message": "overloaded", "type": "server_error"}})
                await send({"type": "http.response.body", "body": b""})
                return
            if command == "say" and rest == "slowly":
                waiting = asyncio.ensure_future(receive())
                done, _ = await asyncio.wait({waiting}, timeout=5)
                if done:
                    self.cancelled.set()
                    return
        last = {"index": 0, "delta": {}, "finish_reason": whole["choices"][0]["finish_reason"]}
        await send_event(send, {**base, "choices": [last]})
        if (body.get("stream_options") or {}).get("include_usage"):
            await send_event(send, {**base, "choices": [], "usage": whole["usage"]})
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})

    async def _stall(self, receive) -> None:
        waiting = asyncio.ensure_future(receive())
        while not self.release.is_set():
            done, _ = await asyncio.wait({waiting}, timeout=0.02)
            if done:
                self.cancelled.set()
                return
        waiting.cancel()


async def send_event(send, chunk: dict[str, Any]) -> None:
    await send({"type": "http.response.body", "body": f"data: {json.dumps(chunk)}\n\n".encode(), "more_body": True})


async def send_events(send, found: list[dict[str, Any]]) -> None:
    """Send a stream whose events have names, as the two other protocols do."""
    start = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": start})
    for one in found:
        text = f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode()
        await send({"type": "http.response.body", "body": text, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def respond(send, status: int, content: object, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    raw = json.dumps(content).encode()
    about = [(b"content-type", b"application/json"), (b"content-length", str(len(raw)).encode()), *(headers or ())]
    await send({"type": "http.response.start", "status": status, "headers": about})
    await send({"type": "http.response.body", "body": raw})


@contextmanager
def running(*apps: Any):
    """Serve applications while the block runs."""
    served = [Running(app) for app in apps]
    try:
        yield served
    finally:
        for one in served:
            one.server.should_exit = True
        for one in served:
            one.stop()
