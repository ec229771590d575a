"""The two models' servers: who gets which headers, how long one waits, and what of an answer passes."""

from __future__ import annotations

import io
from collections.abc import Iterable

import aiohttp

from bayes_tacit.gateway.kept import Side
from bayes_tacit.gateway.server.settings import Settings, Upstream
from bayes_tacit.keys import key_from, masked

Headers = list[tuple[bytes, bytes]]

PREFIX = b"x-tacit-"
"""How the headers that are ours begin."""

HELD = 2**20
"""Bytes without an end of line that are held back at most."""


class Masking:
    r"""Masks a key in bytes that come in pieces.

    No way of writing a key has space in it. So what follows the last end of a line is held back until the next one, or
    the end: events of a stream pass whole as they come, and a plain answer, which nobody can read before its end, then.

    Parameters
    ----------
    key
        What is masked; None if the client's own key is sent, and nothing has to be.

    Examples
    --------
    >>> masking = Masking("sk-1234567890abcdef")
    >>> masking.passed(b"data: bad key sk-12345"), masking.passed(b"67890abcdef\n\ndata: o"), masking.rest()
    (b'', b'data: bad key ***\n\n', b'data: o')
    """

    def __init__(self, key: str | None) -> None:
        self.key = key
        self._held: list[bytes] = []
        self._size = 0

    def passed(self, piece: bytes) -> bytes:
        """Take a piece; give what can be passed on by now."""
        if self.key is None:
            return piece
        end = piece.rfind(b"\n") + 1
        self._held.append(piece)
        self._size += len(piece)
        if end == 0 and self._size <= HELD:
            return b""
        whole = b"".join(self._held)
        # A line without an end is cut at its last space, and where there is none, as it is.
        cut = len(whole) - len(piece) + end if end else whole.rfind(b" ") + 1 or len(whole)
        self._held, self._size = [whole[cut:]], len(whole) - cut
        return without_key(whole[:cut], self.key)

    def rest(self) -> bytes:
        """Give what was held back, at the end."""
        rest, self._held, self._size = b"".join(self._held), [], 0
        return without_key(rest, self.key)


def without_key(content: bytes, key: str | None) -> bytes:
    """Mask a key in bytes, all others of which stay as they are."""
    return content if key is None else masked(content.decode("latin-1"), key).encode("latin-1")


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
