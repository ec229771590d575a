"""An audit hook that says no in clear words before the kernel does; it can be defeated from Python and is no wall.

Imported by `sandbox_runner`, and like it imports nothing of ours.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

REFUSED = (
    "socket.",
    "subprocess.",
    "os.fork",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "os.system",
    "os.startfile",
    "os.kill",
    "pty.",
    "signal.pthread_kill",
    "resource.",
    "sys.setprofile",
    "sys.settrace",
    "gc.get_",
)
READS = ("os.listdir", "os.scandir", "os.chdir", "os.walk", "os.fwalk", "os.getxattr", "os.listxattr")
WRITES = (
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.mkdir",
    "os.link",
    "os.symlink",
    "os.chmod",
    "os.chown",
    "os.lchown",
    "os.truncate",
    "os.utime",
    "os.setxattr",
    "os.removexattr",
    "os.chflags",
    "sqlite3.connect",
)


def audit_hook(readable: tuple[str, ...], folder: str) -> Callable[[str, tuple[Any, ...]], None]:
    """Make the audit hook; what it needs is in its closure, out of reach of a module's globals."""
    realpath, fsdecode, join, separator = os.path.realpath, os.fsdecode, os.path.join, os.sep
    written = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    frame_of = sys._getframe
    refused, reads, writes = REFUSED, READS, WRITES
    here = (folder,)

    def within(path: object, roots: tuple[str, ...]) -> bool:
        if isinstance(path, int) or path is None:
            return True
        real = realpath(fsdecode(path))  # type: ignore[arg-type]
        return any(real == root or real.startswith(join(root, "")) for root in roots)

    def check(path: object, roots: tuple[str, ...], what: str) -> None:
        if not within(path, roots):
            raise PermissionError(f"{what} outside the working folder is not allowed: {path!r}")

    def asked_by_agent() -> bool:
        """Tell whether code called that is not in a file of the library, such as the agent's own."""
        frame = frame_of(2)
        while frame is not None and f"{separator}ctypes{separator}" in frame.f_code.co_filename:
            frame = frame.f_back  # type: ignore[assignment]
        return frame is None or not within(frame.f_code.co_filename, readable)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = arguments
            writing = (isinstance(mode, str) and any(letter in mode for letter in "wax+")) or (
                isinstance(flags, int) and flags & written
            )
            if writing and path != "/dev/null":
                check(path, here, "writing")
            else:
                check(path, (*readable, *here), "reading")
        elif event in writes:
            for path in arguments[: 2 if event in ("os.rename", "os.link", "os.symlink") else 1]:
                if event != "sqlite3.connect" or path != ":memory:":
                    check(path, here, "writing")
        elif event in reads:
            check(arguments[0] if arguments else None, (*readable, *here), "reading")
        elif event.startswith(refused) or (event.startswith("ctypes.") and asked_by_agent()):
            raise PermissionError(f"{event} is not allowed")

    return hook
