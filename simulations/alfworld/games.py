"""The games: where they are, which are for what, and small kitchens where the official ones are not at hand."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from bayes_tacit import validate
from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingDependencyError, MissingFileError
from bayes_tacit.files import as_path, atomic_path

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


SPLIT_SEED = 2026


@dataclass(frozen=True)
class Splits:
    """Lists of games, no game in two of them."""

    # fit, select: 100 and 40 games of valid_seen.
    fit: list[Game]
    select: list[Game]
    test: list[Game]  # 134 games of valid_train
    # The other 66 games of valid_train: what the Strong scripted actor knows beforehand was counted in them.
    knowledge: list[Game]


def make_splits(data: str | os.PathLike[str] | None = None) -> Splits:
    """Deal the 140 games of valid_seen and the 200 of valid_train."""
    fit, select, _ = split_games(list_games("valid_seen", data), (100, 40), SPLIT_SEED)
    test, knowledge = split_games(list_games("valid_train", data), (134,), SPLIT_SEED)
    return Splits(fit, select, test, knowledge)


NAME = re.compile(r"[A-Za-z]+_\d+")

OPENS = ("Cabinet", "Fridge", "Microwave")

KITCHEN: Mapping[str, Sequence[str]] = {
    "CounterTop_1": ("Mug_1", "Knife_1"),
    "Cabinet_1": ("Plate_1",),
    "Cabinet_2": ("Mug_2",),
    "Fridge_1": ("Apple_1",),
    "Microwave_1": (),
    "SinkBasin_1": (),
    "SideTable_1": ("DeskLamp_1",),
    "Shelf_1": (),
}
"""What is where: receptacles, and the things in each."""

IN_PLACE = "(and (objectType ?o {thing}Type) (receptacleType ?r {place}Type) {state} (inReceptacle ?o ?r))"
PLACE = f"(exists (?r - receptacle) (exists (?o - object) {IN_PLACE}))"
LOOK = """(and
  (exists (?l - object ?r - receptacle ?a - agent ?p - location)
    (and (objectType ?l DeskLampType) (isToggled ?l) (receptacleAtLocation ?r ?p) (atLocation ?a ?p)
      (inReceptacle ?l ?r)))
  (exists (?o - object ?a - agent) (and (objectType ?o {thing}Type) (holds ?a ?o))))"""
TWO = """(exists (?r - receptacle) (exists (?o - object) (and
  (objectType ?o {thing}Type) (receptacleType ?r {place}Type) (inReceptacle ?o ?r)
  (exists (?p - object) (and (not (= ?o ?p)) (objectType ?p {thing}Type) (inReceptacle ?p ?r))))))"""
KITCHEN_TASKS = {
    "put a mug in shelf.": PLACE.format(thing="Mug", place="Shelf", state=""),
    "clean some plate and put it in countertop.": PLACE.format(thing="Plate", place="CounterTop", state="(isClean ?o)"),
    "put a hot apple in shelf.": PLACE.format(thing="Apple", place="Shelf", state="(isHot ?o)"),
    "cool some mug and put it in shelf.": PLACE.format(thing="Mug", place="Shelf", state="(isCool ?o)"),
    "put two mug in shelf.": TWO.format(thing="Mug", place="Shelf"),
    "look at mug under the desklamp.": LOOK.format(thing="Mug"),
}


def write_kitchen(
    folder: str | os.PathLike[str], task: str = "put a mug in shelf.", kitchen: Mapping[str, Sequence[str]] = KITCHEN
) -> Path:
    """Write a game into a folder, which is made if it is not there, and give its path.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_kitchen(folder, "put two mug in shelf.").name
    'game.tw-pddl'
    """
    goal = KITCHEN_TASKS[validate.choice("task", task, tuple(KITCHEN_TASKS))]
    for name in (*kitchen, *(thing for inside in kitchen.values() for thing in inside)):
        if not NAME.fullmatch(name):
            raise InvalidDataError("a kind and a number, such as 'Mug_1'", field="name in the kitchen", value=name)
    spec = find_spec("alfworld")
    if spec is None or not spec.submodule_search_locations:
        raise MissingDependencyError("a kitchen needs the package 'alfworld': pip install --group benchmarks")
    logic = Path(spec.submodule_search_locations[0]) / "data"
    content = {
        "pddl_domain": (logic / "alfred.pddl").read_text(encoding="utf-8"),
        "grammar": (logic / "alfred.twl2").read_text(encoding="utf-8").replace("UNKNOWN GOAL.", task),
        "pddl_problem": _problem(kitchen, goal),
        "solvable": True,
    }
    path = as_path(folder) / GAME_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(content), encoding="utf-8")
    return path


def write_kitchens(data: str | os.PathLike[str], split: str, count: int, seed: int = 0) -> list[Game]:
    """Write kitchens with things in different places, as the official games lie in a folder."""
    count = validate.whole("count", count, 1)
    rng = np.random.default_rng(validate.whole("seed", seed, 0))
    tasks = [task for task in KITCHEN_TASKS if "desklamp" not in task]
    things = [thing for inside in KITCHEN.values() for thing in inside]
    places = list(KITCHEN)
    games, digits = [], max(2, len(str(count - 1)))
    for number in range(count):
        kitchen: dict[str, list[str]] = {place: [] for place in places}
        for thing in things:
            # Not on the shelf, which is where most things are wanted.
            kitchen[places[rng.integers(len(places) - 1)]].append(thing)
        name = f"{split}/task-{number:0{digits}d}/trial_1"
        path = write_kitchen(as_path(data) / DATA_FOLDER / name, tasks[number % len(tasks)], kitchen)
        games.append(Game(name, path))
    return games


def _problem(kitchen: Mapping[str, Sequence[str]], goal: str) -> str:
    """Return the kitchen and a goal as a planning problem."""
    things = [thing for inside in kitchen.values() for thing in inside]
    things_of, places_of = sorted({_kind(one) for one in things}), sorted({_kind(one) for one in kitchen} | {"Sink"})
    objects = [f"{_id(one)} - object" for one in things] + [f"{_id(one)} - receptacle" for one in kitchen]
    objects += [f"loc_bar_{at} - location" for at in range(len(kitchen) + 1)]
    objects += [f"{one}Type - otype" for one in sorted({*things_of, "Knife", "ButterKnife"})]
    objects += [f"{one}Type - rtype" for one in sorted({*places_of, "SinkBasin", "Microwave", "Fridge"})]
    facts = [f"(atLocation agent1 loc_bar_{len(kitchen)})", "(= (total-cost) 0)"]
    facts += [f"(canContain {place}Type {thing}Type)" for place in places_of for thing in things_of]
    for at, (place, inside) in enumerate(kitchen.items()):
        facts += [
            f"(receptacleType {_id(place)} {_kind(place)}Type)",
            f"(receptacleAtLocation {_id(place)} loc_bar_{at})",
        ]
        facts += [f"(openable {_id(place)})"] * (_kind(place) in OPENS)
        for thing in inside:
            facts += [f"(objectType {_id(thing)} {_kind(thing)}Type)", f"(inReceptacle {_id(thing)} {_id(place)})"]
            facts += [f"(objectAtLocation {_id(thing)} loc_bar_{at})"]
            lamp = _kind(thing) == "DeskLamp"
            can = ("toggleable",) if lamp else ("pickupable", "cleanable", "heatable", "coolable")
            facts += [f"({ability} {_id(thing)})" for ability in can]
    return (
        "(define (problem kitchen) (:domain alfred)\n(:objects agent1 - agent\n"
        + "\n".join(objects)
        + ")\n(:init\n"
        + "\n".join(facts)
        + f")\n(:goal {goal})\n(:metric minimize (total-cost)))\n"
    )


def _kind(name: str) -> str:
    return name.split("_")[0]


def _id(name: str) -> str:
    what, number = name.split("_")
    return f"Sink_bar_{number}_bar_SinkBasin" if what == "SinkBasin" else f"{what}_bar_{number}"
