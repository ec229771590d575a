"""What a ranker looks at: words that say how a command stands to the task, to what is shown, and to what was seen.

A cue is a word such as "go shelf|mug" (a way to a shelf, where a mug is wanted) or "take target|empty-handed". Which
cues speak for a command is learned; here they are only spelled out. The small set is about the task, the command, what
is in hand and the action before. The large one adds what was seen on the way: where the player has been, where a
thing of the wanted kind is, what was done to it, how many are where they belong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

from bayes_tacit import validate
from bayes_tacit.agents.protocols import History
from simulations.alfworld.belief import Belief
from simulations.alfworld.text import Task, kind, read_task
from simulations.alfworld.vocabulary import LAMPS

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
    @lru_cache(maxsize=65536)
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
    memory = _Memory.of(history, seen) if size == "large" else None
    out = []
    for words in admissible:
        command = Command.read(words)
        found = [*_small(command, words, seen)]
        if memory is not None:
            found += _large(command, seen, memory)
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


@dataclass(frozen=True)
class _Memory:
    """What was seen on the way: the state of the task, and what is known of each receptacle."""

    belief: Belief
    phase: str
    with_target: frozenset[str]
    with_lamp: frozenset[str]

    @classmethod
    def of(cls, history: History, seen: _Seen) -> _Memory:
        belief, task = Belief.of(history), seen.task

        def ready(thing: str) -> bool:
            return task.state is None or task.state in belief.states.get(thing, ())

        known = belief.where([task.target])
        home = sum(kind(place) == task.place and ready(thing) for thing, place in known)
        done = "done" if ready(seen.held) else "not done"
        phase = f"{seen.aim}|{seen.hand}"
        if task.form != "look":
            phase += f"|{done}|{min(home, 2)} there"
        lamps = frozenset(place for _, place in belief.where(LAMPS))
        return cls(belief, phase, frozenset(place for _, place in known), lamps)


def _large(command: Command, seen: _Seen, memory: _Memory) -> Iterator[str]:
    verb, task, place, phase = command.verb, seen.task, command.place, memory.phase
    yield f"{verb}|{phase}"
    if verb == "use" and seen.hand == "with target":
        yield "use with target"
    if not place:
        return
    where = kind(place)
    goal = "goal" if where == task.place else "no goal"
    yield f"{verb} {goal}|{phase}"
    yield f"{verb} {where}|{phase}"
    new = place not in memory.belief.looked
    visited = "not been" if new else "been"
    shut = "shut" if place in memory.belief.closed else "open"
    yield f"{verb}|{visited}|{seen.hand}"
    yield f"{verb}|{visited}|{shut}|{phase}"
    if place in memory.with_target:
        yield f"{verb} where target is|{goal}|{phase}"
        yield f"{verb} where target is|{seen.hand}"
    if place in memory.with_lamp:
        yield f"{verb} where lamp is|{seen.hand}|{seen.aim}"
    if new and seen.hand == "empty-handed":
        yield f"{verb} new {where}|{task.target}"
        yield f"{verb} new {where}"
