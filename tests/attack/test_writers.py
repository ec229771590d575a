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
    can_mount,
    commands,
    ended,
    full_disk,
    functions,
    limited,
    needed,
    needed_to_play,
    playing_commands,
    read_only,
    sizes,
    slow_commands,
    started,
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


@pytest.mark.parametrize("name", COMMANDS)
def test_where_nothing_can_be_written_it_is_said_in_one_line_and_nothing_is_left(name, tmp_path, record_property):
    writer, base = COMMANDS[name], needed(tmp_path / "base")
    usual = tmp_path / "usual"
    usual.mkdir()
    for entry in base.iterdir():
        (usual / entry.name).symlink_to(entry)
    assert ended(started(writer.run, usual, tmp_path / "said")) == 0, (tmp_path / "said").read_text()
    complaints = [each for size in LIMITS for each in limited(writer, base, tmp_path, size)]
    tried = len(LIMITS)
    if can_mount(tmp_path):
        for size in sizes(usual, writer.out):
            complaints += full_disk(writer, base, tmp_path, size)
            tried += 1
        complaints += read_only(writer, base, tmp_path)
        tried += 1
    record_property("figure", f"disks, {name}: {tried} tried, {len(complaints)} wrong")
    assert not complaints, "\n".join(complaints)


def test_a_disk_that_may_only_be_read_is_noticed_before_anything_is_sampled(tmp_path):
    if not can_mount(tmp_path):
        pytest.skip("runs where a disk can be mounted, as by root on Linux")
    base = needed(tmp_path / "base")
    assert read_only(slow_commands()[0], base, tmp_path) == []
