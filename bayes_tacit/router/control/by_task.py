"""Step Deferral with a threshold that depends on the task, and a decision before the first step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import special

from bayes_tacit import validate
from bayes_tacit.data.timing import DEFAULT_TIMING, Timing
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.router.control.chance import Chance
from bayes_tacit.router.control.pilot import Checkpoint, Choice, GoingOn, Pilot
from bayes_tacit.router.control.switches import StepDeferralController

AGENTS = ("cheap", "strong")


@dataclass(frozen=True)
class TaskDeferralController:
    """Gives single steps to Strong where a signal is at least the task's own threshold, or the task from the start.

    Attributes
    ----------
    signal
        As for `StepDeferralController`.
    levels
        Thresholds in rising order; beyond the last one nothing is deferred.
    level
        The place of a typical task's threshold among them.
    chances
        Probabilities that Cheap and that Strong succeed given the features.
    spread
        Mean and standard deviation of the logit of each over training tasks.
    shifts
        By how many places a task's threshold moves for one standard deviation of each.
    start_weight, start
        Strong has the task from the start where c P(Strong succeeds) - P(Cheap succeeds) is at least `start`.

    Examples
    --------
    >>> chance = Chance(("size",), (0.0,), (1.0,), 0.0, (1.0,))
    >>> controller = TaskDeferralController(
    ...     "risk", (0.1, 0.5, 0.9), 1.0, (chance, chance), ((0.0, 1.0), (0.0, 1.0)), (1.0, 0.0)
    ... )
    >>> [controller.threshold_of({"size": size}) for size in (-1.0, 0.0, 1.0, 2.0)]
    [0.1, 0.5, 0.9, inf]
    """

    signal: str
    levels: tuple[float, ...]
    level: float
    chances: tuple[Chance, Chance]
    spread: tuple[tuple[float, float], tuple[float, float]]
    shifts: tuple[float, float]
    start_weight: float = 1.0
    start: float = math.inf
    timing: Timing = DEFAULT_TIMING
    name: str = "step_deferral_by_task"

    def __post_init__(self) -> None:
        """Check the numbers."""
        levels = np.array(self.levels)
        if not levels.size or not np.isfinite(levels).all() or (np.diff(levels) <= 0).any():
            raise InvalidDataError("finite numbers that rise", field="levels", value=self.levels)
        for name in ("level", "start_weight"):
            validate.number(name, getattr(self, name))
        for agent, (mean, scale), shift in zip(AGENTS, self.spread, self.shifts, strict=True):
            validate.number(f"mean logit of {agent}", mean)
            validate.number(f"spread of {agent}", scale, "a number above 0", above=0)
            validate.number(f"shift of {agent}", shift)

    def threshold_of(self, features: Mapping[str, float]) -> float:
        """Give the task's threshold."""
        moved = 0.0
        for chance, (mean, scale), shift in zip(self.chances, self.spread, self.shifts, strict=True):
            moved += shift * (float(special.logit(chance(features))) - mean) / scale
        place = int(np.clip(np.rint(self.level + moved), 0, len(self.levels)))
        return self.levels[place] if place < len(self.levels) else math.inf

    def begin(self, features: Mapping[str, float], episode: str) -> Pilot:
        """Begin an episode."""
        cheap, strong = (chance(features) for chance in self.chances)
        opening = self.start_weight * strong - cheap
        steps = StepDeferralController(self.threshold_of(features), self.signal, self.timing).begin(features, episode)
        return _Task(opening, self.start, steps)


@dataclass
class _Task(GoingOn):
    opening: float
    start: float
    steps: Pilot
    _opened: bool = False

    def before(self) -> Choice:
        reached = self.opening >= self.start
        if self._opened or self.start == math.inf:
            return Choice("cheap")
        self._opened = not reached
        return Choice("strong" if reached else "cheap", facts={"value": self.opening})

    def checkpoint(self, checkpoint: Checkpoint) -> Choice:
        return self.steps.checkpoint(checkpoint)
