"""What a ranker looks at: words that say how a command stands to the task, to what is shown, and to what was seen.

A cue is a word such as "go shelf|mug" (a way to a shelf, where a mug is wanted) or "take target|empty-handed". Which
cues speak for a command is learned; here they are only spelled out. The small set is about the task, the command, what
is in hand and the action before. The large one adds what was seen on the way: where the player has been, where a
thing of the wanted kind is, what was done to it, how many are where they belong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from bayes_tacit import validate
from bayes_tacit.agents.alfworld.belief import Belief
from bayes_tacit.agents.alfworld.text import Task, kind, read_task
from bayes_tacit.agents.alfworld.vocabulary import LAMPS
from bayes_tacit.agents.protocols import History

Size = Literal["small", "large"]
CUES: tuple[Size, ...] = get_args(Size)
"""The sets of cues: "small" needs no memory, "large" knows what was seen."""

PREPOSITIONS = ("from", "in/on", "to", "with")


@dataclass(frozen=True)
class Command:
    """A command in parts: "take mug 1 from shelf 2" is take, "mug 1", "shelf 2"; empty where there is none."""

    verb: str
    thing: str
    place: str

    @classmethod
    def read(cls, words: str) -> Command:
        """Take a command apart.

        Examples
        --------
        >>> Command.read("put mug 1 in/on shelf 2")
        Command(verb='put', thing='mug 1', place='shelf 2')
        >>> Command.read("go to shelf 2"), Command.read("use desklamp 1").thing, Command.read("look").verb
        (Command(verb='go', thing='', place='shelf 2'), 'desklamp 1', 'look')
        """
        verb, *rest = words.split() or [""]
        between = next((at for at, word in enumerate(rest) if word in PREPOSITIONS), len(rest))
        thing, place = " ".join(rest[:between]), " ".join(rest[between + 1 :])
        if verb in ("open", "close"):
            thing, place = "", thing
        return cls("put" if verb == "move" else verb, thing, place)


def cues(history: History, size: Size) -> list[tuple[str, ...]]:
    """Give the cues of each admissible command, in their order.

    Examples
    --------
    >>> from bayes_tacit.agents import Observation
    >>> first = Observation("You see a shelf 1.", ("go to shelf 1", "look"), task="put a mug in shelf.")
    >>> cues(History(first), "small")[1]
    ('look', 'look|place', 'look|empty-handed', 'look|place|empty-handed', ' > look')
    """
    validate.choice("size", size, CUES)
    admissible = history.observation.admissible or ()
    seen = _Seen.of(history)
    belief = Belief.of(history) if size == "large" else None
    out = []
    for words in admissible:
        command = Command.read(words)
        found = [*_small(command, words, seen)]
        if belief is not None:
            found += _large(command, seen, belief)
        out.append(tuple(found))
    return out


@dataclass(frozen=True)
class _Seen:
    """What needs no memory: the task, what is in hand, the action before."""

    task: Task
    aim: str
    hand: str
    held: str
    last: Command
    last_words: str

    @classmethod
    def of(cls, history: History) -> _Seen:
        task = read_task(history.task)
        puts = (Command.read(one) for one in history.observation.admissible or () if one.startswith(("put ", "move ")))
        held = next((one.thing for one in puts), "")
        hand = "empty-handed" if not held else "with target" if kind(held) == task.target else "with other"
        last = history.actions[-1] if history.actions else ""
        return cls(task, task.state or task.form, hand, held, Command.read(last), last)


def _small(command: Command, words: str, seen: _Seen) -> Iterator[str]:
    verb, task = command.verb, seen.task
    yield verb
    yield f"{verb}|{seen.aim}"
    yield f"{verb}|{seen.hand}"
    yield f"{verb}|{seen.aim}|{seen.hand}"
    yield f"{seen.last.verb} > {verb}"
    if seen.last_words == words:
        yield f"{verb} again"
    if command.thing:
        what = "target" if kind(command.thing) == task.target else "lamp" if kind(command.thing) in LAMPS else "other"
        yield f"{verb} {what}|{seen.hand}"
        yield f"{verb} {what}|{seen.aim}"
    if command.place:
        where = kind(command.place)
        yield f"{verb} {where}"
        yield f"{verb} {where}|{seen.aim}|{seen.hand}"
        if where == task.place:
            yield f"{verb} goal|{seen.hand}"
            yield f"{verb} goal|{seen.aim}|{seen.hand}|{seen.last.verb}"
        if verb == "go" and seen.hand == "empty-handed":
            yield f"go {where}|{task.target}"


def _large(command: Command, seen: _Seen, belief: Belief) -> Iterator[str]:
    verb, task, place = command.verb, seen.task, command.place
    done = "done" if task.state is None or task.state in belief.states.get(seen.held, ()) else "not done"
    home = [thing for thing, where in belief.where([task.target]) if kind(where) == task.place]
    ready = [thing for thing in home if task.state is None or task.state in belief.states.get(thing, ())]
    phase = f"{seen.aim}|{seen.hand}|{done}|{min(len(ready), 2)} there" if task.form != "look" else f"look|{seen.hand}"
    yield f"{verb}|{phase}"
    if verb == "use" and seen.hand == "with target":
        yield "use with target"
    if not place:
        return
    where = kind(place)
    goal = "goal" if where == task.place else "no goal"
    yield f"{verb} {goal}|{phase}"
    yield f"{verb} {where}|{phase}"
    known = belief.contents.get(place)
    visited = "not been" if place not in belief.looked else "been"
    shut = "shut" if place in belief.closed else "open"
    yield f"{verb}|{visited}|{seen.hand}"
    yield f"{verb}|{visited}|{shut}|{phase}"
    inside = {kind(thing) for thing in known or ()}
    if task.target in inside:
        yield f"{verb} where target is|{goal}|{phase}"
        yield f"{verb} where target is|{seen.hand}"
    if inside & LAMPS:
        yield f"{verb} where lamp is|{seen.hand}|{seen.aim}"
    if visited == "not been" and seen.hand == "empty-handed":
        yield f"{verb} new {where}|{task.target}"
        yield f"{verb} new {where}"
    if task.form == "place_two" and any(where_is == place for _, where_is in belief.where([task.target])):
        yield f"{verb} beside the other|{goal}|{seen.hand}"
