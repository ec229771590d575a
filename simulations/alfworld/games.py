"""Finding the games: official files in a folder, each with an id that stays the same from machine to machine."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bayes_tacit import validate
from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError
from bayes_tacit.files import as_path

GAME_FILE = "game.tw-pddl"
DATA_FOLDER = "json_2.1.1"


@dataclass(frozen=True, order=True)
class Game:
    """One game.

    Attributes
    ----------
    id
        Split, task and trial, as the folders are called: "valid_seen/pick_and_place_simple-.../trial_T...".
    path
        Its game file.
    """

    id: str
    path: Path


def list_games(split: str, data: str | os.PathLike[str] | None = None) -> list[Game]:
    """List the solvable games of a split, by id.

    As in the package, games that need slicing or a movable receptacle are left out.

    Parameters
    ----------
    split
        Name of a folder of games: "valid_seen", "valid_unseen", "valid_train", "train".
    data
        The folder that the package calls ALFWORLD_DATA; by default what that environment variable says.
    """
    root = _root(data) / DATA_FOLDER
    folder = root / split
    if not folder.is_dir():
        raise MissingFileError(f"{folder}: no such folder; expected ALFWorld's games of the split {split!r}")
    found = [Game(path.parent.relative_to(root).as_posix(), path) for path in folder.glob(f"**/{GAME_FILE}")]
    wanted = (game for game in found if "movable" not in game.id and "Sliced" not in game.id)
    return sorted(game for game in wanted if _solvable(game.path))


def split_games(games: Sequence[Game], sizes: Iterable[int], seed: int) -> list[list[Game]]:
    """Deal games into groups of given sizes at random, each in order of id; the rest is the last group.

    Examples
    --------
    >>> games = [Game(f"valid_seen/{name}", Path(name)) for name in "abcde"]
    >>> [[game.path.name for game in group] for group in split_games(games, (2, 1), seed=0)]
    [['c', 'e'], ['d'], ['a', 'b']]
    """
    counts = [validate.whole("size of a group", size, 0) for size in sizes]
    if sum(counts) > len(games):
        raise InvalidDataError(f"at most {len(games)} games in all", field="sizes", value=counts)
    order = np.random.default_rng(validate.whole("seed", seed, 0)).permutation(len(games))
    groups = np.split(order, np.cumsum(counts))
    ordered = sorted(games)
    return [[ordered[position] for position in sorted(group)] for group in groups]


def _root(data: str | os.PathLike[str] | None) -> Path:
    given = data if data is not None else os.environ.get("ALFWORLD_DATA")
    if not given:
        raise MissingFileError("no folder of ALFWorld games: pass data=..., or set the variable ALFWORLD_DATA")
    return as_path(given)


def _solvable(path: Path) -> bool:
    try:
        return bool(json.loads(path.read_text(encoding="utf-8"))["solvable"])
    except (ValueError, KeyError, TypeError) as error:
        raise FileFormatError(f"{path}: {error!r}; expected a game of ALFWorld with the key 'solvable'") from error
