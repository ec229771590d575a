"""The two models' servers: who gets which headers, and how long one waits for them."""

from __future__ import annotations

import io
from collections.abc import Iterable

import aiohttp

from bayes_tacit.gateway.kept import Side
from bayes_tacit.gateway.server.answers import PREFIX, Headers
from bayes_tacit.gateway.server.masking import Masking, without_key
from bayes_tacit.gateway.server.settings import Settings, Upstream
from bayes_tacit.keys import key_from

SECRETS = frozenset(
    {b"authorization", b"x-api-key", b"api-key", b"openai-organization", b"openai-project", b"anthropic-api-key"}
)
"""Headers that say who pays."""

HERE = frozenset(
    {
        *(
            b"host",
            b"content-length",
            b"connection",
            b"keep-alive",
            b"transfer-encoding",
            b"te",
            b"trailer",
            b"upgrade",
        ),
        *(b"proxy-authorization", b"proxy-authenticate", b"proxy-connection", b"cookie", b"set-cookie", b"expect"),
        *(b"accept-encoding", b"forwarded", b"x-forwarded-for", b"x-real-ip"),
    }
)
"""Headers that belong to one connection, or to nobody else's business, and are not passed on."""


LONG = 2**20
"""Bytes from which on a body is sent in pieces."""


class Upstreams:
    """Connections to both servers, kept open between requests; made inside a running loop."""

    def __init__(self, settings: Settings) -> None:
        limits = settings.limits
        self._sides: dict[Side, Upstream] = {"cheap": settings.cheap, "strong": settings.strong}
        self._keys = {side: key_from(one.key_variable) for side, one in self._sides.items()}
        # The client's key was given for Cheap's server; another one must never see it.
        self._shares = settings.cheap.origin == settings.strong.origin
        self._client = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=15, ttl_dns_cache=60),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=limits.connecting, connect=limits.connecting, sock_read=limits.silence
            ),
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        )

    def model(self, side: Side) -> str | None:
        """Give the model's name on a side, if it was set."""
        return self._sides[side].model

    async def post(self, side: Side, headers: Headers, body: bytes) -> aiohttp.ClientResponse:
        """Send a chat request on, and wait for the beginning of the answer."""
        url, sent = f"{self._sides[side].url}/chat/completions", self._headers(side, headers)
        try:
            return await self._client.post(url, data=_sendable(body), headers=sent, allow_redirects=False)
        except aiohttp.ServerDisconnectedError:
            # A connection that was kept open and is closed by now; not one byte of an answer came.
            return await self._client.post(url, data=_sendable(body), headers=sent, allow_redirects=False)

    async def models(self, side: Side, headers: Headers) -> tuple[int, bytes]:
        """Ask a server for its models."""
        url = f"{self._sides[side].url}/models"
        async with self._client.get(url, headers=self._headers(side, headers), allow_redirects=False) as answer:
            return answer.status, without_key(await answer.content.read(2**22), self._keys[side])

    def masking(self, side: Side) -> Masking:
        """Give what masks, in an answer, the key that was sent for the client."""
        return Masking(self._keys[side])

    def passed_back(self, side: Side, headers: Iterable[tuple[bytes, bytes]]) -> Headers:
        """Give the headers of an answer that the client is to see."""
        key = self._keys[side]
        # Masking changes how long an answer is.
        kept = HERE - {b"content-length"} if key is None else HERE
        lower = [(name.lower(), without_key(value, key)) for name, value in headers]
        return [(name, value) for name, value in lower if name not in kept and not name.startswith(PREFIX)]

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    def _headers(self, side: Side, headers: Headers) -> list[tuple[str, str]]:
        key = self._keys[side]
        own = key is None and (side == "cheap" or self._shares)
        passed = [
            (name.decode("latin-1"), value.decode("utf-8", "replace"))
            for name, value in headers
            if name not in HERE and not name.startswith(PREFIX) and (own or name not in SECRETS)
        ]
        passed.append(("accept-encoding", "identity"))
        return passed if key is None else [*passed, ("authorization", f"Bearer {key}")]


def _sendable(body: bytes) -> bytes | io.BytesIO:
    """Give a long body to be sent in pieces, between which others are served."""
    return body if len(body) < LONG else io.BytesIO(body)
