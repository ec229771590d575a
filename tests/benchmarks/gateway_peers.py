"""What the gateway is measured beside, as programs: a model's server, and a proxy that does nothing but pass on.

`python -m benchmarks.gateway_peers model PORT SECONDS` and `python -m benchmarks.gateway_peers bare PORT URL`.
"""

from __future__ import annotations

import asyncio
import json
import sys

CALL = {"id": "call_0", "type": "function", "function": {"name": "sql", "arguments": '{"query": "SELECT 1"}'}}
BASE = {"id": "c1", "created": 1, "model": "m"}
MESSAGE = {"role": "assistant", "content": None, "tool_calls": [CALL]}
WHOLE = json.dumps(
    {
        **BASE,
        "object": "chat.completion",
        "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 9, "total_tokens": 109},
    }
).encode()
DELTAS = [
    {"role": "assistant", "content": ""},
    {"tool_calls": [{"index": 0, **CALL, "function": {"name": "sql", "arguments": ""}}]},
    *({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in ('{"query": ', '"SELECT', ' 1"}')),
]
CHUNKS = [{"index": 0, "delta": delta, "finish_reason": None} for delta in DELTAS]
CHUNKS.append({"index": 0, "delta": {}, "finish_reason": "tool_calls"})
EVENTS = [
    f"data: {json.dumps({**BASE, 'object': 'chat.completion.chunk', 'choices': [one]})}\n\n".encode() for one in CHUNKS
]
EVENTS.append(b"data: [DONE]\n\n")


async def model(port: int, seconds: float) -> None:
    """Serve a model that answers after so many seconds, in the fewest lines that speak HTTP."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lower = head.lower()
                length = int(lower.split(b"content-length:")[1].split(b"\r\n")[0]) if b"content-length:" in lower else 0
                body = await reader.readexactly(length)
                if seconds:
                    await asyncio.sleep(seconds)
                if b'"stream": true' in body or b'"stream":true' in body:
                    writer.write(
                        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                    )
                    for event in EVENTS:
                        writer.write(b"%x\r\n%b\r\n" % (len(event), event))
                        await writer.drain()
                    writer.write(b"0\r\n\r\n")
                else:
                    start = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                    writer.write(start % len(WHOLE) + WHOLE)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", port, backlog=2048)
    await server.serve_forever()


def bare(port: int, url: str) -> None:
    """Serve a pass-through of the same parts as the gateway: starlette, uvicorn, aiohttp, and nothing between."""
    from collections.abc import AsyncIterator
    from contextlib import asynccontextmanager

    import aiohttp
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import StreamingResponse
    from starlette.routing import Route

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), auto_decompress=False) as client:
            app.state.client = client
            yield

    async def chat(request: Request) -> StreamingResponse:
        body = await request.body()
        headers = {"content-type": "application/json", "accept-encoding": "identity"}
        answer = await request.app.state.client.post(f"{url}/chat/completions", data=body, headers=headers)

        async def pieces() -> AsyncIterator[bytes]:
            async for piece in answer.content.iter_any():
                yield piece
            answer.release()

        kept = {name: answer.headers[name] for name in ("content-type", "content-length") if name in answer.headers}
        return StreamingResponse(pieces(), answer.status, kept)

    app = Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])], lifespan=lifespan)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", access_log=False)


if __name__ == "__main__":
    if sys.argv[1] == "model":
        asyncio.run(model(int(sys.argv[2]), float(sys.argv[3])))
    else:
        bare(int(sys.argv[2]), sys.argv[3])
