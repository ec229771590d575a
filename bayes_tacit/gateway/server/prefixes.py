"""What is new in a request since the last one of its session: the rest was read then, and is only compared."""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha1
from types import MappingProxyType
from typing import Any

from bayes_tacit.gateway.engine import Reading, RequestView, is_begun, names_of
from bayes_tacit.gateway.words import Readers
from bayes_tacit.logs.messages import Message

SMALLEST = 16 * 2**10
"""Bytes of a request below which it is as quick to read all of it."""

MOST = 4_096
"""Sessions whose last request is remembered."""

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

    def read(
        self, key: object, raw: bytes, readers: Readers = MappingProxyType({})
    ) -> tuple[dict[str, Any], RequestView] | None:
        """Return a request without its messages, and what these show; None where it has to be read otherwise.

        Parameters
        ----------
        key
            Of the session.
        raw
            The request.
        readers
            Readers of its words.
        """
        if len(raw) < SMALLEST:
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
        if len(raw) < known.size or sha1(raw[: known.size], usedforsecurity=False).digest() != known.digest:
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
        return body, _prefix(raw, size, known.head, body, known.reading), new

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
        reading = Reading(names_of(body.get("tools")), readers=readers)
        return body, _prefix(raw, len(raw) - len(rest.encode()) - 1, head, body, reading), messages


def _prefix(raw: bytes, size: int, head: str, body: dict[str, Any], reading: Reading) -> _Prefix:
    return _Prefix(sha1(raw[:size], usedforsecurity=False).digest(), size, head, body.get("tools"), reading)


def _around(head: str, rest: str) -> dict[str, Any] | None:
    """Return a request without its messages, if these are where they seemed to be and nowhere else."""
    text = f"{head}null{rest}"
    body = json.loads(text)
    fits = isinstance(body, dict) and text.count('"messages"') == 1 and body.get("messages", ...) is None
    return body if fits else None


def _are_messages(found: object) -> bool:
    return isinstance(found, list) and all(isinstance(one, dict) for one in found)
