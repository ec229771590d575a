"""ALFWorld's language: what observations and commands say, and the words for things and places."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from bayes_tacit.errors import InvalidDataError

Form = Literal["place", "place_two", "look"]
State = Literal["clean", "hot", "cool"]

NOTHING_HAPPENS = "Nothing happens."

_TASK = re.compile(r"Your task is to: (.*)")
_THING = re.compile(r"\ban? ([a-z]+ \d+)")
_SURFACE = re.compile(r"On the ([a-z]+ \d+), you see (.*?)\.")
_OPEN = re.compile(r"The ([a-z]+ \d+) is open\. In it, you see (.*?)\.")
_CLOSED = re.compile(r"The ([a-z]+ \d+) is closed\.")
_CLOSING = re.compile(r"You close the ([a-z]+ \d+)\.")
_WORDINGS: tuple[tuple[str, Form, State | None], ...] = (
    (r"look at (?P<target>\w+) under the (?P<place>\w+)", "look", None),
    (r"examine the (?P<target>\w+) with the (?P<place>\w+)", "look", None),
    (r"find two (?P<target>\w+) and put them in (?P<place>\w+)", "place_two", None),
    (r"put two (?P<target>\w+) in (?P<place>\w+)", "place_two", None),
    (r"put a clean (?P<target>\w+) in (?P<place>\w+)", "place", "clean"),
    (r"clean some (?P<target>\w+) and put it in (?P<place>\w+)", "place", "clean"),
    (r"put a hot (?P<target>\w+) in (?P<place>\w+)", "place", "hot"),
    (r"heat some (?P<target>\w+) and put it in (?P<place>\w+)", "place", "hot"),
    (r"put a cool (?P<target>\w+) in (?P<place>\w+)", "place", "cool"),
    (r"cool some (?P<target>\w+) and put it in (?P<place>\w+)", "place", "cool"),
    (r"put a (?P<target>\w+) in (?P<place>\w+)", "place", None),
    (r"put some (?P<target>\w+) on (?P<place>\w+)", "place", None),
)


@dataclass(frozen=True)
class Task:
    """What is to be done."""

    form: Form  # "place" one object, "place_two" of a kind in the same receptacle, or "look" at one under a lamp
    target: str  # Kind of object
    place: str  # Kind of the final receptacle; of the lamp where the form is "look"
    state: State | None = None  # What the object must be when it is placed; None where that does not matter


@dataclass(frozen=True)
class Scene:
    """What one observation shows of receptacles."""

    contents: tuple[tuple[str, tuple[str, ...]], ...]  # What lies in or on each receptacle whose content is shown
    closed: tuple[str, ...]  # The receptacles that are said to be closed


@lru_cache(maxsize=4096)
def read_task(task: str) -> Task:
    """Understand the words of a task.

    Examples
    --------
    >>> read_task("put a clean ladle in countertop.")
    Task(form='place', target='ladle', place='countertop', state='clean')
    """
    words = task.strip().rstrip(".").lower()
    for pattern, form, state in _WORDINGS:
        found = re.fullmatch(pattern, words)
        if found:
            return Task(form, found["target"], found["place"], state)
    raise InvalidDataError("a task as ALFWorld words it, such as 'put a mug in cabinet.'", field="task", value=task)


def task_of(intro: str) -> str:
    """Find the words of the task in the text with which a game begins."""
    found = _TASK.search(intro)
    if found is None:
        raise InvalidDataError("a text with 'Your task is to: ...'", field="first observation", value=intro)
    return found[1].strip()


def receptacles(first: str) -> tuple[str, ...]:
    """List the receptacles that the first observation names, in its order.

    Examples
    --------
    >>> receptacles("Looking quickly around you, you see a drawer 2, a drawer 1, and a safe 1.")
    ('drawer 2', 'drawer 1', 'safe 1')
    """
    return tuple(_THING.findall(first.split("Your task is to:")[0]))


@lru_cache(maxsize=65536)
def read_scene(text: str) -> Scene:
    """Read what an observation shows of receptacles.

    Examples
    --------
    >>> read_scene("You arrive at loc 3. On the countertop 1, you see a fork 1, and a mug 2.")
    Scene(contents=(('countertop 1', ('fork 1', 'mug 2')),), closed=())
    >>> read_scene("You arrive at loc 4. The fridge 1 is closed.")
    Scene(contents=(), closed=('fridge 1',))
    """
    shown = [*_SURFACE.findall(text), *_OPEN.findall(text)]
    contents = tuple((place, tuple(_THING.findall(things))) for place, things in shown)
    return Scene(contents, (*_CLOSED.findall(text), *_CLOSING.findall(text)))


def kind(name: str) -> str:
    """Return the kind of a thing: its name without the number.

    Examples
    --------
    >>> kind("cabinet 12")
    'cabinet'
    """
    return name.rsplit(" ", 1)[0]


def number(name: str) -> int:
    """Return the number of a thing.

    Examples
    --------
    >>> number("cabinet 12")
    12
    """
    return int(name.rsplit(" ", 1)[1])


FOOD = frozenset({"apple", "bread", "egg", "lettuce", "potato", "tomato"})

KITCHENWARE = frozenset(
    {
        "bowl",
        "butterknife",
        "cup",
        "dishsponge",
        "fork",
        "glassbottle",
        "kettle",
        "knife",
        "ladle",
        "mug",
        "pan",
        "papertowelroll",
        "peppershaker",
        "plate",
        "pot",
        "saltshaker",
        "spatula",
        "spoon",
        "winebottle",
    }
)

TOILETRIES = frozenset(
    {
        "cloth",
        "handtowel",
        "plunger",
        "scrubbrush",
        "soapbar",
        "soapbottle",
        "spraybottle",
        "tissuebox",
        "toiletpaper",
        "toiletpaperroll",
        "towel",
    }
)

HOUSEHOLD = TOILETRIES | {"candle", "houseplant", "pillow", "statue", "teddybear", "vase", "wateringcan"}
"""What a bathroom or a shelf has, and no one carries about."""

OPENABLE = frozenset({"cabinet", "drawer", "fridge", "laundryhamper", "microwave", "safe"})

SURFACES = frozenset(
    {
        "armchair",
        "bed",
        "coffeetable",
        "countertop",
        "desk",
        "diningtable",
        "dresser",
        "ottoman",
        "shelf",
        "sidetable",
        "sofa",
        "tvstand",
    }
)

APPLIANCES = frozenset({"coffeemachine", "fridge", "microwave", "sinkbasin", "stoveburner", "toaster"})

LAMPS = frozenset({"desklamp", "floorlamp"})

TOOL_OF_STATE = {"clean": "sinkbasin", "hot": "microwave", "cool": "fridge"}
"""Where an object gets the state that a task asks for."""

VERB_OF_STATE = {"clean": "clean", "hot": "heat", "cool": "cool"}
"""The command that gives an object the state that a task asks for."""
