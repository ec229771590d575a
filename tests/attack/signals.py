"""Commands that write, stopped at random moments by SIGKILL, SIGTERM and SIGINT.

Each is run in a fork of this process, which has loaded the library, so that most of its time is its own work. Half of
the signals come at a moment drawn from the whole run, half while its temporary file is there, if it has one. After
each, what is at the output is nothing, the whole file of before or the whole new one; the next run gives what an
undisturbed one gives, byte for byte or number for number, and leaves nothing beside it.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from bayes_tacit.cli import main

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
UNFINISHED = (".partial", ".tmp", ".tmp.old", ".broken")
"""How names of files end that are not whole; a run that ends well leaves none in its folders either."""

WRONG = (
    "wrong files",
    "leftovers after the next run",
    "re-runs that differ",
    "runs that do not end, or say more than a line",
)
"""What must not be."""

PATIENCE = 120.0
"""Seconds for one run, on a machine with other work."""


@dataclass(frozen=True)
class Writer:
    """Something that writes one file or folder.

    Attributes
    ----------
    name
        For the table.
    out
        What it writes.
    content
        Reads the output; raises if it is not whole.
    words
        Those of the command line, if it is a command.
    work
        What is run in the folder, if it is none.
    grows
        Whether the output may be a part of the whole one, as a log or a folder of transcripts is.
    beside
        What else it writes.
    """

    name: str
    out: str
    content: Callable[[Path], object]
    words: list[str] = field(default_factory=list)
    work: Callable[[], object] | None = None
    grows: bool = False
    beside: tuple[str, ...] = ()

    def run(self) -> object:
        """Do it, in the working folder."""
        if self.work is not None:
            return self.work()
        sys.argv = ["bayes-tacit", *self.words]
        return main()


@dataclass
class Found:
    """What came of the signals to one writer."""

    tried: int = 0
    stopped: int = 0
    complaints: dict[str, list[str]] = field(default_factory=lambda: {kind: [] for kind in WRONG})


def started(work: Callable[[], object], folder: Path, said: Path) -> int:
    """Run work in a fork, in a session of its own; give its number."""
    number = os.fork()
    if number:
        return number
    code = 1
    try:
        os.setsid()
        # A shell starts what runs in the background deaf to it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(folder)
        with said.open("ab", buffering=0) as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        sys.stdin = Path(os.devnull).open()  # noqa: SIM115  of this process, to its end
        work()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    except KeyboardInterrupt:
        # A function of the library lets it through; the program says it in one line.
        code = 130
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def ended(number: int, seconds: float = PATIENCE) -> int | None:
    """Wait for a fork; give how it ended as a shell does, None if it did not."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        done, status = os.waitpid(number, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.killpg(number, signal.SIGKILL)
    os.waitpid(number, 0)
    return None


def attack(writer: Writer, base: Path, home: Path, rng: Random, n: int) -> Found:
    """Stop a writer so many times."""
    found = Found()
    folder, said = home / "work", home / "said"
    shutil.copytree(base, folder)
    inputs = {entry.name for entry in folder.iterdir()}
    began = time.monotonic()
    code = ended(started(writer.run, folder, said))
    length = time.monotonic() - began
    assert code in (0, 1), f"{writer.name}: {said.read_text()[-2000:]}"
    usual = writer.content(folder / writer.out)
    for number in range(n):
        how = SIGNALS[number % 3]
        if number % 4 < 2 or writer.grows:
            _remove(folder / writer.out)
        said.write_bytes(b"")
        fork = started(writer.run, folder, said)
        # What grows has no temporary file: any moment is one at which it writes.
        _wait(fork, folder, writer.out, rng, length, writing=number % 2 == 0 and not writer.grows)
        _signal(fork, how)
        code = ended(fork)
        found.tried += 1
        found.stopped += code not in (0, 1)
        where = f"{writer.name}, {how.name} {number}"
        if code is None:
            found.complaints[WRONG[3]].append(f"{where}: does not end")
        text = said.read_text(errors="replace")
        # A function of the library lets an interruption through; a command says it in one line.
        if "Traceback" in text and (writer.words or not text.rstrip(": \n").endswith("KeyboardInterrupt")):
            found.complaints[WRONG[3]].append(f"{where}: {text[-600:]}")
        found.complaints[WRONG[0]] += _look(writer, folder, usual, where)
        if number % 2:
            continue
        # The next run: whatever was left is gone, and the result is the same.
        code = ended(started(writer.run, folder, said))
        if code not in (0, 1):
            found.complaints[WRONG[2]].append(f"{where}: the next run ends with {code}: {said.read_text()[-600:]}")
        elif writer.content(folder / writer.out) != usual:
            found.complaints[WRONG[2]].append(f"{where}: the next run gives something else")
        left = {entry.name for entry in folder.iterdir()} - inputs - {writer.out, *writer.beside}
        left |= {entry.name for entry in folder.rglob("*") if entry.name.endswith(UNFINISHED)}
        if left:
            found.complaints[WRONG[1]].append(f"{where}: after the next run there is {sorted(left)}")
    shutil.rmtree(folder)
    return found


def _wait(fork: int, folder: Path, out: str, rng: Random, length: float, *, writing: bool) -> None:
    """Wait for the moment of the signal."""
    seconds = 3 * length + 5 if writing else rng.uniform(0, length)
    until = time.monotonic() + seconds
    while time.monotonic() < until and not os.waitid(os.P_PID, fork, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        if writing and any(entry.name.startswith(f".{out}.") for entry in folder.iterdir()):
            time.sleep(rng.choice([0, rng.uniform(0, 0.002), rng.uniform(0, 0.2 * length)]))
            return
        time.sleep(0.0002)


def _signal(fork: int, how: signal.Signals) -> None:
    if not os.waitid(os.P_PID, fork, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        os.kill(fork, how)


def _look(writer: Writer, folder: Path, usual: object, where: str) -> list[str]:
    """Say what is wrong with what a stopped run has left under the output's name."""
    path = folder / writer.out
    if not path.exists():
        return []
    try:
        content = writer.content(path)
    except Exception as error:
        return [f"{where}: what is there cannot be read ({error!r})"]
    if content != usual and not writer.grows:
        return [f"{where}: what is there is neither the old file nor the new one"]
    return []


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
