"""Runs that are stopped: no worker outlives them, nobody else plays into their folder, and the next one goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from children import runs, until, workers_of
from patient_world import PLAYERS, Corridors, Slow
from toy_world import Stalled, deferral

from bayes_tacit.agents import read_pairs
from bayes_tacit.agents.playing import Entry, FolderInUseError, Players, collect, collected, play_policies
from bayes_tacit.agents.work import owned
from bayes_tacit.errors import TacitError, TacitWarning

HERE = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    """What is played in this process is played without pauses."""
    monkeypatch.setattr("patient_world.PAUSE", 0)


@contextmanager
def started(folder, workers=2):
    script = f"import patient_world; patient_world.play({str(folder)!r}, {workers})"
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=HERE,
        stderr=subprocess.PIPE,
        # A shell starts what runs in the background deaf to SIGINT, and so are its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def acts(pairs):
    return [[step.proposal.action for step in each.steps] for pair in pairs for each in (pair.cheap, pair.strong)]


@pytest.mark.skipif(sys.platform != "linux", reason="children are looked up in /proc")
@pytest.mark.parametrize(
    "how",
    [
        signal.SIGKILL,
        pytest.param(signal.SIGTERM, marks=pytest.mark.attack),
        pytest.param(signal.SIGINT, marks=pytest.mark.attack),
    ],
)
def test_workers_end_with_their_run_and_the_next_run_at_once_finishes_its_work(tmp_path, how, monkeypatch):
    # On a busy machine the workers' last moment is a long one.
    monkeypatch.setattr("bayes_tacit.agents.work.PATIENCE", 60)
    folder = tmp_path / "rollouts"
    with started(folder) as process:
        until(lambda: len(list(folder.glob("*.partial"))) == 2 and list(folder.glob("*.jsonl")))
        others = workers_of(process)
        assert len(others) == 2
        os.kill(process.pid, how)
        pairs = collect(Corridors(), folder, PLAYERS)
        assert not any(map(runs, others))
        assert process.wait() != 0
    assert acts(pairs) == acts(collect(Corridors(), tmp_path / "other", PLAYERS))
    assert {path.suffix for path in folder.iterdir()} == {".jsonl"}
    assert len(read_pairs(folder)) == 6


def test_a_folder_that_is_played_into_is_refused_to_others_and_free_afterwards(tmp_path, monkeypatch):
    monkeypatch.setattr("bayes_tacit.agents.work.PATIENCE", 0)
    with owned(tmp_path), pytest.raises(FolderInUseError, match=f"{tmp_path}: another run plays into it"):
        collect(Corridors(), tmp_path, PLAYERS)
    assert list(tmp_path.iterdir()) == []
    assert len(collect(Corridors(1), tmp_path, PLAYERS)) == 1
    with owned(tmp_path):
        # Nothing has to be played.
        assert len(collect(Corridors(1), tmp_path, PLAYERS)) == 1


@pytest.mark.attack
def test_a_worker_that_is_killed_is_told_in_words(tmp_path):
    with pytest.raises(TacitError, match="a worker was killed"):
        collect(Corridors(2), tmp_path, Players(Fatal("cheap"), PLAYERS.strong), workers=2)
    assert len(collect(Corridors(2), tmp_path / "again", PLAYERS)) == 2


class Fatal(Slow):
    def act(self, history):  # noqa: ARG002
        os.kill(os.getpid(), signal.SIGKILL)


BROKEN = [
    lambda text: text.replace("\n", "\nnonsense\n", 1),
    lambda text: text[: len(text) // 2] + text,
    lambda text: "\n".join(text.splitlines()[1:]) + "\n",
    lambda text: text + text,
    lambda text: text.encode() + b"\xff\xfe\n",
]


@pytest.mark.parametrize("breaking", BROKEN)
def test_a_broken_transcript_is_set_aside_with_a_warning_and_played_again(tmp_path, breaking):
    pairs = collect(Corridors(3), tmp_path, PLAYERS)
    path = tmp_path / "walk-4.cheap.jsonl"
    content = breaking(path.read_text())
    damaged = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(damaged)
    with pytest.warns(TacitWarning, match=rf"{path}.*; passed over"):
        assert [cheap.episode for cheap, _ in read_pairs(tmp_path)] == ["walk-3", "walk-5"]
    assert len(collected(Corridors(3).tasks(), tmp_path, PLAYERS)) == 2
    for name in ("walk-4.cheap.jsonl.broken", "walk-4.cheap.jsonl.broken2"):
        with pytest.warns(TacitWarning, match=rf"{path}.*; set aside as {name} and played again"):
            assert acts(collect(Corridors(3), tmp_path, PLAYERS)) == acts(pairs)
        assert (tmp_path / name).read_bytes() == damaged
        path.write_bytes(damaged)


def test_a_broken_episode_of_a_policy_is_set_aside_and_played_again(tmp_path):
    pairs = collect(Corridors(2), tmp_path / "rollouts", PLAYERS)
    entries = [Entry("deferral", deferral(0.5, Stalled.diagnostic_names[0]))]

    def played():
        return play_policies(Corridors(2), pairs, entries, tmp_path / "played", PLAYERS)["deferral"]

    whole = played()
    path = tmp_path / "played" / "walk-3.deferral.jsonl"
    path.write_text("nonsense\n" + path.read_text())
    with pytest.warns(TacitWarning, match="walk-3.deferral.jsonl.broken and played again"):
        again = played()
    assert [each.end.cost for each in again] == [each.end.cost for each in whole]
