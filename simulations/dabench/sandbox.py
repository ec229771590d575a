"""Running an agent's Python in a process of its own, behind the walls that the kernel has."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import IO, Literal

from bayes_tacit import validate
from bayes_tacit.errors import TacitError, TacitWarning
from bayes_tacit.files import temporary_folder
from simulations.dabench import sandbox_bubblewrap as bubblewrap
from simulations.dabench.warm import warm_process

RUNNER = Path(__file__).with_name("sandbox_runner.py")

WALLS = ("namespaces", "files", "user", "landlock", "seccomp")


@dataclass(frozen=True)
class Limits:
    """What one call may use.

    Attributes
    ----------
    seconds
        On the clock, the start of Python and earlier calls included.
    memory
        Bytes of address space.
    file_bytes
        Of one file, the output among them.
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

    end: Literal["ran", "raised", "stopped", "killed"]
    output: str

    @property
    def ok(self) -> bool:
        """Whether the code ran to its end."""
        return self.end == "ran"


class SandboxError(TacitError, RuntimeError):
    """The system lacks some of the walls that agents' code is run behind; `missing` names them."""

    def __init__(self, missing: Sequence[str]) -> None:
        standing = [wall for wall in WALLS if wall not in missing]
        hint = "" if bubblewrap.installed() or missing[0] != WALLS[0] else "; bubblewrap, if installed, may raise some"
        super().__init__(
            f"agents' code is not run: this system has no {', '.join(missing)} for the sandbox (of its walls stand "
            f"{', '.join(standing) or 'none'}{hint}); expected all, or to be told to run it without (--unsafe-sandbox)"
        )
        self.missing = tuple(missing)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.missing,)


def run_code(
    code: str,
    tables: Sequence[Path],
    earlier: Sequence[str] = (),
    limits: Limits = DEFAULT_LIMITS,
    *,
    unsafe: bool = False,
    warm: bool = False,
) -> Run:
    """Run code in a new process, in a folder of its own that holds read-only copies of the tables.

    The folder and every process that was started are gone afterwards, also where this program is killed meanwhile;
    nothing is read back but the output.

    Walls of the Linux kernel stand between the code and the machine:

    ============  ======================================================================================================
    wall          what it keeps out
    ============  ======================================================================================================
    `namespaces`  A network without any interface; a process namespace, whose init ends all that is left in it; a host
                  name, System V memory, queues and mounts of its own.
    `files`       A file system that holds Python's library and the system's, read-only, and a small working folder in
                  memory. Nothing else has a name there, so its modes, times and attributes cannot be changed either.
    `user`        No capabilities; the user nobody where this program is run by root, else this program's own user in a
                  user namespace. No new privileges.
    `landlock`    Files outside, refused once more; and, from the versions of Landlock on that know them, TCP (4) and
                  signals to others (6).
    `seccomp`     Only the system calls that Python's numeric libraries need: no new process or program, no socket of
                  any kind, nothing done to other processes, no limits, priorities or modes set, no locks on whole
                  files. On x86_64 and aarch64.
    ============  ======================================================================================================

    The first two are raised by bubblewrap where it is installed and this program is not run by root, else by this
    program itself, as root or in a user namespace: `wall_builder` says which. The rest is always its own.

    Besides there are limits of CPU time, memory, file size, open files and threads, no environment variables of ours,
    no standard input, and an audit hook in Python that refuses the usual things in clear words. The hook is a courtesy:
    it can be defeated from Python.

    What is not defended against: faults in the kernel; the use of as much CPU time and memory as a call may take; what
    can be told from timing; the reading of the libraries, and of what kind of machine it is, how large and how busy.
    Code that sets out to can also forge its own output and how it ended, which deceives nobody but itself. With
    `unsafe`, where walls are missing, that much more. For code of an enemy use a virtual machine.

    Parameters
    ----------
    code
        Python. If its last line is an expression, its value is printed, as in a notebook.
    tables
        Files to copy into the folder.
    earlier
        Code that is run first, in the same namespace, without output.
    limits
        What it may use.
    unsafe
        Run the code also where walls are missing.
    warm
        Fork the new process from one that waits with NumPy, pandas and SciPy, instead of starting Python: a call then
        takes a tenth of the time. The walls are the same, and nothing goes from one call to the next: what waits never
        sees code or a table. But all calls have its layout of memory. Where bubblewrap raises walls, or is told to be
        unsafe, Python is started.

    Raises
    ------
    SandboxError
        Where walls are missing, unless it is told to be unsafe.
    """
    with temporary_folder(FOLDER) as home, tempfile.TemporaryFile() as out:
        root, folder = home / "root", home / "work"
        root.mkdir()
        folder.mkdir()
        for table in tables:
            copy = folder / Path(table).name
            shutil.copyfile(table, copy)
            copy.chmod(0o444)
        job = {
            "folder": str(folder),
            "root": str(root),
            "parent": os.getpid(),
            "unsafe": unsafe,
            "earlier": list(earlier),
            "code": code,
            "limits": asdict(limits),
            "raised": wall_builder() == bubblewrap.NAME,
        }
        ended: tuple[int, bool] | None = None
        said: list[str] = []
        if warm and not unsafe and not job["raised"]:
            ended, said = _reported_by(partial(warm_process(RUNNER, ENVIRONMENT).call, job, limits.seconds, out))
        if ended is None:
            # Nothing of a call that nobody finished is to be read.
            out.seek(0)
            out.truncate()
            (status, stopped), said = _reported_by(partial(_run_to_end, home, folder, job, limits, out))
        else:
            status, stopped = ended
        output = _shortened(out, limits.output)
    missing = said[0].split() if said else []
    if missing and not unsafe:
        raise SandboxError(missing)
    if stopped:
        return Run("stopped", f"{output}\nStopped after {limits.seconds:g} s.".lstrip())
    if said[1:] == [RAN]:
        return Run("ran", output)
    if said[1:] == [RAISED]:
        return Run("raised", output)
    if said and status < KILLED:
        return Run("raised", f"{output}\nThe process ended before the code did.".lstrip())
    return Run("killed", f"{output}\nThe process was killed: it went beyond its limits.".lstrip())


def standing_walls() -> dict[str, bool]:
    """Give the walls that `run_code` names, and whether each stands on this system.

    Examples
    --------
    >>> list(standing_walls())
    ['namespaces', 'files', 'user', 'landlock', 'seccomp']
    """
    try:
        run = run_code("", ())
    except SandboxError as error:
        return {wall: wall not in error.missing for wall in WALLS}
    return dict.fromkeys(WALLS, run.ok)


def check_walls(*, unsafe: bool = False) -> None:
    """Refuse, before anything is played, to run code where walls are missing; where it is told to, warn.

    Raises
    ------
    SandboxError
        Where walls are missing, unless it is told to be unsafe.
    """
    missing = _missing()
    if missing and not unsafe:
        raise SandboxError(missing)
    if missing:
        stand = ", ".join(wall for wall in WALLS if wall not in missing) or "none"
        text = f"agents' code is run in an unsafe sandbox, without {', '.join(missing)}; of its walls stand {stand}"
        warnings.warn(text, TacitWarning, stacklevel=2)


def wall_builder() -> str:
    """Say who raises the namespaces and the file system: "bubblewrap", or "bayes_tacit" itself.

    Examples
    --------
    >>> wall_builder() in ("bubblewrap", "bayes_tacit")
    True
    """
    return bubblewrap.NAME if os.getuid() != 0 and bubblewrap.works() else "bayes_tacit"


FOLDER = "bayes-tacit-tool"

RAN, RAISED = "ran", "raised"
"""What the runner reports at the end, on a pipe, after a first line with the walls that are missing."""

PATIENCE = 5.0
"""Seconds until processes that were killed must be gone."""

KILLED = 128
"""Exit codes from here on stand for signals."""

ENVIRONMENT = {
    "LANG": "C.UTF-8",
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
}
"""Environment variables of a call."""


@cache
def _missing() -> tuple[str, ...]:
    return tuple(wall for wall, stands in standing_walls().items() if not stands)


def _reported_by[T](run: Callable[[int], T]) -> tuple[T, list[str]]:
    """Run something that reports on a pipe; give what it gives, and the lines of the report."""
    report, reporting = os.pipe()
    try:
        result = run(reporting)
    finally:
        os.close(reporting)
        said = _reported(report)
    return result, said


def _run_to_end(
    home: Path, folder: Path, job: dict[str, object], limits: Limits, out: IO[bytes], reporting: int
) -> tuple[int, bool]:
    """Start Python for a call, and wait for its end; give its exit code, and whether it was stopped."""
    walls, script = list[str](), str(RUNNER)
    if job["raised"]:
        walls = bubblewrap.command(folder, RUNNER, 8 * limits.file_bytes)
        script = f"{bubblewrap.RUNNER}/{RUNNER.name}"
    process = subprocess.Popen(
        [*walls, sys.executable, "-I", "-B", script, str(home), str(reporting)],
        stdin=subprocess.PIPE,
        stdout=out,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env=ENVIRONMENT,
        start_new_session=True,
        pass_fds=(reporting,),
    )
    stopped = False
    try:
        process.communicate(json.dumps(job).encode(), timeout=limits.seconds)
    except subprocess.TimeoutExpired:
        stopped = True
    finally:
        _kill(process)
    return process.returncode, stopped


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Have the first process end the others and itself; then kill whatever is left of its group."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.terminate()
        process.wait(2)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    if process.stdin is not None:
        process.stdin.close()
    process.wait()


def _reported(pipe: int) -> list[str]:
    """Read what was reported, until all of the processes that could write have ended; they have been killed."""
    content = b""
    with open(pipe, "rb", buffering=0) as file:
        while select.select([file], [], [], PATIENCE)[0] and (more := file.read(2**16)):
            content = (content + more)[: 2**16]
    return content.decode("ascii", "replace").splitlines()


def _shortened(file: IO[bytes], letters: int) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    # No letter takes more than four bytes.
    if size <= 8 * letters:
        text = file.read().decode("utf-8", "replace")
        if len(text) <= letters:
            return text
        return f"{text[: letters // 2]}\n[...]\n{text[-(letters // 2) :]}"
    start = file.read(4 * letters).decode("utf-8", "replace")
    file.seek(-4 * letters, os.SEEK_END)
    end = file.read().decode("utf-8", "replace")
    return f"{start[: letters // 2]}\n[...]\n{end[-(letters // 2) :]}"
