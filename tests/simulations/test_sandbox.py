"""The sandbox: what calls give back, how they end, and what happens where there is none."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from bayes_tacit.errors import InvalidDataError, TacitWarning
from simulations.dabench import DABench, Limits, Sandbox, SandboxError, check_sandbox, run_code, sandbox


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("x,y\n1,2\n3,4\n")
    path.chmod(0o600)
    return path


@pytest.fixture
def without_bubblewrap(monkeypatch, tmp_path):
    (tmp_path / "aside").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "aside"))
    monkeypatch.setenv("PATH", str(tmp_path))
    sandbox._obstacle.cache_clear()
    yield
    sandbox._obstacle.cache_clear()


def test_code_runs_on_the_table_with_the_variables_of_earlier_calls(table):
    earlier = ["import pandas as pd\ndf = pd.read_csv('table.csv')\nprint('not shown')", "total = df['x'].sum()"]
    run = run_code("print('sum', total)\ndf.shape", (table,), earlier)
    assert (run.end, run.output) == ("ran", "sum 4\n(2, 2)\n")


def test_an_exception_is_shown_with_its_line(table):
    run = run_code("x = 1\ny = x / 0\n", (table,))
    assert (run.end, run.output) == ("raised", "ZeroDivisionError: division by zero (line 2)\n")
    assert run_code("x = = 1", (table,)).output.startswith("SyntaxError")


@pytest.mark.parametrize(
    "leaving",
    [
        "import sys; sys.exit()",
        "import os; os.close(1)",
        "import sys; sys.stdout = None",
    ],
)
def test_leaving_early_in_one_call_does_not_silence_later_ones(leaving):
    run = run_code("print('seen', x)\n1 / 0", (), [f"x = 1\n{leaving}\nx = 2"])
    seen = 2 if "stdout" in leaving or "close" in leaving else 1
    assert (run.end, run.output) == ("raised", f"seen {seen}\nZeroDivisionError: division by zero (line 2)\n")


def test_leaving_early_is_no_failure_and_exit_handlers_do_not_run():
    run = run_code("import atexit\natexit.register(print, 'late')\nprint('done')\nraise SystemExit")
    assert (run.end, run.output) == ("ran", "done\n")


def test_a_call_without_end_is_stopped_and_says_what_it_printed():
    code = "import signal, time\nfor n in (2, 15, 24): signal.signal(n, signal.SIG_IGN)\nprint(1)\ntime.sleep(100)"
    run = run_code(code, limits=Limits(seconds=1))
    assert (run.end, run.output) == ("stopped", "1\n\nStopped after 1 s.")


def test_a_flood_of_output_is_cut_and_a_large_file_is_refused():
    limits = Limits(file_bytes=200_000, output=1000)
    flood = run_code("for n in range(10**9): print('line', n)", limits=limits)
    assert flood.end in ("raised", "killed")
    assert flood.output.startswith("line 0\nline 1\n")
    assert "\n[...]\n" in flood.output
    assert len(flood.output) < 1200
    assert run_code("open('large', 'wb').write(bytes(10**6))", limits=limits).end in ("raised", "killed")


def test_the_usual_libraries_work():
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
    run = run_code(code)
    assert (run.end, run.output) == ("ran", "True\n0.998\n[1.]\nmine\n")


def test_calls_share_libraries_and_nothing_else(table):
    with Sandbox((table,)) as calls:
        assert calls.run("import pandas\npandas.left = x = 1\nopen('left', 'w').write('1')").ok
        code = "import os, pandas, sys\nprint(hasattr(pandas, 'left'), 'x' in globals(), os.listdir('.'))"
        assert calls.run(code).output == "False False ['table.csv']\n"
        assert calls.run("import sys\nprint('pandas' in sys.modules)").output == "True\n"


def test_what_is_random_without_a_seed_differs_from_call_to_call():
    with Sandbox() as calls:
        code = "import numpy, random\nprint(numpy.random.random(), random.random())"
        one, other = (calls.run(code).output.split() for _ in range(2))
    assert all(first != second for first, second in zip(one, other, strict=True))


def test_a_sandbox_that_was_ended_begins_again():
    with Sandbox() as calls:
        assert calls.run("print(1)").output == "1\n"
        calls._process.kill()
        calls._process.wait()
        assert calls.run("print(2)").output == "2\n"


def test_nothing_runs_once_this_program_was_killed(table):
    check_sandbox()
    script = f"""
import pathlib, sys
from simulations.dabench import run_code
print('go', flush=True)
run_code("import time\\ntime.sleep(100)", [pathlib.Path({str(table)!r})])
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as program:
        program.stdout.read(3)
        until(lambda: len(children(program.pid)) >= 2)
        inside = children(program.pid)
        program.kill()
    until(lambda: not any(Path(f"/proc/{process}").exists() for process in inside))


def children(process):
    found = []
    for path in Path("/proc").glob(f"{process}/task/*/children"):
        with contextlib.suppress(OSError):
            for each in path.read_text().split():
                found += [int(each), *children(int(each))]
    return found


def until(condition):
    for _ in range(2000):
        if condition():
            return
        time.sleep(0.01)
    pytest.fail("it did not come to that")


@pytest.mark.usefixtures("without_bubblewrap")
def test_without_bubblewrap_nothing_is_run_unless_allowed(table, tmp_path):
    for attempt in (lambda: run_code("1", (table,)), check_sandbox, lambda: DABench(tmp_path).environment(None)):
        with pytest.raises(SandboxError, match=r"\(bwrap\) is not installed; expected .* --unsafe-sandbox"):
            attempt()
    with pytest.warns(TacitWarning, match="without a sandbox: bubblewrap"):
        check_sandbox(unsafe=True)
    with Sandbox((table,), Limits(seconds=1), unsafe=True) as calls:
        assert calls.run("print(open('table.csv').readline())").output == "x,y\n\n"
        assert calls.run("while True: pass").end == "stopped"
        assert calls.run("import os\nprint(os.listdir('.'))").output == "['table.csv']\n"
    assert list(Path(tempfile.gettempdir()).iterdir()) == []


@pytest.mark.usefixtures("without_bubblewrap")
def test_bubblewrap_that_does_not_work_says_why(tmp_path):
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: Creating new namespace failed' >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(SandboxError, match=r"does not work here \(bwrap: Creating new namespace failed"):
        run_code("1")


def test_wrong_limits_are_refused():
    with pytest.raises(InvalidDataError, match="seconds"):
        Limits(seconds=0)
    with pytest.raises(InvalidDataError, match="memory"):
        Limits(memory=0)
