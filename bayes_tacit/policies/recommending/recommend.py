"""Which policy to use for one's own tasks, under a budget, and how sure that is."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import get_args

import numpy as np
import pandas as pd

from bayes_tacit import validate
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.decisions.selection import Choice
from bayes_tacit.errors import InvalidDataError, TacitError, TacitWarning
from bayes_tacit.policies.base import FittedPolicy, Policy, chosen
from bayes_tacit.policies.comparison import fitted_of, in_words
from bayes_tacit.policies.recommending.crossvalidation import Judged, cross_validate
from bayes_tacit.policies.recommending.families import families
from bayes_tacit.policies.recommending.recommendation import Recommendation
from bayes_tacit.policies.recommending.verdict import INDIFFERENT, Choose, Named, name_one, posterior_means
from bayes_tacit.policies.world import World

FEWEST = 20
"""Development tasks below which nothing is recommended."""


def recommend(
    training: Episodes,
    development: World,
    cap: float,
    *,
    policies: Iterable[Policy | FittedPolicy] | None = None,
    folds: int = 5,
    probability: float = 0.95,
    indifferent: float = INDIFFERENT,
    choose: Choose = "simplest",
    seed: int = 0,
    frontier: int = 0,
    told: Callable[[str, int, int], None] | None = None,
) -> Recommendation:
    """Fit every family, choose each one's setting under the cap, and name the one to use.

    Each policy is judged by cross-validation on the development tasks: its setting is chosen without the tasks that it
    is judged on, so a policy with many numbers gains nothing by fitting them to chance. The expected success and cost
    of what is named are those of the whole procedure: each part of the tasks is judged under the policy that the other
    parts would have named.

    Parameters
    ----------
    training
        What policies are fitted on.
    development
        Tasks for which it is known what comes of handoffs. From paired logs alone, `World.from_restarts`.
    cap
        The highest mean cost of a task.
    policies
        What is tried, fitted or not, from the simplest on; by default `families(training, development)`.
    folds
        Parts of the cross-validation.
    probability
        Mass of the intervals.
    indifferent
        A difference of success that is not known more exactly than this counts as not known: there is too little data
        to tell.
    choose
        What is named where there is too little data to tell: `"simplest"`, the simplest policy within one standard
        error of the best, or `"best"`, the one with the most held-out success all the same.
    seed
        Decides parts and draws.
    frontier
        At how many budgets, from Pure Cheap's cost to Pure Strong's, to judge what is recommended as well.
    told
        Called with what is done, how much of it is done, and of how much, for a bar of progress.

    Examples
    --------
    >>> from bayes_tacit import StepCost, load_example
    >>> from bayes_tacit.policies import FirstAlarm, TacitSwitch, TaskRouter
    >>> parts = load_example().split({"training": 0.5, "development": 0.5})
    >>> development = World.from_restarts(
    ...     parts["development"], strong_steps=parts["development"].n_steps, cost=StepCost(cheap=1, strong=3)
    ... )
    >>> tried = [TaskRouter(), FirstAlarm("uncertainty", handoff="restart"), TacitSwitch(handoff="restart")]
    >>> result = recommend(parts["training"], development, cap=40, policies=tried)
    >>> result.name, result.best, result.too_little      # 600 tasks cannot tell the two apart, so the simpler one
    ('Task Router', 'TACIT-Switch', True)
    >>> recommend(parts["training"], development, cap=40, policies=tried, choose="best").name
    'TACIT-Switch'
    """
    _check(training, development)
    cap = validate.number("cap", cap, "a finite number >= 0", least=0)
    folds = validate.whole("folds", folds, 2, 100_000)
    probability = validate.probability("probability", probability)
    validate.choice("choose", choose, get_args(Choose))
    tell = told or (lambda *_: None)
    tried = tuple(families(training, development) if policies is None else policies)
    fitted, choices, left_out = _fit_all(tried, training, development, cap, tell)
    done = iter(range(1, folds * len(fitted) + 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        judged = cross_validate(
            fitted,
            development,
            cap,
            folds=folds,
            seed=seed,
            told=lambda: tell("judging", next(done), folds * len(fitted)),
        )
    named = name_one(judged.success, indifferent, choose)
    name = judged.names[named.row]
    curve = _frontier(fitted[name], development, frontier, probability, seed, tell) if frontier else None
    return Recommendation(
        name=name,
        fitted=fitted[name],
        choice=choices[name],
        cap=cap,
        table=_table(judged, named, fitted, choices, probability, seed),
        expected=_expected(judged, indifferent, choose, probability, seed),
        best=judged.names[named.best],
        simplest=judged.names[named.simplest],
        left_out=left_out,
        n_tasks=len(development),
        frontier=curve,
    )


def _fit_all(
    tried: tuple[Policy | FittedPolicy, ...],
    training: Episodes,
    development: World,
    cap: float,
    tell: Callable[[str, int, int], None],
) -> tuple[dict[str, FittedPolicy], dict[str, Choice], dict[str, str]]:
    """Fit and choose; what cannot be fitted, judged or paid for is left out, with the reason."""
    fitted: dict[str, FittedPolicy] = {}
    choices: dict[str, Choice] = {}
    left_out: dict[str, str] = {}
    for done, policy in enumerate(tried, 1):
        if policy.name in fitted or policy.name in left_out:
            raise InvalidDataError("policies with different names: give name=...", field="policies", value=policy.name)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TacitWarning)
                one = fitted_of(policy, training)
                choices[policy.name] = chosen(one, development, cap)
            fitted[policy.name] = one
        except TacitError as error:
            left_out[policy.name] = str(error)
        tell("fitting", done, len(tried))
    if not fitted:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise InvalidDataError(f"a cap that some policy can keep ({reasons})", field="cap", value=cap)
    return fitted, choices, left_out


def _table(
    judged: Judged,
    named: Named,
    fitted: Mapping[str, FittedPolicy],
    choices: Mapping[str, Choice],
    probability: float,
    seed: int,
) -> pd.DataFrame:
    """Say of each policy what it is expected to give, and how it stands to the named one."""
    success = posterior_means(judged.success, seed)
    ahead = success[:, [named.row]] - success
    tails = [(1 - probability) / 2, (1 + probability) / 2]
    (low, high), (low_ahead, high_ahead) = (np.quantile(draws, tails, axis=0) for draws in (success, ahead))
    best = np.bincount(success.argmax(axis=1), minlength=len(judged.names)) / len(success)
    return pd.DataFrame(
        {
            "policy": judged.names,
            "setting": [in_words(fitted[name], choices[name]) for name in judged.names],
            "success": judged.success.mean(axis=1),
            "success_lower": low,
            "success_upper": high,
            "cost": judged.cost.mean(axis=1),
            "probability_best": best,
            "ahead": judged.success[named.row].mean() - judged.success.mean(axis=1),
            "ahead_lower": low_ahead,
            "ahead_upper": high_ahead,
            "development_success": [choices[name].success for name in judged.names],
            "development_cost": [choices[name].cost for name in judged.names],
        }
    )


def _expected(judged: Judged, indifferent: float, choose: Choose, probability: float, seed: int) -> dict[str, float]:
    """Judge the whole procedure: every part under what the other parts name."""
    n = len(judged.fold)
    success, cost = np.empty((2, n))
    for part in np.unique(judged.fold):
        held_out = judged.fold == part
        row = name_one(judged.success[:, ~held_out], indifferent, choose).row
        success[held_out], cost[held_out] = judged.success[row, held_out], judged.cost[row, held_out]
    draws = posterior_means(np.stack([success, cost]), seed)
    tails = [(1 - probability) / 2, (1 + probability) / 2]
    (success_lower, cost_lower), (success_upper, cost_upper) = np.quantile(draws, tails, axis=0).tolist()
    return {
        "success": float(success.mean()),
        "success_lower": success_lower,
        "success_upper": success_upper,
        "cost": float(cost.mean()),
        "cost_lower": cost_lower,
        "cost_upper": cost_upper,
    }


def _frontier(
    policy: FittedPolicy,
    development: World,
    n: int,
    probability: float,
    seed: int,
    tell: Callable[[str, int, int], None],
) -> pd.DataFrame:
    """Judge one policy at budgets from Pure Cheap's cost to Pure Strong's, half of the tasks by the other's choice."""
    ends = (development.counterfactuals.pure_cheap.cost.mean(), development.counterfactuals.pure_strong.cost.mean())
    caps = np.linspace(*ends, validate.whole("frontier", n, 2))
    tails = [(1 - probability) / 2, (1 + probability) / 2]
    rows = []
    for done, cap in enumerate(caps, 1):
        judged = cross_validate({policy.name: policy}, development, float(cap), folds=2, seed=seed)
        lower, upper = np.quantile(posterior_means(judged.success, seed), tails)
        point = {"success": judged.success.mean(), "success_lower": lower, "success_upper": upper}
        rows.append({"cap": float(cap), **point, "cost": judged.cost.mean()})
        tell("frontier", done, n)
    return pd.DataFrame(rows)


def _check(training: Episodes, development: World) -> None:
    for field, value, kind in (("training", training, Episodes), ("development", development, World)):
        if not isinstance(value, kind):
            raise InvalidDataError(kind.__name__, field=field, value=value)
    if len(development) < FEWEST:
        expected = f"at least {FEWEST}: fewer cannot tell policies apart"
        raise InvalidDataError(expected, field="number of development tasks", value=len(development))
