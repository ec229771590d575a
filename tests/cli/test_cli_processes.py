"""Commands as processes: on a terminal, and with nobody reading. `make attack` kills them."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import pytest
from command_line import PROGRAM


def on_terminal(*arguments: object, cwd: Path) -> tuple[int, str]:
    """Run a command with a pseudo-terminal for input, output and errors; end its input."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [PROGRAM, *map(str, arguments)],
        cwd=cwd,
        stdin=follower,
        stdout=follower,
        stderr=follower,
    )
    os.close(follower)
    os.write(leader, b"\x04")
    output = b""
    while True:
        try:
            chunk = os.read(leader, 4096)
        except OSError:
            break
        if not chunk:
            break
        output += chunk
    os.close(leader)
    return process.wait(timeout=60), output.decode()


ON_TERMINAL = {
    "summary": (("summary", "episodes.jsonl"), "only Strong succeeds"),
    "fit": (("fit", "episodes.jsonl", "--out", "{out}/fit.json"), "gamma[entities]"),
    "route": (("route", "router.json"), ""),
}


@pytest.mark.parametrize("command", ON_TERMINAL)
def test_on_a_terminal_commands_work_and_clean_up(example_folder, tmp_path, command):
    """There it may colour and show progress; it ends with the cursor visible."""
    arguments, expected = ON_TERMINAL[command]
    code, output = on_terminal(*(part.format(out=tmp_path) for part in arguments), cwd=example_folder)
    assert code == 0, output
    assert expected in output
    assert "Traceback" not in output
    assert output.count("\x1b[?25l") <= output.count("\x1b[?25h")


def test_on_a_terminal_bad_input_is_one_line(example_folder):
    code, output = on_terminal("summary", "nothing.jsonl", cwd=example_folder)
    assert code == 2
    assert output.strip() == "error: nothing.jsonl: no such file or folder"


def test_reading_stops_when_nobody_reads(example_folder):
    done = subprocess.run(
        f"{PROGRAM} summary episodes.jsonl | head -1",
        shell=True,
        cwd=example_folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
