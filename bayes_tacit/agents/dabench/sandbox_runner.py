"""What runs inside the process of a call: it shuts the doors, then runs the agent's code. See `sandbox.run_code`.

It is run as a script, in isolated mode, and imports nothing of ours. `main` does not return.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import ctypes
import io
import json
import os
import resource
import struct
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from typing import Any

RAISED = 3
AGENT = "<agent>"

SYSTEM = ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64", "/usr/share/zoneinfo", "/etc/localtime")
DEVICES = ("/dev/null", "/dev/urandom", "/dev/random", "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu")

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


def main() -> None:
    """Read the job from standard input and run it."""
    job = json.loads(sys.stdin.buffer.read())
    folder = job["folder"]
    # Libraries for parallel work look there which others are loaded.
    own = f"/proc/{os.getpid()}/maps"
    readable = (*sorted({os.path.realpath(path) for path in _library()}), *SYSTEM, *DEVICES, own)
    _limit(job["limits"])
    _leave_network()
    _landlock(readable, folder)
    # What these import and open on the way in is let pass; the code most likely wants them anyway.
    for name in ("numpy", "pandas"):
        with contextlib.suppress(ImportError):
            __import__(name)
    sys.argv = [AGENT]
    sys.stdin = io.StringIO()
    sys.addaudithook(_hook(readable, folder))
    _run(job["earlier"], job["code"])


def _library() -> list[str]:
    paths = sysconfig.get_paths()
    return [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]


def _limit(limits: Mapping[str, Any]) -> None:
    seconds = int(limits["seconds"]) + 1
    wanted = {
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_AS: limits["memory"],
        resource.RLIMIT_FSIZE: limits["file_bytes"],
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: 256,
        resource.RLIMIT_NPROC: 256,
    }
    for kind, value in wanted.items():
        hard = resource.getrlimit(kind)[1]
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (most, most))


def _leave_network() -> bool:
    """Go into a network namespace without interfaces; first with a user namespace, which needs no privilege."""
    for flags in ("CLONE_NEWUSER CLONE_NEWNET", "CLONE_NEWNET"):
        try:
            os.unshare(sum(getattr(os, name) for name in flags.split()))
        except (AttributeError, OSError):
            continue
        return True
    return False


def _landlock(readable: Sequence[str], folder: str) -> bool:
    """Have the kernel refuse files elsewhere, TCP, and signals to processes outside, as far as it can.

    The numbers are those of linux/landlock.h: rights are bits, and each version of the interface adds some.
    """
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    create, add, restrict = 444, 445, 446
    version = libc.syscall(create, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if version < 1:
        return False
    execute, write_file, read_file, read_folder = 1, 2, 4, 8
    every = (1 << (13 + (version >= 2) + (version >= 3) + (version >= 5))) - 1
    of_files = execute | write_file | read_file | (1 << 14 if version >= 3 else 0) | (1 << 15 if version >= 5 else 0)
    attributes = struct.pack("=QQQ", every, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    size = 8 if version < 4 else 16 if version < 6 else 24
    rules = libc.syscall(create, ctypes.c_char_p(attributes), ctypes.c_size_t(size), ctypes.c_uint32(0))
    if rules < 0:
        return False
    granted = [(path, execute | read_file | read_folder) for path in readable]
    granted += [(folder, every), ("/dev/null", read_file | write_file)]
    for path, rights in granted:
        try:
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        allowed = rights if os.path.isdir(path) else rights & of_files  # noqa: PTH112
        rule = struct.pack("=Qi", allowed & every, handle)
        libc.syscall(add, rules, ctypes.c_int(1), ctypes.c_char_p(rule), ctypes.c_uint32(0))
        os.close(handle)
    set_no_new_privileges = 38
    libc.prctl(set_no_new_privileges, 1, 0, 0, 0)
    done = libc.syscall(restrict, rules, ctypes.c_uint32(0)) == 0
    os.close(rules)
    return done


def _hook(readable: tuple[str, ...], folder: str) -> Callable[[str, tuple[Any, ...]], None]:
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


class _Nowhere(io.TextIOBase):
    def write(self, text: str) -> int:
        return len(text)


def _run(earlier: Sequence[str], code: str) -> None:
    names: dict[str, Any] = {"__name__": "__main__", "__builtins__": builtins}
    for each in earlier:
        with contextlib.redirect_stdout(_Nowhere()), contextlib.suppress(Exception):
            exec(compile(each, AGENT, "exec"), names)
    status = 0
    try:
        _execute(code, names)
    except SystemExit as error:
        status = 0 if error.code in (None, 0) else RAISED
    except BaseException as error:
        status = RAISED
        line = _line_of(error)
        print(f"{type(error).__name__}: {error}" + (f" (line {line})" if line else ""))  # noqa: T201
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    # Nothing of the agent's, such as an exit handler, is to run any more.
    os._exit(status)


def _execute(code: str, names: dict[str, Any]) -> None:
    tree = ast.parse(code, AGENT)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, AGENT, "exec"), names)
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), AGENT, "eval"), names)
        if value is not None:
            print(value)  # noqa: T201


def _line_of(error: BaseException) -> int | None:
    found, trace = getattr(error, "lineno", None), error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == AGENT:
            found = trace.tb_lineno
        trace = trace.tb_next
    return found


if __name__ == "__main__":
    main()
