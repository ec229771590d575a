"""Commands as processes: on a terminal, killed, with nobody reading."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from command_line import PROGRAM

from bayes_tacit import MapFit, load_posterior


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
    "example": (("example", "{out}/e.jsonl"), "1200 episodes written"),
    "validate": (("validate", "episodes.jsonl"), "1200 valid episodes"),
    "summary": (("summary", "episodes.jsonl"), "only Strong succeeds"),
    "fit": (("fit", "episodes.jsonl", "--out", "{out}/fit.json"), "gamma[entities]"),
    "sample": (
        ("sample", "episodes.jsonl", "--out", "{out}/p.nc", "--draws", "60", "--tune", "100", "--chains", "2"),
        "effective sample size",
    ),
    "score": (("score", "fit.json", "episodes.jsonl", "--out", "{out}/s.csv"), "checkpoints written"),
    "select": (("select", "fit.json", "episodes.jsonl", "--alpha", "0.3", "--out", "{out}/r.json"), "as given"),
    "report": (("report", "posterior.nc", "episodes.jsonl", "--out", "{out}/r.html"), "r.html"),
    "route": (("route", "router.json"), ""),
}


@pytest.mark.parametrize("command", ON_TERMINAL)
def test_on_a_terminal_every_command_works_and_cleans_up(example_folder, tmp_path, command):
    """There it may colour and show progress; it ends with the cursor visible."""
    arguments, expected = ON_TERMINAL[command]
    code, output = on_terminal(*(part.format(out=tmp_path) for part in arguments), cwd=example_folder)
    assert code == (1 if command == "sample" else 0), output
    assert expected in output
    assert "Traceback" not in output
    assert output.count("\x1b[?25l") <= output.count("\x1b[?25h")


def test_on_a_terminal_bad_input_is_one_line(example_folder):
    code, output = on_terminal("summary", "nothing.jsonl", cwd=example_folder)
    assert code == 2
    assert output.strip() == "error: nothing.jsonl: no such file or folder"


def killed(command: list[object], out: Path, after_writing: float | None) -> None:
    """Run a command and kill it: after a second, or so many seconds after it began to write its output."""
    process = subprocess.Popen(
        list(map(str, command)),
        cwd=out.parent,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    if after_writing is None:
        time.sleep(1)
    else:
        while not list(out.parent.glob(f".{out.name}.*.tmp")) and process.poll() is None:
            time.sleep(0.001)
        time.sleep(after_writing)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def load_fit(path: Path) -> None:
    assert MapFit.load(path).converged


def load_draws(path: Path) -> None:
    tree = load_posterior(path)
    assert tree["posterior"].sizes["draw"] == 500
    assert np.isfinite(tree["posterior"]["s"].values).all()
    assert set(tree.children) >= {"posterior", "sample_stats", "log_likelihood", "observed_data", "constant_data"}


def load_report(path: Path) -> None:
    text = path.read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert text.rstrip().endswith("</html>")


SAVE = "from bayes_tacit import load_posterior, save_posterior; save_posterior(load_posterior('posterior.nc'), 'p.nc')"

KILLED = {
    "fit": ("fit.json", ["fit", "episodes.jsonl", "--out", "fit.json"], load_fit),
    "sample": ("p.nc", ["sample", "episodes.jsonl", "--out", "p.nc"], load_draws),
    "report": ("report.html", ["report", "posterior.nc", "episodes.jsonl", "--out", "report.html"], load_report),
}


@pytest.mark.parametrize("name", KILLED)
def test_a_killed_command_leaves_no_file_or_a_whole_one(example_folder, tmp_path, name):
    """Killed before and while it writes; a posterior, which takes long to sample, while it is written once more."""
    written, words, load = KILLED[name]
    for given in ("episodes.jsonl", "posterior.nc"):
        (tmp_path / given).symlink_to(example_folder / given)
    out = tmp_path / written
    writing = [sys.executable, "-c", SAVE] if name == "sample" else [PROGRAM, *words]
    for command, after_writing in (([PROGRAM, *words], None), (writing, 0)):
        killed(command, out, after_writing)
        if out.exists():
            load(out)
            out.unlink()


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
