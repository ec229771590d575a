"""ALFWorld's games as a benchmark: what `bayes_tacit.agents.playing` needs to play them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from bayes_tacit.agents.accounts import Budget
from bayes_tacit.agents.playing import Suite
from bayes_tacit.agents.protocols import Actor, Agent, Observation
from bayes_tacit.data.timing import DEFAULT_TIMING, Timing
from models.alfworld import FEATURES
from simulations.alfworld.cheap import CheapActor
from simulations.alfworld.diagnostics import AlfworldExtractor
from simulations.alfworld.environment import AlfworldEnvironment
from simulations.alfworld.features import DESCRIPTORS, router_descriptors, task_features
from simulations.alfworld.games import Game, list_games
from simulations.alfworld.strong import StrongActor


@dataclass(frozen=True)
class Alfworld:
    """The games of one split.

    Attributes
    ----------
    split
        Name of a folder of games: "valid_seen", "valid_unseen", "valid_train", "train".
    data
        The folder that the package calls ALFWORLD_DATA; by default what that environment variable says.
    """

    split: str = "valid_seen"
    data: str | os.PathLike[str] | None = None
    timing: ClassVar[Timing] = DEFAULT_TIMING

    def tasks(self) -> list[Game]:
        """List the solvable games, by id."""
        return list_games(self.split, self.data)

    def environment(self, task: Game) -> AlfworldEnvironment:
        """Open a game on the real engine."""
        return AlfworldEnvironment(task.path)

    def extractor(self, task: Game, budget: Budget, *, descriptors: bool = False) -> AlfworldExtractor:  # noqa: ARG002
        """Give the twelve features and the five diagnostics, and the task router's descriptors if wanted."""
        return _DescribingExtractor() if descriptors else AlfworldExtractor()


class _DescribingExtractor(AlfworldExtractor):
    """Gives all that any policy looks at: the twelve features, the task router's descriptors, the diagnostics."""

    feature_names = (*FEATURES, *(name for name in DESCRIPTORS if name not in FEATURES))

    def features(self, first: Observation) -> Mapping[str, float]:
        """Give features and descriptors."""
        return {**task_features(first), **router_descriptors(first)}


def _open(data: Path | None, split: str | None, unsafe: bool) -> Alfworld:  # noqa: ARG001
    return Alfworld(split or Alfworld.split, data)


def _scripted(agent: Agent, seed: int) -> Actor:
    return CheapActor(seed) if agent == "cheap" else StrongActor(seed)


benchmark = Suite(_open, actions=50, splits={"collect": "valid_seen", "evaluate": "valid_unseen"}, scripted=_scripted)
"""ALFWorld as `bayes-tacit collect` and `evaluate` play it; episodes are as long as the paper's."""
