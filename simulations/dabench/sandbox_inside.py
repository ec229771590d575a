"""What runs inside the sandbox: a Python that waits for calls and runs each in a fork of itself. See `sandbox.Sandbox`.

It is run as a script, in isolated mode, and imports nothing of ours. Its argument is JSON: the working folder, the
names of the tables in it, and the limits. It reads a line of JSON for each call and answers with one.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib
import io
import json
import os
import resource
import select
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

AGENT = "<agent>"
NOBODY = 65534
LIBRARIES = {"numpy": "numpy", "pandas": "pandas", "scipy": "scipy.stats"}
"""Imported before the fork, once code names them, so that later calls have them without waiting."""

OUTPUT, REPORT = 1, 3
"""Descriptors of a call: what it prints, and how it ended. It has no others but an empty input."""


def main() -> None:
    """Answer calls until nobody asks any more."""
    settings = json.loads(sys.argv[1])
    answers = os.dup(1)
    os.write(answers, b"ready\n")
    while line := sys.stdin.buffer.readline():
        answer = _call(json.loads(line), settings)
        os.write(answers, json.dumps(answer).encode() + b"\n")


def _call(job: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, str]:
    """Run a call in a fork, end whatever is left of it, and return how it ended and what it printed."""
    limits = settings["limits"]
    until = time.monotonic() + limits["seconds"]
    wanted = "".join((*job["earlier"], job["code"]))
    for word, name in LIBRARIES.items():
        with contextlib.suppress(ImportError):
            if word in wanted:
                importlib.import_module(name)
    output, (report, reporting) = os.memfd_create("output"), os.pipe()
    number = os.fork()
    if number == 0:
        try:
            _become(settings, output, reporting)
            _run(job["earlier"], job["code"])
        finally:
            os._exit(1)
    os.close(reporting)
    handle = os.pidfd_open(number)
    # There is nothing to read from standard input but its end: nobody waits for the answer.
    ready = select.select([handle, 0], [], [], max(until - time.monotonic(), 0))[0]
    with contextlib.suppress(ProcessLookupError):
        # The first process of its namespace ends all others in it; without a sandbox, those of the call's session.
        os.kill(-1, signal.SIGKILL) if os.getpid() == 1 else os.killpg(number, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    said, text = os.read(report, 100), _shortened(output, limits["output"])
    for each in (handle, report, output):
        os.close(each)
    if handle not in ready:
        return {"end": "stopped", "output": f"{text}\nStopped after {limits['seconds']:g} s.".lstrip()}
    if said in (b"ran", b"raised"):
        return {"end": said.decode(), "output": text}
    if status >= 0:
        return {"end": "raised", "output": f"{text}\nThe process ended before the code did.".lstrip()}
    return {"end": "killed", "output": f"{text}\nThe process was killed: it went beyond its limits.".lstrip()}


def _become(settings: Mapping[str, Any], output: int, report: int) -> None:
    """Make this fork the process of a call: its descriptors, its user, its limits, an empty folder."""
    os.setsid()
    nothing, kept = os.open(os.devnull, os.O_RDWR), os.dup(report)
    for source, target in ((nothing, 0), (output, OUTPUT), (nothing, 2), (kept, REPORT)):
        os.dup2(source, target, inheritable=target < REPORT)
    os.closerange(REPORT + 1, os.sysconf("SC_OPEN_MAX"))
    if os.getpid() != 1 and os.getppid() == 1 and os.getuid() == 0:
        # The limit of processes does not hold for root.
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    limits = settings["limits"]
    for kind, value in (
        (resource.RLIMIT_CPU, int(limits["seconds"]) + 1),
        (resource.RLIMIT_AS, limits["memory"]),
        (resource.RLIMIT_FSIZE, limits["file_bytes"]),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 256),
        (resource.RLIMIT_NPROC, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (most, most))
    os.chdir(settings["folder"])
    for entry in os.scandir("."):
        if entry.name not in settings["tables"]:
            with contextlib.suppress(OSError):
                shutil.rmtree(entry, ignore_errors=True) if entry.is_dir(follow_symlinks=False) else os.unlink(entry)
    os.environ.update(HOME=settings["folder"], TMPDIR=settings["folder"])
    # What is random without a seed differs from call to call; the standard library sees to that itself.
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    sys.argv, sys.stdin = [AGENT], io.StringIO()


def _run(earlier: Sequence[str], code: str) -> NoReturn:
    names: dict[str, Any] = {"__name__": "__main__", "__builtins__": builtins}
    # The agent may close or replace what it prints to; every call begins with a whole one.
    output, nothing = os.dup(OUTPUT), os.open(os.devnull, os.O_WRONLY)
    write, leave = os.write, os._exit
    for each in earlier:
        _print_to(nothing)
        # Leaving early ended that call, and is not to end this one.
        with contextlib.suppress(BaseException):
            exec(compile(each, AGENT, "exec"), names)
    _print_to(output)
    end, message = b"ran", ""
    try:
        _execute(code, names)
    except SystemExit as error:
        end = b"ran" if error.code in (None, 0) else b"raised"
        message = "" if error.code is None or isinstance(error.code, int) else f"{error.code}\n"
    except BaseException as error:
        end, message = b"raised", _described(error)
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
    write(output, message.encode("utf-8", "replace"))
    write(REPORT, end)
    # Nothing of the agent's, such as an exit handler, is to run any more.
    leave(0)


def _print_to(handle: int) -> None:
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
    os.dup2(handle, OUTPUT)
    sys.stdout = io.TextIOWrapper(io.FileIO(OUTPUT, "w", closefd=False), "utf-8", write_through=True)


def _execute(code: str, names: dict[str, Any]) -> None:
    """Run code; if its last line is an expression, print its value."""
    tree = ast.parse(code, AGENT)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, AGENT, "exec"), names)
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), AGENT, "eval"), names)
        if value is not None:
            print(value)  # noqa: T201


def _described(error: BaseException) -> str:
    text, line, trace = "", getattr(error, "lineno", None), error.__traceback__
    with contextlib.suppress(BaseException):
        text = str(error)
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == AGENT:
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"{type(error).__name__}: {text}" + (f" (line {line})" if line else "") + "\n"


def _shortened(file: int, letters: int) -> str:
    """Read the first and the last letters of a file."""
    size = os.fstat(file).st_size
    # No letter takes more than four bytes.
    if size <= 8 * letters:
        text = os.pread(file, size, 0).decode("utf-8", "replace")
        start = end = text
        if len(text) <= letters:
            return text
    else:
        start = os.pread(file, 4 * letters, 0).decode("utf-8", "replace")
        end = os.pread(file, 4 * letters, size - 4 * letters).decode("utf-8", "replace")
    return f"{start[: letters // 2]}\n[...]\n{end[-(letters // 2) :]}"


if __name__ == "__main__":
    main()
