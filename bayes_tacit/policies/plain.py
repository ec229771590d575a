"""Policies that learn little or nothing: one agent alone, one question before the first step, a rule of thumb."""

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
from bayes_tacit.data.visible import Visible
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.policies.base import FittedPolicy, Setting, number_in, numbers
from bayes_tacit.policies.logistic import DABENCH, NEWTON, L2Logistic
from bayes_tacit.router import Router, pure, rules
from bayes_tacit.router.rule import CALL_OF, failing_below

ALWAYS = 1.01
"""A threshold that every probability is below, as in the paper's grid."""

ALFWORLD_THRESHOLDS = (*(step / 20 for step in range(20)), ALWAYS)
"""The paper's thresholds of the Task Router for ALFWorld: 0, 0.05, ..., 0.95, 1.01."""

DABENCH_RATES = tuple(eighth / 8 for eighth in range(9))
"""The paper's shares of training tasks that go to Strong, for DABench: 0, 0.125, ..., 1."""

ALFWORLD_STEPS = tuple(float(k) for k in range(0, 41, 5))
"""The paper's average numbers of deferred steps for ALFWorld: 0, 5, ..., 40."""

DABENCH_STEPS = tuple(0.75 * k for k in range(9))
"""The paper's average numbers of deferred steps for DABench: 0, 0.75, ..., 6."""


@dataclass(frozen=True)
class PureCheap:
    """Cheap acts from start to end."""

    name: str = "Pure Cheap"
    sees: ClassVar[str] = "Nothing."
    decides: ClassVar[str] = "Never: Cheap acts from start to end."

    def fit(self, training: Episodes) -> FittedPolicy:
        """Learn nothing; the one candidate is never to hand off."""
        return _pure(training, self.name, -1)


@dataclass(frozen=True)
class PureStrong:
    """Strong acts from start to end."""

    name: str = "Pure Strong"
    sees: ClassVar[str] = "Nothing."
    decides: ClassVar[str] = "Never: Strong acts from start to end."

    def fit(self, training: Episodes) -> FittedPolicy:
        """Learn nothing; the one candidate is to hand off at step 0."""
        return _pure(training, self.name, 0)


def _pure(training: Episodes, name: str, handoff: int) -> FittedPolicy:
    Visible.of(training)
    candidates = pd.DataFrame({"handoff": [handoff]})
    router = pure("cheap" if handoff < 0 else "strong")
    return FittedPolicy(name, candidates, lambda _: router, reference=True)


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
        Thresholds to try, or shares of the training tasks for Strong; by default `n_candidates` quantiles of the
        training probabilities.

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
        check_settings(self)

    @classmethod
    def alfworld(cls, features: tuple[str, ...] | None = None) -> TaskRouter:
        """Return the paper's setting for ALFWorld; the five descriptors are to be named."""
        return cls(features=features, logistic=NEWTON, thresholds=ALFWORLD_THRESHOLDS)

    @classmethod
    def dabench(cls, features: tuple[str, ...] | None = None) -> TaskRouter:
        """Return the paper's setting for DABench; the two descriptors are to be named."""
        return cls(features=features, logistic=DABENCH, rates=DABENCH_RATES)

    def fit(self, training: Episodes) -> FittedPolicy:
        """Fit the model, and make the candidates from its probabilities for the same episodes."""
        visible = Visible.of(training, self.features or ())
        names = visible.feature_names if self.features is None else self.features
        columns = visible.task_columns(names)
        model = self.logistic.fit(names, columns, training.dataset["cheap_success"].values, f"{self.name}: ")
        probability = model.probability(columns)
        if self.rates is not None:
            candidates = target_rates(probability, self.rates)
        elif self.thresholds is not None:
            alpha = numbers("thresholds", self.thresholds, "numbers >= 0")
            candidates = with_targets(alpha, probability, len(training))
        else:
            candidates = probability_quantiles(probability, len(training), self.n_candidates)
        router = Router(rule=rules.TaskChance(model.chance()), feature_names=names)

        def make(setting: Setting) -> Router:
            return router.at(alpha_start=failing_below(number_in(setting, "alpha")))

        return FittedPolicy(self.name, candidates, make)


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
        Under "post_action" Strong takes over after the step with the high value, under "proposal" it takes that step
        itself.
    handoff
        What Strong does then: "resume" from Cheap's state, or "restart" the task. Either way a high value after the
        last step hands nothing off.
    n_candidates
        How many quantiles of the training values are tried.

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> training = load_example()
    >>> fitted = FirstAlarm("uncertainty", n_candidates=3).fit(training)
    >>> fitted.candidates.round(2)
       alpha  target
    0   0.00    1.00
    1   0.24    0.99
    2   0.95    0.00
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
        check_settings(self)

    def fit(self, training: Episodes) -> FittedPolicy:
        """Take quantiles of the values on training rollouts as thresholds."""
        visible = Visible.of(training, () if self.diagnostic is None else (self.diagnostic,))
        name = visible.one_diagnostic(self.diagnostic)
        values = visible.step_values(name)
        alpha = np.unique(np.nanquantile(values, np.linspace(0, 1, self.n_candidates)))
        inside = np.arange(values.shape[1]) < usable_checkpoints(visible.n_steps, self.timing)[:, None]
        highest = np.sort(np.where(inside, values, -np.inf).max(axis=1))
        target = (len(highest) - np.searchsorted(highest, alpha)) / len(highest)
        router = Router(rule=rules.Signal(), call=CALL_OF[self.handoff], timing=self.timing, diagnostic_names=(name,))
        return FittedPolicy.of(self.name, router, pd.DataFrame({"alpha": alpha, "target": target}))


@dataclass(frozen=True)
class Count:
    """A threshold on the number of signs so far, at which Strong takes over for good.

    A step shows a sign where a diagnostic, one of `diagnostics` or by default of all, is above its mean over all
    training steps; where it is 0 or 1, that is where it is 1. Signs are added over diagnostics and steps. Nothing is
    learned but the levels and the threshold, so it is what a rule of thumb can do; compare with it before you use
    anything that needs more.

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> training = load_example()
    >>> fitted = Count(("repeat", "invalid")).fit(training)
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
        check_settings(self)
        if self.diagnostics is not None:
            object.__setattr__(self, "diagnostics", tuple(self.diagnostics))

    def fit(self, training: Episodes) -> FittedPolicy:
        """Take the means of the diagnostics as levels, and the numbers of signs in training rollouts as thresholds."""
        visible = Visible.of(training)
        names = visible.diagnostic_names if self.diagnostics is None else self.diagnostics
        if not names:
            raise InvalidDataError("at least one to count", field="diagnostics", value=())
        values = visible.step_columns(names)
        within = values[np.arange(values.shape[1]) < visible.n_steps[:, None]]
        lowest, highest = within.min(axis=0), within.max(axis=0)
        # A mean of equal numbers can be a rounding error below them.
        levels = np.where(lowest == highest, highest, within.mean(axis=0))
        router = Router(
            rule=rules.Signs(levels), call=CALL_OF[self.handoff], timing=self.timing, diagnostic_names=names
        )
        counts = router.score(training).steps
        reached = np.nan_to_num(router.usable(counts, visible.n_steps)).max(axis=1)
        alpha = np.arange(1, max(1, int(np.nanmax(counts))) + 1)
        target = (len(reached) - np.searchsorted(np.sort(reached), alpha)) / len(reached)
        return FittedPolicy.of(self.name, router, pd.DataFrame({"alpha": alpha, "target": target}))


@dataclass(frozen=True)
class StepDeferral:
    """A threshold on the latest value of one diagnostic, at which Strong acts for a single step.

    Cheap acts; where the diagnostic after its step is at least the threshold, Strong acts the following step only. What
    comes of it depends on every earlier deferral, so it has to be replayed: the world must be able to.

    Attributes
    ----------
    diagnostic
        As for `FirstAlarm`; such as the negative log-likelihood of the selected action.
    average_steps
        Average numbers of deferred steps a training task, by which thresholds are found on the Cheap rollouts; by
        default the thresholds are `n_candidates` quantiles of the training values.
    timing
        Under "post_action" Strong takes the step after the high value, and the last value of a rollout defers nothing;
        under "proposal" the value is about the step itself.

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
        check_settings(self)

    @classmethod
    def alfworld(cls, diagnostic: str) -> StepDeferral:
        """Return the paper's setting for ALFWorld, which delegates the current action: its value is the proposal's."""
        return cls(diagnostic, average_steps=ALFWORLD_STEPS, timing="proposal")

    @classmethod
    def dabench(cls, diagnostic: str) -> StepDeferral:
        """Return the paper's setting for DABench."""
        return cls(diagnostic, average_steps=DABENCH_STEPS, timing="proposal")

    def fit(self, training: Episodes) -> FittedPolicy:
        """Make the candidates from the values on training rollouts."""
        visible = Visible.of(training, () if self.diagnostic is None else (self.diagnostic,))
        name = visible.one_diagnostic(self.diagnostic)
        usable = usable_checkpoints(visible.n_steps, self.timing)
        candidates = step_thresholds(visible.step_values(name), usable, self.average_steps, self.n_candidates)
        router = Router(rule=rules.Signal(), call="strong_once", timing=self.timing, diagnostic_names=(name,))
        return FittedPolicy.of(self.name, router, candidates)


def check_settings(policy: object) -> None:
    """Check the settings that policies have in common, those that this one has."""
    for name, options in (("timing", TIMINGS), ("handoff", HANDOFFS)):
        if hasattr(policy, name):
            validate.choice(name, getattr(policy, name), options)
    if hasattr(policy, "n_candidates"):
        validate.whole("n_candidates", policy.n_candidates, 2)
    if getattr(policy, "features", None) is not None:
        object.__setattr__(policy, "features", tuple(policy.features))  # type: ignore[attr-defined]


def probability_quantiles(probability: np.ndarray, n_episodes: int, n: int = 101) -> pd.DataFrame:
    """Take evenly spaced quantiles of training probabilities as thresholds; those that are equal count once."""
    levels = np.linspace(0, 1, validate.whole("number of candidates", n, 2))
    return with_targets(np.unique(np.quantile(probability, levels)), probability, n_episodes)


def target_rates(probability: np.ndarray, rates: tuple[float, ...]) -> pd.DataFrame:
    """Find the thresholds below which given shares of training probabilities lie, a little more where they are equal.

    For rate 0 none is below it, for rate 1 all are. A threshold lies above the probability that it takes in by more
    than what counts as equal.

    Examples
    --------
    >>> target_rates(np.array([0.1, 0.2, 0.3, 0.3]), (0, 0.5, 1)).round(3)
       alpha  target
    0   0.00     0.0
    1   0.20     0.5
    2   1.01     1.0
    """
    levels = numbers("rates", rates, "numbers from 0 to 1", most=1)
    counts = np.floor(levels * len(probability) + 0.5).astype(int)
    just_above = np.sort(probability) + 2e-9
    alpha = np.append(0.0, just_above)[counts]
    return pd.DataFrame({"alpha": np.where(counts == len(probability), ALWAYS, alpha), "target": levels})


def with_targets(alpha: np.ndarray, probability: np.ndarray, n_episodes: int) -> pd.DataFrame:
    """Put beside each threshold the share of training episodes whose probability is below it."""
    below = np.searchsorted(np.sort(probability), alpha, side="left")
    return pd.DataFrame({"alpha": alpha, "target": below / n_episodes})


def step_thresholds(
    values: np.ndarray, usable: np.ndarray, average_steps: tuple[float, ...] | None, n_candidates: int
) -> pd.DataFrame:
    """Find thresholds of a value that each step has, (episode, step), of which the first `usable` can be deferred.

    Returns `alpha`, and `target`, how many usable steps of a training rollout are at or above it on average: those of
    `average_steps`, or of quantiles of the values.

    Examples
    --------
    >>> step_thresholds(np.array([[0.1, 0.7, 0.4], [0.2, 0.9, np.nan]]), np.array([3, 2]), (0, 1), 101)
       alpha  target
    0    inf     0.0
    1    0.7     1.0
    """
    deferring = np.sort(values[np.arange(values.shape[1]) < usable[:, None]])
    if average_steps is None:
        alpha = np.unique(np.quantile(values[~np.isnan(values)], np.linspace(0, 1, n_candidates)))
        target = (len(deferring) - np.searchsorted(deferring, alpha)) / len(values)
    else:
        target = numbers("average_steps", average_steps, "numbers >= 0")
        counts = np.minimum(np.floor(target * len(values) + 0.5).astype(int), len(deferring))
        alpha = np.append(np.inf, deferring[::-1])[counts]
    return pd.DataFrame({"alpha": alpha, "target": target})
