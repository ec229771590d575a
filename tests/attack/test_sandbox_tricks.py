"""Code in the sandbox tries everything: nothing outside is read, changed, reached or left running."""

from __future__ import annotations

import json
import platform
import sys
import tempfile
from pathlib import Path

import pytest
from attack import tricks
from attack.outside import LABEL_TEXT, SECRET, outside
from attack.tricks.preparation import PREPARATION

from simulations.dabench import Limits, run_code, sandbox, standing_walls

MISSING = [wall for wall, stands in standing_walls().items() if not stands] if sys.platform == "linux" else ["Linux"]
pytestmark = pytest.mark.skipif(
    bool(MISSING) or platform.machine() != "x86_64",
    reason=f"numbers of calls are those of x86_64; this system lacks {', '.join(MISSING) or 'nothing'}",
)

SAMPLE = ("reading", "describing", "others", "spaces")
"""Families that `make test` tries; `make attack` tries all."""

COURTESY = ("hook among objects", "trace")
"""Refused by the audit hook alone; they reach nothing outside."""

SCRIPT = """
outcomes = {{}}
for name, attempt in {attempts!r}.items():
    try:
        value = eval(attempt)
        outcomes[name] = "refused" if type(value) is int and value == -1 else "went through: " + repr(value)[:200]
    except BaseException as error:
        outcomes[name] = type(error).__name__
import os
_ = os.write(1, json.dumps(outcomes).encode())
"""


@pytest.fixture
def world(tmp_path, monkeypatch):
    aside = tmp_path / "aside"
    aside.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(aside))
    monkeypatch.setenv("ATTACK_KEY", SECRET)
    home = tmp_path / "outside"
    home.mkdir()
    with outside(home) as found:
        yield found


def without_courtesy(folder):
    """A copy of the runner whose audit hook lets everything pass: the walls stand alone."""
    for path in sandbox.RUNNER.parent.glob("sandbox_*.py"):
        text = path.read_text()
        (folder / path.name).write_text(text.replace("sys.addaudithook(", "(lambda hook: None)("))
    return folder / "sandbox_runner.py"


def marked(family):
    return family if family in SAMPLE else pytest.param(family, marks=pytest.mark.attack)


@pytest.fixture
def forks():
    """Calls of a test are forked from a process that waits; gives a way to ask which forks still run."""
    if sandbox.wall_builder() != "bayes_tacit":
        pytest.skip("runs where bubblewrap is not installed: with it nothing is forked")
    run_code("1", (), warm=True)
    waiting = sandbox.warm_process(sandbox.RUNNER, sandbox.ENVIRONMENT)._process.pid
    return lambda: Path(f"/proc/{waiting}/task/{waiting}/children").read_text().split()


def tried(world, attempts, *, warm=False):
    before = world.state()
    script = PREPARATION + SCRIPT.format(attempts=attempts)
    limits = Limits(output=400_000, seconds=20)
    run = run_code(world.filled(script), (world.table,), limits=limits, warm=warm)
    assert run.end == "ran", run.output[-2000:]
    outcomes = json.loads(run.output)
    assert list(outcomes) == [world.filled(name) for name in attempts]
    assert LABEL_TEXT not in run.output
    assert SECRET not in run.output
    assert world.differences(before) == {}
    return {name: outcome for name, outcome in outcomes.items() if outcome.startswith("went")}


@pytest.mark.parametrize("family", [marked(family) for family in tricks.tricks()])
def test_expressions_get_nothing(world, family, record_property):
    attempts = tricks.tricks()[family]
    record_property("tally", ("sandbox, tricks that are an expression", len(attempts)))
    assert tried(world, attempts) == {}


@pytest.mark.parametrize("family", [marked(family) for family in tricks.tricks()])
def test_expressions_get_nothing_in_a_fork_of_what_waits(world, forks, family, record_property):
    attempts = tricks.tricks()[family]
    record_property("tally", ("sandbox, the same in a fork of a process that waits", len(attempts)))
    assert tried(world, attempts, warm=True) == {}
    assert forks() == []


@pytest.mark.parametrize("family", [pytest.param(f, marks=pytest.mark.attack) for f in tricks.tricks()])
def test_expressions_get_nothing_without_the_hook_either(world, family, tmp_path, monkeypatch, record_property):
    monkeypatch.setattr(sandbox, "RUNNER", without_courtesy(tmp_path))
    attempts = {name: text for name, text in tricks.tricks()[family].items() if name not in COURTESY}
    record_property("tally", ("sandbox, the same without the audit hook", len(attempts)))
    assert tried(world, attempts) == {}


ALONE = (
    "ending: _exit(4)",
    "ending: report of missing walls",
    "ending: exit replaced",
    "burning: loop, signals ignored",
)


@pytest.mark.parametrize(
    "name", [name if name in ALONE else pytest.param(name, marks=pytest.mark.attack) for name in tricks.alone()]
)
def test_calls_of_their_own_harm_nothing(world, name, record_property):
    record_property("tally", ("sandbox, tricks that take a call of their own", 1))
    harmless(world, tricks.alone()[name])


@pytest.mark.parametrize(
    "name", [name if name in ALONE[:3] else pytest.param(name, marks=pytest.mark.attack) for name in tricks.alone()]
)
def test_forks_of_what_waits_harm_nothing_either(world, forks, name, record_property):
    record_property("tally", ("sandbox, tricks that take a fork of their own", 1))
    harmless(world, tricks.alone()[name], warm=True)
    assert forks() == []
    # What waits still answers, and knows nothing of it.
    assert run_code("print(sorted(name for name in globals() if name[0] != '_'))", (), warm=True).output == "[]\n"


def harmless(world, trick, *, warm=False):
    before = world.state()
    limits = Limits(seconds=trick.seconds, memory=2**30, file_bytes=2**22)
    run = run_code(world.filled(trick.code), (world.table,), limits=limits, warm=warm)
    assert run.end in trick.ends, run
    assert trick.says in run.output
    assert LABEL_TEXT not in run.output
    assert SECRET not in run.output
    assert len(run.output) < limits.output + 200
    assert world.differences(before) == {}
