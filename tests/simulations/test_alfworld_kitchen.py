"""Kitchens of our own."""

from __future__ import annotations

import pytest

from bayes_tacit.errors import InvalidDataError
from simulations.alfworld import KITCHEN_TASKS, list_games, write_kitchen, write_kitchens


def test_kitchens_lie_in_a_folder_as_official_games_do(tmp_path):
    games = write_kitchens(tmp_path, "own", 12, seed=3)
    assert list_games("own", tmp_path) == games
    tasks = {task for task in KITCHEN_TASKS if any(task in game.path.read_text() for game in games)}
    assert tasks == {task for task in KITCHEN_TASKS if "desklamp" not in task}
    again = write_kitchens(tmp_path / "again", "own", 12, seed=3)
    other = write_kitchens(tmp_path / "other", "own", 12, seed=4)
    assert [game.path.read_text() for game in again] == [game.path.read_text() for game in games]
    assert all(one.path.read_text() != game.path.read_text() for one, game in zip(other, games, strict=True))


def test_more_than_a_hundred_kitchens_are_in_order(tmp_path):
    games = write_kitchens(tmp_path, "own", 101)
    assert sorted(games) == games


def test_what_makes_no_kitchen_is_told_and_nothing_written(tmp_path):
    with pytest.raises(InvalidDataError, match=r"task is 'fly\.'; expected 'put a mug in shelf\.' or"):
        write_kitchen(tmp_path / "new", "fly.")
    with pytest.raises(InvalidDataError, match=r"name in the kitchen is 'Mug'; expected a kind and a number"):
        write_kitchen(tmp_path / "new", kitchen={"Shelf_1": ["Mug"]})
    with pytest.raises(InvalidDataError, match="count is 0"):
        write_kitchens(tmp_path / "new", "own", 0)
    assert not (tmp_path / "new").exists()
