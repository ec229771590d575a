"""The two models' servers: who gets which headers, how long one waits, and what of an answer passes."""

from __future__ import annotations

import io
from collections.abc import Iterable

import aiohttp

from bayes_tacit.gateway.server.settings import Settings, Upstream
from bayes_tacit.gateway.session_state import Side
from bayes_tacit.keys import key_from, masked

Headers = list[tuple[bytes, bytes]]

PREFIX = b"x-tacit-"
"""How the headers that are ours begin."""

SECRETS = frozenset(
    {b"authorization", b"x-api-key", b"api-key", b"openai-organization", b"openai-project", b"anthropic-api-key"}
)
"""Headers that say who pays."""

HERE = frozenset(
    {
        *(b"host", b"content-length", b"connection", b"keep-alive", b"transfer-encoding", b"te", b"trailer"),
        *(b"proxy-authorization", b"proxy-authenticate", b"proxy-connection", b"cookie", b"set-cookie", b"expect"),
        *(b"upgrade", b"accept-encoding", b"forwarded", b"x-forwarded-for", b"x-real-ip"),
    }
)
"""Headers that belong to one connection, or to nobody else's business, and are not passed on."""

LONG = 2**20
"""Bytes from which on a body is sent in pieces."""

KEPT_OPEN = 4.0
"""Seconds that a connection to a server waits for the next request: less than servers wait before they close it."""


class Upstreams:
    """Connections to both servers, kept open between requests; made inside a running loop."""

    def __init__(self, settings: Settings) -> None:
        limits = settings.limits
        self._sides: dict[Side, Upstream] = {"cheap": settings.cheap, "strong": settings.strong}
        self._keys = {side: key_from(one.key_variable) for side, one in self._sides.items()}
        # The client's key was given for Cheap's server, if it is not one of ours; another must never see it.
        self._ours = settings.doors.client_keys is not None
        self._shares = settings.cheap.origin == settings.strong.origin
        self._client = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEPT_OPEN, ttl_dns_cache=60),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=limits.connecting, connect=limits.connecting, sock_read=limits.silence
            ),
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        )

    def side(self, side: Side) -> Upstream:
        """Return how a side is set up."""
        return self._sides[side]

    async def send(
        self, side: Side, method: str, path: str, query: bytes, headers: Headers, body: bytes = b""
    ) -> aiohttp.ClientResponse:
        """Send a request on, once, and wait for the beginning of the answer."""
        url = f"{self._sides[side].url}{path}{'?' if query else ''}{query.decode('latin-1')}"
        data = None if method == "GET" else body if len(body) < LONG else io.BytesIO(body)
        sent = self._headers(side, headers, by_name=path.startswith("/messages"))
        return await self._client.request(method, url, data=data, headers=sent, allow_redirects=False)

    def without_key(self, side: Side, content: bytes) -> bytes:
        """Mask, in an error or a header of a server, the key that was sent for the client."""
        key = self._keys[side]
        return content if key is None else masked(content.decode("latin-1"), key).encode("latin-1")

    def passed_back(self, side: Side, headers: Iterable[tuple[bytes, bytes]]) -> Headers:
        """Return the headers of an answer that the client is to see."""
        lower = [(name.lower(), self.without_key(side, value)) for name, value in headers]
        return [(name, value) for name, value in lower if name not in HERE and not name.startswith(PREFIX)]

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    def _headers(self, side: Side, headers: Headers, *, by_name: bool) -> list[tuple[str, str]]:
        key = self._keys[side]
        own = key is None and not self._ours and (side == "cheap" or self._shares)
        passed = [
            (name.decode("latin-1"), value.decode("utf-8", "replace"))
            for name, value in headers
            if name not in HERE and not name.startswith(PREFIX) and (own or name not in SECRETS)
        ]
        passed.append(("accept-encoding", "identity"))
        if key is None:
            return passed
        return [*passed, ("x-api-key", key) if by_name else ("authorization", f"Bearer {key}")]
