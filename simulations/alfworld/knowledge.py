"""Where things usually are: how often a kind of receptacle held a kind of object, in games that are not played.

The table that comes with the package, `places.json`, holds counts from the initial states of 66 official games
(`python -m simulations.alfworld.write_places` makes it anew and says which games). It is what the Strong scripted actor
knows beforehand, as a language model knows that mugs are near coffee machines.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from simulations.alfworld.games import Game

_KIND = re.compile(r"\((receptacle|object)Type (\S+) (\w+)Type\)")
_INSIDE = re.compile(r"\(inReceptacle (\S+) (\S+)\)")
_FITS = re.compile(r"\(canContain (\w+)Type (\w+)Type\)")


@dataclass(frozen=True)
class Places:
    """Counts of receptacles and of what they held.

    Attributes
    ----------
    games
        Ids of the games that were counted.
    receptacles
        How many receptacles of each kind there were.
    held
        By kind of receptacle and kind of object: how many of these receptacles held at least one.
    fits
        By kind of receptacle: the kinds of object that it can hold at all.
    """

    games: tuple[str, ...]
    receptacles: Mapping[str, int]
    held: Mapping[str, Mapping[str, int]]
    fits: Mapping[str, frozenset[str]]

    def chance(self, thing: str, place: str) -> float:
        """Give the probability that a receptacle of one kind holds an object of another.

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
        """Give everything as plain values for a JSON file."""
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
    """Give the table that comes with the package."""
    return read_places(Path(str(files("simulations.alfworld") / "places.json")))
