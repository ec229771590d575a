"""Policies whose few numbers are searched on development outcomes, from the likelihood's estimate on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from bayes_tacit import validate
from bayes_tacit.data.costs import AVERAGES
from bayes_tacit.data.counterfactuals import Counterfactuals
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import (
    DEFAULT_HANDOFF,
    DEFAULT_TIMING,
    HANDOFFS,
    NEVER,
    Handoff,
    Timing,
    discards_proposal,
    handoff_steps,
    usable_checkpoints,
)
from bayes_tacit.data.visible import Visible
from bayes_tacit.decisions.evaluation import World
from bayes_tacit.decisions.selection import Choice, first_crossings
from bayes_tacit.errors import ConvergenceError, InvalidDataError
from bayes_tacit.estimates.map_fit import MapFit, fit_map
from bayes_tacit.model.families import family_named
from bayes_tacit.model.memory import peaks
from bayes_tacit.policies.base import FittedPolicy, Setting, number_in
from bayes_tacit.policies.logistic import NEWTON, LogisticFit
from bayes_tacit.policies.plain import check_settings
from bayes_tacit.router import Router, Start, rules
from bayes_tacit.router.rule import CALL_OF, start_reached_from
from bayes_tacit.scores.core import Draws, score
from bayes_tacit.scores.fitted import Fitted, of_fit


@dataclass(frozen=True, eq=False)
class SearchedPolicy(FittedPolicy):
    """A fitted policy that finds its setting itself, where a table of candidates would be too long.

    Attributes
    ----------
    search
        Finds the setting with the most success on development tasks whose cost is within a cap, and says how many it
        looked at.
    """

    search: Callable[[World, float], tuple[dict[str, float], int]] | None = None

    def choose(self, world: World, cap: float) -> Choice:
        """Search the numbers on development tasks."""
        assert self.search is not None
        setting, looked_at = self.search(world, cap)
        point = setting | self.outcomes(world, setting).point()
        return Choice(0, point, float(cap), n_points=looked_at, n_within=looked_at, n_tied=1)

    def curve(self, development: World, test: World, caps: list[float]) -> pd.DataFrame:
        """Search under each budget, and evaluate what was found."""
        columns = (*map(str, self.candidates), "development_success", "development_cost", *AVERAGES)
        rows: list[dict[str, object]] = []
        for cap in caps:
            try:
                choice = self.choose(development, cap)
            except InvalidDataError:
                rows.append({"cap": cap, **dict.fromkeys(columns, np.nan)})
                continue
            found = {name: choice.point[name] for name in map(str, self.candidates)}
            on_development = {"development_success": choice.success, "development_cost": choice.cost}
            rows.append({"cap": cap, **found, **on_development, **self.outcomes(test, choice.point).point()})
        return pd.DataFrame(rows)


Numbers = Mapping[str, float]

PLAIN: Numbers = MappingProxyType(
    {
        "memory": 1.0,
        "clock": 0.0,
        "pace": 0.0,
        "incidence": 1.0,
        "location": 1.0,
        "cheap": 0.0,
        "start_weight": 1.0,
        "start_level": 1.0,
    }
)
"""TACIT-Switch as the paper has it: from here the search goes on.

============  =======================================================================================
memory        rho: what is left of a diagnostic's leaky sum after a step
clock         share of the weight that time alone has
pace          g: the threshold at step t is alpha exp(-g t)
incidence     by what gamma is multiplied: how much pi differs between tasks
location      by what beta is multiplied: how much the location differs between tasks
cheap         what a task on which Cheap is better by one standard deviation adds to the location, in s
start_weight  c: Strong has the task from the start where c pi(x) - P(Cheap succeeds | x) is high
start_level   the share of development tasks that are below the threshold of the start; 1 for no start
============  =======================================================================================
"""

TRIED: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {
        "memory": (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
        "pace": (-0.8, -0.6, -0.4, -0.3, -0.2, -0.1, -0.05, 0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6),
        "start_level": (0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 1.0),
        "location": (-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0),
        "incidence": (0.0, 0.5, 1.0, 1.5, 2.0, 3.0),
        "cheap": (-1.0, -0.6, -0.3, -0.1, 0.0, 0.1, 0.3, 0.6, 1.0),
        "clock": (0.0, 0.01, 0.03, 0.06, 0.1, 0.2, 0.4),
        "start_weight": (0.0, 0.5, 1.0, 2.0),
    }
)
"""Values of each number, in the order in which they are searched."""

EVERY = tuple(TRIED)

CAPS = (0.9, 0.95, 1.0, 1.05, 1.1)
"""Shares of the cap over which success is averaged: what is good at one budget by luck alone is not good around it."""


def numbers_of(setting: Setting) -> Numbers:
    """Return the numbers of a setting; those that it does not have are TACIT-Switch's own.

    Examples
    --------
    >>> numbers_of({"alpha": 0.3, "memory": 0.5})["memory"], numbers_of({"alpha": 0.3})["memory"]
    (0.5, 1.0)
    """
    return {name: number_in(setting, name) if name in setting else plain for name, plain in PLAIN.items()}


def start_of(setting: Setting) -> float:
    """Return the threshold of the start; infinite where the setting has none."""
    return number_in(setting, "start") if "start" in setting else np.inf


STARTED_AND_PACED = ("memory", "pace", "start_level")
"""A start and a pace, with the memory: fewer numbers to search."""

ROUNDS = 4
"""How often every number is gone through at most; the search mostly ends before."""

LEAST_GAIN = 1e-4
"""Mean success below which a gain is none."""

STANDARD_ERRORS = 0.5
"""How many of its own standard errors a gain must be above: few tasks change less of the numbers."""


def search(
    start: Numbers, tried: Mapping[str, Sequence[float]], value: Callable[[Numbers], np.ndarray]
) -> tuple[Numbers, int]:
    """Improve one number at a time until none improves.

    Parameters
    ----------
    start
        Where to begin.
    tried
        Values of each number, in the order of the search; numbers that are not in it stay.
    value
        Gives what comes of some numbers, by task. Gains are judged on the same tasks, so most of the luck cancels.

    Returns
    -------
    tuple
        The numbers that were found, and how many were looked at.

    Examples
    --------
    >>> tasks = np.linspace(0, 1, 50)
    >>> found, looked_at = search({"a": 0.0}, {"a": (0.0, 1.0, 2.0)}, lambda numbers: tasks - (numbers["a"] - 1) ** 2)
    >>> found, looked_at
    ({'a': 1.0}, 5)
    """
    best, best_value, looked_at = dict(start), value(start), 1
    for _ in range(ROUNDS):
        before = best_value
        for name, values in tried.items():
            begin = dict(best)
            for one in values:
                if one == begin[name]:
                    continue
                other = begin | {name: float(one)}
                found = value(other)
                looked_at += 1
                if gains(found, best_value):
                    best, best_value = other, found
        if not gains(best_value, before):
            break
    return best, looked_at


def gains(new: np.ndarray, old: np.ndarray) -> bool:
    """Check whether tasks fare better by more than chance would easily give."""
    difference = new - old
    mean = float(difference.mean())
    return mean > max(LEAST_GAIN, STANDARD_ERRORS * float(difference.std()) / np.sqrt(len(difference)))


@dataclass(frozen=True, eq=False)
class Learned:
    """What training episodes say: an estimate for each memory, and Cheap's own chance.

    Attributes
    ----------
    fits
        By memory.
    cheap
        Cheap's probability of success given the features.
    cheap_mean, cheap_scale
        Mean and standard deviation of its logit over training episodes.
    tick
        By memory, what a unit of time adds to the risk at weight one: the mean risk of a training step.
    """

    fits: Mapping[float, MapFit]
    cheap: LogisticFit
    cheap_mean: float
    cheap_scale: float
    tick: Mapping[float, float]

    def draws(self, numbers: Numbers) -> Draws:
        """Return the parameters that these numbers make of the estimate: a point estimate with other values.

        The location is linear in the features whatever the numbers are, and weights that do not sum to one are brought
        there by moving the location: what is tuned is a model of the same kind.
        """
        fit = self.fits[numbers["memory"]]
        clock = numbers["clock"]
        weights = np.append((1 - clock) * fit.w, clock * self.tick[fit.memory]) if clock else np.asarray(fit.w)
        total = weights.sum()
        by_cheap = numbers["cheap"] * fit.s / self.cheap_scale
        return Draws(
            w=(weights / total)[None],
            gamma0=np.array([fit.gamma0]),
            gamma=(numbers["incidence"] * fit.gamma)[None],
            beta0=np.array([fit.beta0 + by_cheap * (self.cheap.intercept - self.cheap_mean) - np.log(total)]),
            beta=(numbers["location"] * fit.beta + by_cheap * self.cheap.slopes)[None],
            s=np.array([fit.s]),
            family=family_named(fit.family),
            memory=fit.memory,
            clock=clock > 0,
        )

    def fitted(self, numbers: Numbers) -> Fitted:
        """Return the parameters with what applies them to episodes."""
        return replace(of_fit(self.fits[numbers["memory"]]), draws=self.draws(numbers))

    def start(self, numbers: Numbers) -> Start:
        """Return the score before the first step, Cheap's chance on features as the estimate standardizes them."""
        fit, cheap = self.fits[numbers["memory"]], self.cheap
        intercept, slopes = cheap.on(np.asarray(fit.feature_mean), np.asarray(fit.feature_scale))
        return Start(numbers["start_weight"], np.array([intercept]), slopes[None])


@dataclass(frozen=True, eq=False)
class Scoring:
    """Scores of some episodes.

    Attributes
    ----------
    learned
        What training episodes say.
    visible
        The episodes.
    """

    learned: Learned
    visible: Visible
    _risks: dict[float, np.ndarray] = field(default_factory=dict, init=False)

    def paced(self, numbers: Numbers) -> np.ndarray:
        """Return q(t) exp(g t), which is compared with alpha: (episode, step), NaN past the end of an episode."""
        draws = self.learned.draws(numbers)
        x = self._standardized(numbers["memory"])
        risk = self._risk(numbers["memory"])
        if numbers["clock"]:
            steps = np.arange(1, risk.shape[1] + 1)
            risk = draws.w[0, :-1].sum() * risk + draws.w[0, -1] * steps
        pi, location = draws.incidence(x), draws.location(x)
        q = score(pi, location, draws.s, risk, draws.family)
        pace = numbers["pace"]
        return q * np.exp(pace * np.arange(q.shape[1])) if pace else q

    def start(self, numbers: Numbers) -> np.ndarray:
        """Return c pi(x) - P(Cheap succeeds | x), which is compared with the threshold of the start: (episode,)."""
        draws = self.learned.draws(numbers)
        pi = draws.incidence(self._standardized(numbers["memory"]))[:, 0]
        cheap = self.learned.cheap
        return numbers["start_weight"] * pi - cheap.probability(self.visible.task_columns(cheap.names))

    def _standardized(self, memory: float) -> np.ndarray:
        fit = self.learned.fits[memory]
        return (self.visible.task_columns(fit.feature_names) - fit.feature_mean) / fit.feature_scale

    def _risk(self, memory: float) -> np.ndarray:
        """Return w P(t) under the fitted weights: (episode, step)."""
        if memory not in self._risks:
            fit = self.learned.fits[memory]
            self._risks[memory] = peaks(self.visible.step_columns(fit.diagnostic_names), memory) @ fit.w
        return self._risks[memory]


def learned_from(fits: Mapping[float, MapFit], cheap: LogisticFit, training: Visible) -> Learned:
    """Measure on training episodes what the numbers are relative to."""
    logit = special.logit(cheap.probability(training.task_columns(cheap.names)))
    tick = {
        memory: float(np.nanmean(training.step_columns(fit.diagnostic_names) @ fit.w)) for memory, fit in fits.items()
    }
    return Learned(fits, cheap, float(logit.mean()), float(logit.std()) or 1.0, tick)


SHORT: Mapping[str, Any] = {"zero_mass": "drop_window", "restarts": 2, "max_iterations": 100}
"""How a model with less than a full memory is fitted: fast, and with all that its windows still say."""


@dataclass(frozen=True, eq=False)
class Learner:
    """Fits the model for each memory, and Cheap's own chance; the same episodes again are not fitted again.

    Attributes
    ----------
    options
        What `fit_map` is called with.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    _last: dict[str, tuple[Episodes, Learned]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Check the options."""
        for name in ("memory", "clock"):
            if name in self.options:
                raise InvalidDataError(f"none named {name!r}: it is searched", field="options", value=self.options)

    def __call__(self, training: Episodes) -> Learned:
        """Learn from training episodes."""
        if "last" not in self._last or self._last["last"][0] is not training:
            self._last["last"] = training, self._learn(training)
        return self._last["last"][1]

    def _learn(self, training: Episodes) -> Learned:
        fits = {memory: fit for memory in TRIED["memory"] if (fit := self._estimate(training, memory)) is not None}
        visible = Visible.of(training)
        columns = visible.task_columns(visible.feature_names)
        cheap = NEWTON.fit(visible.feature_names, columns, training.dataset["cheap_success"].values)
        return learned_from(fits, cheap, visible)

    def _estimate(self, training: Episodes, memory: float) -> MapFit | None:
        if memory == PLAIN["memory"]:
            return fit_map(training, memory=memory, **self.options)
        try:
            return fit_map(training, memory=memory, **{**SHORT, **self.options})
        except ConvergenceError:
            # With nearly empty windows the likelihood can be too rough; the memories beside it are as good.
            return None


ROUNDING = 1e-9
"""Share of a cap by which a cost may be above it: the same number, rounded differently."""

type AtStart = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Frontier:
    """Success and cost of each threshold that decides differently from the one before it, by falling threshold.

    Attributes
    ----------
    alpha
        The thresholds; the first is infinite, which hands nothing off but what is handed off at the start. Each lies
        halfway between two scores, so that rounding does not change what it decides.
    success, cost
        Means over episodes.
    """

    alpha: np.ndarray
    success: np.ndarray
    cost: np.ndarray

    def best(self, cap: float) -> int | None:
        """Return the position of the most success within the cap, the cheapest of equals; None if nothing is within."""
        within = np.flatnonzero(self.cost <= cap * (1 + ROUNDING))
        if not within.size:
            return None
        best = within[self.success[within] >= self.success[within].max() - ROUNDING]
        return int(best[self.cost[best].argmin()])


def frontier_of(
    scores: np.ndarray, n_steps: np.ndarray, table: np.ndarray, timing: Timing, at_start: AtStart | None = None
) -> Frontier:
    """Find what every threshold gives.

    An episode's handoff moves to an earlier step only where the threshold falls below one of its running maxima. Those
    changes, in the order of falling values, add up to the averages: one sort, whatever the number of thresholds.

    Parameters
    ----------
    scores
        (episode, step), nonnegative; what is past the end of an episode is not looked at.
    n_steps
        (episode,), lengths of the Cheap rollouts.
    table
        (variable, episode, handoff), as `Counterfactuals.table` gives it.
    timing
        What a checkpoint is.
    at_start
        Which tasks Strong has from the start (episode,), and what comes of it (variable, episode).

    Examples
    --------
    >>> success = np.array([[1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]])      # of handoffs at 0, 1, 2 and never
    >>> cost = np.array([[9.0, 7.0, 5.0, 3.0], [9.0, 7.0, 5.0, 3.0]])
    >>> scores = np.array([[0.2, 0.6, 0.7], [0.1, 0.3, 0.4]])
    >>> front = frontier_of(scores, np.array([3, 3]), np.stack([success, cost]), "post_action")
    >>> front.alpha.round(2), front.success, front.cost
    (array([ inf, 0.45, 0.25, 0.15, 0.08]), array([0.5, 0.5, 0.5, 1. , 1. ]), array([3., 4., 5., 6., 7.]))
    """
    usable = np.arange(scores.shape[1]) < usable_checkpoints(n_steps, timing)[:, None]
    # A threshold is above zero, so a score of zero reaches none.
    highest = np.maximum.accumulate(np.where(usable & (scores > 0), scores, -np.inf), axis=1)
    rises = highest > np.column_stack([np.full(len(highest), -np.inf), highest[:, :-1]])
    started, outcomes = (np.zeros(len(scores), dtype=bool), table[:, :, 0]) if at_start is None else at_start
    rises &= ~started[:, None]
    episode, checkpoint = np.nonzero(rises)
    to = handoff_steps(checkpoint, timing)
    later = np.append(episode[1:] == episode[:-1], False)
    before = np.where(later, np.append(to[1:], NEVER), NEVER)
    value = highest[episode, checkpoint]
    order = np.argsort(-value, kind="stable")
    first = np.where(started, outcomes[:2], table[:2, :, NEVER]).sum(axis=1)
    change = (table[:2, episode, to] - table[:2, episode, before])[:, order]
    averages = np.column_stack([first, first[:, None] + np.cumsum(change, axis=1)]) / len(scores)
    value = value[order]
    # Of equal scores only the last counts: a threshold takes them all or none.
    last = np.append(value[1:] < value[:-1], True) if len(value) else np.zeros(0, dtype=bool)
    distinct = value[last]
    lower = np.append(distinct[1:], distinct[-1:] / 2)
    kept = np.append(True, last)
    return Frontier(np.append(np.inf, (distinct + lower) / 2), averages[0, kept], averages[1, kept])


@dataclass(frozen=True, eq=False)
class Trials:
    """Development tasks on which numbers are tried.

    Attributes
    ----------
    scoring
        Gives the tasks' scores.
    known
        What comes of handoffs.
    timing
        What a checkpoint is.
    """

    scoring: Scoring
    known: Counterfactuals
    timing: Timing

    @cached_property
    def _table(self) -> np.ndarray:
        return self.known.table(discards_proposal=discards_proposal(self.timing))

    def success(self, numbers: Numbers, cap: float) -> np.ndarray:
        """Return each task's success, averaged over budgets around the cap; none if nothing is within the cap."""
        trial = self._trial(numbers)
        if trial.frontier.best(cap) is None:
            return np.zeros(len(self.known))
        places = [trial.frontier.best(cap * share) for share in CAPS]
        # A budget that nothing is within counts as Cheap alone, whatever the numbers.
        alone = np.array([place is None for place in places])
        alpha = [np.inf if place is None else trial.frontier.alpha[place] for place in places]
        handoffs = handoff_steps(first_crossings(trial.scores, alpha), self.timing)
        later = self._table[0, np.arange(len(self.known)), handoffs]
        started = trial.started & ~alone[:, None]
        return np.where(started, self._start[0], later).mean(axis=0)

    def setting(self, numbers: Numbers, cap: float) -> dict[str, float]:
        """Return the numbers with the thresholds that have the most success within the cap."""
        trial = self._trial(numbers)
        place = trial.frontier.best(cap)
        if place is None:
            lowest = float(trial.frontier.cost.min())
            raise InvalidDataError(f"at least {lowest:.6g}, the lowest cost there is", field="cap", value=cap)
        return dict(numbers) | {"start": trial.threshold, "alpha": float(trial.frontier.alpha[place])}

    @cached_property
    def _start(self) -> np.ndarray:
        """What comes of giving Strong the task at once; no proposal has been made by then."""
        return self.known.table()[:, :, 0]

    def _trial(self, numbers: Numbers) -> _Trial:
        start, level = self.scoring.start(numbers), numbers["start_level"]
        threshold = float(np.quantile(start, level)) if level < 1 else np.inf
        started = start >= start_reached_from(threshold)
        scores = self.scoring.paced(numbers)
        n_steps = self.known.n_steps
        frontier = frontier_of(scores, n_steps, self._table, self.timing, (started, self._start))
        return _Trial(frontier, scores, started, threshold)


@dataclass(frozen=True, eq=False)
class _Trial:
    frontier: Frontier
    scores: np.ndarray
    started: np.ndarray
    threshold: float


@dataclass(frozen=True, eq=False)
class TunedSwitch:
    """TACIT-Switch with memory, clock, start and pace, as far as development outcomes say that they help.

    The likelihood's estimate is where it begins. The likelihood knows nothing of costs, so a few numbers are then
    searched on development tasks, for which it is known what comes of any handoff. What is searched can be less:
    `searched=("memory",)` only chooses how fast risk is forgotten. A setting is a mapping with `alpha`, `start` (the
    threshold of the start; missing for none) and the numbers; those that it does not have are TACIT-Switch's own.

    Attributes
    ----------
    searched
        Names of the numbers, of `PLAIN`.
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
    learner: Learner = field(default_factory=lambda: Learner())
    handoff: Handoff = DEFAULT_HANDOFF
    name: str = "Tuned switch"
    sees: str = "The task's features, and the diagnostics of all steps so far."
    decides: str = "Before the first step, and at each of Cheap's checkpoints: hand over to Strong for good, or go on."

    def __post_init__(self) -> None:
        """Check the settings."""
        validate.choice("handoff", self.handoff, HANDOFFS)
        for name in self.searched:
            validate.choice("searched", name, EVERY)

    def fit(self, training: Episodes) -> SearchedPolicy:
        """Fit the model for each memory, and Cheap's own chance."""
        learned = self.learner(training)
        timing = learned.fits[PLAIN["memory"]].timing

        def make(setting: Setting) -> Router:
            numbers, threshold = numbers_of(setting), start_of(setting)
            start = None if threshold == np.inf else learned.start(numbers)
            return Router.of(
                learned.fitted(numbers),
                number_in(setting, "alpha"),
                start=start,
                alpha_start=threshold,
                pace=numbers["pace"],
                call=CALL_OF[self.handoff],
            )

        def find(world: World, cap: float) -> tuple[dict[str, float], int]:
            trials = Trials(Scoring(learned, Visible.of(world.episodes)), world.handoffs(self.handoff), timing)
            tried = {name: values for name, values in TRIED.items() if name in self.searched}
            if "memory" in tried:
                tried["memory"] = tuple(learned.fits)
            numbers, looked_at = search(PLAIN, tried, lambda some: trials.success(some, cap))
            return trials.setting(numbers, cap), looked_at

        # Where the search begins: the plain numbers, and no handoff.
        candidates = pd.DataFrame([dict(PLAIN) | {"start": np.inf, "alpha": np.inf}])
        return SearchedPolicy(self.name, candidates, make, search=find)


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

    A setting has `level` (the place of a typical task's threshold among the levels), `start` and the numbers.

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
        check_settings(self)

    def fit(self, training: Episodes) -> SearchedPolicy:
        """Take quantiles of the training values, and fit both models' chances."""
        visible = Visible.of(training, () if self.diagnostic is None else (self.diagnostic,))
        name = visible.one_diagnostic(self.diagnostic)
        levels = np.unique(np.nanquantile(visible.step_values(name), np.linspace(0, 1, self.n_levels)))
        columns = visible.task_columns(visible.feature_names)
        fits = [
            NEWTON.fit(visible.feature_names, columns, training.dataset[f"{agent}_success"].values, f"{self.name}: ")
            for agent in ("cheap", "strong")
        ]
        logits = [special.logit(fit.probability(columns)) for fit in fits]
        spread = np.array([(logit.mean(), logit.std() or 1.0) for logit in logits])
        cheap, strong = (fit.chance() for fit in fits)

        def make(setting: Setting) -> Router:
            shifts = np.array([number_in(setting, agent) for agent in ("cheap", "strong")])
            level, weight = number_in(setting, "level"), number_in(setting, "start_weight")
            return Router(
                rule=rules.TaskSignal(levels, level, cheap, strong, spread, shifts, weight),
                alpha_start=start_of(setting),
                call="strong_once",
                timing=self.timing,
                feature_names=visible.feature_names,
                diagnostic_names=(name,),
            )

        def find(world: World, cap: float) -> tuple[dict[str, float], int]:
            trials = DeferralTrials(make, levels, world)
            numbers, looked_at = search(BEGIN, SEARCHED, lambda some: trials.success(some, cap))
            return trials.setting(numbers, cap), looked_at

        # Where the search begins: one threshold for all tasks, and no start.
        candidates = pd.DataFrame({"level": np.arange(len(levels) + 1, dtype=float)}).assign(**BEGIN, start=np.inf)
        return SearchedPolicy(self.name, candidates, make, search=find)


@dataclass(frozen=True, eq=False)
class DeferralTrials:
    """Development tasks on which numbers are tried; what every level gives is played once.

    Attributes
    ----------
    make
        Makes the router of a setting.
    levels
        Thresholds.
    world
        The tasks.
    """

    make: Callable[[Setting], Router]
    levels: np.ndarray
    world: World

    @cached_property
    def _played(self) -> np.ndarray:
        router = replace(self._router(BEGIN), rule=rules.Signal(), feature_names=())
        every = np.append(self.levels, np.inf)
        outcomes = [self.world.outcomes(replace(router, alpha=level)) for level in every]
        return np.stack([[one.success for one in outcomes], [one.cost for one in outcomes]])

    def _router(self, numbers: Numbers) -> Router:
        return self.make({**numbers, "level": 0.0, "start": np.inf})

    @cached_property
    def _at_once(self) -> np.ndarray:
        return self.world.counterfactuals.table()[:2, :, 0]

    def success(self, numbers: Numbers, cap: float) -> np.ndarray:
        """Return each task's success, averaged over budgets around the cap; none if nothing is within the cap."""
        outcomes, _ = self._outcomes(numbers)
        success, cost = outcomes.mean(axis=2)
        if _best(success, cost, cap) is None:
            return np.zeros(len(self.world))
        places = [_best(success, cost, cap * share) for share in CAPS]
        # A budget that nothing is within counts as Cheap alone, whatever the numbers.
        alone = self.world.counterfactuals.table()[0, :, NEVER]
        return np.mean([alone if place is None else outcomes[0, place] for place in places], axis=0)

    def setting(self, numbers: Numbers, cap: float) -> dict[str, float]:
        """Return the numbers with the level that has the most success within the cap."""
        outcomes, threshold = self._outcomes(numbers)
        success, cost = outcomes.mean(axis=2)
        place = _best(success, cost, cap)
        if place is None:
            raise InvalidDataError(f"at least {cost.min():.6g}, the lowest cost there is", field="cap", value=cap)
        return dict(numbers) | {"start": threshold, "level": float(self._bases[place])}

    @cached_property
    def _bases(self) -> np.ndarray:
        """Places of a typical task's threshold; beyond both ends, since other tasks' may still be inside."""
        n = len(self.levels) + 1
        return np.arange(-(n // 2), n + n // 2)

    def _outcomes(self, numbers: Numbers) -> tuple[np.ndarray, float]:
        """Return success and cost (2, base, episode), and the threshold of the start."""
        router = self._router(numbers)
        rule = router.rule
        assert isinstance(rule, rules.TaskSignal)
        state = rule.begin(Visible.of(self.world.episodes).task_columns(router.feature_names))
        start, level = rule.opening(state), numbers["start_level"]
        threshold = float(np.quantile(start, level)) if level < 1 else np.inf
        place = np.clip(np.rint(self._bases[:, None] + rule.shift(state)), 0, len(self.levels)).astype(int)
        later = self._played[:, place, np.arange(len(self.world))]
        started = start >= start_reached_from(threshold)
        return np.where(started, self._at_once[:, None], later), threshold


def _best(success: np.ndarray, cost: np.ndarray, cap: float) -> int | None:
    within = np.flatnonzero(cost <= cap)
    return int(within[success[within].argmax()]) if within.size else None
