"""Corridors that are walked slowly, so that a run can be stopped on the way."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from toy_world import Corridor, Stalled

from bayes_tacit.agents import Budget, Proposal
from bayes_tacit.agents.playing import Players, collect


@dataclass(frozen=True)
class Walk:
    id: str
    length: int


@dataclass(frozen=True)
class Corridors:
    count: int = 6
    timing: ClassVar = "post_action"

    def tasks(self):
        return [Walk(f"walk-{length}", length) for length in range(3, 3 + self.count)]

    def environment(self, task):
        return nullcontext(Corridor(task.length))

    def extractor(self, task, budget, *, descriptors=False):  # noqa: ARG002
        return Stalled()


@dataclass(frozen=True)
class Slow:
    """Waits before each step; how long is no part of who it is."""

    name: str

    def act(self, history):
        time.sleep(PAUSE)
        return Proposal("right" if self.name == "strong" or len(history) % 2 else "wait")


PAUSE = 0.03
PLAYERS = Players(Slow("cheap"), Slow("strong"), budget=Budget(8))


def play(folder: str, workers: int) -> None:
    collect(Corridors(), Path(folder), PLAYERS, workers=workers)
