"""Tuned: TACIT-Switch with memory, clock, start and pace, its numbers searched on development outcomes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from bayes_tacit import validate
from bayes_tacit.data.costs import Outcomes
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import DEFAULT_HANDOFF, HANDOFFS, Handoff, Timing, discards_proposal, handoff_steps
from bayes_tacit.decisions.selection import Choice
from bayes_tacit.policies.base import Setting, number_in
from bayes_tacit.policies.tuned.learner import Learner
from bayes_tacit.policies.tuned.numbers import EVERY, PLAIN, TRIED, numbers_of, start_of
from bayes_tacit.policies.tuned.scoring import Learned, Scoring
from bayes_tacit.policies.tuned.search import search
from bayes_tacit.policies.tuned.trials import Trials
from bayes_tacit.policies.view import Seen
from bayes_tacit.policies.world import World
from bayes_tacit.router import Router
from bayes_tacit.router.control import RouterController
from bayes_tacit.scores.crossings import first_crossings
from bayes_tacit.scores.ties import difference_reached_from


@dataclass(frozen=True, eq=False)
class TunedSwitch:
    """TACIT-Switch with memory, clock, start and pace, as far as development outcomes say that they help.

    The likelihood's estimate is where it begins. The likelihood knows nothing of costs, so a few numbers are then
    searched on development tasks, for which it is known what comes of any handoff. What is searched can be less:
    `searched=("memory",)` only chooses how fast risk is forgotten.

    Attributes
    ----------
    searched
        Names of the numbers, of `bayes_tacit.policies.tuned.numbers`.
    learner
        What learns from training episodes; policies that share one learn once.
    handoff
        What Strong does after a handoff: "resume" or "restart".

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> fitted = TunedSwitch(searched=("memory",)).fit(load_example())
    >>> fitted.handoffs(load_example(), {"alpha": 0.3, "memory": 1.0})[:5]
    array([-1,  9,  5, 11, -1])
    """

    searched: tuple[str, ...] = EVERY
    learner: Learner = field(default_factory=Learner)
    handoff: Handoff = DEFAULT_HANDOFF
    name: str = "Tuned switch"
    sees: str = "The task's features, and the diagnostics of all steps so far."
    decides: str = "Before the first step, and at each of Cheap's checkpoints: hand over to Strong for good, or go on."

    def __post_init__(self) -> None:
        """Check the settings."""
        validate.choice("handoff", self.handoff, HANDOFFS)
        for name in self.searched:
            validate.choice("searched", name, EVERY)

    def fit(self, training: Episodes) -> FittedTunedSwitch:
        """Fit the model for each memory, and Cheap's own chance."""
        return FittedTunedSwitch(self.learner(training), self.searched, self.handoff, self.name)


@dataclass(frozen=True, eq=False)
class FittedTunedSwitch:
    """The estimates, and which numbers are searched.

    A setting is a mapping with `alpha`, `start` (the threshold of the start; missing for none) and the numbers; numbers
    that it does not have are TACIT-Switch's own.

    Attributes
    ----------
    learned
        What training episodes say.
    searched
        Names of the numbers.
    handoff
        What Strong does after a handoff.
    name
        That of the policy.
    """

    learned: Learned
    searched: tuple[str, ...]
    handoff: Handoff
    name: str

    @property
    def timing(self) -> Timing:
        """What a checkpoint is, as in the estimate."""
        return self.learned.fits[PLAIN["memory"]].timing

    @property
    def candidates(self) -> pd.DataFrame:
        """Where the search begins: the plain numbers, and no handoff."""
        return pd.DataFrame([dict(PLAIN) | {"start": np.inf, "alpha": np.inf}])

    def choose(self, world: World, cap: float) -> Choice:
        """Search the numbers on development tasks, and take the threshold with the most success within the cap."""
        known = world.handoffs(self.handoff)
        trials = Trials(Scoring(self.learned, Seen.of(world.episodes)), known, self.timing)
        tried = {name: values for name, values in TRIED.items() if name in self.searched}
        if "memory" in tried:
            tried["memory"] = tuple(self.learned.fits)
        numbers, looked_at = search(PLAIN, tried, lambda some: trials.success(some, cap))
        setting = trials.setting(numbers, cap)
        point = setting | self.outcomes(world, setting).point()
        return Choice(0, point, float(cap), n_points=looked_at, n_within=looked_at, n_tied=1)

    def operating_points(self, world: World, settings: pd.DataFrame | None = None) -> pd.DataFrame:
        """Give the averages of each setting."""
        table = self.candidates if settings is None else settings.reset_index(drop=True)
        return table.join(pd.DataFrame([self.outcomes(world, row).point() for _, row in table.iterrows()]))

    def handoffs(self, episodes: Episodes, setting: Setting) -> np.ndarray:
        """Give the step from which Strong acts, by episode; -1 for never."""
        started, handoffs = self._decided(episodes, setting)
        return np.where(started, 0, handoffs)

    def _decided(self, episodes: Episodes, setting: Setting) -> tuple[np.ndarray, np.ndarray]:
        """Give which tasks Strong has from the start, and from which step on it acts in the others."""
        numbers = numbers_of(setting)
        scoring = Scoring(self.learned, Seen.of(episodes))
        crossings = first_crossings(scoring.paced(numbers), number_in(setting, "alpha"))
        started = scoring.start(numbers) >= difference_reached_from(start_of(setting))
        return started, handoff_steps(crossings, self.timing)

    def router(self, setting: Setting) -> Router:
        """Give the router that decides so in an agent."""
        numbers, threshold = numbers_of(setting), start_of(setting)
        start = None if threshold == np.inf else self.learned.start(numbers, threshold)
        fitted = self.learned.fitted(numbers)
        alpha = number_in(setting, "alpha")
        return Router.of(fitted, alpha, pace=numbers["pace"], at_start=start, handoff=self.handoff)

    def controller(self, setting: Setting) -> RouterController:
        """Give the controller that decides so while an agent plays."""
        return RouterController(self.router(setting), name="tuned_switch")

    def outcomes(self, world: World, setting: Setting) -> Outcomes:
        """Give what comes of one setting, by episode."""
        started, handoffs = self._decided(world.episodes, setting)
        known = world.handoffs(self.handoff)
        later = known.outcomes_at(handoffs, discards_proposal=discards_proposal(self.timing))
        at_once = known.pure_strong
        # At the start there is no proposal yet that could be discarded.
        columns = ("success", "cost", "cheap_calls", "strong_calls")
        return Outcomes(*(np.where(started, getattr(at_once, name), getattr(later, name)) for name in columns))
