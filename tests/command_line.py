"""The program as a user runs it: in a process of its own, or in this one, which saves the imports."""

from __future__ import annotations

import io
import subprocess
import sys
import warnings
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import pytest

from bayes_tacit.cli import main
from bayes_tacit.errors import TacitWarning

PROGRAM = str(Path(sys.executable).parent / "bayes-tacit")


def run(*arguments: object, cwd: Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run it in a process of its own."""
    command = [PROGRAM, *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, input=stdin, capture_output=True, text=True, timeout=300, check=False)


def call(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run it in this process; warnings other than those about the data are errors here, as in all tests."""
    words = ["bayes-tacit", *map(str, arguments)]
    output, errors = io.StringIO(), io.StringIO()
    with (
        chdir(cwd),
        redirect_stdout(output),
        redirect_stderr(errors),
        patch.object(sys, "argv", words),
        warnings.catch_warnings(action="ignore", category=TacitWarning),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    code = ended.value.code
    assert isinstance(code, int)
    return subprocess.CompletedProcess(words, code, output.getvalue(), errors.getvalue())
