"""A request as it comes in: its bytes, what is new in it since the last one of its session, and what is sent on."""

from __future__ import annotations

import asyncio
import json
import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha1
from typing import Any

import orjson
from starlette.types import Receive, Send

from bayes_tacit.gateway.conversation import NO_READERS, Readers, Reading, RequestView, is_begun, names_of
from bayes_tacit.gateway.protocols import CHAT
from bayes_tacit.logs.messages import Message

Headers = list[tuple[bytes, bytes]]

PATIENT = 8 * 2**20
"""Bytes up to which a body is read a second time, by a parser that takes more and is slower."""

SMALLEST = 16 * 2**10
"""Bytes of a request below which it is as quick to read all of it."""

MOST = 4_096
"""Sessions whose last request is remembered."""


class RefusedError(Exception):
    """A request that is answered here, with a status and a sentence."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ClientGoneError(Exception):
    """The client left before its request was whole."""


async def send_json(send: Send, status: int, content: bytes, headers: Headers | None = None) -> None:
    """Answer with JSON."""
    about = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content)), *(headers or ())]
    await send({"type": "http.response.start", "status": status, "headers": about})
    await send({"type": "http.response.body", "body": content})


async def read_body(receive: Receive, declared: str | None, most: int, patience: float) -> bytes:
    """Read a request's body; one that is too long, or too slow, is refused as soon as that is known."""
    too_long = RefusedError(413, f"the request has too many bytes; expected at most {most:,}")
    if declared is not None and declared.isdigit() and len(declared) < 20 and int(declared) > most:
        raise too_long
    pieces: list[bytes] = []
    size = 0
    while True:
        try:
            async with asyncio.timeout(patience):
                message = await receive()
        except TimeoutError:
            raise RefusedError(408, f"the request did not go on for {patience:g} seconds") from None
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        piece = message.get("body", b"")
        size += len(piece)
        if size > most:
            raise too_long
        if not message.get("more_body", False):
            return b"".join([*pieces, piece]) if pieces else piece
        pieces.append(piece)


def parse_object(raw: bytes) -> dict[str, Any]:
    """Parse a request, which is an object; anything else is an error in words.

    Examples
    --------
    >>> parse_object(b"[1]")
    Traceback (most recent call last):
        ...
    bayes_tacit.gateway.server.requests.RefusedError: the body is a list; expected a JSON object
    """
    try:
        try:
            content = orjson.loads(raw)
        except orjson.JSONDecodeError:
            if len(raw) > PATIENT:
                raise
            content = json.loads(raw)  # which knows half a pair of surrogates
    except RecursionError:
        raise RefusedError(400, "the body is nested too deeply; expected a JSON object") from None
    except ValueError as error:
        raise RefusedError(400, f"the body is not JSON ({str(error)[:120]}); expected a JSON object") from None
    if not isinstance(content, dict):
        raise RefusedError(400, f"the body is a {type(content).__name__}; expected a JSON object")
    return content


_MODEL = re.compile(rb'"model"\s*:\s*"(?:[^"\\]|\\.)*"')


def outgoing(raw: bytes, body: Mapping[str, Any], changes: Mapping[str, Any], model: str | None) -> bytes:
    r"""Return the body to send on: the very bytes that came, unless something has to be another.

    A field among the changes that is None is left out; without a model's name, it is what the client says.

    Examples
    --------
    >>> raw = b'{"model": "any", "messages": [ ]}'
    >>> outgoing(raw, json.loads(raw), {}, "small")
    b'{"model":"small", "messages": [ ]}'
    """
    rename = model is not None and body.get("model") != model
    if not changes:
        if not rename:
            return raw
        # Inside a JSON text a quotation mark is escaped, so these bytes are a key or a value, and once means the key.
        if isinstance(body.get("model"), str) and raw.count(b'"model"') == 1:
            found = _MODEL.match(raw, raw.index(b'"model"'))
            if found is not None:
                return raw[: found.start()] + b'"model":' + json.dumps(model).encode() + raw[found.end() :]
    content = {**body, **({"model": model} if rename else {}), **changes}
    content = {key: value for key, value in content.items() if value is not None or key not in changes}
    try:
        return orjson.dumps(content)
    except TypeError:
        return json.dumps(content, separators=(",", ":")).encode()


@dataclass(frozen=True)
class Asked:
    """A request that was read: its bytes, the same parsed, and as a conversation (None where there is none).

    The conversation has what went before, where the client left that to the server; `changes` are fields of the body
    that are others when it is sent on. Where only what is new was read, `seen` says what the conversation shows, and
    neither has messages.
    """

    raw: bytes
    body: dict[str, Any]
    messages: list[Message] | None
    changes: dict[str, Any] = field(default_factory=dict)
    seen: RequestView | None = None

    def whole(self) -> Asked:
        """Return it with all that came."""
        if self.seen is None:
            return self
        body = parse_object(self.raw)
        return replace(self, body=body, messages=CHAT.read(body), seen=None)


_BEGIN = re.compile(r'"messages"\s*:\s*(?=\[)')
_NEXT = re.compile(r"\s*(,|(?=\]))\s*")
_decode = json.JSONDecoder().raw_decode


@dataclass
class _Prefix:
    """How a session's last request began, up to the end of its last message, and what was read of that."""

    digest: bytes
    size: int
    head: str
    tools: object
    reading: Reading


class Prefixes:
    """Reads requests of OpenAI's chat protocol; of each session, only what its last request did not have.

    Nothing of a request is remembered but a digest, what stands before its messages, and what was read of them.

    Examples
    --------
    >>> prefixes, filler = Prefixes(), "x" * SMALLEST
    >>> messages = [{"role": "user", "content": filler}]
    >>> for _ in range(3):
    ...     body, seen = prefixes.read("a", json.dumps({"messages": messages, "n": 1}).encode())
    ...     messages += [{"role": "assistant", "content": "Hm."}, {"role": "user", "content": "Go on."}]
    >>> body, len(seen.flags), prefixes.hits
    ({'messages': None, 'n': 1}, 2, 2)
    """

    def __init__(self) -> None:
        self._known: OrderedDict[object, _Prefix] = OrderedDict()
        self.hits = 0

    def read(self, key: object, raw: bytes, readers: Readers = NO_READERS) -> tuple[dict[str, Any], RequestView] | None:
        """Return a session's request without its messages, and what these show; None where it is read otherwise."""
        if not SMALLEST <= len(raw) <= PATIENT:
            return None
        known = self._known.pop(key, None)
        try:
            fits = known is not None and known.reading.words.readers is readers
            found = self._more(known, raw) if known is not None and fits else None
            found = found or self._all(raw, readers)
        except (ValueError, RecursionError, UnicodeError):
            return None
        if found is None:
            return None
        body, prefix, new = found
        if is_begun(new):
            prefix.reading.extend(new[:-1])
            return body, prefix.reading.seen()
        prefix.reading.extend(new)
        self._known[key] = prefix
        if len(self._known) > MOST:
            self._known.popitem(last=False)
        return body, prefix.reading.seen()

    def _more(self, known: _Prefix, raw: bytes) -> tuple[dict[str, Any], _Prefix, list[Message]] | None:
        """Read what follows the beginning that is known, if the request has it."""
        digest = sha1(memoryview(raw)[: known.size], usedforsecurity=False)
        if len(raw) < known.size or digest.digest() != known.digest:
            return None
        tail = raw[known.size :].decode()
        after = _NEXT.match(tail)
        if after is None:
            return None
        new, end = _decode("[" + tail[after.end() :], 0)
        rest = tail[after.end() + end - 1 :]
        body = _around(known.head, rest)
        if body is None or body.get("tools") != known.tools or not _are_messages(new):
            return None
        self.hits += 1
        size = len(raw) - len(rest.encode()) - 1
        digest.update(memoryview(raw)[known.size : size])
        return body, replace(known, digest=digest.digest(), size=size), new

    def _all(self, raw: bytes, readers: Readers) -> tuple[dict[str, Any], _Prefix, list[Message]] | None:
        """Read a whole request."""
        text = raw.decode()
        begin = _BEGIN.search(text)
        if begin is None:
            return None
        messages, end = _decode(text, begin.end())
        head, rest = text[: begin.end()], text[end:]
        body = _around(head, rest)
        if body is None or not messages or not _are_messages(messages):
            return None
        size = len(raw) - len(rest.encode()) - 1
        digest = sha1(memoryview(raw)[:size], usedforsecurity=False).digest()
        reading = Reading(names_of(body.get("tools")), readers=readers)
        return body, _Prefix(digest, size, head, body.get("tools"), reading), messages


def _around(head: str, rest: str) -> dict[str, Any] | None:
    """Return a request without its messages, if these are where they seemed to be and nowhere else."""
    text = f"{head}null{rest}"
    body = json.loads(text)
    fits = isinstance(body, dict) and text.count('"messages"') == 1 and body.get("messages", ...) is None
    return body if fits else None


def _are_messages(found: object) -> bool:
    return isinstance(found, list) and all(isinstance(one, dict) for one in found)
