"""Ways in: the command line in this process, as a process, and Python."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from attack.case import Ended

from bayes_tacit.cli import main
from bayes_tacit.errors import TacitError

PROGRAM = str(Path(sys.executable).parent / "bayes-tacit")
BAD_INPUT = 2


class _Input:
    """Standard input of bytes."""

    def __init__(self, content: bytes) -> None:
        self.buffer = io.BufferedReader(io.BytesIO(content))


def command(*words: str, out: tuple[str, ...] = (), stdin: bytes = b"") -> Callable[[Path], Ended]:
    """Give what runs the program in this process; `out` names the files whose content is its result."""

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
    """Give what calls a function of the library with the folder."""

    def run(folder: Path) -> Ended:
        with chdir(folder), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return Ended("accepted", "", function(folder))
            except TacitError as error:
                return Ended("refused", str(error))

    return run
