"""Lessons: places in a game, each with the command that the game's walkthrough takes there.

A walkthrough goes straight to where things are, which nobody can who has to look for them. So some copies of it are
made with detours: before the player walks on, it is sent to a few other receptacles, which it opens, and where nothing
that the task asks for is shown. The right command is the walkthrough's next one all the same. From these a ranker can
learn what to do after looking in vain. Nothing but the walkthrough says what is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayes_tacit import validate
from bayes_tacit.agents.protocols import History, Proposal, Step
from simulations.alfworld.environment import AlfworldEnvironment
from simulations.alfworld.text import read_task, receptacles

FIRST_DETOURS, LATER_DETOURS = 8, 2
"""At most how many receptacles a copy visits before something was found, and after."""


@dataclass(frozen=True)
class Lesson:
    """A place in a game.

    Attributes
    ----------
    history
        How the player came there.
    command
        What is right there; one of the admissible commands.
    """

    history: History
    command: str

    @property
    def place(self) -> int:
        """The position of the right command among the admissible ones."""
        return (self.history.observation.admissible or ()).index(self.command)


def lessons_of(environment: AlfworldEnvironment, walkthrough: Sequence[str], copies: int, seed: int) -> list[Lesson]:
    """Make the lessons of a game: its walkthrough as it is, and copies with detours.

    Parameters
    ----------
    environment
        The game.
    walkthrough
        Commands that win it.
    copies
        How many copies with detours.
    seed
        Decides where they lead.
    """
    validate.whole("copies", copies, 0)
    rng = np.random.default_rng(validate.whole("seed", seed, 0))
    history = History(environment.reset())
    lessons = []
    for command in walkthrough:
        lessons.append(Lesson(history, command))
        history = _after(environment, history, command)
    for _ in range(copies):
        lessons += _with_detours(environment, walkthrough, rng)
    return lessons


def _with_detours(
    environment: AlfworldEnvironment, walkthrough: Sequence[str], rng: np.random.Generator
) -> list[Lesson]:
    history = History(environment.reset())
    places = receptacles(history.first.text)
    lessons = []
    found = False
    for command in walkthrough:
        if command.startswith("go to "):
            most = LATER_DETOURS if found else FIRST_DETOURS
            for place in rng.permutation(len(places))[: rng.integers(most + 1)]:
                led = _detour(environment, history, places[place], command)
                if led is not None:
                    history = led
                    lessons.append(Lesson(history, command))
        elif command in (history.observation.admissible or ()):
            lessons.append(Lesson(history, command))
        else:
            # A detour has opened it already.
            continue
        found = found or command.startswith("take ")
        history = _after(environment, history, command)
    return lessons


def _detour(environment: AlfworldEnvironment, history: History, place: str, command: str) -> History | None:
    """Go to a receptacle and look into it; None if that cannot be, shows what is wanted, or is in the way of a command.

    The engine is brought back to the history first: a detour that is not taken has not happened.
    """
    admissible = history.observation.admissible or ()
    if f"go to {place}" not in admissible or f"go to {place}" == command:
        return None
    led = _after(environment, _again(environment, history), f"go to {place}")
    if f"open {place}" in (led.observation.admissible or ()):
        led = _after(environment, led, f"open {place}")
    target = read_task(history.task).target
    now = led.observation.admissible or ()
    if command not in now or any(one.startswith(f"take {target} ") for one in now):
        _again(environment, history)
        return None
    return led


def _again(environment: AlfworldEnvironment, history: History) -> History:
    environment.reset()
    for action in history.actions:
        environment.step(action)
    return history


def _after(environment: AlfworldEnvironment, history: History, command: str) -> History:
    return history.then(Step("strong", Proposal(command), environment.step(command)))
