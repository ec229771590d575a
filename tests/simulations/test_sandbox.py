"""The sandbox: scripts that misbehave get nothing and harm nothing."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from attack.tricks.preparation import PREPARATION

from bayes_tacit.errors import InvalidDataError, TacitWarning
from simulations.dabench import (
    DABench,
    Limits,
    SandboxError,
    check_walls,
    run_code,
    sandbox,
    standing_walls,
    wall_builder,
)

MISSING = [wall for wall, stands in standing_walls().items() if not stands] if sys.platform == "linux" else ["Linux"]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"this system has no {', '.join(MISSING)} for the sandbox")


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A table to work on, and a label that no one is to see or change."""
    aside = tmp_path / "aside"
    aside.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(aside))
    table, label = tmp_path / "table.csv", tmp_path / "labels.jsonl"
    table.write_text("x,y\n1,2\n3,4\n")
    label.write_text("TOP SECRET")
    return table, label


def left_running() -> list[str]:
    """Processes of the sandbox that still run: their command line names its folder, which `world` puts aside."""
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdigit() and tempfile.gettempdir().encode() in (folder / "cmdline").read_bytes():
                found.append(folder.name)
    return found


def test_code_runs_on_the_table_with_the_variables_of_earlier_calls(world):
    table, _ = world
    earlier = ["import pandas as pd\ndf = pd.read_csv('table.csv')\nprint('not shown')", "total = df['x'].sum()"]
    run = run_code("print('sum', total)\ndf.shape", (table,), earlier)
    assert (run.end, run.output) == ("ran", "sum 4\n(2, 2)\n")


def test_an_exception_is_told_with_its_line(world):
    run = run_code("x = 1\ny = x / 0\n", (world[0],))
    assert (run.end, run.output) == ("raised", "ZeroDivisionError: division by zero (line 2)\n")
    assert run_code("x = = 1", (world[0],)).output.startswith("SyntaxError")


def test_a_call_by_another_table_of_numbers_ends_the_process(world):
    run = run_code(f"{PREPARATION}print(1)\npast('call(0x40000000 + 39)')\nprint(2)", (world[0],))
    assert (run.end, run.output.splitlines()[0]) == ("killed", "1")


@pytest.mark.parametrize(
    "leaving",
    [
        "import sys; sys.exit()",
        "exit(0)",
        "raise SystemExit(3)",
        "import sys; sys.stdout.close()",
        "import os; os.close(1)",
        "import sys; sys.stdout = None",
        "raise KeyboardInterrupt",
    ],
)
def test_leaving_early_in_one_call_does_not_silence_later_ones(world, leaving):
    run = run_code("print('seen', x)\n1 / 0", (world[0],), [f"x = 1\n{leaving}\nx = 2"])
    seen = 2 if "stdout" in leaving or "close" in leaving else 1
    assert (run.end, run.output) == ("raised", f"seen {seen}\nZeroDivisionError: division by zero (line 2)\n")


def test_a_process_that_ends_itself_has_not_run(world):
    run = run_code("import os\nprint('before')\nos._exit(0)", (world[0],))
    assert (run.end, run.output) == ("raised", "before\n\nThe process ended before the code did.")


def test_the_disk_is_not_filled(world):
    limits = Limits(file_bytes=2**20)
    run = run_code("for n in range(1000): open(f'f{n}', 'wb').write(bytes(2**20))", (world[0],), limits=limits)
    assert run.end == "raised"
    assert "No space left" in run.output


@pytest.mark.parametrize("number", [3, 4, 5, 77])
def test_no_exit_code_of_the_agents_own_is_taken_for_ours(world, number):
    run = run_code(f"import os\nprint('[1]')\nos._exit({number})", (world[0],))
    assert (run.end, run.output) == ("raised", "[1]\n\nThe process ended before the code did.")


def test_what_a_killed_run_left_is_removed_by_the_next(world):
    script = "from simulations.dabench import run_code; import pathlib, tempfile; tempfile.tempdir = {!r};"
    script += "print('go', flush=True); run_code('import time; time.sleep(100)', [pathlib.Path({!r})])"
    filled = script.format(tempfile.gettempdir(), str(world[0]))
    with subprocess.Popen([sys.executable, "-c", filled], stdout=subprocess.PIPE) as process:
        process.stdout.read(3)
        # Itself, whose command has the folder in it, and the sandbox.
        until(lambda: len(left_running()) >= 3 and list(Path(tempfile.gettempdir()).iterdir()))
        process.kill()
    until(lambda: not left_running())
    (left,) = Path(tempfile.gettempdir()).iterdir()
    assert run_code("print(1)", (world[0],)).ok
    assert not left.exists()


def until(condition):
    for _ in range(2000):
        if condition():
            return
        time.sleep(0.01)
    pytest.fail("it did not come to that")


def test_missing_walls_are_named_and_nothing_is_run_unless_told(world, monkeypatch, tmp_path):
    monkeypatch.setattr(sandbox, "RUNNER", without_seccomp(tmp_path))
    with pytest.raises(SandboxError, match=r"has no seccomp .* stand namespaces, files, user, landlock\)") as caught:
        run_code("print(1)", (world[0],))
    assert caught.value.missing == ("seccomp",)
    assert run_code("print(1)", (world[0],), unsafe=True).output == "1\n"


def test_missing_walls_are_told_before_anything_is_played(monkeypatch, tmp_path):
    monkeypatch.setattr(sandbox, "RUNNER", without_seccomp(tmp_path))
    monkeypatch.setattr(sandbox, "_missing", sandbox._missing.__wrapped__)
    assert standing_walls() == {wall: wall != "seccomp" for wall in sandbox.WALLS}
    with pytest.raises(SandboxError, match="--unsafe-sandbox"):
        DABench(tmp_path).environment(None)
    with pytest.warns(
        TacitWarning, match="unsafe sandbox, without seccomp; of its walls stand namespaces, files, user"
    ):
        check_walls(unsafe=True)


def test_bubblewrap_is_used_and_said_where_it_works_for_an_ordinary_user(monkeypatch):
    monkeypatch.setattr(sandbox.bubblewrap, "works", lambda: True)
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    assert wall_builder() == "bubblewrap"
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert wall_builder() == "bayes_tacit"


def without_seccomp(folder: Path) -> Path:
    for path in sandbox.RUNNER.parent.glob("sandbox_*.py"):
        text = path.read_text()
        (folder / path.name).write_text(text.replace("def install(", "def install(_): return False\ndef other("))
    return folder / "sandbox_runner.py"


def test_a_loop_without_end_is_stopped_and_leaves_nothing(world):
    run = run_code("while True: pass", (world[0],), limits=Limits(seconds=1.5))
    assert run.end == "stopped"
    assert run.output.endswith("Stopped after 1.5 s.")
    assert left_running() == []


def test_sleeping_and_ignoring_signals_does_not_help(world):
    code = "import signal, time\nfor n in (2, 15, 24): signal.signal(n, signal.SIG_IGN)\ntime.sleep(100)"
    run = run_code(code, (world[0],), limits=Limits(seconds=1.5))
    assert run.end == "stopped"
    assert left_running() == []


def test_eating_memory_fails_alone(world):
    limits = Limits(memory=2**29, seconds=60)
    run = run_code("x = []\nwhile True: x.append(bytearray(50_000_000))", (world[0],), limits=limits)
    assert run.end in ("raised", "killed")
    assert run.end == "killed" or run.output.startswith("MemoryError")


def test_a_fork_bomb_does_not_go_off(world):
    run = run_code("import os\nwhile True: os.fork()", (world[0],))
    assert run.end == "raised"
    assert "PermissionError: os.fork is not allowed" in run.output
    assert left_running() == []


def test_a_flood_of_output_is_cut_and_a_large_file_is_refused(world):
    limits = Limits(file_bytes=200_000, output=1000)
    flood = run_code("for n in range(10**9): print('line', n)", (world[0],), limits=limits)
    assert flood.end in ("raised", "killed")
    assert flood.output.startswith("line 0\nline 1\n")
    assert "\n[...]\n" in flood.output
    assert len(flood.output) < 1200
    large = run_code("open('large', 'wb').write(bytes(10**6))", (world[0],), limits=limits)
    assert large.end in ("raised", "killed")


def test_leaving_early_is_no_failure_and_exit_handlers_do_not_run(world):
    code = "import atexit\natexit.register(print, 'late')\nprint('done')\nraise SystemExit"
    run = run_code(code, (world[0],))
    assert (run.end, run.output) == ("ran", "done\n")


def test_the_usual_libraries_work(world):
    code = """
import numpy as np
from scipy import stats
from sklearn.cluster import KMeans
from sklearn.linear_model import LinearRegression
points = np.array([[0.0], [0.1], [5.0], [5.1]])
print(KMeans(2, n_init=1, random_state=0).fit(points).n_iter_ > 0)
print(round(float(stats.pearsonr([1, 2, 3], [2, 4, 6.5])[0]), 3))
print(LinearRegression().fit(points, points.ravel()).coef_.round(6))
open('notes.txt', 'w').write('mine')
print(open('notes.txt').read())
"""
    run = run_code(code, (world[0],))
    assert (run.end, run.output) == ("ran", "True\n0.998\n[1.]\nmine\n")


def test_wrong_limits_are_refused():
    with pytest.raises(InvalidDataError, match="seconds"):
        Limits(seconds=0)
    with pytest.raises(InvalidDataError, match="memory"):
        Limits(memory=0)
