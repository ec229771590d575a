"""Connections that are closed or reset at every place of an answer."""

from __future__ import annotations

from attack.faults.line import Fault, Line, completion, headed
from attack.faults.stalling import CHUNKED

ANSWER = headed(completion())
HEAD, BODY = ANSWER.split(b"\r\n\r\n", 1)
PLACES = {
    "at once": b"",
    "in the status": b"HTTP/1.",
    "after the status": b"HTTP/1.1 200 OK\r\n",
    "in a header": b"HTTP/1.1 200 OK\r\nContent-Le",
    "after the head": HEAD + b"\r\n\r\n",
    "in the body": ANSWER[: len(HEAD) + 20],
    "before the last byte": ANSWER[:-1],
    "in the size of a chunk": CHUNKED + b"1",
    "in a chunk": CHUNKED + b"10\r\nabc",
    "between chunks": CHUNKED + b"3\r\nabc\r\n",
    "after 100 Continue": b"HTTP/1.1 100 Continue\r\n\r\n",
}


def broken(start: bytes, *, reset: bool) -> Fault:
    def does(line: Line) -> None:
        line.send(start)
        if reset:
            line.reset()

    return Fault(does)


def faults() -> dict[str, Fault]:
    found = {f"closed {place}": broken(start, reset=False) for place, start in PLACES.items()}
    return found | {f"reset {place}": broken(start, reset=True) for place, start in PLACES.items()}
