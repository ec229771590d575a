"""A full disk, a limit of file size, a disk that may only be read: one clear line for each format."""

from __future__ import annotations

import sys

import pytest
from attack import disks
from attack.signals import ended, started
from attack.writers import commands, needed, slow_commands

COMMANDS = {writer.name: writer for writer in commands()}
LIMITS = (1500, 5000)

pytestmark = [
    pytest.mark.attack,
    pytest.mark.skipif(sys.platform != "linux", reason="runs are forks"),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.mark.parametrize("name", COMMANDS)
def test_where_nothing_can_be_written_it_is_said_in_one_line_and_nothing_is_left(name, tmp_path, record_property):
    writer, base = COMMANDS[name], needed(tmp_path / "base")
    usual = tmp_path / "usual"
    usual.mkdir()
    for entry in base.iterdir():
        (usual / entry.name).symlink_to(entry)
    assert ended(started(writer.run, usual, tmp_path / "said")) == 0, (tmp_path / "said").read_text()
    complaints = [each for size in LIMITS for each in disks.limited(writer, base, tmp_path, size)]
    tried = len(LIMITS)
    if disks.can_mount(tmp_path):
        for size in disks.sizes(usual, writer.out):
            complaints += disks.full_disk(writer, base, tmp_path, size)
            tried += 1
        complaints += disks.read_only(writer, base, tmp_path)
        tried += 1
    record_property("figure", f"disks, {name}: {tried} tried, {len(complaints)} wrong")
    record_property("tally", ("disks that are full, limited or read-only", tried))
    record_property("found", ("disks, crashes, more than one line or leftovers", len(complaints)))
    assert not complaints, "\n".join(complaints)


def test_a_disk_that_may_only_be_read_is_noticed_before_anything_is_sampled(tmp_path):
    if not disks.can_mount(tmp_path):
        pytest.skip("runs where a disk can be mounted, as by root on Linux")
    base = needed(tmp_path / "base")
    assert disks.read_only(slow_commands()[0], base, tmp_path) == []
