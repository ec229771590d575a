"""Calls in forks of a waiting process: the same answers, the same walls, and nothing left over."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from attack.tricks.preparation import PREPARATION

from simulations.dabench import Limits, SandboxError, run_code, sandbox, standing_walls
from simulations.dabench.warm import WarmProcess

MISSING = [wall for wall, stands in standing_walls().items() if not stands] if sys.platform == "linux" else ["Linux"]
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"this system has no {', '.join(MISSING)} for the sandbox"),
    pytest.mark.skipif(sandbox.wall_builder() != "bayes_tacit", reason="bubblewrap raises the walls here"),
]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("x,y\n1,2\n3,4\n")
    return path


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """What waits has no libraries, and is soon there."""
    folder = tmp_path / "bare"
    folder.mkdir()
    for path in sandbox.RUNNER.parent.glob("sandbox_*.py"):
        (folder / path.name).write_text(re.sub(r"(?m)^LIBRARIES = .*", "LIBRARIES = ()", path.read_text()))
    monkeypatch.setattr(sandbox, "RUNNER", folder / "sandbox_runner.py")
    yield folder
    sandbox.warm_process(sandbox.RUNNER, sandbox.ENVIRONMENT).end()


def waiting() -> int:
    """The process that calls are forked from."""
    process = sandbox.warm_process(sandbox.RUNNER, sandbox.ENVIRONMENT)._process
    assert process is not None
    return process.pid


def forks(process: int) -> list[str]:
    return Path(f"/proc/{process}/task/{process}/children").read_text().split()


@pytest.mark.parametrize(
    ("code", "earlier"),
    [
        ("import pandas as pd\nprint(pd.read_csv('table.csv')['x'].sum())", []),
        ("print(x)\nx + 1", ["x = 4", "raise SystemExit"]),
        ("y = 1 / 0", []),
        ("import os\nprint('before')\nos._exit(3)", []),
        ("open('/etc/passwd').read()", []),
        ("import socket\nsocket.socket()", []),
        ("import os\nos.fork()", []),
        ("import os\nprint(os.getpid(), os.getuid(), sorted(os.environ), os.listdir('.'))", []),
        ("import platform, tempfile\nprint(platform.uname(), tempfile.gettempdir())", []),
        (f"{PREPARATION}print(1)\npast('call(0x40000000 + 39)')\nprint(2)", []),
    ],
)
def test_a_fork_answers_as_a_new_process_does(table, code, earlier):
    assert run_code(code, (table,), earlier, warm=True) == run_code(code, (table,), earlier)


def test_calls_share_one_process_and_leave_no_fork(table):
    run_code("1", (table,), warm=True)
    process = waiting()
    assert run_code("import sys\nprint('pandas' in sys.modules)", (table,), warm=True).output == "True\n"
    assert run_code("import sys\nsys.modules['pandas'].left = 1", (table,), warm=True).ok
    assert run_code("import pandas\nprint(hasattr(pandas, 'left'))", (table,), warm=True).output == "False\n"
    assert run_code("open('left', 'w').write('1')", (table,), warm=True).ok
    assert run_code("import os\nprint(os.listdir('.'))", (table,), warm=True).output == "['table.csv']\n"
    assert (waiting(), forks(process)) == (process, [])


LOOK = """
import os
looking = '''
import ctypes
found = 0
for line in open("/proc/self/maps"):
    places, rights, *_ = line.split()
    if rights.startswith("rw") and "[v" not in line:
        first, last = (int(place, 16) for place in places.split("-"))
        found += ctypes.string_at(first, last - first).count(wanted)
print(found)
'''
exec(compile(looking, os.__file__, "exec"), {"wanted": "WANTED"[::-1].encode()})
"""


@pytest.mark.usefixtures("bare")
def test_nothing_of_a_call_is_in_the_memory_of_the_next_one(table):
    # Long enough that its memory is not soon used again; backwards, so that looking for it is not finding oneself.
    secret = "Rosebud-4711-" * 20
    look = LOOK.replace("WANTED", secret[::-1])
    alone = int(run_code(look, (table,), warm=True).output)
    table.write_text(f"x\n{secret}\n")
    said = f"y = {secret!r}\nprint(open('table.csv').read() * 2)"
    assert secret in run_code(said, (table,), [f"z = {secret!r}"], warm=True).output
    assert int(run_code(look, (table,), warm=True).output) == alone
    assert int(run_code(f"y = {secret!r}\n{look}", (table,), warm=True).output) > alone


def test_what_is_random_without_a_seed_differs_from_call_to_call(table):
    code = "import numpy, random\nprint(numpy.random.random(), random.random())"
    one, other = (run_code(code, (table,), warm=True).output.split() for _ in range(2))
    assert all(first != second for first, second in zip(one, other, strict=True))


@pytest.mark.usefixtures("bare")
def test_a_call_without_end_is_stopped_with_all_its_processes(table):
    code = "import signal, time\nfor n in (2, 15, 24): signal.signal(n, signal.SIG_IGN)\nprint(1)\ntime.sleep(100)"
    run = run_code(code, (table,), limits=Limits(seconds=1), warm=True)
    assert (run.end, run.output) == ("stopped", "1\n\nStopped after 1 s.")
    assert forks(waiting()) == []


@pytest.mark.usefixtures("bare")
def test_a_waiting_process_that_is_gone_is_replaced(table):
    run_code("1", (table,), warm=True)
    before = waiting()
    os.kill(before, 9)
    assert run_code("print(1)", (table,), warm=True).output == "1\n"
    assert run_code("print(2)", (table,), warm=True).output == "2\n"
    assert waiting() != before


def test_what_an_unfinished_call_wrote_is_not_read(table, bare):
    # What waits ends in the middle of the first call, which is then made anew without it.
    script = bare / "sandbox_warm.py"
    script.write_text(
        script.read_text().replace("        status = _finish", "        os._exit(1)\n        status = _finish")
    )
    assert run_code("print('once')", (table,), warm=True) == run_code("print('once')", (table,))


def test_missing_walls_are_named(table, bare):
    path = bare / "sandbox_syscalls.py"
    path.write_text(path.read_text().replace("def install(", "def install(_): return False\ndef other("))
    with pytest.raises(SandboxError, match="has no seccomp"):
        run_code("print(1)", (table,), warm=True)


def program(table, bare, *more):
    """A program that makes a call, and goes on as it is told."""
    lines = (
        "import pathlib; from simulations.dabench import run_code, sandbox",
        f"sandbox.RUNNER = pathlib.Path({str(bare / 'sandbox_runner.py')!r})",
        f"table = pathlib.Path({str(table)!r})",
        "print(run_code('print(1)', [table], warm=True).output, flush=True)",
        *more,
    )
    return [sys.executable, "-W", "always", "-c", "\n".join(lines)]


def test_it_ends_with_the_program_that_started_it(table, bare):
    words = program(
        table,
        bare,
        "print(sandbox.warm_process(sandbox.RUNNER, sandbox.ENVIRONMENT)._process.pid, flush=True)",
        "run_code('import time; time.sleep(100)', [table], warm=True)",
    )
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as running:
        assert [running.stdout.readline() for _ in range(2)] == ["1\n", "\n"]
        process = int(running.stdout.readline())
        running.kill()
    for _ in range(1000):
        if not Path(f"/proc/{process}").exists():
            return
        time.sleep(0.01)
    pytest.fail("it still runs")


def test_a_program_that_ends_by_itself_says_nothing_of_it(table, bare):
    done = subprocess.run(program(table, bare), capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("1\n\n", "")


def test_nobody_answers_for_a_script_that_is_not_there(tmp_path):
    with (tmp_path / "out").open("wb") as out:
        assert WarmProcess(tmp_path / "none.py", {}).call({}, 1.0, out, out.fileno()) is None
