"""Stopped at random moments: whole files, nothing left after the next run, the same result."""

from __future__ import annotations

import os
import subprocess
import sys
from random import Random

import pytest
from attack.signals import Writer, attack
from attack.writers import SAMPLE, commands, functions, needed, slow_commands
from attack.writers_agents import needed_to_play, playing_commands
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
    found = attack(EVERY[name], base, tmp_path / "runs", Random(SEED), SHARES.get(name, USUAL))
    complaints = [each for kind in found.complaints.values() for each in kind]
    wrong = f"{len(complaints)} wrong"
    record_property("figure", f"signals, seed {SEED}, {name}: {found.tried} sent, {found.stopped} stopped it, {wrong}")
    record_property("tally", ("signals", found.tried))
    record_property("found", ("signals that came while it ran", found.stopped))
    for kind, each in found.complaints.items():
        record_property("found", (f"signals, {kind}", len(each)))
    assert not complaints, "\n".join(complaints)
