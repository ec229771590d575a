"""Atomic paths: the whole new file or the old one."""

import contextlib
import stat
import subprocess
import sys
import threading
import time

import pytest
from routers import random_router

from bayes_tacit import Counterfactuals, Episodes, MapFit, Router, files, load_posterior
from bayes_tacit.agents.endpoint import Prompt
from bayes_tacit.agents.marks import read_marks
from bayes_tacit.agents.pairs import read_pairs
from bayes_tacit.agents.transcript import read_transcripts
from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError
from bayes_tacit.files import as_path, atomic_path, is_store, parse_json
from bayes_tacit.router import DecisionLog, replay
from simulations.dabench.questions import read_questions


def write_half(path, error, *, folder=False):
    with atomic_path(path) as temporary:
        if folder:
            temporary.mkdir()
        (temporary / "new" if folder else temporary).write_text("half")
        raise error


def test_file_appears_under_its_name_only_at_the_end(tmp_path):
    with atomic_path(tmp_path / "a.txt") as temporary:
        temporary.write_text("new")
        assert temporary.parent == tmp_path
        assert not (tmp_path / "a.txt").exists()
    assert (tmp_path / "a.txt").read_text() == "new"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_exception_keeps_the_old_file_and_removes_the_new_one(error, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(error):
        write_half(path, error())
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_exception_keeps_the_old_folder_and_removes_the_new_one(tmp_path):
    path = tmp_path / "store"
    path.mkdir()
    (path / "old").write_text("old")
    with pytest.raises(ValueError, match="stop"):
        write_half(path, ValueError("stop"), folder=True)
    assert [entry.name for entry in path.iterdir()] == ["old"]
    assert list(tmp_path.iterdir()) == [path]


def test_folder_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "store"
    path.mkdir()
    (path / "old").write_text("old")
    with atomic_path(path) as temporary:
        temporary.mkdir()
        (temporary / "new").write_text("new")
    assert [entry.name for entry in path.iterdir()] == ["new"]
    assert list(tmp_path.iterdir()) == [path]


def test_old_folder_comes_back_when_the_new_one_cannot_take_its_place(tmp_path, monkeypatch):
    path = tmp_path / "store"
    path.mkdir()
    (path / "old").write_text("old")
    rename = type(path).rename

    def fail_for_the_new_one(self, target):
        if self.name.endswith(".tmp"):
            raise OSError("no permission")
        return rename(self, target)

    monkeypatch.setattr(files, "_exchanged", lambda *_: False)
    monkeypatch.setattr(type(path), "rename", fail_for_the_new_one)
    with pytest.raises(OSError, match="no permission"), atomic_path(path) as temporary:
        temporary.mkdir()
    assert [entry.name for entry in path.iterdir()] == ["old"]
    assert list(tmp_path.iterdir()) == [path]


def test_written_file_has_ordinary_permissions(tmp_path):
    (tmp_path / "plain").write_text("")
    with atomic_path(tmp_path / "a.txt") as temporary:
        temporary.write_text("")
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


def test_symbolic_link_is_written_through(tmp_path):
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")
    with atomic_path(tmp_path / "link.txt") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"


def test_missing_parent_folder_is_said_to_be_missing(tmp_path):
    with pytest.raises(
        MissingFileError, match=r"nowhere: no such folder; expected the folder in which to write a\.txt"
    ):
        atomic_path(tmp_path / "nowhere" / "a.txt").__enter__()


@pytest.mark.parametrize("path", [None, 5, b"a.txt", "a\0b", ["a.txt"], True])
def test_what_is_no_path_is_refused_with_its_value(path):
    with pytest.raises(InvalidDataError) as caught:
        as_path(path)
    assert str(caught.value).startswith(f"path is {path!r}; expected the name of a file or folder")


DOORS = {
    "Counterfactuals.read": Counterfactuals.read,
    "DecisionLog": DecisionLog,
    "Episodes.read": Episodes.read,
    "MapFit.load": MapFit.load,
    "Prompt.read": Prompt.read,
    "Router.load": Router.load,
    "Router.save": random_router().save,
    "load_posterior": load_posterior,
    "read_marks": read_marks,
    "read_pairs": read_pairs,
    "read_questions": read_questions,
    "read_transcripts": read_transcripts,
    "replay": replay,
}


@pytest.mark.parametrize("given", [None, 5, b"a.nc", "a\0.nc"])
@pytest.mark.parametrize("door", DOORS)
def test_every_door_refuses_what_is_no_path(door, given):
    with pytest.raises(InvalidDataError, match=r"path is .*; expected the name of a file"):
        DOORS[door](given)


KILLED = """
import os, sys
from bayes_tacit.files import atomic_path
with atomic_path(sys.argv[1]) as temporary:
    if sys.argv[2] == "folder":
        temporary.mkdir()
        (temporary / "half").write_text("half")
    else:
        temporary.write_text("half")
    print(flush=True)
    sys.stdin.read() if sys.argv[3] == "alive" else os.kill(os.getpid(), 9)
"""


def start_writer(path, kind, end):
    writer = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path), kind, end], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    writer.stdout.readline()
    return writer


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_a_killed_run_left_is_removed_by_the_next_one_and_what_runs_is_left_alone(tmp_path, kind):
    path = tmp_path / "a.out"
    with start_writer(path, kind, "killed") as killed, start_writer(path, kind, "alive") as alive:
        killed.wait(20)
        assert len(list(tmp_path.iterdir())) == 2
        with atomic_path(path) as temporary:
            temporary.mkdir() if kind == "folder" else temporary.write_text("new")
            assert len(list(tmp_path.iterdir())) == 2
        kept = [entry.name for entry in tmp_path.iterdir() if entry != path]
        assert len(kept) == 1
        assert f"-{alive.pid}-" in kept[0]
        alive.stdin.close()
        assert alive.wait(20) == 0
    assert list(tmp_path.iterdir()) == [path]


def test_files_that_only_look_like_leftovers_are_kept(tmp_path):
    names = [".a.txt.swp", ".a.txt.0123456789ab.tmp", ".a.txt.tmp", ".b.txt.123456-1-1-12345678.tmp"]
    for name in names:
        (tmp_path / name).write_text("mine")
    with atomic_path(tmp_path / "a.txt") as temporary:
        temporary.write_text("new")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted([*names, "a.txt"])


def test_a_folder_that_a_killed_run_had_moved_away_comes_back(tmp_path):
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    identity = files._identity(int(gone.stdout))
    moved = tmp_path / f".store.{identity}-01234567.tmp.old"
    moved.mkdir()
    (moved / "old").write_text("old")
    with pytest.raises(ValueError, match="stop"):
        write_half(tmp_path / "store", ValueError("stop"), folder=True)
    assert (tmp_path / "store" / "old").read_text() == "old"


def test_threads_that_still_write_into_the_folder_do_not_keep_it(tmp_path):
    ended = threading.Event()

    def write_on(folder):
        until = time.monotonic() + 0.12
        while time.monotonic() < until:
            with contextlib.suppress(OSError):
                folder.mkdir(exist_ok=True)
                (folder / f"chunk{time.monotonic_ns()}").touch()
        ended.set()

    def interrupted():
        with atomic_path(tmp_path / "store") as temporary:
            temporary.mkdir()
            threading.Thread(target=write_on, args=(temporary,)).start()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert ended.wait(5)
    assert list(tmp_path.iterdir()) == []


def test_only_stores_and_empty_folders_may_be_replaced(tmp_path, example):
    example.write(tmp_path / "e.zarr")
    example.write(tmp_path / "e.parquet")
    (tmp_path / "empty").mkdir()
    assert all(is_store(tmp_path / name) for name in ("e.zarr", "e.parquet", "empty"))
    (tmp_path / "e.zarr" / "thesis.txt").write_text("mine")
    (tmp_path / "e.parquet" / "thesis.txt").write_text("mine")
    assert not any(is_store(tmp_path / name) for name in ("e.zarr", "e.parquet", "missing"))
    with pytest.raises(FileFormatError, match="it is left as it is"):
        example.write(tmp_path / "e.zarr")
    assert (tmp_path / "e.zarr" / "thesis.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": 1, "a": 2}', "the key 'a' is there twice"),
        ("[" * 100_000, "nested too deeply"),
        ("[NaN]", "NaN is not a number in JSON"),
        ("1" * 5000, "digits"),
        ("{", "Expecting"),
    ],
)
def test_json_from_outside_is_read_strictly(text, said):
    with pytest.raises(FileFormatError, match=f"^here: not valid JSON .*{said}.*; expected a fit$"):
        parse_json(text, "here", "a fit")
