"""A server of faults, and a process that plays against them: an episode each, with its time, memory and end."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from attack.faults import Fault, Line
from toy_world import Corridor

from bayes_tacit.agents import Budget, Retry, run_episode
from bayes_tacit.agents.endpoint import Endpoint, EndpointActor
from bayes_tacit.router import pure


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


AT_ONCE = 4
"""Faults that wait are waited for together."""


@dataclass
class Timed:
    """An actor that knows how long its last call took."""

    actor: EndpointActor
    name: str = "timed"
    took: list[float] = field(default_factory=list)

    def act(self, history):
        began = time.monotonic()
        try:
            return self.actor.act(history)
        finally:
            self.took.append(time.monotonic() - began)


def play(job: dict[str, object], path: Path) -> dict[str, object]:
    endpoint = Endpoint(str(job["url"]), "tiny", "ATTACK_KEY", timeout=float(job["timeout"]))
    actor = Timed(EndpointActor(endpoint, mode="generate"))
    told: dict[str, object] = {"name": job["name"]}
    try:
        played = run_episode(
            Corridor(1), actor, None, pure("cheap"), episode="e", budget=Budget(1), retry=Retry(attempts=1), path=path
        )
        told |= {"status": played.end.status, "error": played.end.error, "shown": repr(played)}
    except BaseException:
        told |= {"status": "traceback", "error": traceback.format_exc()}
    return told | {"took": actor.took[-1]}


def memory(name: str) -> float:
    """Return a number of this process's status, in MB."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1024


def measured(work) -> tuple[object, float]:
    """Do something, and give the memory that it took beyond what was taken before, at its peak."""
    Path("/proc/self/clear_refs").write_text("5")
    before = memory("VmRSS")
    done = work()
    return done, memory("VmHWM") - before


def main() -> None:
    order = json.load(sys.stdin)
    folder = Path(order["folder"])
    play(order["first"], folder / "first.jsonl")
    for at, job in enumerate(order["quick"]):
        told, more = measured(lambda job=job, at=at: play(job, folder / f"quick-{at}.jsonl"))
        print(json.dumps({**told, "memory": more}), flush=True)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        paths = [folder / f"waits-{at}.jsonl" for at in range(len(order["waits"]))]
        found, more = measured(lambda: list(pool.map(play, order["waits"], paths)))
    for told in found:
        print(json.dumps({**told, "memory": more}), flush=True)


if __name__ == "__main__":
    main()
