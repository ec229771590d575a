"""Pure Cheap and Pure Strong: one agent from start to end, the two references."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from bayes_tacit.data.costs import Outcomes
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import NEVER
from bayes_tacit.policies.base import Setting, number_in
from bayes_tacit.policies.view import Seen
from bayes_tacit.policies.world import World
from bayes_tacit.router import PolicyRouter
from bayes_tacit.router.control import PureController


@dataclass(frozen=True)
class PureCheap:
    """Cheap acts from start to end."""

    name: str = "Pure Cheap"
    sees: ClassVar[str] = "Nothing."
    decides: ClassVar[str] = "Never: Cheap acts from start to end."

    def fit(self, training: Episodes) -> FittedPure:
        """Learn nothing; the one candidate is never to hand off."""
        Seen.of(training)
        return FittedPure(NEVER, self.name)


@dataclass(frozen=True)
class PureStrong:
    """Strong acts from start to end."""

    name: str = "Pure Strong"
    sees: ClassVar[str] = "Nothing."
    decides: ClassVar[str] = "Never: Strong acts from start to end."

    def fit(self, training: Episodes) -> FittedPure:
        """Learn nothing; the one candidate is to hand off at step 0."""
        Seen.of(training)
        return FittedPure(0, self.name)


@dataclass(frozen=True)
class FittedPure:
    """The same handoff in every episode.

    Attributes
    ----------
    handoff
        The step from which Strong acts; -1 for never.
    name
        That of the policy.
    """

    handoff: int
    name: str

    @property
    def candidates(self) -> pd.DataFrame:
        """The one setting."""
        return pd.DataFrame({"handoff": [self.handoff]})

    def handoffs(self, episodes: Episodes, setting: Setting) -> np.ndarray:
        """Give the step from which Strong acts, by episode."""
        return np.full(len(episodes), int(number_in(setting, "handoff")))

    def operating_points(self, world: World, settings: pd.DataFrame | None = None) -> pd.DataFrame:
        """Give the averages of the one setting."""
        table = self.candidates if settings is None else settings.reset_index(drop=True)
        points = [self.outcomes(world, row).point() for _, row in table.iterrows()]
        return pd.concat([table, pd.DataFrame(points)], axis=1)

    def outcomes(self, world: World, setting: Setting) -> Outcomes:
        """Give what comes of it, by episode."""
        return world.counterfactuals.outcomes_at(self.handoffs(world.episodes, setting))

    def router(self, setting: Setting) -> PolicyRouter:
        """Give the router that decides so in an agent."""
        return PolicyRouter(self.controller(setting))

    def controller(self, setting: Setting) -> PureController:
        """Give the controller that lets the one agent play."""
        return PureController("cheap" if number_in(setting, "handoff") == NEVER else "strong")
