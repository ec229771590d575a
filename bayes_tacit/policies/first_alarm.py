"""First Alarm: a permanent handoff the first time that one diagnostic is high."""

from __future__ import annotations

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
from bayes_tacit.policies.base import Setting, number_in
from bayes_tacit.policies.crossings import Crossing
from bayes_tacit.policies.view import Seen
from bayes_tacit.router import PolicyRouter
from bayes_tacit.router.control import FirstAlarmController


@dataclass(frozen=True)
class FirstAlarm:
    """A threshold on the latest value of one diagnostic, at which Strong takes over for good.

    It is Step Deferral with a handoff that lasts, or TACIT-Switch without memory, features, marks and model: nothing is
    learned but the threshold. The paper does not have it. Compare with it before you use anything that needs more.

    Attributes
    ----------
    diagnostic
        Its name, or that of a carried variable with one number a step; by default the only diagnostic.
    timing
        What a checkpoint is, as for `handoff_steps`: under "post_action" Strong takes over after the step with the high
        value, under "proposal" it takes that step itself.
    handoff
        What Strong does then: "resume" from Cheap's state, or "restart" the task. Either way a high value after the
        last step hands nothing off.
    n_candidates
        How many quantiles of the training values are tried.

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> training = load_example()
    >>> fitted = FirstAlarm("uncertainty", n_candidates=5).fit(training)
    >>> fitted.candidates.round(2)
       alpha  target
    0   0.00    1.00
    1   0.13    1.00
    2   0.24    0.99
    3   0.40    0.89
    4   0.95    0.00
    >>> fitted.handoffs(training, {"alpha": 0.6})[:5]
    array([-1,  9,  4, 10, -1])
    """

    diagnostic: str | None = None
    timing: Timing = DEFAULT_TIMING
    handoff: Handoff = DEFAULT_HANDOFF
    n_candidates: int = 101
    name: str = "First Alarm"
    sees: ClassVar[str] = "The latest value of one diagnostic."
    decides: ClassVar[str] = (
        "At each of Cheap's checkpoints: hand over to Strong for good if the value is high, or go on."
    )

    def __post_init__(self) -> None:
        """Check the settings."""
        validate.choice("timing", self.timing, TIMINGS)
        validate.choice("handoff", self.handoff, HANDOFFS)
        validate.whole("n_candidates", self.n_candidates, 2)

    def fit(self, training: Episodes) -> FittedFirstAlarm:
        """Take quantiles of the values on training rollouts as thresholds."""
        seen = Seen.of(training, () if self.diagnostic is None else (self.diagnostic,))
        name = seen.one_diagnostic(self.diagnostic)
        values = seen.step_values(name)
        alpha = np.unique(np.nanquantile(values, np.linspace(0, 1, self.n_candidates)))
        usable = usable_checkpoints(seen.n_steps, self.timing)
        inside = np.arange(values.shape[1]) < usable[:, None]
        highest = np.sort(np.where(inside, values, -np.inf).max(axis=1))
        target = (len(highest) - np.searchsorted(highest, alpha)) / len(highest)
        candidates = pd.DataFrame({"alpha": alpha, "target": target})
        return FittedFirstAlarm(name, self.timing, candidates, self.name, self.handoff)


@dataclass(frozen=True, eq=False)
class FittedFirstAlarm(Crossing):
    """The diagnostic and the thresholds to try.

    Attributes
    ----------
    diagnostic
        Its name.
    timing
        What a checkpoint is.
    candidates
        `alpha`, and `target`, the share of training tasks that are handed off.
    name
        That of the policy.
    handoff
        What Strong does after a handoff.
    """

    diagnostic: str
    timing: Timing
    candidates: pd.DataFrame
    name: str
    handoff: Handoff = DEFAULT_HANDOFF

    def router(self, setting: Setting) -> PolicyRouter:
        """Give the router that decides so in an agent."""
        return PolicyRouter(self.controller(setting), (), (self.diagnostic,))

    def controller(self, setting: Setting) -> FirstAlarmController:
        """Give the controller that hands off so while an agent plays."""
        return FirstAlarmController(number_in(setting, "alpha"), self.diagnostic, self.timing, self.handoff)

    def scores(self, episodes: Episodes) -> np.ndarray:
        """Give what is compared with alpha, the values of the diagnostic: (episode, step), NaN past the end."""
        return Seen.of(episodes, (self.diagnostic,)).step_values(self.diagnostic)
