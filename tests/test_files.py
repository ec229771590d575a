"""Atomic paths: the whole new file or the old one."""

import stat
from functools import partial
from pathlib import Path

import pytest
from routers import random_router

from bayes_tacit import Counterfactuals, Episodes, MapFit, Router, load_posterior, report, save_posterior
from bayes_tacit.agents.dabench.questions import read_questions
from bayes_tacit.agents.endpoint.prompt import Prompt
from bayes_tacit.agents.teacher.human import read_marks
from bayes_tacit.agents.transcript.pairs import read_pairs
from bayes_tacit.agents.transcript.storage import read_transcripts
from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError
from bayes_tacit.files import as_path, atomic_path
from bayes_tacit.router import DecisionLog, replay


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


def test_file_does_not_take_the_place_of_a_folder(tmp_path):
    (tmp_path / "kept").mkdir()
    with (
        pytest.raises(FileFormatError, match=r"kept is a folder; expected the name of a file to write"),
        atomic_path(tmp_path / "kept") as temporary,
    ):
        temporary.write_text("new")
    assert list(tmp_path.iterdir()) == [tmp_path / "kept"]


@pytest.mark.parametrize("path", ["a.txt", Path("a.txt")])
def test_text_and_paths_are_paths(path):
    assert as_path(path) == Path("a.txt")


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


@pytest.mark.parametrize("given", [None, "a\0.nc"])
def test_what_is_made_goes_to_no_path_that_is_none(example, example_fit, given):
    tree = example_fit.to_datatree()
    for write in (example_fit.save, example.write, partial(save_posterior, tree), partial(report, tree, example)):
        with pytest.raises(InvalidDataError, match=r"path is .*; expected the name of a file"):
            write(given)


def test_fit_is_neither_saved_to_nor_loaded_from_what_is_no_file(example_fit, tmp_path):
    with pytest.raises(FileFormatError, match="is a folder; expected the name of a file to write"):
        example_fit.save(tmp_path)
    with pytest.raises(FileFormatError, match=r"cannot be read \(Is a directory\)"):
        type(example_fit).load(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_body_that_writes_nothing_is_an_error_and_keeps_the_old_file(tmp_path):
    (tmp_path / "a.txt").write_text("old")
    with pytest.raises(FileNotFoundError), atomic_path(tmp_path / "a.txt"):
        pass
    assert (tmp_path / "a.txt").read_text() == "old"
