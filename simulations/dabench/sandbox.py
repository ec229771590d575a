"""Running an agent's Python in a sandbox that bubblewrap makes."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import IO, Literal, Self

from bayes_tacit import validate
from bayes_tacit.errors import TacitError, TacitWarning
from bayes_tacit.files import temporary_folder

type End = Literal["ran", "raised", "stopped", "killed"]

ENDS: tuple[End, ...] = ("ran", "raised", "stopped", "killed")
SCRIPT = Path(__file__).with_name("sandbox_inside.py")


@dataclass(frozen=True)
class Limits:
    """What one call may use.

    Attributes
    ----------
    seconds
        On the clock, earlier calls that are run again included.
    memory
        Bytes of address space.
    file_bytes
        Of one file, the output among them; the working folder holds eight times as much.
    output
        Letters of output that are kept, half of them from its end.
    """

    seconds: float = 60.0
    memory: int = 4 * 2**30
    file_bytes: int = 16 * 2**20
    output: int = 4000

    def __post_init__(self) -> None:
        """Check the numbers."""
        validate.number("seconds", self.seconds, "a finite number > 0", above=0)
        for name in ("memory", "file_bytes", "output"):
            validate.whole(name, getattr(self, name), 1)


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True)
class Run:
    """What came of a call: how it ended, and the first and last of what it printed."""

    end: End
    output: str

    @property
    def ok(self) -> bool:
        """Whether the code ran to its end."""
        return self.end == "ran"


class SandboxError(TacitError, RuntimeError):
    """Bubblewrap is not installed or does not work here, so that agents' code is not run; `reason` says which."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"agents' code is not run: {reason}; expected bubblewrap for the sandbox (Debian's package is "
            "bubblewrap), or --unsafe-sandbox to run the code without"
        )
        self.reason = reason

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.reason,)


class Sandbox:
    """Runs Python on some tables, each call in a process of its own, behind one wall that bubblewrap makes.

    The wall stands from the first call until `close`, for as long as one question is worked on. In it a Python waits
    that has the numeric libraries, and forks for each call. A call finds read-only copies of the tables and nothing
    else in its working folder; nothing comes out of it but its output and how it ended.

    =============  =====================================================================================================
    out of reach   because
    =============  =====================================================================================================
    files          Python's library and the system's are there, read-only, and the working folder, in memory.
    the network    There is no interface.
    processes      Only those of the sandbox can be seen. All are ended after each call, and with this program.
    privileges     None, nor can any be gained; the user is nobody.
    =============  =====================================================================================================

    Limits of the kernel hold for address space, CPU time, size and number of files; a call is one process with one
    thread. It has no environment variables of ours and no standard input.

    What is not defended against: faults in the kernel; what can be told from timing; the use of as much CPU time and
    memory as a call may take, and of the kernel's memory that no limit counts, such as System V segments. Code that
    sets out to can forge its own output and how it ended, and leave something for later calls on the same question:
    that deceives nobody but itself. For code of an enemy use a virtual machine.

    Parameters
    ----------
    tables
        Files to copy into the working folder.
    limits
        What a call may use.
    unsafe
        Where bubblewrap is missing, run the code in a plain process, with the limits alone.
    """

    def __init__(self, tables: Sequence[Path] = (), limits: Limits = DEFAULT_LIMITS, *, unsafe: bool = False) -> None:
        self._tables = tuple(Path(table) for table in tables)
        self._limits = limits
        self._unsafe = unsafe
        self._lock = threading.Lock()
        self._process: Waiting | None = None
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, code: str, earlier: Sequence[str] = ()) -> Run:
        """Run code."""
        with self._lock:
            try:
                process = self._started()
                process.stdin.write(json.dumps({"earlier": list(earlier), "code": code}).encode() + b"\n")
                process.stdin.flush()
                # Letters outside ASCII take six or twelve bytes.
                line = _line(process, self._limits.seconds + PATIENCE, 12 * self._limits.output + 2000)
                answer = json.loads(line)
                return Run(ENDS[ENDS.index(answer["end"])], str(answer["output"]))
            except SandboxError:
                raise
            except (OSError, ValueError, KeyError, TypeError):
                # Whatever waits inside is gone, or no longer itself.
                self.close()
                return Run("killed", "The process was killed: it went beyond its limits.")
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """End the wall and all processes behind it."""
        self._open.close()
        self._process = None

    def _started(self) -> Waiting:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        walled = _obstacle() is None
        if not walled and not self._unsafe:
            raise SandboxError(_obstacle() or "")
        folder = INSIDE
        if not walled:
            folder = str(self._open.enter_context(temporary_folder(FOLDER)))
            for table in self._tables:
                Path(shutil.copyfile(table, Path(folder, table.name))).chmod(0o444)
        self._process = self._open.enter_context(_started(self._tables, self._limits, folder, walled=walled))
        return self._process


def run_code(
    code: str,
    tables: Sequence[Path] = (),
    earlier: Sequence[str] = (),
    limits: Limits = DEFAULT_LIMITS,
    *,
    unsafe: bool = False,
) -> Run:
    r"""Run code in a sandbox of its own; see `Sandbox`.

    Examples
    --------
    >>> run_code("1 + 1", unsafe=True).output
    '2\n'
    """
    with Sandbox(tables, limits, unsafe=unsafe) as sandbox:
        return sandbox.run(code, earlier)


def check_sandbox(*, unsafe: bool = False) -> None:
    """Refuse to run agents' code where there is no sandbox, before anything is played; with `unsafe`, warn."""
    obstacle = _obstacle()
    if obstacle and not unsafe:
        raise SandboxError(obstacle)
    if obstacle:
        warnings.warn(f"agents' code is run without a sandbox: {obstacle}", TacitWarning, stacklevel=2)


FOLDER, INSIDE = "bayes-tacit-tool", "/tool"
"""The working folder, without and within the sandbox."""

SYSTEM = (
    *("/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64"),
    *("/usr/share/zoneinfo", "/etc/localtime", "/sys/devices/system/cpu"),
)
DEVICES = ("/dev/null", "/dev/urandom", "/dev/random")
NOBODY = "65534"
ENVIRONMENT = {"LANG": "C.UTF-8", **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")}
PATIENCE = 30.0
"""Seconds beyond those of a call until there must be an answer."""


class Waiting(subprocess.Popen[bytes]):
    """The process that waits for calls: lines go in and come out."""

    stdin: IO[bytes]
    stdout: IO[bytes]


@cache
def _obstacle() -> str | None:
    """Return why there can be no sandbox here, if so."""
    if shutil.which("bwrap") is None:
        return "bubblewrap (bwrap) is not installed"
    try:
        with _started((), DEFAULT_LIMITS, INSIDE, walled=True):
            return None
    except OSError as error:
        return f"bubblewrap does not work here ({error})"


@contextlib.contextmanager
def _started(tables: Sequence[Path], limits: Limits, folder: str, *, walled: bool) -> Iterator[Waiting]:
    """Start what waits for calls; it is gone at the end."""
    with contextlib.ExitStack() as files:
        copies = {table.name: files.enter_context(table.open("rb")).fileno() for table in tables}
        errors = files.enter_context(tempfile.TemporaryFile())
        settings = {"folder": folder, "tables": list(copies), "limits": asdict(limits)}
        process = Waiting(
            [
                *(_bubblewrap(copies, 8 * limits.file_bytes) if walled else ()),
                *(sys.executable, "-I", "-B", f"/{SCRIPT.name}" if walled else str(SCRIPT), json.dumps(settings)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd="/",
            env=ENVIRONMENT,
            start_new_session=True,
            pass_fds=tuple(copies.values()),
        )
        try:
            if _line(process, PATIENCE, 100) != b"ready\n":
                errors.seek(0)
                raise OSError(errors.read(500).decode("utf-8", "replace").strip() or "it did not start")
            yield process
        finally:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    stream.close()


def _bubblewrap(tables: dict[str, int], room: int) -> list[str]:
    """Return the words before a program that make bubblewrap run it behind the wall."""
    words = [
        shutil.which("bwrap") or "bwrap",
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-uts",
        "--unshare-cgroup-try",
    ]
    words += ["--as-pid-1", "--die-with-parent", "--new-session", "--hostname", "tool", "--proc", "/proc"]
    words += ["--cap-drop", "ALL"]
    if os.getuid() == 0:
        # For what waits, which forks a process of nobody, and ends it.
        words += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_KILL"]
    else:
        words += ["--unshare-user", "--uid", NOBODY, "--gid", NOBODY]
    library = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    shared = Path(*(sysconfig.get_config_var(name) or "none" for name in ("LIBDIR", "INSTSONAME")))
    shown = {path: path for each in library for path in (each, each.resolve())}
    shown |= {path: path for path in (*map(Path, (*SYSTEM, *DEVICES)), shared, Path(sys.prefix, "pyvenv.cfg"))}
    shown |= {Path(sys.executable): Path(sys.executable).resolve(), Path("/", SCRIPT.name): SCRIPT}
    made, bound = {Path("/")}, set[Path]()
    for path, source in sorted(shown.items(), key=lambda item: len(item[0].parts)):
        if not os.path.exists(source) or not bound.isdisjoint(path.parents):
            continue
        # Folders on the way that bubblewrap makes by itself can be entered by root alone.
        for parent in reversed([each for each in path.parents if each not in made]):
            words += ["--dir", str(parent)]
            made.add(parent)
        if source == path and path.is_symlink():
            words += ["--symlink", str(path.readlink()), str(path)]
        else:
            words += ["--dev-bind" if str(path) in DEVICES else "--ro-bind", str(source), str(path)]
            bound.add(path)
    words += ["--perms", "0777", "--size", str(room), "--tmpfs", INSIDE]
    for name, handle in tables.items():
        words += ["--perms", "0444", "--ro-bind-data", str(handle), f"{INSIDE}/{name}"]
    return [*words, "--remount-ro", "/", "--chdir", INSIDE, "--"]


def _line(process: Waiting, seconds: float, most: int) -> bytes:
    """Read a line from a process, or what there is of one when it ends, the time is up, or it is too long."""
    handle, until, content = process.stdout.fileno(), time.monotonic() + seconds, b""
    while not content.endswith(b"\n") and len(content) <= most:
        left = until - time.monotonic()
        if left <= 0 or not select.select([handle], [], [], left)[0] or not (more := os.read(handle, 2**16)):
            break
        content += more
    return content
