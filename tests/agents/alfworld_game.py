"""A small kitchen of our own, as a game file with the package's own domain and grammar."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

OPENABLE = ("Cabinet", "Fridge", "Microwave")
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
TASKS = {
    "put a mug in shelf.": PLACE.format(thing="Mug", place="Shelf", state=""),
    "clean some plate and put it in countertop.": PLACE.format(thing="Plate", place="CounterTop", state="(isClean ?o)"),
    "put a hot apple in shelf.": PLACE.format(thing="Apple", place="Shelf", state="(isHot ?o)"),
    "cool some mug and put it in shelf.": PLACE.format(thing="Mug", place="Shelf", state="(isCool ?o)"),
    "put two mug in shelf.": TWO.format(thing="Mug", place="Shelf"),
    "look at mug under the desklamp.": LOOK.format(thing="Mug"),
}


def write_game(folder: Path, task: str = "put a mug in shelf.", kitchen: Mapping[str, Sequence[str]] = KITCHEN) -> Path:
    """Write a game with one of `TASKS` into a folder and give its path."""
    spec = find_spec("alfworld")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    logic = Path(spec.submodule_search_locations[0]) / "data"
    grammar = (logic / "alfred.twl2").read_text().replace("UNKNOWN GOAL.", task)
    content = {
        "pddl_domain": (logic / "alfred.pddl").read_text(),
        "grammar": grammar,
        "pddl_problem": problem(kitchen, TASKS[task]),
        "solvable": True,
    }
    path = folder / "game.tw-pddl"
    path.write_text(json.dumps(content))
    return path


def problem(kitchen: Mapping[str, Sequence[str]], goal: str) -> str:
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
        facts += [f"(openable {_id(place)})"] * (_kind(place) in OPENABLE)
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
