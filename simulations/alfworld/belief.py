"""What a player can know from what was seen: where things are, what is held, what was done to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from bayes_tacit.agents.protocols import History, Step
from simulations.alfworld.text import kind, read_scene, receptacles

Reader = Callable[[int, str, tuple[str, ...]], Iterable[str]]
"""What a reader takes in of a list: from the step, the receptacle and the things in it, the things that are noticed."""

DONE_BY_VERB = {"clean": "clean", "heat": "hot", "cool": "cool"}


@dataclass
class Belief:
    """What is known of a room.

    Attributes
    ----------
    places
        All receptacles, in the order of the first observation.
    contents
        What lies in or on each receptacle whose content was seen.
    closed
        Receptacles last seen closed.
    at
        The receptacle before the player; None at the beginning.
    holding
        The object in hand, if any.
    states
        What was done to each object: "clean", "hot", "cool".
    looked
        When the content of each receptacle was last seen, as a step.
    """

    places: tuple[str, ...]
    contents: dict[str, list[str]] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    at: str | None = None
    holding: str | None = None
    states: dict[str, set[str]] = field(default_factory=dict)
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
