"""The sandbox: scripts that misbehave get nothing and harm nothing."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import resource
import socket
import sys
import tempfile
from pathlib import Path

import pytest
from attack.tricks import PREPARATION, tricks

from bayes_tacit.agents.dabench import Limits, SandboxError, run_code, sandbox, standing_walls
from bayes_tacit.errors import InvalidDataError

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


def test_nothing_outside_is_read_changed_or_reached_by_any_of_many_tricks(world):
    table, label = world
    os.utime(label, (1, 1))
    before = state_of(label)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as named:
        server.setblocking(False)
        named.bind(str(label.parent / "aside" / "unix"))
        words = {
            "PORT": str(server.getsockname()[1]),
            "LABEL": str(label),
            "FOLDER": str(label.parent),
            "NAMED": str(label.parent / "aside" / "unix"),
            "PARENT": str(os.getpid()),
        }
        attempts = {
            name: text for name, text in tricks().items() if platform.machine() == "x86_64" or "call" not in name
        }
        for name, attempt in attempts.items():
            for word, value in words.items():
                attempt = attempt.replace(word, value)
            attempts[name] = attempt
        script = f"""
outcomes = {{}}
for name, attempt in {attempts!r}.items():
    try:
        value = eval(attempt)
        outcomes[name] = 'refused' if type(value) is int and value == -1 else 'went through: ' + repr(value)[:60]
    except BaseException as error:
        outcomes[name] = type(error).__name__
with open('outcomes', 'w') as file:
    json.dump(outcomes, file)
print(open('outcomes').read())
"""
        run = run_code(PREPARATION + script, (table,), limits=Limits(output=100_000))
        with pytest.raises(BlockingIOError):
            server.accept()
    assert run.end == "ran", run.output
    outcomes = json.loads(run.output)
    assert list(outcomes) == list(attempts)
    assert len(attempts) >= 221 or platform.machine() != "x86_64"
    assert {name: outcome for name, outcome in outcomes.items() if outcome.startswith("went")} == {}
    assert "TOP" not in run.output
    assert state_of(label) == before
    assert table.read_text() == "x,y\n1,2\n3,4\n"
    assert left_running() == []


def state_of(label: Path) -> list[object]:
    """What must be the same afterwards: the file, its folder, and what belongs to this process."""
    about = label.stat()
    limits = [
        resource.getrlimit(kind) for kind in range(resource.RLIM_NLIMITS if hasattr(resource, "RLIM_NLIMITS") else 10)
    ]
    return [
        *(label.read_text(), about.st_mode, about.st_uid, about.st_mtime, about.st_nlink, os.listxattr(label)),
        *(sorted(path.name for path in label.parent.iterdir()), label.parent.stat().st_mode),
        *(os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0), os.sched_getscheduler(0), limits),
    ]


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


def test_missing_walls_are_named_and_nothing_is_run_unless_told(world, monkeypatch, tmp_path):
    monkeypatch.setattr(sandbox, "RUNNER", without_seccomp(tmp_path))
    with pytest.raises(SandboxError, match=r"has no seccomp .* stand namespaces, files, user, landlock\)") as caught:
        run_code("print(1)", (world[0],))
    assert caught.value.missing == ("seccomp",)
    assert run_code("print(1)", (world[0],), unsafe=True).output == "1\n"


def without_seccomp(folder: Path) -> Path:
    for path in sandbox.RUNNER.parent.glob("sandbox_*.py"):
        text = path.read_text()
        (folder / path.name).write_text(text.replace("def install(", "def install(_): return False\ndef other("))
    return folder / "sandbox_runner.py"


def test_a_loop_without_end_is_stopped_and_leaves_nothing(world):
    run = run_code("while True: pass", (world[0],), limits=Limits(seconds=6))
    assert run.end == "stopped"
    assert run.output.endswith("Stopped after 6 s.")
    assert left_running() == []


def test_sleeping_and_ignoring_signals_does_not_help(world):
    code = "import signal, time\nfor n in (2, 15, 24): signal.signal(n, signal.SIG_IGN)\ntime.sleep(100)"
    run = run_code(code, (world[0],), limits=Limits(seconds=6))
    assert run.end == "stopped"
    assert left_running() == []


def test_eating_memory_fails_alone(world):
    limits = Limits(memory=2 * 2**30, seconds=60)
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
