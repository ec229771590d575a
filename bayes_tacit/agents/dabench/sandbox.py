"""Running an agent's Python in a process of its own, with as little around it as the system allows."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Literal

from bayes_tacit import validate

RUNNER = Path(__file__).with_name("sandbox_runner.py")


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


def run_code(code: str, tables: Sequence[Path], earlier: Sequence[str] = (), limits: Limits = DEFAULT_LIMITS) -> Run:
    """Run code in a new process, in a folder of its own that holds read-only copies of the tables.

    The folder and every process that was started are gone afterwards; nothing is read back but the output.

    Several layers stand between the code and the machine. Those marked (*) need Linux and are used where the kernel
    has them; without them the audit hook alone guards files and network.

    - Limits of CPU time, address space, file size, open files and processes (`resource`); the whole process group is
      killed when the time is up. (The limit of processes does not bind root.)
    - No environment variables of ours, no standard input, Python's isolated mode.
    - An audit hook refuses sockets, new processes, signals, foreign functions, and files outside the folder, except
      for reading Python's own library.
    - (*) Landlock: the kernel refuses files outside the folder and Python's library, TCP, and signals to others, also
      to code that goes around the hook.
    - (*) A network namespace of its own, without any interface, and a user namespace, in which root has no powers.

    This keeps a careless agent from doing harm, and a curious one from the labels. It is no wall against an attacker:
    an audit hook in Python can be defeated from Python, faults in the kernel are not defended against, code can fill
    the disk with many files within its time, use the processor as long as it may, and on systems without the starred
    layers native libraries can open files and sockets unseen. For hostile code use a virtual machine.

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
    """
    with (
        tempfile.TemporaryDirectory(prefix="tool-", ignore_cleanup_errors=True) as home,
        tempfile.TemporaryFile() as out,
    ):
        folder = Path(home).resolve() / "work"
        folder.mkdir()
        for table in tables:
            copy = folder / Path(table).name
            shutil.copyfile(table, copy)
            copy.chmod(0o444)
        job = {"folder": str(folder), "earlier": list(earlier), "code": code, "limits": asdict(limits)}
        process = subprocess.Popen(
            [sys.executable, "-I", "-B", str(RUNNER)],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={"HOME": str(folder), "TMPDIR": str(folder), "LANG": "C.UTF-8", **_ONE_THREAD},
            start_new_session=True,
        )
        stopped = False
        try:
            process.communicate(json.dumps(job).encode(), timeout=limits.seconds)
        except subprocess.TimeoutExpired:
            stopped = True
        finally:
            _kill(process)
        output = _shortened(out, limits.output)
    if stopped:
        return Run("stopped", f"{output}\nStopped after {limits.seconds:g} s.".lstrip())
    if process.returncode == 0:
        return Run("ran", output)
    if process.returncode == RAISED:
        return Run("raised", output)
    return Run("killed", f"{output}\nThe process was killed: it went beyond its limits.".lstrip())


RAISED = 3
"""Exit code of the runner where the code raised an exception."""

_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill whatever is left of the process's group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()
    if process.stdin is not None:
        process.stdin.close()
    process.wait()


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
