"""What an actor by rule knows, believes and plans.

`python -m simulations.alfworld.plan path/to/alfworld` writes the table of places that stands beside this file anew.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path

from bayes_tacit.agents.protocols import History, Step
from simulations.alfworld.games import Game, make_splits
from simulations.alfworld.text import LAMPS, SURFACES, TOOL_OF_STATE, VERB_OF_STATE, Task, kind, read_scene, receptacles

Reader = Callable[[int, str, tuple[str, ...]], Iterable[str]]
"""What a reader takes in of a list: from the step, the receptacle and the things in it, the things that are noticed."""

DONE_BY_VERB = {"clean": "clean", "heat": "hot", "cool": "cool"}


@dataclass
class Belief:
    """What is known of a room."""

    places: tuple[str, ...]  # All receptacles, in the order of the first observation
    # What lies in or on each receptacle whose content was seen.
    contents: dict[str, list[str]] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)  # Receptacles last seen closed
    at: str | None = None  # The receptacle before the player; None at the beginning
    holding: str | None = None  # The object in hand, if any
    states: dict[str, set[str]] = field(default_factory=dict)  # What was done to each object: "clean", "hot", "cool"
    # When the content of each receptacle was last seen, as a step.
    looked: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, history: History, reader: Reader | None = None) -> Belief:
        """Work out everything from a history, whoever made it."""
        belief = cls(receptacles(history.first.text))
        for at, step in enumerate(history.steps):
            belief.see(at, step, reader)
        return belief

    def see(self, at: int, step: Step, reader: Reader | None = None) -> None:
        """Take in one more action and its answer."""
        if not step.result.valid:
            return
        words = step.proposal.action.split()
        verb = words[0] if words else ""
        if verb == "go":
            self.at = " ".join(words[2:])
        elif verb == "take" and len(words) == 6:
            self._take(_name(words[1:3]), _name(words[4:6]))
        elif verb in ("put", "move") and len(words) == 6:
            self._put(_name(words[1:3]), _name(words[4:6]))
        elif verb in DONE_BY_VERB and len(words) == 6:
            self._change(_name(words[1:3]), DONE_BY_VERB[verb])
        self._look(at, step.result.observation.text, reader)

    def where(self, kinds: Iterable[str]) -> list[tuple[str, str]]:
        """List known objects of some kinds with their receptacles."""
        wanted = set(kinds)
        return [(thing, place) for place, things in self.contents.items() for thing in things if kind(thing) in wanted]

    def unseen(self) -> list[str]:
        """List the receptacles whose content is not known."""
        return [place for place in self.places if place not in self.looked]

    def forget(self, place: str) -> None:
        """Lose what was seen in a receptacle."""
        self.looked.pop(place, None)
        self.contents.pop(place, None)

    def _look(self, at: int, text: str, reader: Reader | None) -> None:
        scene = read_scene(text)
        for place, things in scene.contents:
            self.contents[place] = list(things if reader is None else reader(at, place, things))
            self.looked[place] = at
            self.closed.discard(place)
        self.closed.update(scene.closed)

    def _take(self, thing: str, place: str) -> None:
        self.holding = thing
        self.contents[place] = [other for other in self.contents.get(place, []) if other != thing]

    def _put(self, thing: str, place: str) -> None:
        self.holding = None
        self.contents.setdefault(place, []).append(thing)

    def _change(self, thing: str, state: str) -> None:
        states = self.states.setdefault(thing, set())
        states.add(state)
        if state in ("hot", "cool"):
            states.discard("cool" if state == "hot" else "hot")


def _name(words: list[str]) -> str:
    return " ".join(words)


_KIND = re.compile(r"\((receptacle|object)Type (\S+) (\w+)Type\)")
_INSIDE = re.compile(r"\(inReceptacle (\S+) (\S+)\)")
_FITS = re.compile(r"\(canContain (\w+)Type (\w+)Type\)")


@dataclass(frozen=True)
class Places:
    """Counts of receptacles and of what they held."""

    games: tuple[str, ...]  # Ids of the games that were counted
    receptacles: Mapping[str, int]  # How many receptacles of each kind there were
    # By kind of receptacle and kind of object: how many of these receptacles held at least one.
    held: Mapping[str, Mapping[str, int]]
    fits: Mapping[str, frozenset[str]]  # By kind of receptacle: the kinds of object that it can hold at all

    def chance(self, thing: str, place: str) -> float:
        """Return the probability that a receptacle of one kind holds an object of another.

        Half a receptacle is added to the count where the object fits (a twentieth where it was never said to), and two
        to their number, so that what was never seen is unlikely and not impossible.

        Examples
        --------
        >>> places = Places(("a game",), {"shelf": 8}, {"shelf": {"book": 2}}, {"shelf": frozenset({"book", "vase"})})
        >>> places.chance("book", "shelf"), places.chance("vase", "shelf"), places.chance("fork", "shelf")
        (0.25, 0.05, 0.005)
        """
        prior = 0.5 if thing in self.fits.get(place, ()) else 0.05
        return (self.held.get(place, {}).get(thing, 0) + prior) / (self.receptacles.get(place, 0) + 2)

    def as_dict(self) -> dict[str, object]:
        """Return everything as plain values for a JSON file."""
        return {
            "games": list(self.games),
            "receptacles": dict(sorted(self.receptacles.items())),
            "held": {place: dict(sorted(things.items())) for place, things in sorted(self.held.items())},
            "fits": {place: sorted(things) for place, things in sorted(self.fits.items())},
        }


def learn_places(games: Iterable[Game]) -> Places:
    """Count where things are when games begin, from the game files."""
    receptacles: Counter[str] = Counter()
    held: dict[str, Counter[str]] = defaultdict(Counter)
    fits: dict[str, set[str]] = defaultdict(set)
    ids = []
    for game in games:
        ids.append(game.id)
        problem = json.loads(game.path.read_text(encoding="utf-8"))["pddl_problem"].split("(:goal")[0]
        kinds = {name: what.lower() for _, name, what in _KIND.findall(problem)}
        receptacles.update(what.lower() for role, _, what in _KIND.findall(problem) if role == "receptacle")
        for place, thing in {(place, kinds[thing]) for thing, place in _INSIDE.findall(problem)}:
            held[kinds[place]][thing] += 1
        for place, thing in _FITS.findall(problem):
            fits[place.lower()].add(thing.lower())
    return Places(tuple(ids), receptacles, held, {place: frozenset(things) for place, things in fits.items()})


def read_places(path: Path) -> Places:
    """Read a table that was written as JSON."""
    values = json.loads(path.read_text(encoding="utf-8"))
    fits = {place: frozenset(things) for place, things in values["fits"].items()}
    return Places(tuple(values["games"]), values["receptacles"], values["held"], fits)


@cache
def usual_places() -> Places:
    """Return the table that comes with the package."""
    return read_places(Path(str(files("simulations.alfworld") / "places.json")))


Admissible = tuple[str, ...]


@dataclass(frozen=True)
class Goal:
    """What to do next."""

    actions: tuple[str, ...] = ()  # The actions that are equally good; empty where something must be found first
    looks_for: tuple[str, ...] = ()  # The kinds of thing to be found


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
    """Return the action that comes closer to a receptacle: go there, or open or examine it where the player is there.

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
    """Return the receptacle for both objects: where one is already, else where the player stands, else an open one."""
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


if __name__ == "__main__":
    found = json.dumps(learn_places(make_splits(sys.argv[1]).knowledge).as_dict(), indent=1)
    Path(__file__).with_name("places.json").write_text(found + "\n", encoding="utf-8")
