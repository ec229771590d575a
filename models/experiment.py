"""What an experiment fixes before it sees data, and the two things that follow: its PyMC model and its estimate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bayes_tacit import Episodes, MapFit, ModelSpec, fit_map
from bayes_tacit.data.timing import Timing
from bayes_tacit.errors import InvalidDataError

if TYPE_CHECKING:
    import pymc as pm


UNMARKED: Final = "outcome"
"""The paper lets an AB = 01 episode without a window count for its outcome alone."""


@dataclass(frozen=True)
class Experiment:
    """Settings of one experiment.

    Attributes
    ----------
    features, diagnostics
        Names and order of the columns that the episodes must have.
    ridge
        The penalty lambda.
    restarts
        Starts of the optimizer.
    timing
        "post_action" or "proposal".
    weights
        Fixed simplex weights, if they are not learned.
    max_iterations
        Steps a start may take.
    floor
        The paper's floor on an episode's likelihood.
    memory
        What is left of a diagnostic's leaky sum after a step; the paper's 1 forgets nothing.
    clock
        Whether the number of steps counts as one more diagnostic; not in the paper.
    """

    features: tuple[str, ...]
    diagnostics: tuple[str, ...]
    ridge: float
    restarts: int
    timing: Timing = "post_action"
    weights: tuple[float, ...] | None = None
    max_iterations: int = 500
    floor: float = 1e-12
    memory: float = 1.0
    clock: bool = False

    def model(self, episodes: Episodes) -> pm.Model:
        """State the paper's model (`models.paper`) with the experiment's settings: its mode is the estimate."""
        # Studies of thousands of fits need no PyMC, which takes seconds to import.
        from models import paper

        self._check(episodes)
        return paper.model(
            episodes,
            self.ridge,
            weights=self.weights,
            timing=self.timing,
            memory=self.memory,
            clock=self.clock,
        )

    @property
    def spec(self) -> ModelSpec:
        """The same model in the library."""
        return ModelSpec(
            timing=self.timing, weights=self.weights, memory=self.memory, clock=self.clock, unmarked=UNMARKED
        )

    def fit(self, episodes: Episodes, seed: int = 0) -> MapFit:
        """Compute that estimate."""
        self._check(episodes)
        return fit_map(
            episodes,
            ridge=self.ridge,
            restarts=self.restarts,
            seed=seed,
            floor=self.floor,
            max_iterations=self.max_iterations,
            spec=self.spec,
        )

    def _check(self, episodes: Episodes) -> None:
        for field, expected, given in (
            ("features", self.features, episodes.feature_names),
            ("diagnostics", self.diagnostics, episodes.diagnostic_names),
        ):
            if given != expected:
                raise InvalidDataError(f"{', '.join(expected) or 'none'}, in this order", field=field, value=given)
