"""What runs inside the process of a call: it raises the walls, then runs the agent's code. See `sandbox.run_code`.

It is run as a script, in isolated mode, and imports nothing of ours but the files beside it. `main` does not return;
nor does `run_job`, which `sandbox_warm` calls in a process that it has forked.

Three processes: the first leaves the machine's namespaces and waits; the second is the init of the new process
namespace, builds the file system and gives up its privileges; the third runs the code. When the init ends, the kernel
ends whatever is left in its namespace. Where bubblewrap has done what the first two do, there is only the third.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import ctypes
import importlib.util
import io
import json
import os
import resource
import select
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import ModuleType
from typing import Any, NoReturn

AGENT = "<agent>"
RAN, RAISED = "ran", "raised"


def main() -> NoReturn:
    """Read the job from standard input and run it; the second argument is the descriptor to report on."""
    run_job(json.loads(sys.stdin.buffer.read()), int(sys.argv[2]))


def run_job(job: Mapping[str, Any], report: int) -> NoReturn:
    """Raise the walls around this process and run a job."""
    walls, syscalls, courtesy = parts()
    libc = ctypes.CDLL(None, use_errno=True)
    report = _close_all_but_output(report)
    missing: list[str] = []
    how: str | None = None

    def second(orphaned: Callable[[], bool]) -> NoReturn:
        folder, readable = job["folder"], walls.readable_paths()
        _limit(job["limits"])
        if how is not None:
            room = 8 * job["limits"]["file_bytes"]
            if walls.own_files(libc, job["root"], folder, readable, room):
                folder = walls.INSIDE
            else:
                missing.append("files")
            if not walls.no_privileges(libc, how):
                missing.append("user")
        # Not before: becoming nobody clears it.
        walls.dies_with_parent(libc)
        if orphaned():
            os._exit(1)
        if how is None:
            third(folder, readable)
        # Whether the second has ended need not be asked: the kernel ends the third with it. Asking closes the pipe.
        _relay(lambda orphaned: third(folder, readable) if not orphaned() else os._exit(1))

    def third(folder: str, readable: tuple[str, ...]) -> NoReturn:
        os.environ.update(HOME=folder, TMPDIR=folder)
        os.chdir(folder)
        # Libraries for parallel work look there which others are loaded; becoming nobody closed it.
        set_dumpable = 4
        libc.prctl(set_dumpable, 1, 0, 0, 0)
        readable = (*readable, "/proc/cpuinfo", "/proc/meminfo", f"/proc/{os.getpid()}/maps")
        if not walls.landlock(libc, readable, folder):
            missing.append("landlock")
        if not syscalls.install(libc):
            missing.append("seccomp")
        os.write(report, f"{' '.join(missing)}\n".encode())
        if missing and not job["unsafe"]:
            os._exit(1)
        # The code most likely wants them; imported before the hook is there, which would look at all that they open.
        wanted = "".join((*job["earlier"], job["code"]))
        for name in ("numpy", "pandas"):
            with contextlib.suppress(ImportError):
                if name in wanted:
                    __import__(name)
        sys.argv = [AGENT]
        sys.stdin = io.StringIO()
        sys.addaudithook(courtesy.audit_hook(readable, folder))
        _run(job["earlier"], job["code"], report)

    if job["raised"]:
        _limit(job["limits"])
        if not walls.no_privileges(libc, "user"):
            missing.append("user")
        third(walls.INSIDE, walls.readable_paths())
    walls.dies_with_parent(libc)
    if os.getppid() != job["parent"]:
        os._exit(0)
    how = walls.own_namespaces(libc)
    if how is None:
        missing += ["namespaces", "files", "user"]
    _relay(second)


@cache
def parts() -> tuple[ModuleType, ModuleType, ModuleType]:
    """Load the walls, the filter of system calls, and the courtesy."""
    walls, syscalls, courtesy = (_beside(f"sandbox_{name}.py") for name in ("walls", "syscalls", "courtesy"))
    return walls, syscalls, courtesy


def _beside(name: str) -> ModuleType:
    """Load a file of this folder, which isolated mode does not search."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    spec = importlib.util.spec_from_file_location(name.removesuffix(".py"), path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _close_all_but_output(report: int) -> int:
    """Keep the two descriptors that something is written to; give the new number of the second."""
    nothing, kept = os.open(os.devnull, os.O_RDWR), 3
    os.dup2(nothing, 0)
    os.dup2(report, kept, inheritable=False)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))
    return kept


def _relay(child: Callable[[Callable[[], bool]], NoReturn]) -> NoReturn:
    """Run something in a process of its own, wait, and end as it did; when asked to stop, stop it first.

    The child is given a way to ask whether this process has ended already.
    """
    theirs, ours = os.pipe()
    number = os.fork()
    if number == 0:
        os.close(ours)

        def orphaned() -> bool:
            # Nobody ever writes: there is something to read once nobody could.
            ended = bool(select.select([theirs], [], [], 0)[0])
            os.close(theirs)
            return ended

        try:
            child(orphaned)
        finally:
            os._exit(1)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(number, signal.SIGKILL))
    while True:
        ended, status = os.wait()
        if ended == number:
            os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128)


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


def _run(earlier: Sequence[str], code: str, report: int) -> NoReturn:
    names: dict[str, Any] = {"__name__": "__main__", "__builtins__": builtins}
    # The agent may close or replace what it prints to; every call begins with a whole one.
    output, nothing = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    for each in earlier:
        _print_to(nothing)
        # Leaving early ended that call, and is not to end this one.
        with contextlib.suppress(BaseException):
            exec(compile(each, AGENT, "exec"), names)
    _print_to(output)
    end = RAN
    message = ""
    try:
        _execute(code, names)
    except SystemExit as error:
        end = RAN if error.code in (None, 0) else RAISED
        message = "" if error.code is None or isinstance(error.code, int) else f"{error.code}\n"
    except BaseException as error:
        end = RAISED
        message = _told(error)
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
    os.write(output, message.encode("utf-8", "replace"))
    os.write(report, f"{end}\n".encode())
    # Nothing of the agent's, such as an exit handler, is to run any more.
    os._exit(0)


def _print_to(handle: int) -> None:
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
    os.dup2(handle, 1)
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), "utf-8", write_through=True)


def _execute(code: str, names: dict[str, Any]) -> None:
    tree = ast.parse(code, AGENT)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, AGENT, "exec"), names)
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), AGENT, "eval"), names)
        if value is not None:
            print(value)  # noqa: T201


def _told(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException:
        text = ""
    line = _line_of(error)
    return f"{type(error).__name__}: {text}" + (f" (line {line})" if line else "") + "\n"


def _line_of(error: BaseException) -> int | None:
    found, trace = getattr(error, "lineno", None), error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == AGENT:
            found = trace.tb_lineno
        trace = trace.tb_next
    return found


if __name__ == "__main__":
    main()
