"""A server of faults: the first part of a request's path is the number of the one that answers it."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from attack.faults.line import Fault, Line


class FaultServer:
    """Serves on a free port of this machine while the block runs.

    Parameters
    ----------
    faults
        What to do, by the number in the path; a request for anything else is written down and not answered.
    always
        Do this whatever comes, also where it is no request at all.
    """

    def __init__(self, faults: Sequence[Fault], always: Fault | None = None) -> None:
        self.faults, self.always = faults, always
        self.strays: list[bytes] = []
        self._over = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._lines: list[threading.Thread] = []

    @property
    def port(self) -> int:
        return self._listening.getsockname()[1]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        for line in self._lines:
            line.join()
        self._listening.close()

    def _accept(self) -> None:
        self._listening.settimeout(0.05)
        while not self._over.is_set():
            with contextlib.suppress(TimeoutError):
                connection, _ = self._listening.accept()
                self._lines = [line for line in self._lines if line.is_alive()]
                self._lines.append(threading.Thread(target=self._serve, args=(connection,), daemon=True))
                self._lines[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(20)
            fault = self.always or self._asked_for(connection)
            if fault is not None:
                fault.does(Line(connection, self._over))
                # Whoever closes with something unread sends a reset instead of an end.
                connection.shutdown(socket.SHUT_WR)
                connection.settimeout(2)
                while connection.recv(65536):
                    pass

    def _asked_for(self, connection: socket.socket) -> Fault | None:
        request = b""
        while b"\r\n\r\n" not in request:
            more = connection.recv(65536)
            if not more:
                return None
            request += more
        head, _, body = request.partition(b"\r\n\r\n")
        length = int(re.search(rb"content-length: (\d+)", head, re.IGNORECASE)[1])
        while len(body) < length:
            body += connection.recv(65536)
        found = re.match(rb"POST /(\d+)/chat/completions ", head)
        if found is None:
            self.strays.append(head)
            return None
        return self.faults[int(found[1])]
