"""What a page says of its benchmark and of its pair, in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from simulations.played.experiment import Experiment


@dataclass(frozen=True)
class Words:
    """What pages say of a benchmark.

    Attributes
    ----------
    tasks
        What its tasks are called, such as "games".
    data
        How its folder is called in a command.
    opening
        Says which tasks were fitted, chosen and tested on.
    alarm
        Says where First Alarm hands off.
    cost
        Says what calls cost.
    unit
        Of costs, for the figure.
    rates
        Says how often each actor succeeds alone.
    marked
        Says what the teacher marked.
    took
        Says how long playing took, given what was kept.
    models
        A section on the same experiment with language models.
    """

    tasks: str
    data: str
    opening: Callable[[Experiment], str]
    alarm: str
    cost: str
    unit: str
    rates: Callable[[Experiment], str]
    marked: Callable[[Experiment], str]
    took: Callable[[Path], str]
    models: str


@dataclass(frozen=True)
class Story:
    """What a page says about its pair.

    Attributes
    ----------
    words
        What it says of the benchmark.
    title
        Of the page.
    is_not
        What the page is not.
    command
        How it is made.
    reliance
        Says why policies do what they do with this pair; paragraphs.
    tasks
        Which tasks are at hand, in a sentence.
    about
        Paragraphs on how the pair plays alone.
    """

    words: Words
    title: str
    is_not: str
    command: str
    reliance: Callable[[Experiment], Sequence[str]]
    tasks: str
    about: Sequence[str] = ()
