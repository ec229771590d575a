"""Small kitchens of our own: games for the real engine, with its own domain and grammar, where no data are at hand."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from bayes_tacit import validate
from bayes_tacit.errors import InvalidDataError, MissingDependencyError
from bayes_tacit.files import as_path, atomic_path
from simulations.alfworld.games import DATA_FOLDER, GAME_FILE, Game

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
    folder: str | os.PathLike[str],
    task: str = "put a mug in shelf.",
    kitchen: Mapping[str, Sequence[str]] = KITCHEN,
) -> Path:
    """Write a game into a folder, which is made if it is not there, and give its path.

    Parameters
    ----------
    folder
        For the file `game.tw-pddl`.
    task
        One of `KITCHEN_TASKS`.
    kitchen
        Receptacles, and the things in each; names are a kind and a number, such as "Mug_1".

    Raises
    ------
    InvalidDataError
        If the task is another, or a name is no kind and number.
    MissingDependencyError
        If the package `alfworld`, whose domain and grammar a game contains, is not installed.

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
    """Write kitchens with things in different places, as the official games lie in a folder.

    Parameters
    ----------
    data
        What `list_games` takes, and the option `--data` of the commands.
    split
        The name of the split.
    count
        How many.
    seed
        For where things are. All tasks occur in turn, but for the lamp's, which is the same in every kitchen.

    Returns
    -------
    list
        The games, as `list_games(split, data)` gives them.
    """
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
    """Give the kitchen and a goal as a planning problem."""
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
