"""Step Deferral whose threshold depends on the task, and which may give Strong the whole task at the start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import numpy as np
import pandas as pd
from scipy import special

from bayes_tacit import validate
from bayes_tacit.data.costs import Outcomes
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import DEFAULT_TIMING, NEVER, TIMINGS, Timing
from bayes_tacit.decisions.selection import Choice
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.policies.base import Setting, number_in
from bayes_tacit.policies.logistic import NEWTON, LogisticFit
from bayes_tacit.policies.step_deferral import replay
from bayes_tacit.policies.tuned.numbers import CAPS, TRIED, Numbers, start_of
from bayes_tacit.policies.tuned.search import search
from bayes_tacit.policies.view import Seen
from bayes_tacit.policies.world import World
from bayes_tacit.router import PolicyRouter
from bayes_tacit.router.control import TaskDeferralController

BEGIN: Numbers = MappingProxyType({"cheap": 0.0, "strong": 0.0, "start_weight": 1.0, "start_level": 1.0})
"""Step Deferral as the paper has it: one threshold for all tasks."""

SHIFTS = (-20.0, -10.0, -5.0, 0.0, 5.0, 10.0, 20.0)
SEARCHED: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {"cheap": SHIFTS, "start_level": TRIED["start_level"], "strong": SHIFTS, "start_weight": TRIED["start_weight"]}
)
"""Values of each number, in the order of the search. A shift is in levels, of which there are `n_levels`."""


@dataclass(frozen=True)
class TunedDeferral:
    """Step Deferral with a threshold that depends on the task's features, its numbers searched on development outcomes.

    Attributes
    ----------
    diagnostic
        Its name; by default the only one.
    n_levels
        How many quantiles of the training values are thresholds.
    timing
        What a checkpoint is, as for `StepDeferral`.
    """

    diagnostic: str | None = None
    n_levels: int = 81
    timing: Timing = DEFAULT_TIMING
    name: str = "Step Deferral by task"
    sees: str = "The task's features, and the latest value of one diagnostic."
    decides: str = (
        "Before the first step: Cheap or Strong for the whole episode. After each Cheap step: Cheap or Strong for the "
        "next step only."
    )

    def __post_init__(self) -> None:
        """Check the settings."""
        validate.whole("n_levels", self.n_levels, 2)
        validate.choice("timing", self.timing, TIMINGS)

    def fit(self, training: Episodes) -> FittedTunedDeferral:
        """Take quantiles of the training values, and fit both models' chances."""
        seen = Seen.of(training, () if self.diagnostic is None else (self.diagnostic,))
        name = seen.one_diagnostic(self.diagnostic)
        values = seen.step_values(name)
        levels = np.unique(np.nanquantile(values, np.linspace(0, 1, self.n_levels)))
        columns = seen.task_columns(seen.feature_names)
        chances = {}
        for agent in ("cheap", "strong"):
            outcomes = training.dataset[f"{agent}_success"].values
            chances[agent] = NEWTON.fit(seen.feature_names, columns, outcomes, f"{self.name}: ")
        levels = np.append(levels, np.inf)
        return FittedTunedDeferral(name, levels, chances, _spread(chances, columns), self.name, self.timing)


@dataclass(frozen=True, eq=False)
class FittedTunedDeferral:
    """Levels of the diagnostic, and both models' chances.

    A setting has `level` (the place of a typical task's threshold among the levels), `start` and the numbers.

    Attributes
    ----------
    diagnostic
        Its name.
    levels
        Thresholds, the last of which is never reached.
    chances
        Probability of success given the features, by agent.
    spread
        Mean and standard deviation of their logits over training episodes, by agent.
    name
        That of the policy.
    timing
        What a checkpoint is.
    """

    diagnostic: str
    levels: np.ndarray
    chances: Mapping[str, LogisticFit]
    spread: Mapping[str, tuple[float, float]]
    name: str
    timing: Timing = DEFAULT_TIMING

    @property
    def candidates(self) -> pd.DataFrame:
        """Where the search begins: one threshold for all tasks, and no start."""
        return pd.DataFrame({"level": np.arange(len(self.levels), dtype=float)}).assign(**BEGIN, start=np.inf)

    def choose(self, world: World, cap: float) -> Choice:
        """Search the numbers on development tasks, and take the level with the most success within the cap."""
        trials = _Trials(self, world)
        numbers, looked_at = search(BEGIN, SEARCHED, lambda some: trials.success(some, cap))
        setting = trials.setting(numbers, cap)
        point = setting | self.outcomes(world, setting).point()
        return Choice(0, point, float(cap), n_points=looked_at, n_within=looked_at, n_tied=1)

    def operating_points(self, world: World, settings: pd.DataFrame | None = None) -> pd.DataFrame:
        """Give the averages of each setting."""
        table = self.candidates if settings is None else settings.reset_index(drop=True)
        return table.join(pd.DataFrame([self.outcomes(world, row).point() for _, row in table.iterrows()]))

    def outcomes(self, world: World, setting: Setting) -> Outcomes:
        """Give what comes of one setting, by episode."""
        place = self.places(world.episodes, setting)
        used = np.unique(place)
        played = replay(world, self.diagnostic, self.levels[used])
        later = played[:, np.searchsorted(used, place), np.arange(len(world))]
        started = self.start(world.episodes, setting) >= start_of(setting)
        return Outcomes(*np.where(started, world.counterfactuals.table()[:, :, 0], later))

    def router(self, setting: Setting) -> PolicyRouter:
        """Give the router that decides so in an agent."""
        return PolicyRouter(self.controller(setting), self.chances["cheap"].names, (self.diagnostic,))

    def controller(self, setting: Setting) -> TaskDeferralController:
        """Give the controller that defers so while an agent plays."""
        cheap, strong = (self.chances[agent].chance() for agent in ("cheap", "strong"))
        return TaskDeferralController(
            self.diagnostic,
            tuple(self.levels[:-1].tolist()),
            number_in(setting, "level"),
            (cheap, strong),
            (self.spread["cheap"], self.spread["strong"]),
            (number_in(setting, "cheap"), number_in(setting, "strong")),
            number_in(setting, "start_weight"),
            start_of(setting),
            self.timing,
        )

    def places(self, episodes: Episodes, setting: Setting) -> np.ndarray:
        """Give the place of each task's threshold among the levels."""
        shift = self.shift(episodes, {name: number_in(setting, name) for name in ("cheap", "strong")})
        return np.clip(np.rint(number_in(setting, "level") + shift), 0, len(self.levels) - 1).astype(int)

    def shift(self, episodes: Episodes, numbers: Numbers) -> np.ndarray:
        """Give by how many levels a task's threshold differs from a typical one's."""
        total = np.zeros(len(episodes))
        for agent, (mean, scale) in self.spread.items():
            total += numbers[agent] * (special.logit(self._chance(episodes, agent)) - mean) / scale
        return total

    def start(self, episodes: Episodes, setting: Setting) -> np.ndarray:
        """Give c P(Strong succeeds | x) - P(Cheap succeeds | x), by episode."""
        weight = number_in(setting, "start_weight")
        return weight * self._chance(episodes, "strong") - self._chance(episodes, "cheap")

    def _chance(self, episodes: Episodes, agent: str) -> np.ndarray:
        model = self.chances[agent]
        return model.probability(Seen.of(episodes).task_columns(model.names))


def _spread(chances: Mapping[str, LogisticFit], columns: np.ndarray) -> dict[str, tuple[float, float]]:
    logits = {agent: special.logit(model.probability(columns)) for agent, model in chances.items()}
    return {agent: (float(logit.mean()), float(logit.std()) or 1.0) for agent, logit in logits.items()}


@dataclass(frozen=True, eq=False)
class _Trials:
    """Development tasks on which numbers are tried; what every level gives is played once."""

    fitted: FittedTunedDeferral
    world: World

    @cached_property
    def _played(self) -> np.ndarray:
        return replay(self.world, self.fitted.diagnostic, self.fitted.levels)[:2]

    @cached_property
    def _at_once(self) -> np.ndarray:
        return self.world.counterfactuals.table()[:2, :, 0]

    def success(self, numbers: Numbers, cap: float) -> np.ndarray:
        """Give each task's success, averaged over budgets around the cap; none if nothing is within the cap itself."""
        outcomes, _ = self._outcomes(numbers)
        success, cost = outcomes.mean(axis=2)
        if _best(success, cost, cap) is None:
            return np.zeros(len(self.world))
        places = [_best(success, cost, cap * share) for share in CAPS]
        # A budget that nothing is within counts as Cheap alone, whatever the numbers.
        alone = self.world.counterfactuals.table()[0, :, NEVER]
        return np.mean([alone if place is None else outcomes[0, place] for place in places], axis=0)

    def setting(self, numbers: Numbers, cap: float) -> dict[str, float]:
        """Give the numbers with the level that has the most success within the cap."""
        outcomes, threshold = self._outcomes(numbers)
        success, cost = outcomes.mean(axis=2)
        place = _best(success, cost, cap)
        if place is None:
            raise InvalidDataError(f"at least {cost.min():.6g}, the lowest cost there is", field="cap", value=cap)
        return dict(numbers) | {"start": threshold, "level": float(self._bases[place])}

    @cached_property
    def _bases(self) -> np.ndarray:
        """Places of a typical task's threshold; beyond both ends, since other tasks' may still be inside."""
        margin = len(self.fitted.levels) // 2
        return np.arange(-margin, len(self.fitted.levels) + margin)

    def _outcomes(self, numbers: Numbers) -> tuple[np.ndarray, float]:
        """Give success and cost (2, base, episode), and the threshold of the start."""
        start, level = self.fitted.start(self.world.episodes, numbers), numbers["start_level"]
        threshold = float(np.quantile(start, level)) if level < 1 else np.inf
        shift = self.fitted.shift(self.world.episodes, numbers)
        place = np.clip(np.rint(self._bases[:, None] + shift), 0, len(self.fitted.levels) - 1).astype(int)
        later = self._played[:, place, np.arange(len(self.world))]
        return np.where(start >= threshold, self._at_once[:, None], later), threshold


def _best(success: np.ndarray, cost: np.ndarray, cap: float) -> int | None:
    within = np.flatnonzero(cost <= cap)
    return int(within[success[within].argmax()]) if within.size else None
