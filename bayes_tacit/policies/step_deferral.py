"""Step Deferral: Strong takes the step after a risky one, then Cheap acts again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from bayes_tacit import validate
from bayes_tacit.data.costs import Outcomes
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import DEFAULT_TIMING, TIMINGS, Timing, usable_checkpoints
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.policies.base import Setting, number_in
from bayes_tacit.policies.single_steps import as_played, replayed_points, step_thresholds
from bayes_tacit.policies.view import Seen
from bayes_tacit.policies.world import World
from bayes_tacit.router import PolicyRouter
from bayes_tacit.router.control import StepDeferralController

ALFWORLD_STEPS = tuple(float(k) for k in range(0, 41, 5))
"""The paper's average numbers of deferred steps for ALFWorld: 0, 5, ..., 40."""

DABENCH_STEPS = tuple(0.75 * k for k in range(9))
"""The paper's average numbers of deferred steps for DABench: 0, 0.75, ..., 6."""


@dataclass(frozen=True)
class StepDeferral:
    """A threshold on the latest value of one diagnostic.

    Cheap acts; where the diagnostic after its step is at least the threshold, Strong acts the following step only. What
    comes of it depends on every earlier deferral, so it has to be replayed: the world must be able to.

    Attributes
    ----------
    diagnostic
        Its name, or that of a carried variable with one number a step, such as the negative log-likelihood of the
        selected action; by default the only diagnostic.
    average_steps
        Average numbers of deferred steps a training task, by which thresholds are found on the Cheap rollouts; by
        default the thresholds are quantiles of the training values.
    timing
        What a checkpoint is. Under "post_action" Strong takes the step after the high value, and the last value of a
        rollout defers nothing, for no step follows; under "proposal" the value is about the step itself.
    n_candidates
        How many quantiles.

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> StepDeferral("uncertainty", average_steps=(0, 2, 4)).fit(load_example()).candidates.round(2)
       alpha  target
    0    inf     0.0
    1   0.54     2.0
    2   0.41     4.0
    """

    diagnostic: str | None = None
    average_steps: tuple[float, ...] | None = None
    timing: Timing = DEFAULT_TIMING
    n_candidates: int = 101
    name: str = "Step Deferral"
    sees: ClassVar[str] = "The latest value of one diagnostic."
    decides: ClassVar[str] = "After each Cheap step: Cheap or Strong for the next step only; then Cheap acts again."

    def __post_init__(self) -> None:
        """Check the settings."""
        validate.choice("timing", self.timing, TIMINGS)
        validate.whole("n_candidates", self.n_candidates, 2)

    @classmethod
    def alfworld(cls, diagnostic: str) -> StepDeferral:
        """Give the paper's setting for ALFWorld."""
        return cls(diagnostic, average_steps=ALFWORLD_STEPS)

    @classmethod
    def dabench(cls, diagnostic: str) -> StepDeferral:
        """Give the paper's setting for DABench."""
        return cls(diagnostic, average_steps=DABENCH_STEPS, timing="proposal")

    def fit(self, training: Episodes) -> FittedStepDeferral:
        """Make the candidates from the values on training rollouts."""
        seen = Seen.of(training, () if self.diagnostic is None else (self.diagnostic,))
        name = seen.one_diagnostic(self.diagnostic)
        values = seen.step_values(name)
        usable = usable_checkpoints(seen.n_steps, self.timing)
        candidates = step_thresholds(values, usable, self.average_steps, self.n_candidates)
        return FittedStepDeferral(name, candidates, self.timing, self.name)


@dataclass(frozen=True, eq=False)
class FittedStepDeferral:
    """The diagnostic and the thresholds to try.

    Attributes
    ----------
    diagnostic
        Its name.
    candidates
        `alpha`, and `target`, how many steps of a training rollout are at or above it on average.
    timing
        What a checkpoint is.
    name
        That of the policy.
    """

    diagnostic: str
    candidates: pd.DataFrame
    timing: Timing
    name: str

    def defers(self, episodes: Episodes, setting: Setting) -> np.ndarray:
        """Tell after which steps of a Cheap rollout Strong would take the next one: (episode, step)."""
        values = Seen.of(episodes, (self.diagnostic,)).step_values(self.diagnostic)
        return values >= number_in(setting, "alpha")

    def operating_points(self, world: World, settings: pd.DataFrame | None = None) -> pd.DataFrame:
        """Give the averages of each setting."""
        table = self.candidates if settings is None else settings.reset_index(drop=True)
        return replayed_points(table, len(world), lambda alpha: replay(world, self.diagnostic, alpha))

    def outcomes(self, world: World, setting: Setting) -> Outcomes:
        """Give what comes of one setting, by episode."""
        return Outcomes(*replay(world, self.diagnostic, np.array([number_in(setting, "alpha")]))[:, 0])

    def router(self, setting: Setting) -> PolicyRouter:
        """Give the router that decides so in an agent."""
        return PolicyRouter(self.controller(setting), (), (self.diagnostic,))

    def controller(self, setting: Setting) -> StepDeferralController:
        """Give the controller that defers so while an agent plays."""
        return StepDeferralController(number_in(setting, "alpha"), self.diagnostic, self.timing)


def replay(world: World, diagnostic: str, thresholds: np.ndarray) -> np.ndarray:
    """Play step deferral in a world that can: (4, threshold, episode), success, cost, Cheap's and Strong's calls."""
    if world.deferral is None:
        raise InvalidDataError(
            "a function that replays it, World(..., deferral=...): counterfactuals of permanent handoffs do not "
            "say what comes of single steps of Strong",
            field="deferral of the world",
            value=None,
        )
    return as_played(world.deferral(diagnostic, thresholds), len(thresholds), len(world), "deferral")
