"""Servers that never come to an end: silent, trickling or flooding, at every place of an answer."""

from __future__ import annotations

import gzip
import zlib

from attack.faults.line import Fault, Line, completion, headed

ANSWER = headed(completion())
HEAD, BODY = ANSWER.split(b"\r\n\r\n", 1)
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
OPEN_END = b"HTTP/1.1 200 OK\r\n\r\n"
LARGE = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
PACKED = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"


def silent_after(start: bytes) -> Fault:
    def does(line: Line) -> None:
        line.send(start)
        line.wait()

    return Fault(does, waits=True)


def trickling(start: bytes, piece: bytes, pause: float = 0.01) -> Fault:
    def does(line: Line) -> None:
        line.send(start)
        line.trickle(piece, pause)

    return Fault(does, waits=True)


def flooding(start: bytes, piece: bytes, *, ends: bool = False) -> Fault:
    def does(line: Line) -> None:
        line.send(start)
        line.flood(piece)

    return Fault(does, waits=not ends)


def byte_by_byte(content: bytes) -> Fault:
    def does(line: Line) -> None:
        for at in range(len(content)):
            line.send(content[at : at + 1])
            if line.over.wait(0.05):
                return

    return Fault(does, waits=True)


def faults() -> dict[str, Fault]:
    places = {
        "at once": b"",
        "in the status": b"HTTP/1.",
        "after the status": b"HTTP/1.1 200 OK\r\n",
        "in a header": b"HTTP/1.1 200 OK\r\nContent-Le",
        "before the last line of the head": HEAD + b"\r\n",
        "after the head": HEAD + b"\r\n\r\n",
        "in the body": HEAD + b"\r\n\r\n" + BODY[:20],
        "before the last byte": ANSWER[:-1],
        "before a chunk": CHUNKED,
        "in the size of a chunk": CHUNKED + b"1",
        "in a chunk": CHUNKED + b"10\r\nabc",
        "before the last chunk": CHUNKED + f"{len(BODY):x}".encode() + b"\r\n" + BODY + b"\r\n",
        "in the trailer": CHUNKED + f"{len(BODY):x}".encode() + b"\r\n" + BODY + b"\r\n0\r\nX-More: 1\r\n",
        "after a body without an end": OPEN_END + BODY,
        "in a packed body": PACKED + gzip.compress(BODY)[:15],
        "after 100 Continue": b"HTTP/1.1 100 Continue\r\n\r\n",
    }
    found = {f"silent {place}": silent_after(start) for place, start in places.items()}
    found |= {
        "trickled headers": trickling(b"HTTP/1.1 200 OK\r\n", b"X-More: 1\r\n"),
        "trickled header": trickling(b"HTTP/1.1 200 OK\r\nX-More: ", b"x"),
        "trickled status": trickling(b"HTTP/1.1 200 ", b"O"),
        "trickled body": trickling(LARGE, b" "),
        "trickled body without an end": trickling(OPEN_END, b" "),
        "trickled chunks": trickling(CHUNKED, b"1\r\n \r\n"),
        "trickled size of a chunk": trickling(CHUNKED, b"0"),
        "trickled words on a chunk": trickling(CHUNKED + b"5;", b"x"),
        "trickled trailer": trickling(CHUNKED + b"0\r\n", b"X-More: 1\r\n"),
        "trickled packed body": trickling(PACKED, b"\0"),
        "trickled empty lines": trickling(b"", b"\r\n"),
        "an answer byte by byte": byte_by_byte(ANSWER),
        "100 Continue again and again": trickling(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        "102 Processing again and again": trickling(b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
        "103 Early Hints again and again": trickling(b"", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"),
        "100 Continue as fast as can be": flooding(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
        "a flood of chunks of one byte": flooding(CHUNKED, b"1\r\n \r\n" * 1000),
        "a flood of empty packed blocks": flooding(
            PACKED + gzip.compress(b"")[:10], b"\0\0\0\xff\xff" * 1000, ends=True
        ),
        "a flood of spaces": flooding(OPEN_END, b" " * 65536, ends=True),
        "a flood of spaces in chunks": flooding(CHUNKED, b"10000\r\n" + b" " * 65536 + b"\r\n", ends=True),
        "a flood of headers": flooding(b"HTTP/1.1 200 OK\r\n", b"X-More: 1\r\n" * 1000, ends=True),
        "a flood of one header": flooding(b"HTTP/1.1 200 OK\r\nX-More: ", b"x" * 65536, ends=True),
        "a flood in the trailer": flooding(CHUNKED + b"0\r\n", b"X-More: 1\r\n" * 1000, ends=True),
        "a flood of words on a chunk": flooding(CHUNKED + b"5;", b"x" * 65536, ends=True),
        "a flood after the packed body": flooding(PACKED + gzip.compress(b"{}"), b"x" * 65536, ends=True),
        "a flood of an error": flooding(b"HTTP/1.1 500 No\r\n\r\n", b"no " * 9999, ends=True),
        "a flood of what unpacks to nothing": flooding(PACKED, zlib.compress(b""), ends=True),
    }
    return found
