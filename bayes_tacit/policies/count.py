"""Count: a permanent handoff once the number of signs reaches a threshold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from bayes_tacit import validate
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import (
    DEFAULT_HANDOFF,
    DEFAULT_TIMING,
    HANDOFFS,
    TIMINGS,
    Handoff,
    Timing,
    usable_checkpoints,
)
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.policies.base import Setting, number_in
from bayes_tacit.policies.crossings import Crossing
from bayes_tacit.policies.view import Seen
from bayes_tacit.router import PolicyRouter
from bayes_tacit.router.control import CountController


@dataclass(frozen=True)
class Count:
    """A threshold on the number of signs so far, at which Strong takes over for good.

    A step shows a sign where a diagnostic is above its mean over all training steps; where it is 0 or 1, that is where
    it is 1. Signs are added over diagnostics and steps. Nothing is learned but the levels and the threshold, so it is
    what a rule of thumb can do; compare with it before you use anything that needs more.

    Attributes
    ----------
    diagnostics
        The diagnostics to count; by default all.
    timing
        What a checkpoint is, as for `handoff_steps`.
    handoff
        What Strong does then: "resume" from Cheap's state, or "restart" the task. Either way a count that is reached
        after the last step hands nothing off.

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> training = load_example()
    >>> fitted = Count(("repeat", "invalid")).fit(training)
    >>> {name: round(level, 2) for name, level in fitted.levels.items()}
    {'repeat': 0.21, 'invalid': 0.11}
    >>> fitted.candidates.head(3).round(2)
       alpha  target
    0      1    0.94
    1      2    0.84
    2      3    0.73
    >>> fitted.handoffs(training, {"alpha": 3})[:5]
    array([-1, 10,  4,  6,  8])
    """

    diagnostics: tuple[str, ...] | None = None
    timing: Timing = DEFAULT_TIMING
    handoff: Handoff = DEFAULT_HANDOFF
    name: str = "Count"
    sees: ClassVar[str] = "How many of the diagnostics so far were high."
    decides: ClassVar[str] = "At each of Cheap's checkpoints: hand over to Strong for good, or go on."

    def __post_init__(self) -> None:
        """Check the settings."""
        validate.choice("timing", self.timing, TIMINGS)
        validate.choice("handoff", self.handoff, HANDOFFS)
        if self.diagnostics is not None:
            object.__setattr__(self, "diagnostics", tuple(self.diagnostics))

    def fit(self, training: Episodes) -> FittedCount:
        """Take the means of the diagnostics as levels, and the numbers of signs in training rollouts as thresholds."""
        seen = Seen.of(training)
        names = seen.diagnostic_names if self.diagnostics is None else self.diagnostics
        if not names:
            raise InvalidDataError("at least one to count", field="diagnostics", value=())
        values = seen.step_diagnostics(names)
        within = values[np.arange(values.shape[1]) < seen.n_steps[:, None]]
        lowest, highest = within.min(axis=0), within.max(axis=0)
        # A mean of equal numbers can be a rounding error below them.
        levels = np.where(lowest == highest, highest, within.mean(axis=0))
        counts = _counts(values, levels)
        usable = np.arange(values.shape[1]) < usable_checkpoints(seen.n_steps, self.timing)[:, None]
        reached = np.where(usable, counts, 0).max(axis=1)
        alpha = np.arange(1, max(1, int(np.nanmax(counts))) + 1)
        target = (len(reached) - np.searchsorted(np.sort(reached), alpha)) / len(reached)
        return FittedCount(
            dict(zip(names, levels.tolist(), strict=True)),
            self.timing,
            pd.DataFrame({"alpha": alpha, "target": target}),
            self.name,
            self.handoff,
        )


@dataclass(frozen=True, eq=False)
class FittedCount(Crossing):
    """The levels and the thresholds to try.

    Attributes
    ----------
    levels
        By diagnostic, the value above which a step shows a sign.
    timing
        What a checkpoint is.
    candidates
        `alpha`, and `target`, the share of training tasks that are handed off.
    name
        That of the policy.
    handoff
        What Strong does after a handoff.
    """

    levels: Mapping[str, float]
    timing: Timing
    candidates: pd.DataFrame
    name: str
    handoff: Handoff = DEFAULT_HANDOFF

    def scores(self, episodes: Episodes) -> np.ndarray:
        """Give the number of signs up to each step: (episode, step), NaN past the end of an episode."""
        values = Seen.of(episodes).step_diagnostics(tuple(self.levels))
        return _counts(values, np.array(list(self.levels.values())))

    def router(self, setting: Setting) -> PolicyRouter:
        """Give the router that decides so in an agent."""
        return PolicyRouter(self.controller(setting), (), tuple(self.levels))

    def controller(self, setting: Setting) -> CountController:
        """Give the controller that counts so while an agent plays."""
        return CountController(dict(self.levels), number_in(setting, "alpha"), self.timing, self.handoff)


def _counts(values: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Count signs over diagnostics and the steps so far; NaN where there is no step."""
    signs = (values > levels).sum(axis=2).cumsum(axis=1).astype(float)
    return np.where(np.isnan(values[:, :, 0]), np.nan, signs)
