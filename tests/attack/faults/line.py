"""A connection as a hostile server sees it, and what is sent on it."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

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
    """Give a whole answer."""
    named = {"Content-Type": "application/json", "Content-Length": str(len(content))}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items() if value)
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode("latin-1") + content


def completion(text: object = "right", logprobs: object = None, usage: object = None) -> bytes:
    """Give what a model says, as JSON."""
    content = {"choices": [{"message": {"role": "assistant", "content": text}, "logprobs": logprobs}], "usage": usage}
    return json.dumps(content).encode()


def sends(content: bytes, expected: Expected = "refused") -> Fault:
    """Send this and close."""
    return Fault(lambda line: line.send(content), expected)
