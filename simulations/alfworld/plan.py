"""The plan of a household task: which subgoal is open, and the actions that take it a step further."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from simulations.alfworld.belief import Belief
from simulations.alfworld.text import Task, kind
from simulations.alfworld.vocabulary import LAMPS, SURFACES, TOOL_OF_STATE, VERB_OF_STATE

Admissible = tuple[str, ...]


@dataclass(frozen=True)
class Goal:
    """What to do next.

    Attributes
    ----------
    actions
        The actions that are equally good; empty where something must be found first.
    looks_for
        The kinds of thing to be found.
    """

    actions: tuple[str, ...] = ()
    looks_for: tuple[str, ...] = ()


def next_goal(task: Task, belief: Belief, admissible: Admissible) -> Goal:
    """Say what to do next, given what is believed.

    With empty hands: fetch a known object of the right kind that is not yet where it belongs as it should be, else look
    for one. With another object: put it away. With the right one: bring it into its state, then put it where it
    belongs, or hold it under a lamp.
    """
    if belief.holding is None:
        wanted = _to_take(task, belief)
        return _fetch(wanted, belief, admissible) if wanted else Goal(looks_for=(task.target,))
    if kind(belief.holding) != task.target:
        return _put_away(belief, admissible)
    if task.form == "look":
        return _light(belief, admissible)
    if not _has_state(task, belief.holding, belief):
        tools = [place for place in belief.places if kind(place) == TOOL_OF_STATE[task.state or ""]]
        command = f"{VERB_OF_STATE[task.state or '']} {belief.holding} "
        return _do_at(tools, belief, admissible, lambda action: action.startswith(command))
    return _deliver(task, belief, admissible)


def approach(place: str, admissible: Admissible) -> str:
    """Give the action that comes closer to a receptacle: go there, or open or examine it where the player is there.

    Several receptacles may be at one spot, such as a desk and its drawers: whoever is at one cannot go to another.
    """
    ways = (f"go to {place}", f"open {place}", f"examine {place}")
    return next((action for action in ways if action in admissible), "look")


def _to_take(task: Task, belief: Belief) -> list[tuple[str, str]]:
    """List known objects worth taking, with their receptacles: not those that already are where they belong."""
    known = belief.where([task.target])
    if task.form == "look":
        return known
    if task.form == "place_two":
        home = _home(task, belief)
        return [(thing, place) for thing, place in known if place != home]
    return [
        (thing, place) for thing, place in known if not (kind(place) == task.place and _has_state(task, thing, belief))
    ]


def _has_state(task: Task, thing: str, belief: Belief) -> bool:
    return task.state is None or task.state in belief.states.get(thing, set())


def _home(task: Task, belief: Belief) -> str | None:
    """Give the receptacle for both objects: where one is already, else where the player stands, else an open one."""
    fitting = [place for place in belief.places if kind(place) == task.place]

    def preference(place: str) -> tuple[int, bool, bool]:
        inside = sum(kind(thing) == task.target for thing in belief.contents.get(place, []))
        return inside, place == belief.at, place in belief.looked and place not in belief.closed

    return max(fitting, key=preference, default=None)


def _fetch(wanted: list[tuple[str, str]], belief: Belief, admissible: Admissible) -> Goal:
    here = [action for thing, place in wanted if (action := f"take {thing} from {place}") in admissible]
    if here:
        return Goal(tuple(here))
    return Goal((approach(_nearest([place for _, place in wanted], belief), admissible),))


def _put_away(belief: Belief, admissible: Admissible) -> Goal:
    here = [action for action in admissible if action.startswith((f"put {belief.holding} ", f"move {belief.holding} "))]
    if here:
        return Goal((here[0],))
    elsewhere = [place for place in belief.places if place != belief.at]
    surfaces = [place for place in elsewhere if kind(place) in SURFACES]
    return Goal((approach(_nearest(surfaces or elsewhere, belief), admissible),))


def _light(belief: Belief, admissible: Admissible) -> Goal:
    here = [action for action in admissible if action.startswith("use ") and kind(action.removeprefix("use ")) in LAMPS]
    if here:
        return Goal((here[0],))
    lamps = [place for _, place in belief.where(LAMPS)]
    return _do_at(lamps, belief, admissible, lambda _: False) if lamps else Goal(looks_for=tuple(sorted(LAMPS)))


def _deliver(task: Task, belief: Belief, admissible: Admissible) -> Goal:
    home = _home(task, belief)
    fitting = [place for place in belief.places if kind(place) == task.place]
    goals = [home] if task.form == "place_two" and home else fitting
    commands = tuple(f"{verb} {belief.holding} {to} {place}" for verb, to in PUTTING for place in goals)
    return _do_at(goals, belief, admissible, lambda action: action in commands)


PUTTING = (("put", "in/on"), ("move", "to"))
"""The wordings of the published games and of the package's newer grammar."""


def _do_at(goals: list[str], belief: Belief, admissible: Admissible, is_it: Callable[[str], bool]) -> Goal:
    """Do it if it can be done here, else go where it can be."""
    here = [action for action in admissible if is_it(action)]
    if here:
        return Goal((here[0],))
    return Goal((approach(_nearest(goals, belief), admissible),)) if goals else Goal(("look",))


def _nearest(places: list[str], belief: Belief) -> str:
    """Prefer where the player stands, then what is not known to be closed."""
    return min(places, key=lambda place: (place != belief.at, place in belief.closed))
