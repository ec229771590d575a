"""What a server may do wrong, by name: each fault answers one request on a plain connection.

A fault is a function of a `Line`, on which bytes are sent as they are, and what has to come of it: "refused" (an
`ActorError`), "answered", or "either".
"""

from __future__ import annotations

import gzip
import html
import json
import socket
import struct
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Literal
from urllib.parse import quote

from attack.junk import inside, paths, replaced

KEY = "sk-Q7x/9Lm2+Zt4Vb8&Nc3\"Wd6'Hf1<Yg5>Rj0Kp"
"""With every letter that JSON, HTML or an address writes in another way."""

Expected = Literal["refused", "answered", "either"]


@dataclass(frozen=True)
class Fault:
    """What is done, and what has to come of it."""

    does: Callable[[Line], None]
    expected: Expected = "refused"
    waits: bool = False
    """Whether it goes on until the time is up."""


class Line:
    """One connection; `over` is set when the test is."""

    def __init__(self, connection: socket.socket, over: threading.Event) -> None:
        self.connection = connection
        self.over = over

    def send(self, content: bytes) -> None:
        self.connection.sendall(content)

    def wait(self) -> None:
        """Say nothing more until the other side has gone."""
        self.connection.settimeout(0.1)
        while not self.over.is_set():
            try:
                if not self.connection.recv(4096):
                    return
            except TimeoutError:
                continue

    def trickle(self, piece: bytes, pause: float = 0.01) -> None:
        """Send the same again and again."""
        while not self.over.wait(pause):
            self.send(piece)

    def flood(self, piece: bytes) -> None:
        """Send the same as fast as it is taken."""
        while not self.over.is_set():
            self.send(piece)

    def reset(self) -> None:
        """Break off without a word of good-bye."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


def headed(content: bytes, status: str = "200 OK", **headers: str) -> bytes:
    """Return a whole answer."""
    named = {"Content-Type": "application/json", "Content-Length": str(len(content))}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items() if value)
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode("latin-1") + content


def completion(text: object = "right", logprobs: object = None, usage: object = None) -> bytes:
    """Return what a model says, as JSON."""
    content = {"choices": [{"message": {"role": "assistant", "content": text}, "logprobs": logprobs}], "usage": usage}
    return json.dumps(content).encode()


def sends(content: bytes, expected: Expected = "refused") -> Fault:
    """Send this and close."""
    return Fault(lambda line: line.send(content), expected)


ANSWER = headed(completion())
HEAD, BODY = ANSWER.split(b"\r\n\r\n", 1)
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
OPEN_END = b"HTTP/1.1 200 OK\r\n\r\n"
LARGE = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
PACKED = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"


def sending(start: bytes, *then: Callable[[Line], None], ends: bool = False) -> Fault:
    """Send the start of an answer, then do something; it waits for the time to be up unless it `ends`."""

    def does(line: Line) -> None:
        line.send(start)
        for each in then:
            each(line)

    return Fault(does, waits=not ends)


def trickling(start: bytes, piece: bytes) -> Fault:
    """Send a piece again and again, slowly."""
    return sending(start, lambda line: line.trickle(piece))


def byte_by_byte(line: Line) -> None:
    for at in range(len(ANSWER)):
        line.send(ANSWER[at : at + 1])
        if line.over.wait(0.05):
            return


STARTS = {
    "at once": b"",
    "in the status": b"HTTP/1.",
    "after the status": b"HTTP/1.1 200 OK\r\n",
    "in a header": b"HTTP/1.1 200 OK\r\nContent-Le",
    "before the last line of the head": HEAD + b"\r\n",
    "after the head": HEAD + b"\r\n\r\n",
    "in the body": HEAD + b"\r\n\r\n" + BODY[:20],
    "before the last byte": ANSWER[:-1],
    "in the size of a chunk": CHUNKED + b"1",
    "in a chunk": CHUNKED + b"10\r\nabc",
    "between chunks": CHUNKED + b"3\r\nabc\r\n",
    "after 100 Continue": b"HTTP/1.1 100 Continue\r\n\r\n",
}
"""Where a server may fall silent, close or break off."""

TRICKLES = {
    "headers": (b"HTTP/1.1 200 OK\r\n", b"X-More: 1\r\n"),
    "header": (b"HTTP/1.1 200 OK\r\nX-More: ", b"x"),
    "body": (LARGE, b" "),
    "body without an end": (OPEN_END, b" "),
    "chunks": (CHUNKED, b"1\r\n \r\n"),
    "size of a chunk": (CHUNKED, b"0"),
    "trailer": (CHUNKED + b"0\r\n", b"X-More: 1\r\n"),
    "packed body": (PACKED, b"\0"),
    "empty lines": (b"", b"\r\n"),
    "100 Continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "103 Early Hints": (b"", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"),
}
FLOODS = {
    "empty packed blocks": (PACKED + gzip.compress(b"")[:10], b"\0\0\0\xff\xff" * 1000),
    "spaces": (OPEN_END, b" " * 65536),
    "spaces in chunks": (CHUNKED, b"10000\r\n" + b" " * 65536 + b"\r\n"),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"X-More: 1\r\n" * 1000),
    "one header": (b"HTTP/1.1 200 OK\r\nX-More: ", b"x" * 65536),
    "the trailer": (CHUNKED + b"0\r\n", b"X-More: 1\r\n" * 1000),
    "words on a chunk": (CHUNKED + b"5;", b"x" * 65536),
    "what comes after the packed body": (PACKED + gzip.compress(b"{}"), b"x" * 65536),
    "an error": (b"HTTP/1.1 500 No\r\n\r\n", b"no " * 9999),
    "what unpacks to nothing": (PACKED, zlib.compress(b"")),
    "100 Continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
    "chunks of one byte": (CHUNKED, b"1\r\n \r\n" * 1000),
}
ENDLESS = ("100 Continue", "chunks of one byte")
"""Floods that no limit of size ends."""


def _stalling() -> dict[str, Fault]:
    found = {f"silent {place}": sending(start, Line.wait) for place, start in STARTS.items()}
    found |= {f"trickled {what}": trickling(*parts) for what, parts in TRICKLES.items()}
    found["an answer byte by byte"] = sending(b"", byte_by_byte)
    for what, (start, piece) in FLOODS.items():
        flooding = partial(Line.flood, piece=piece)
        found[f"a flood of {what}"] = sending(start, flooding, ends=what not in ENDLESS)
    return found


def _breaking() -> dict[str, Fault]:
    found = {f"closed {place}": sending(start, ends=True) for place, start in STARTS.items()}
    return found | {f"reset {place}": sending(start, Line.reset, ends=True) for place, start in STARTS.items()}


STATUS_LINES = [
    b"", b"\0" * 99, b"HTTP/0.9 200 OK", b"HTTP/2 200", b"HTTP/1.1", b"HTTP/1.1 abc OK", b"HTTP/1.1 99 Low", b"HTTP/1.1 -1 No",
    b"HTTP/1.1 1000 High", b"HTTP/1.1 2OO OK", b"HTTP/9.9 200 OK", b"ICY 200 OK", b"http/1.1 200 ok", b" HTTP/1.1 200 OK",
    b"SSH-2.0-OpenSSH_9.9", b"220 mail ready", b"\x15\x03\x03\0\x02\x02\x28", b"+OK", b"{}", b"HTTP/1.1 200 " + b"x" * 10**6,
    b"HTTP/1.1 200 \xff\xfe", b"HTTP/1.1 " + b"9" * 400 + b" OK", b"GET / HTTP/1.1", b"PRI * HTTP/2.0",
]  # fmt: skip
HEADERS = [
    b"no colon", b": no name", b"Bad Name: 1", b"X\0: 1", b"X: \0", b"X: \xff\xfe", b" folded: 1", b"X: 1\n Y: 2", b"X: " + b"x" * 10**6,
    b"X: 1\r\n" * 20_000 + b"Y: 1", b"Content-Length: -1", b"Content-Length: 1e3", b"Content-Length: " + b"9" * 30,
    b"Content-Length: 0x10", b"Content-Length: 3, 4", b"Content-Length: 3\r\nContent-Length: 4", b"Content-Length: ",
    b"Content-Length: 5", b"Content-Length: 99999", b"Content-Length: 0", b"Transfer-Encoding: gzip", b"Transfer-Encoding: nonsense",
    b"Transfer-Encoding: chunked, chunked", b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked\r\nContent-Length: 4",
    b"Connection: upgrade\r\nUpgrade: websocket", b"Content-Type: " + b"x;" * 30_000,
]  # fmt: skip
CHUNKS = [
    b"zz\r\nabc\r\n", b"-1\r\nabc\r\n", b"FFFFFFFFFFFFFFFF\r\nabc\r\n", b"3\r\nabcdef\r\n0\r\n\r\n", b"3\nabc\n0\n\n", b"\r\n\r\n", b"0\r\n\r\n",
    b"1" * 400 + b"\r\n", b"3;" + b"x" * 10**5 + b"\r\nabc\r\n0\r\n\r\n", b"0x3\r\nabc\r\n0\r\n\r\n", b" 3\r\nabc\r\n0\r\n\r\n",
]  # fmt: skip


def _protocol() -> dict[str, Fault]:
    found = {f"status line {at}": sends(each + b"\r\n\r\n" + BODY, "either") for at, each in enumerate(STATUS_LINES)}
    for at, each in enumerate(HEADERS):
        found[f"header {at}"] = sends(b"HTTP/1.1 200 OK\r\n" + each + b"\r\n\r\n" + BODY, "either")
    start = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    found |= {f"chunk {at}": sends(start + each, "refused") for at, each in enumerate(CHUNKS)}
    found["two answers at once"] = sends(headed(BODY) * 2, "answered")
    found["an answer and more"] = sends(headed(BODY) + b"x" * 10**6, "answered")
    found["line ends of one letter"] = sends(headed(BODY).replace(b"\r\n", b"\n"), "either")
    return found


MADE = []
"""What makes contents, some of which take a second: made before anybody waits for them."""


def prepare() -> None:
    """Make them."""
    for made in MADE:
        made()


@cache
def bomb() -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    return b"".join([*(packer.compress(bytes(2**20)) for _ in range(300)), packer.flush()])


def raw_deflate(content: bytes) -> bytes:
    packer = zlib.compressobj(9, wbits=-15)
    return packer.compress(content) + packer.flush()


def packed(make: object, coding: str, expected: Expected = "refused") -> Fault:
    made = cache(make) if callable(make) else lambda: make
    MADE.append(made)

    def does(line: Line) -> None:
        line.send(headed(made(), Content_Encoding=coding))

    return Fault(does, expected)


@cache
def _coding() -> dict[str, Fault]:
    named = gzip.compress(BODY)[:3] + b"\x08" + gzip.compress(BODY)[4:10] + b"n" * 10**6 + b"\0" + raw_deflate(BODY)
    return {
        "a bomb": packed(bomb, "gzip"),
        "a bomb in a bomb": packed(lambda: gzip.compress(bomb()), "gzip, gzip"),
        "a bomb in a bomb, said once": packed(lambda: gzip.compress(bomb()), "gzip"),
        "a deflated bomb": packed(lambda: zlib.compress(bytes(2**28), 9), "deflate"),
        "a bomb as an error": Fault(lambda line: line.send(headed(bomb(), "500 No", Content_Encoding="gzip"))),
        "a bomb after an answer": packed(lambda: gzip.compress(BODY) + bomb(), "gzip", "either"),
        "br": packed(BODY, "br"),
        "nonsense": packed(BODY, "nonsense"),
        "a long name": packed(BODY, "x" * 50_000),
        "packed once": packed(gzip.compress(BODY), "gzip", "answered"),
        "deflated once": packed(zlib.compress(BODY), "deflate", "answered"),
        "cut short": packed(gzip.compress(BODY)[:-12], "gzip"),
        "a wrong sum": packed(gzip.compress(BODY)[:-8] + b"\0" * 8, "gzip", "either"),
        "a long name in it": packed(named, "gzip", "either"),
        "not packed": packed(BODY, "gzip"),
    }


CODES = (101, 201, 202, 204, 205, 206, 226, 300, 304, 400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 413, 415, 418, 422, 423, 425, 429, 431, 451, 500, 501, 502, 503, 504, 508, 511, 520, 599, 600, 999)  # fmt: skip
MOVED = (301, 302, 303, 307, 308)
WAITS = ("0", "-1", "1e9", "inf", "nan", "9" * 400, "soon", "", "Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "Thu, 99 Foo 2026", "\u00e9", "1;2", "0x10")  # fmt: skip


def _statuses() -> dict[str, Fault]:
    found = {f"{code}": sends(headed(completion(), f"{code} X")) for code in CODES}
    # "elsewhere" is a path of the same server, which writes down who comes.
    found |= {f"{code} to elsewhere": sends(headed(b"", f"{code} Moved", Location="/elsewhere")) for code in MOVED}
    found |= {
        f"{code} to another host": sends(headed(b"", f"{code} Moved", Location="http://127.0.0.2:9/x"))
        for code in MOVED
    }
    found["moved in circles"] = sends(headed(b"", "302 Moved", Location="."))
    found["moved to a file"] = sends(headed(b"", "302 Moved", Location="file:///etc/passwd"))
    found |= {f"429, wait {at}": sends(headed(b"{}", "429 Slow", Retry_After=wait)) for at, wait in enumerate(WAITS)}
    return found


GOOD = {
    "id": "x",
    "object": "chat.completion",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "right"},
            "logprobs": {"content": [{"token": "right", "logprob": -0.5, "top_logprobs": []}]},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 9, "completion_tokens": 3, "details": {"cached": 1}},
}
VALUES = (None, True, 0, -1.5, "text", "", [1, None, "x"], [], {"a": {"b": 1}}, {}, "\ud800")


def _types() -> dict[str, Fault]:
    found = {}
    for path in paths(GOOD):
        for value in VALUES if path else ():
            changed = json.dumps(replaced(GOOD, path, value)).encode()
            found[f"{'.'.join(map(str, path))} is {value!r}"] = sends(headed(changed), "either")
        if path and isinstance(path[-1], str):
            above = {key: each for key, each in inside(GOOD, path[:-1]).items() if key != path[-1]}
            missing = json.dumps(replaced(GOOD, path[:-1], above)).encode()
            found[f"{'.'.join(map(str, path))} is missing"] = sends(headed(missing), "either")
    return found


NUMBERS = {
    "400 digits": "9" * 400,
    "5,000 digits": "9" * 5000,
    "1e400": "1e400",
    "1e-400": "1e-400",
    "400 digits after the point": "0." + "1" * 400,
    "NaN": "NaN",
    "Infinity": "Infinity",
}
TEXT = json.dumps(GOOD)
BODIES = {
    "nothing": b"",
    "a page": b"<html><body>busy</body></html>",
    "a stream": b'data: {"choices": [{"delta": {"content": "right"}}]}\n\ndata: [DONE]\n\n',
    "a mark at the start": b"\xef\xbb\xbf" + TEXT.encode(),
    "UTF-16": TEXT.encode("utf-16"),
    "Latin-1": '{"choices": [{"message": {"content": "é"}}]}'.encode("latin-1"),
    "bytes": bytes(range(256)) * 99,
    "a nest of lists": b"[" * 500_000,
    "a nest of objects": b'{"a":' * 300_000,
    "a nest in the answer": TEXT.replace('"right"', "[" * 100_000 + "]" * 100_000, 1).encode(),
    "a list of a million": b"[" + b"0," * 900_000 + b"0]",
    "a name twice": b'{"choices": 1, ' + TEXT.encode()[1:],
    "a hundred thousand counts": TEXT.replace(
        '"prompt_tokens"', ",".join(f'"n{n}": 1' for n in range(100_000)) + ', "p"'
    ).encode(),
    "a count with a long name": TEXT.replace("prompt_tokens", "n" * 10**6).encode(),
    "a text of two million": completion("x" * 2 * 10**6),
    "a hundred thousand choices": json.dumps({"choices": GOOD["choices"] * 10_000}).encode(),
    "control letters": completion("".join(map(chr, range(32))) + "\x1b[2J\x1b]0;x\x07\x7f\x9b"),
    "many tokens": completion("right", {"content": [{"token": "r", "logprob": -1.0}] * 30_000}),
}  # fmt: skip


def _numbers() -> dict[str, Fault]:
    found = {}
    for name, number in NUMBERS.items():
        found[f"a logprob of {name}"] = sends(headed(TEXT.replace("-0.5", number).encode()), "either")
        found[f"a count of {name}"] = sends(headed(TEXT.replace('": 9', f'": {number}').encode()), "either")
    return found | {f"{name} for a body": sends(headed(body), "either") for name, body in BODIES.items()}


WRITTEN = {
    "as it is": KEY,
    "in JSON": json.dumps(KEY)[1:-1],
    "in JSON in JSON": json.dumps(json.dumps(KEY))[3:-3],
    "in numbers of JSON": "".join(f"\\u{ord(letter):04x}" for letter in KEY),
    "in numbers of Python": "".join(f"\\x{ord(letter):02x}" for letter in KEY),
    "in HTML": html.escape(KEY),
    "in numbers of HTML": "".join(f"&#{ord(letter)};" for letter in KEY),
    "in an address": quote(KEY, safe=""),
    "in an address twice": quote(quote(KEY, safe=""), safe=""),
    "in numbers of an address": "".join(f"%{ord(letter):02x}" for letter in KEY),
    "in capitals": KEY.upper(),
    "its beginning": KEY[:17] + "...",
    "its middle": KEY[9:27],
    "with a word": f"Bearer {KEY}",
}
OFFSETS = (*range(250, 312, 6), 10**5)
SHORT = (*range(30, 86, 6), 10**5)


def _echoing() -> dict[str, Fault]:
    found = {}
    for name, text in WRITTEN.items():
        content = json.dumps({"error": "bad key XX"}).replace("XX", text).encode()
        found[f"in an error, {name}"] = sends(headed(content, "401 No"))
        found[f"in an answer, {name}"] = sends(headed(completion(f"the key is {text}")), "answered")
        found[f"in what is no JSON, {name}"] = sends(headed(text.encode()))
    found |= {f"in an error after {n} bytes": sends(headed(b"x" * n + KEY.encode(), "500 No")) for n in OFFSETS}
    numbers = WRITTEN["in numbers of JSON"].encode()
    found |= {
        f"in numbers after {n} bytes of an error": sends(headed(b"x" * n + numbers, "500 No")) for n in (100, 200)
    }
    found |= {f"after {n} spaces in an error": sends(headed(b" " * n + KEY.encode(), "400 No")) for n in OFFSETS[::3]}
    found |= {f"in what is no JSON after {n} bytes": sends(headed(b"x" * n + KEY.encode())) for n in SHORT}
    found |= {f"in a list after {n} letters": sends(headed(completion(["x" * n + KEY]))) for n in SHORT}
    split = [{"token": KEY[at : at + 3], "logprob": -0.1} for at in range(0, len(KEY), 3)]
    found |= {
        "in tokens": sends(headed(completion("right", {"content": split})), "answered"),
        "as one token": sends(headed(completion("right", {"content": [{"token": KEY, "logprob": -1}]})), "answered"),
        "as a count": sends(headed(completion("right", usage={KEY: 1})), "answered"),
        "as the content's type": sends(headed(completion({KEY: KEY}))),
        "as a header": sends(headed(completion(), X_Key=KEY), "answered"),
        "as the reason": sends(headed(b"{}", f"403 {KEY}")),
        "as the encoding": sends(headed(completion(), Content_Encoding=KEY)),
        "as the encoding, late": sends(headed(completion(), Content_Encoding="x" * 30 + KEY)),
        "as the length": sends(headed(completion(), Content_Length=KEY)),
        "as the status": sends(f"HTTP/1.1 {KEY}\r\n\r\n".encode()),
        "as a chunk": sends(f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{KEY}\r\n".encode()),
        "as a transfer": sends(headed(completion(), Transfer_Encoding=KEY), "either"),
        "as a wish to wait": sends(headed(b"{}", "429 Slow", Retry_After=KEY)),
        "as a way elsewhere": sends(headed(b"", "302 Moved", Location=f"/{KEY}")),
        "as the type": sends(headed(completion(), Content_Type=f"application/json; charset={KEY}"), "answered"),
        "packed": sends(headed(gzip.compress(KEY.encode()), "401 No", Content_Encoding="gzip")),
        "a hundred times": sends(headed(f"{KEY} ".encode() * 100, "401 No")),
        "a thousand times, in numbers": sends(headed(WRITTEN["in numbers of JSON"].encode() * 1000, "401 No")),
        "a hundred times in an answer": sends(headed(completion(KEY * 100)), "answered"),
    }
    return found


FAMILIES = {
    "stalling": _stalling,
    "breaking": _breaking,
    "protocol": _protocol,
    "coding": _coding,
    "statuses": _statuses,
    "types": _types,
    "numbers": _numbers,
    "echoing": _echoing,
}


def faults() -> dict[str, Fault]:
    """Return all of them by name."""
    return {f"{word}: {name}": fault for word, made in FAMILIES.items() for name, fault in made().items()}
