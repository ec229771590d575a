"""What writes, stopped at random moments or without room: whole files, one clear line, nothing left."""

from __future__ import annotations

import os
import subprocess
import sys
from random import Random

import pytest
from attack.writers import (
    SAMPLE,
    Writer,
    attack,
    commands,
    functions,
    limited,
    needed,
    needed_to_play,
    playing_commands,
    slow_commands,
)
from command_line import PROGRAM

SEED = int(os.environ.get("ATTACK_SEED", "15"))
SHARES = {"fit": 18, "score .csv": 18, "select": 18, "recommend": 6, "select --plot": 9, "sample": 3, "report": 3} | {
    "collect": 15,
    "collect --workers 2": 15,
    "route --log": 18,
    "save_posterior .nc": 24,
    "save_posterior .zarr": 30,
    "serve --log --state": 18,
    "bayes-tacit collect --workers 1": 6,
    "bayes-tacit collect --workers 2": 6,
    "bayes-tacit evaluate": 6,
    "import --workers 2": 6,
}
USUAL = 12
"""Signals to a writer that the table above does not name; 300 and some in all."""

PLAYED: dict[str, Writer] = {writer.name: writer for writer in playing_commands()}
EVERY: dict[str, Writer] = {writer.name: writer for writer in (*commands(), *functions(), *slow_commands())} | PLAYED

pytestmark = [
    pytest.mark.attack,
    pytest.mark.skipif(sys.platform != "linux", reason="runs are forks"),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.mark.parametrize("name", EVERY)
def test_a_stopped_writer_leaves_whole_files_and_the_next_run_the_usual_one_alone(name, tmp_path, record_property):
    base = needed(tmp_path / "base")
    if name == "report":
        words = [PROGRAM, *SAMPLE[:2], "--out", "real.nc", *SAMPLE[4:]]
        subprocess.run(words, cwd=base, capture_output=True, check=False)
    if name in PLAYED:
        needed_to_play(base)
    (tmp_path / "runs").mkdir()
    sent = SHARES.get(name, USUAL)
    stopped, wrong = attack(EVERY[name], base, tmp_path / "runs", Random(SEED), sent)
    counts = f"{sent} sent, {stopped} stopped it, {len(wrong)} wrong"
    record_property("figure", f"signals, seed {SEED}, {name}: {counts}")
    assert not wrong, "\n".join(wrong)


COMMANDS = {writer.name: writer for writer in commands()}
LIMITS = (1500, 5000)
"""Bytes that a file may have."""


@pytest.mark.parametrize("name", COMMANDS)
def test_where_nothing_can_be_written_it_is_said_in_one_line_and_nothing_is_left(name, tmp_path, record_property):
    base = needed(tmp_path / "base")
    wrong = [each for size in LIMITS for each in limited(COMMANDS[name], base, tmp_path, size)]
    record_property("figure", f"limits of files, {name}: {len(LIMITS)} tried, {len(wrong)} wrong")
    assert not wrong, "\n".join(wrong)
