"""A bad input, what must come of it, and what did; valid input for every door; ways in.

A case says beforehand what it expects: `REFUSE` (one clear line that names the file and the place), `SAME` (harmless:
accepted, with the very result of the unchanged input) or `EITHER` (it may pass, if the result is finite). Whatever else
happens (a traceback, silence, a hang, a file that is left) is a failure, whichever it expects.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from unittest.mock import patch

from bayes_tacit.cli import main
from bayes_tacit.errors import TacitError

REFUSE: Literal["refuse"] = "refuse"
SAME: Literal["same"] = "same"
EITHER: Literal["either"] = "either"

LONGEST = 10.0
"""Seconds after which a case hangs."""

Prepare = Callable[[Path], None]
"""Puts the bad input into a folder, over what is there."""


@dataclass(frozen=True)
class Ended:
    """How a run of a door ended.

    Attributes
    ----------
    kind
        "accepted", "refused" or "crashed".
    said
        The refusal, or the traceback.
    result
        What an accepted input gave.
    """

    kind: str
    said: str = ""
    result: object = None


@dataclass(frozen=True)
class Door:
    """Where input comes in.

    Attributes
    ----------
    name
        For the table.
    run
        Takes the folder with the input and says how it ended.
    base
        The folder with valid input, which is linked into the folder of each case.
    files
        What a refusal must name, one of them.
    """

    name: str
    run: Callable[[Path], Ended]
    base: Path
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """One bad input.

    Attributes
    ----------
    door, name
        Where it comes in, and what is wrong with it.
    prepare
        Puts it there.
    expects
        REFUSE, SAME or EITHER.
    names
        Words of which a refusal must have at least one, besides the file: the field, or the line.
    key
        What makes it distinct from others of the same door.
    """

    door: Door
    name: str
    prepare: Prepare
    expects: str = REFUSE
    names: tuple[str, ...] = ()
    key: str = ""


@dataclass(frozen=True)
class Failure:
    """A case that did not end as it must."""

    door: str
    case: str
    why: str
    said: str


COUNTED = {
    "tracebacks": ("traceback",),
    "hangs over 10 s": ("hung",),
    "accepted wrongly": ("accepted", "harmless, with another result"),
    "refusals that name no file or field": ("names no",),
}
"""What must not be, and how `Failure.why` begins then; whatever else is wrong is counted by itself."""


def kind_of(failure: Failure) -> str:
    """Tell by which words a failure is counted."""
    found = (kind for kind, beginnings in COUNTED.items() if failure.why.startswith(beginnings))
    return next(found, "wrong otherwise")


@dataclass
class Tally:
    """Counts for one door."""

    cases: set[str] = field(default_factory=set)
    refused: int = 0
    accepted: int = 0
    failures: list[Failure] = field(default_factory=list)
    longest: tuple[float, str] = (0.0, "")
    """Seconds of the case that took most, and its name."""


class _HungError(BaseException):
    """Not an Exception, so that nothing that is attacked catches it."""


@contextmanager
def limit(seconds: float):
    """Raise in the main thread after so many seconds."""

    def hung(*_: object) -> None:
        raise _HungError

    before = signal.signal(signal.SIGALRM, hung)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def distinct(content: bytes | str) -> str:
    """Return a short digest."""
    return hashlib.sha256(content.encode(errors="surrogatepass") if isinstance(content, str) else content).hexdigest()[
        :24
    ]


def attempt(case: Case, folder: Path, usual: object) -> tuple[str, Failure | None]:
    """Run a case in a folder of its own; return how it ended and what is wrong with that."""
    folder.mkdir()
    for entry in case.door.base.iterdir():
        (folder / entry.name).symlink_to(entry)
    try:
        case.prepare(folder)
        before = _entries(folder)
        started = time.monotonic()
        try:
            with limit(LONGEST):
                ended = case.door.run(folder)
        except _HungError:
            return "hung", Failure(case.door.name, case.name, f"hung for {time.monotonic() - started:.0f} s", "")
        except Exception:
            ended = Ended("crashed", traceback.format_exc())
        why = _wrong(case, ended, usual, _entries(folder) - before)
        return ended.kind, Failure(case.door.name, case.name, why, ended.said[-1500:]) if why else None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _entries(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


def _wrong(case: Case, ended: Ended, usual: object, left: set[str]) -> str:
    """Say what is wrong with an end; nothing if it is as it must be."""
    if ended.kind == "crashed":
        return "traceback"
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", ended.said):
        return "raw control characters"
    if ended.kind == "refused":
        if case.expects == SAME:
            return "harmless, and refused"
        if left:
            return f"refused, and left {sorted(left)}"
        if "\n" in ended.said.strip():
            return "more than one line"
        if case.door.files and not any(file in ended.said for file in case.door.files):
            return f"names no file of {case.door.files}"
        if case.names and not any(name in ended.said for name in case.names):
            return f"names none of {case.names}"
        return ""
    if case.expects == REFUSE:
        return "accepted"
    if case.expects == SAME and ended.result != usual:
        return "harmless, with another result"
    return "" if finite(ended.result) else "accepted, with numbers that are not finite"


def finite(result: object) -> bool:
    """Return whether every number of a result is finite."""
    if isinstance(result, float):
        return math.isfinite(result)
    if isinstance(result, dict):
        return all(map(finite, result.values()))
    if isinstance(result, list | tuple):
        return all(map(finite, result))
    if isinstance(result, str):
        return re.search(r"(?<![\w-])(nan|inf|infinity)(?!\w)", result, re.IGNORECASE) is None
    return True


def run_all(cases: Iterable[Case], home: Path) -> dict[str, Tally]:
    """Run cases one after the other, those that are the same once; return the counts by door."""
    tallies: dict[str, Tally] = {}
    usual: dict[str, object] = {}
    for number, case in enumerate(cases):
        tally = tallies.setdefault(case.door.name, Tally())
        key = case.key or case.name
        if key in tally.cases:
            continue
        tally.cases.add(key)
        if case.door.name not in usual:
            usual[case.door.name] = usual_result(case.door, home / f"usual{number}")
        started = time.monotonic()
        kind, failure = attempt(case, home / f"case{number}", usual[case.door.name])
        if kind == "hung":
            # Other work on the machine may have stood in the way: what hangs does so again.
            started = time.monotonic()
            kind, failure = attempt(case, home / f"again{number}", usual[case.door.name])
        tally.longest = max(tally.longest, (time.monotonic() - started, case.name))
        tally.refused += kind == "refused"
        tally.accepted += kind == "accepted"
        if failure is not None:
            tally.failures.append(failure)
    return tallies


def usual_result(door: Door, folder: Path) -> object:
    """Return what the valid input gives; it must be accepted."""
    folder.mkdir()
    for entry in door.base.iterdir():
        (folder / entry.name).symlink_to(entry)
    ended = door.run(folder)
    shutil.rmtree(folder)
    assert ended.kind == "accepted", f"{door.name}: {ended.said}"
    assert finite(ended.result), f"{door.name}: {json.dumps(ended.result, default=str)[:300]}"
    return ended.result


PROGRAM = str(Path(sys.executable).parent / "bayes-tacit")
BAD_INPUT = 2


class _Input:
    """Standard input of bytes."""

    def __init__(self, content: bytes) -> None:
        self.buffer = io.BufferedReader(io.BytesIO(content))


def command(*words: str, out: tuple[str, ...] = (), stdin: bytes = b"") -> Callable[[Path], Ended]:
    """Return what runs the program in this process; `out` names the files whose content is its result."""

    def run(folder: Path) -> Ended:
        output, errors = io.StringIO(), io.StringIO()
        code: object = None
        with (
            chdir(folder),
            redirect_stdout(output),
            redirect_stderr(errors),
            patch.object(sys, "argv", ["bayes-tacit", *words]),
            patch.object(sys, "stdin", _Input(stdin)),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("default")
            # As in a program that is run by itself.
            warnings.simplefilter("ignore", DeprecationWarning)
            try:
                main()
            except SystemExit as ended:
                code = ended.code
            except Exception:
                return Ended("crashed", traceback.format_exc())
        return told(code, output.getvalue(), errors.getvalue(), folder, out)

    return run


def process(*words: str, out: tuple[str, ...] = (), stdin: bytes = b"") -> Callable[[Path], Ended]:
    """The same in a process of its own."""

    def run(folder: Path) -> Ended:
        done = subprocess.run([PROGRAM, *words], cwd=folder, input=stdin, capture_output=True, timeout=120, check=False)
        streams = (stream.decode(errors="surrogateescape") for stream in (done.stdout, done.stderr))
        return told(done.returncode, *streams, folder, out)

    return run


def told(code: object, output: str, errors: str, folder: Path, out: tuple[str, ...]) -> Ended:
    """Say how the program ended, by its exit code, what it printed and what it wrote."""
    lines = [line for line in errors.splitlines() if not line.startswith(("note: ", "warning: "))]
    if code == BAD_INPUT and len(lines) == 1 and lines[0].startswith("error: "):
        return Ended("refused", lines[0])
    if code != 0 or lines:
        return Ended("crashed", f"exit code {code}: {errors}")
    written = {name: _content(folder / name) for name in out}
    for name in out:
        (folder / name).unlink(missing_ok=True)
    return Ended("accepted", output, [output, written])


def _content(path: Path) -> object:
    if path.suffix == ".json":
        content = json.loads(path.read_text())
        # When and by what it was made is no result.
        return {key: value for key, value in content.items() if key != "provenance"}
    return path.read_text() if path.exists() else None


def python(function: Callable[[Path], object]) -> Callable[[Path], Ended]:
    """Return what calls a function of the library with the folder."""

    def run(folder: Path) -> Ended:
        with chdir(folder), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return Ended("accepted", "", function(folder))
            except TacitError as error:
                return Ended("refused", str(error))

    return run
