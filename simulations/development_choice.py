"""The choice of a policy on a development half, as the studies that are committed make it.

Policies are fitted on training tasks; each one's setting is chosen on development tasks under a budget, and judged
there by cross-validation. Where the data cannot tell the best from a simpler one, the simplest within one standard
error is named. `bayes_tacit.recommend` learns from all tasks instead, and names what gains most.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bayes_tacit.decisions.evaluation import World
from bayes_tacit.decisions.selection import Choice
from bayes_tacit.errors import InvalidDataError, TacitError, TacitWarning
from bayes_tacit.policies import (
    Cascade,
    Count,
    EvoRoute,
    FirstAlarm,
    FittedPolicy,
    Landmark,
    Policy,
    PrefixRouter,
    PureCheap,
    PureStrong,
    TacitSwitch,
    TaskRouter,
)
from simulations.tuned import STARTED_AND_PACED, Learner, TunedSwitch

INDIFFERENT = 0.01
"""One point of success: where a difference is not known more exactly than that, there is too little data to tell."""

DRAWS = 4000
"""Draws of the Bayesian bootstrap."""

AT_ONCE = 1 << 22
"""Weights that are drawn at a time."""

FEWEST = 20
"""Development tasks below which nothing is chosen."""


def families(world: World, options: Mapping[str, Any]) -> tuple[Policy, ...]:
    """Return the policies that are tried where every handoff restarts the task, from the simplest on."""
    learner, kind = Learner(options), world.counterfactuals.handoff
    names = world.episodes.diagnostic_names
    return (
        PureCheap(),
        PureStrong(),
        TaskRouter(),
        *(FirstAlarm(one, handoff=kind, name=f"First Alarm ({one})") for one in names),
        Count(handoff=kind),
        PrefixRouter(),
        Cascade(),
        Landmark(handoff=kind),
        EvoRoute(cost=world.cost, handoff=kind),  # type: ignore[arg-type]
        TacitSwitch(options=options, handoff=kind),
        TunedSwitch(("memory",), learner, kind, name="TACIT-Switch with memory"),
        TunedSwitch(STARTED_AND_PACED, learner, kind, name="TACIT-Switch with memory, start and pace"),
        TunedSwitch(learner=learner, handoff=kind),
    )


@dataclass(frozen=True, eq=False)
class Chosen:
    """The policy that is named, and the evidence."""

    # name, fitted, choice: The policy, and its setting by all development tasks.
    name: str
    fitted: FittedPolicy
    choice: Choice
    # A row for each policy, from the simplest on: `policy`, its `setting`, held-out `success` with its interval,
    # `cost`, `probability_best`, and `ahead`, by how much the named one is ahead of it, with its interval.
    table: pd.DataFrame
    expected: Mapping[str, float]  # `success` and `cost` to expect on new tasks, with the ends of their intervals
    # best, simplest: The policy with the most held-out success, and the simplest that the data cannot tell from it.
    best: str
    simplest: str
    left_out: Mapping[str, str]  # Policies that could not be fitted or paid for, with the reason
    n_tasks: int  # How many development tasks there were

    @property
    def too_little(self) -> bool:
        """Whether there is too little data to tell the best from a simpler policy."""
        return self.simplest != self.best


def choose_policy(
    development: World, cap: float, fitted: Iterable[FittedPolicy], *, folds: int = 5, best: bool = False, seed: int = 0
) -> Chosen:
    """Choose each policy's setting under the cap, judge it by cross-validation, and name one."""
    ready: dict[str, FittedPolicy] = {}
    choices: dict[str, Choice] = {}
    left_out: dict[str, str] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        for one in fitted:
            try:
                choices[one.name] = one.choose(development, cap)
                ready[one.name] = one
            except TacitError as error:
                left_out[one.name] = str(error)
        if not ready:
            raise InvalidDataError(f"a cap that some policy can keep ({left_out})", field="cap", value=cap)
        judged, fold = cross_validate(ready, development, cap, folds=folds, seed=seed)
    names = list(ready)
    row, top, simplest = name_one(judged[0], best=best)
    # The whole procedure: every part under what the other parts name.
    whole = np.empty((2, len(development)))
    for part in range(folds):
        out = fold == part
        whole[:, out] = judged[:, name_one(judged[0][:, ~out], best=best)[0]][:, out]
    draws = posterior_means(whole, seed)
    expected: dict[str, float] = {}
    for at, what in enumerate(("success", "cost")):
        low, high = np.quantile(draws[:, at], (0.025, 0.975)).tolist()
        expected |= {what: float(whole[at].mean()), f"{what}_lower": low, f"{what}_upper": high}
    table = _table(judged, row, ready, choices, seed)
    named = names[row]
    return Chosen(
        named, ready[named], choices[named], table, expected, names[top], names[simplest], left_out, len(development)
    )


def _table(
    judged: np.ndarray, row: int, ready: Mapping[str, FittedPolicy], choices: Mapping[str, Choice], seed: int
) -> pd.DataFrame:
    draws = posterior_means(judged[0], seed)
    ahead = draws[:, [row]] - draws
    (low, high), (low_ahead, high_ahead) = (np.quantile(each, (0.025, 0.975), axis=0) for each in (draws, ahead))
    return pd.DataFrame(
        {
            "policy": list(ready),
            "setting": [one.in_words(choices[name]) for name, one in ready.items()],
            "success": judged[0].mean(axis=1),
            "success_lower": low,
            "success_upper": high,
            "cost": judged[1].mean(axis=1),
            "probability_best": np.bincount(draws.argmax(axis=1), minlength=len(ready)) / len(draws),
            "ahead": judged[0, row].mean() - judged[0].mean(axis=1),
            "ahead_lower": low_ahead,
            "ahead_upper": high_ahead,
        }
    )


def cross_validate(
    fitted: Mapping[str, FittedPolicy], development: World, cap: float, *, folds: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Hold out each part of the tasks in turn; choose every policy's setting on the rest, and judge it there."""
    n = len(development)
    fold = np.random.default_rng(seed).permutation(n) % folds
    judged = np.empty((2, len(fitted), n))
    for part in range(folds):
        rest, held_out = development.take(np.flatnonzero(fold != part)), development.take(np.flatnonzero(fold == part))
        for row, policy in enumerate(fitted.values()):
            try:
                outcomes = policy.outcomes(held_out, policy.choose(rest, cap).point)
            except InvalidDataError:
                # On these tasks nothing of it is within the cap, though on all it is: then Cheap goes on alone.
                outcomes = held_out.counterfactuals.pure_cheap
            judged[:, row, fold == part] = outcomes.success, outcomes.cost
    return judged, fold


def name_one(success: np.ndarray, *, best: bool = False) -> tuple[int, int, int]:
    """Name a policy, from successes (policy, task) in the order of simplicity.

    The one with the most success is named. But where its gain over the simplest within one standard error of it is not
    known to a point, that simplest one is, unless the best is asked for.

    Examples
    --------
    >>> name_one(np.array([[0.0] * 10 + [1.0] * 10, [1.0] * 20]))
    (1, 1, 1)
    >>> name_one(np.array([[0.0] * 10 + [1.0] * 10, [1.0] * 9 + [0.0] * 9 + [1.0] * 2]))
    (0, 1, 0)
    """
    top = int(success.mean(axis=1).argmax())
    difference = success[top] - success
    error = difference.std(axis=1) / np.sqrt(success.shape[1])
    simplest = int(np.flatnonzero(difference.mean(axis=1) <= error)[0])
    if error[simplest] <= INDIFFERENT:
        simplest = top
    return (top if best else simplest), top, simplest


def posterior_means(values: np.ndarray, seed: int) -> np.ndarray:
    """Draw means over tasks by the Bayesian bootstrap: (draw, row) from (row, task).

    Examples
    --------
    >>> posterior_means(np.array([[0.0, 1.0, 1.0, 1.0]]), seed=0).mean().round(2)
    np.float64(0.75)
    """
    rng = np.random.default_rng(seed)
    n = values.shape[1]
    out = np.empty((DRAWS, len(values)))
    size = max(1, AT_ONCE // n)
    for first in range(0, DRAWS, size):
        weights = rng.standard_exponential((min(size, DRAWS - first), n))
        out[first : first + size] = weights @ values.T / weights.sum(axis=1, keepdims=True)
    return out
