"""Policies that hand off for good where something first reaches a threshold: what each threshold gives."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import pandas as pd

from bayes_tacit.data.costs import AVERAGES, Outcomes
from bayes_tacit.data.counterfactuals import Counterfactuals
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import Handoff, Timing, discards_proposal
from bayes_tacit.decisions.selection import operating_points
from bayes_tacit.policies.base import Setting, number_in
from bayes_tacit.policies.world import World
from bayes_tacit.scores.crossings import first_handoffs


class Crossing(ABC):
    """A fitted policy that hands off for good where its score first reaches alpha: all that follows from the score."""

    timing: Timing
    candidates: pd.DataFrame
    handoff: Handoff

    @abstractmethod
    def scores(self, episodes: Episodes) -> np.ndarray:
        """Give what is compared with alpha: (episode, step), NaN past the end of an episode."""

    def handoffs(self, episodes: Episodes, setting: Setting) -> np.ndarray:
        """Give the step from which Strong acts, by episode; -1 for never."""
        return first_handoffs(self.scores(episodes), number_in(setting, "alpha"), self.timing)

    def operating_points(self, world: World, settings: pd.DataFrame | None = None) -> pd.DataFrame:
        """Give the averages of each setting."""
        table = self.candidates if settings is None else settings.reset_index(drop=True)
        return crossing_points(table, self.scores(world.episodes), world.handoffs(self.handoff), self.timing)

    def outcomes(self, world: World, setting: Setting) -> Outcomes:
        """Give what comes of one setting, by episode."""
        handoffs = self.handoffs(world.episodes, setting)
        return world.handoffs(self.handoff).outcomes_at(handoffs, discards_proposal=discards_proposal(self.timing))


def crossing_points(
    settings: pd.DataFrame, values: np.ndarray, counterfactuals: Counterfactuals, timing: Timing
) -> pd.DataFrame:
    """Put beside each setting what a handoff at the first value of at least its `alpha` gives on average.

    Parameters
    ----------
    settings
        One row each, in any order, with a column `alpha`.
    values
        (episode, step), NaN past the end of an episode: what is compared with alpha.
    counterfactuals
        What would come of each handoff.
    timing
        What a checkpoint is.

    Examples
    --------
    >>> from bayes_tacit import StepCost
    >>> counterfactuals = Counterfactuals.from_calls(
    ...     ["a", "b"], success=[[1, 1], [1, 1]], strong_calls=[[2, 1], [2, 1]], never_success=[0, 1],
    ...     cost=StepCost(cheap=1, strong=3),
    ... )
    >>> values = np.array([[0.7, 0.1], [0.2, 0.9]])
    >>> crossing_points(pd.DataFrame({"alpha": [0.5, 0.1]}), values, counterfactuals, "post_action")
       alpha  success  cost  strong_share  intervention_rate
    0    0.5      1.0   3.0          0.25                0.5
    1    0.1      1.0   4.0          0.50                1.0
    """
    alpha = settings["alpha"].to_numpy(float)
    points = operating_points(values, counterfactuals, alpha, timing)
    place = np.empty(len(alpha), dtype=int)
    place[np.argsort(alpha, kind="stable")] = np.arange(len(alpha))
    return settings.assign(**{name: points[name].to_numpy()[place] for name in AVERAGES})
