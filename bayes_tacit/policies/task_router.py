"""Task Router: Cheap or Strong for the whole episode, chosen from the task before it begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from bayes_tacit import validate
from bayes_tacit.data.costs import Outcomes
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import NEVER
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.policies.base import Setting, number_in
from bayes_tacit.policies.branches import (
    ALWAYS,
    numbers,
    probability_quantiles,
    target_rates,
    two_way_points,
    with_targets,
)
from bayes_tacit.policies.logistic import LBFGS, NEWTON, L2Logistic, LogisticFit
from bayes_tacit.policies.view import Seen
from bayes_tacit.policies.world import World
from bayes_tacit.router import PolicyRouter
from bayes_tacit.router.control import TaskRouterController

ALFWORLD_THRESHOLDS = (*(step / 20 for step in range(20)), ALWAYS)
"""The paper's thresholds for ALFWorld: 0, 0.05, ..., 0.95, 1.01."""

DABENCH_RATES = tuple(eighth / 8 for eighth in range(9))
"""The paper's shares of training tasks that go to Strong, for DABench: 0, 0.125, ..., 1."""


@dataclass(frozen=True)
class TaskRouter:
    """A logistic model for Pure-Cheap success from task features; Strong acts where it is below the threshold.

    Attributes
    ----------
    features
        The features to use, or carried variables with one number an episode; by default all features.
    logistic
        How it is fitted.
    thresholds, rates
        Thresholds to try, or shares of the training tasks that should go to Strong; by default, quantiles of the
        training probabilities.
    n_candidates
        How many quantiles.

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> fitted = TaskRouter(features=("entities", "subgoals"), rates=(0, 0.5, 1)).fit(load_example())
    >>> fitted.candidates.round(2)
       alpha  target
    0   0.00     0.0
    1   0.25     0.5
    2   1.01     1.0
    """

    features: tuple[str, ...] | None = None
    logistic: L2Logistic = NEWTON
    thresholds: tuple[float, ...] | None = None
    rates: tuple[float, ...] | None = None
    n_candidates: int = 101
    name: str = "Task Router"
    sees: ClassVar[str] = "The task's features."
    decides: ClassVar[str] = "Before the first step: Cheap or Strong for the whole episode."

    def __post_init__(self) -> None:
        """Check the settings."""
        if self.thresholds is not None and self.rates is not None:
            raise InvalidDataError("thresholds or rates, not both", field="rates", value=self.rates)
        if self.features is not None:
            object.__setattr__(self, "features", tuple(self.features))
        validate.whole("n_candidates", self.n_candidates, 2)

    @classmethod
    def alfworld(cls, features: tuple[str, ...] | None = None) -> TaskRouter:
        """Give the paper's setting for ALFWorld; the five descriptors are to be named."""
        return cls(features=features, logistic=NEWTON, thresholds=ALFWORLD_THRESHOLDS)

    @classmethod
    def dabench(cls, features: tuple[str, ...] | None = None) -> TaskRouter:
        """Give the paper's setting for DABench; the two descriptors are to be named."""
        return cls(features=features, logistic=LBFGS, rates=DABENCH_RATES)

    def fit(self, training: Episodes) -> FittedTaskRouter:
        """Fit the model, and make the candidates from its probabilities for the same episodes."""
        seen = Seen.of(training, self.features or ())
        names = seen.feature_names if self.features is None else self.features
        columns = seen.task_columns(names)
        model = self.logistic.fit(names, columns, training.dataset["cheap_success"].values, f"{self.name}: ")
        probability = model.probability(columns)
        if self.rates is not None:
            candidates = target_rates(probability, self.rates)
        elif self.thresholds is not None:
            alpha = numbers("thresholds", self.thresholds, "numbers >= 0")
            candidates = with_targets(alpha, probability, len(training))
        else:
            candidates = probability_quantiles(probability, len(training), self.n_candidates)
        return FittedTaskRouter(model, candidates, self.name)


@dataclass(frozen=True, eq=False)
class FittedTaskRouter:
    """The fitted model and the thresholds to try.

    Attributes
    ----------
    model
        Probability that Cheap succeeds.
    candidates
        `alpha`, and `target`, the share of training tasks that go to Strong.
    name
        That of the policy.
    """

    model: LogisticFit
    candidates: pd.DataFrame
    name: str

    def probability(self, episodes: Episodes) -> np.ndarray:
        """Give the probability that Cheap succeeds, by episode."""
        return self.model.probability(Seen.of(episodes, self.model.names).task_columns(self.model.names))

    def handoffs(self, episodes: Episodes, setting: Setting) -> np.ndarray:
        """Give the step from which Strong acts, by episode: 0, or -1 for never."""
        return np.where(self.probability(episodes) < number_in(setting, "alpha"), 0, NEVER)

    def operating_points(self, world: World, settings: pd.DataFrame | None = None) -> pd.DataFrame:
        """Give the averages of each setting."""
        table = self.candidates if settings is None else settings.reset_index(drop=True)
        outcomes = world.counterfactuals.table()
        strong, cheap = outcomes[:, :, 0], outcomes[:, :, NEVER]
        points = two_way_points(self.probability(world.episodes), table["alpha"].to_numpy(float), strong, cheap)
        return table.assign(**points)

    def outcomes(self, world: World, setting: Setting) -> Outcomes:
        """Give what comes of one setting, by episode."""
        return world.counterfactuals.outcomes_at(self.handoffs(world.episodes, setting))

    def router(self, setting: Setting) -> PolicyRouter:
        """Give the router that decides so in an agent."""
        return PolicyRouter(self.controller(setting), self.model.names)

    def controller(self, setting: Setting) -> TaskRouterController:
        """Give the controller that decides so before the first call."""
        return TaskRouterController(self.model.chance(), number_in(setting, "alpha"))
