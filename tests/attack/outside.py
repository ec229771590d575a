"""What is outside the sandbox and must be as it was: a label, servers, this process, the machine."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SECRET = "sk-attack-9f8e7d6c5b4a"
LABEL_TEXT = "TOP SECRET LABEL"
MARK = "7777.25"
"""Seconds that started programs would sleep, so that they can be told from others."""


@dataclass(frozen=True)
class Outside:
    """A label in a folder, a table to work on, two servers and a socket with a name, which nobody may reach."""

    label: Path
    table: Path
    listening: tuple[socket.socket, ...]

    @property
    def words(self) -> dict[str, str]:
        """What the words in capitals stand for."""
        return {
            "PORT": str(self.listening[0].getsockname()[1]),
            "LABEL": str(self.label),
            "FOLDER": str(self.label.parent),
            "NAMED": str(self.listening[2].getsockname()),
            "PARENT": str(os.getpid()),
            "PROJECT": str(Path(__file__).parents[2]),
            "TERCES": SECRET[::-1],
            "MARK": MARK,
        }

    def filled(self, code: str) -> str:
        """Put them in."""
        for word, value in self.words.items():
            code = code.replace(word, value)
        return code

    def state(self) -> dict[str, object]:
        """Describe all of it."""
        about, library = self.label.stat(), Path(os.__file__).stat()
        return {
            "label": (self.label.read_text(), about.st_mode, about.st_uid, about.st_mtime_ns, about.st_nlink),
            "attributes of the label": os.listxattr(self.label),
            "folder": sorted(path.name for path in self.label.parent.iterdir()),
            "mode of the folder": self.label.parent.stat().st_mode,
            "table": (self.table.read_text(), self.table.stat().st_mode),
            "library": (library.st_mode, library.st_mtime_ns, library.st_size, library.st_nlink),
            "folder of the library": Path(os.__file__).parent.stat().st_mtime_ns,
            "priority": [os.getpriority(kind, 0) for kind in (os.PRIO_PROCESS, os.PRIO_PGRP)],
            "processors": os.sched_getaffinity(0),
            "scheduler": os.sched_getscheduler(0),
            "limits": [resource.getrlimit(kind) for kind in range(10)],
            "score": Path("/proc/self/oom_score_adj").read_text(),
            "name of the host": socket.gethostname(),
            "mounts": len(Path("/proc/self/mountinfo").read_text().splitlines()),
            "shared memory": shared("shm"),
            "semaphores": shared("sem"),
            "queues": shared("msg"),
            "memory with names": sorted(path.name for path in Path("/dev/shm").glob("*mine*")),
            "temporary files": sorted(path.name for path in Path(tempfile.gettempdir()).iterdir()),
            "reached": [reached(each) for each in self.listening],
            "running": running(),
        }

    def differences(self, before: dict[str, object]) -> dict[str, tuple[object, object]]:
        """Tell what is no longer as it was."""
        now = self.state()
        return {name: (value, now[name]) for name, value in before.items() if now[name] != value}


@contextlib.contextmanager
def outside(folder: Path) -> Iterator[Outside]:
    """Put a world up in a folder."""
    table, label = folder / "table.csv", folder / "labels.jsonl"
    table.write_text("x,y\n1,2\n3,4\n")
    label.write_text(LABEL_TEXT)
    os.utime(label, (1, 1))
    with (
        socket.create_server(("127.0.0.1", 0)) as stream,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
        socket.socket(socket.AF_UNIX) as named,
    ):
        datagrams.bind(("127.0.0.1", stream.getsockname()[1]))
        named.bind(str(folder / "named"))
        named.listen()
        for each in (stream, datagrams, named):
            each.setblocking(False)
        yield Outside(label, table, (stream, datagrams, named))


def reached(server: socket.socket) -> bool:
    try:
        server.recv(1) if server.type == socket.SOCK_DGRAM else server.accept()
    except BlockingIOError:
        return False
    return True


def shared(kind: str) -> int:
    """Count what this system has of System V's."""
    return len(Path(f"/proc/sysvipc/{kind}").read_text().splitlines())


def running() -> list[str]:
    """Name processes of the sandbox, whose command line has its folder, and programs that tricks start."""
    marks = (tempfile.gettempdir().encode(), MARK.encode())
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdigit() and int(folder.name) != os.getpid():
                line = (folder / "cmdline").read_bytes()
                if any(mark in line for mark in marks):
                    found.append(line.replace(b"\0", b" ").decode("utf-8", "replace"))
    return found
