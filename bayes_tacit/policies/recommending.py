"""Which policy to use for one's own tasks, under a budget, and how sure that is.

Every family is fitted, its setting chosen under the budget, and it is judged on tasks that it was not chosen on.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import numpy as np
import pandas as pd

from bayes_tacit import validate
from bayes_tacit.data.costs import StepCost
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import DEFAULT_TIMING, Timing
from bayes_tacit.decisions.evaluation import World
from bayes_tacit.decisions.selection import Choice
from bayes_tacit.errors import InvalidDataError, TacitError, TacitWarning
from bayes_tacit.policies.base import FittedPolicy, Policy
from bayes_tacit.policies.comparison import fitted_of
from bayes_tacit.policies.learned import Cascade, EvoRoute, Landmark, PrefixRouter, Trim
from bayes_tacit.policies.plain import Count, FirstAlarm, PureCheap, PureStrong, StepDeferral, TaskRouter
from bayes_tacit.policies.tacit_switch import TacitSwitch
from bayes_tacit.policies.tuned import Learner, TunedDeferral, TunedSwitch
from bayes_tacit.router import Router

Choose = Literal["simplest", "best"]
"""What is named where the data cannot tell: the simplest within one standard error, or the best all the same."""

INDIFFERENT = 0.01
"""One point of success: where a difference is not known more exactly than that, there is too little data to tell."""

DRAWS = 4000
"""Draws of the Bayesian bootstrap."""

AT_ONCE = 1 << 22
"""Weights that are drawn at a time."""

BY_LIKELIHOOD = "TACIT-Switch, memory by likelihood"
STARTED_AND_PACED = ("memory", "pace", "start_level")


def families(
    training: Episodes,
    development: World,
    *,
    timing: Timing = DEFAULT_TIMING,
    options: Mapping[str, Any] | None = None,
) -> tuple[Policy, ...]:
    """Return every policy of the library that can be judged in a world, from the simplest on.

    Parameters
    ----------
    training
        Episodes with the diagnostics that rules of one diagnostic look at, one rule each.
    development
        What it knows decides what can be judged: single steps of Strong only where they can be replayed, handoffs that
        resume only where their counterfactuals are known. A restart can always be judged.
    timing
        What a checkpoint is.
    options
        What `fit_map` is called with besides.

    Examples
    --------
    >>> from bayes_tacit import StepCost, load_example
    >>> episodes = load_example()
    >>> world = World.from_restarts(episodes, strong_steps=episodes.n_steps, cost=StepCost(cheap=1, strong=3))
    >>> for policy in families(episodes, world)[2:]:
    ...     print(policy.name)
    Task Router
    First Alarm (repeat)
    First Alarm (uncertainty)
    First Alarm (stalled)
    First Alarm (invalid)
    Count
    Prefix router
    Cascade
    Landmark
    EvoRoute analogue
    TACIT-Switch
    TACIT-Switch with memory
    TACIT-Switch with memory, start and pace
    Tuned switch
    """
    known = development.counterfactuals.handoff
    fitting = {"timing": timing} | dict(options or {})
    learner = Learner(fitting)
    names = training.diagnostic_names
    replayed = names if development.single_steps is not None else ()

    def label(name: str, diagnostic: str) -> str:
        return name if len(names) == 1 else f"{name} ({diagnostic})"

    found: list[Policy] = [PureCheap(), PureStrong(), TaskRouter()]
    found += [FirstAlarm(one, timing, known, name=label("First Alarm", one)) for one in names]
    found.append(Count(timing=timing, handoff=known))
    found += [StepDeferral(one, timing=timing, name=label("Step Deferral", one)) for one in replayed]
    found += [
        PrefixRouter(),
        Cascade(),
        *(
            [Trim(timing=timing, unmarked=fitting.get("unmarked", "due"))]
            if development.single_steps is not None
            else []
        ),
        Landmark(timing=timing, handoff=known),
        EvoRoute(cost=_step_cost(development), timing=timing, handoff=known),
        TacitSwitch(options=fitting, handoff=known),
        TunedSwitch(("memory",), learner, known, name="TACIT-Switch with memory"),
        TunedSwitch(STARTED_AND_PACED, learner, known, name="TACIT-Switch with memory, start and pace"),
    ]
    found += [TunedDeferral(one, timing=timing, name=label("Step Deferral by task", one)) for one in replayed]
    found.append(TunedSwitch(learner=learner, handoff=known))
    if known == "resume":
        found.append(TunedSwitch(learner=learner, handoff="restart", name="Tuned switch, restart"))
    return tuple(found)


def _step_cost(world: World) -> StepCost:
    """Return what steps cost in a world; where that is no number a step, what is usual in the paper."""
    priced = isinstance(world.cost, StepCost) and world.cost.strong > 0
    return cast("StepCost", world.cost) if priced else EvoRoute.cost


@dataclass(frozen=True, eq=False)
class Recommendation:
    """The policy to use, and the evidence.

    Attributes
    ----------
    name
        Its name.
    fitted, choice
        The policy, fitted on training episodes, and what was chosen for it on all development tasks.
    cap
        The budget.
    table
        A row for each policy, from the simplest on: `policy`, its `setting` in words, held-out `success` with the ends
        `success_lower` and `success_upper` of its interval, `cost`, `probability_best` (that no other has more
        success on tasks like these), `ahead` (by how much the recommended one is ahead of it) with its interval, and
        `development_success` and `development_cost` of the chosen setting, on the tasks that it was chosen on.
    expected
        `success` and `cost` to expect on new tasks, with the ends of their intervals.
    best
        The policy with the most held-out success.
    simplest
        The simplest policy within one standard error of the best where there is too little data to tell the two apart;
        otherwise the best.
    left_out
        Policies that could not be fitted, judged or paid for, with the reason.
    n_tasks
        How many development tasks there were.
    frontier
        What it gives at other budgets, if that was asked for: `cap`, held-out `success` with its interval, and `cost`.
    """

    name: str
    fitted: FittedPolicy
    choice: Choice
    cap: float
    table: pd.DataFrame
    expected: Mapping[str, float]
    best: str
    simplest: str
    left_out: Mapping[str, str]
    n_tasks: int
    frontier: pd.DataFrame | None = None

    @property
    def setting(self) -> Mapping[str, object]:
        """The chosen setting, as `fitted.outcomes(world, setting)` and `fitted.router(setting)` take it."""
        return self.choice.point

    @property
    def too_little(self) -> bool:
        """Whether there is too little data to tell the best from a simpler policy."""
        return self.simplest != self.best

    @property
    def reason(self) -> str:
        """Why this one, in a few sentences."""
        row = self._row(self.name)
        expected = self.expected
        said = [
            f"{self.name} is recommended: on new tasks expect {expected['success']:.1%} success "
            f"({expected['success_lower']:.1%} to {expected['success_upper']:.1%}) at a cost of "
            f"{expected['cost']:.4g} ({expected['cost_lower']:.4g} to {expected['cost_upper']:.4g}), under a cap of "
            f"{self.cap:.4g}."
        ]
        if not self.too_little:
            said.append(f"It is the best of {len(self.table)} with probability {row['probability_best']:.0%}.")
        elif self.name == self.simplest:
            ahead = -float(self._row(self.best)["ahead"])
            said.append(
                f"{self.n_tasks} development tasks are too few to tell whether {self.best} is better (it is "
                f"{100 * ahead:+.1f} points ahead on them), so the simplest policy within one standard error is taken."
            )
        else:
            ahead = float(self._row(self.simplest)["ahead"])
            said.append(
                f"It has the most held-out success and is the best of {len(self.table)} with probability "
                f"{row['probability_best']:.0%}, but {self.n_tasks} development tasks are too few to tell it from "
                f"{self.simplest}, the simplest policy within one standard error (it is {100 * ahead:+.1f} points "
                "ahead of that)."
            )
        return " ".join(said)

    def router(self) -> Router:
        """Return the router that decides so, to be saved and run by an agent."""
        return self.fitted.router(self.setting)

    def to_dict(self) -> dict[str, object]:
        """Return everything but the fitted policy, as JSON takes it."""
        return {
            "policy": self.name,
            "setting": dict(self.setting),
            "cap": self.cap,
            "expected": dict(self.expected),
            "best": self.best,
            "simplest": self.simplest,
            "too_little_data": self.too_little,
            "development_tasks": self.n_tasks,
            "policies": self.table.to_dict("records"),
            "left_out": dict(self.left_out),
            "frontier": None if self.frontier is None else self.frontier.to_dict("records"),
        }

    def _row(self, name: str) -> pd.Series[Any]:
        return self.table.iloc[int((self.table["policy"] == name).argmax())]

    def __repr__(self) -> str:
        shown = pd.DataFrame({"policy": self.table["policy"], "cost": self.table["cost"].map("{:.4g}".format)})
        for name in ("success", "success_lower", "success_upper", "probability_best", "ahead"):
            shown[f"{name}, %"] = (100 * self.table[name]).map("{:.1f}".format)
        return f"{self.reason}\n\n{shown.to_string(index=False)}"


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
    progress: Callable[[str, int, int], None] | None = None,
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
    progress
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
    tell = progress or (lambda *_: None)
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
            progress=lambda: tell("judging", next(done), folds * len(fitted)),
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
                choices[policy.name] = one.choose(development, cap)
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
            "setting": [fitted[name].in_words(choices[name]) for name in judged.names],
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


@dataclass(frozen=True, eq=False)
class Judged:
    """Success and cost by development task and policy, each under a setting that was chosen without the task.

    Attributes
    ----------
    names
        The policies.
    success, cost
        (policy, task).
    fold
        (task,), the part that each task was held out with.
    """

    names: tuple[str, ...]
    success: np.ndarray
    cost: np.ndarray
    fold: np.ndarray


def cross_validate(
    fitted: Mapping[str, FittedPolicy],
    development: World,
    cap: float,
    *,
    folds: int,
    seed: int,
    progress: Callable[[], None] = lambda: None,
) -> Judged:
    """Hold out each part of the tasks in turn, choose every policy's setting on the rest, and look what it gives there.

    Parameters
    ----------
    fitted
        By name.
    development
        The tasks.
    cap
        The budget.
    folds
        How many parts.
    seed
        Decides the parts.
    progress
        Called after each choice, for a bar of progress.
    """
    n = len(development)
    fold = np.random.default_rng(seed).permutation(n) % folds
    success, cost = np.empty((2, len(fitted), n))
    for part in range(folds):
        rest, held_out = development.take(np.flatnonzero(fold != part)), development.take(np.flatnonzero(fold == part))
        for row, policy in enumerate(fitted.values()):
            success[row, fold == part], cost[row, fold == part] = _held_out(policy, rest, held_out, cap)
            progress()
    return Judged(tuple(fitted), success, cost, fold)


def _held_out(policy: FittedPolicy, rest: World, held_out: World, cap: float) -> tuple[np.ndarray, np.ndarray]:
    try:
        outcomes = policy.outcomes(held_out, policy.choose(rest, cap).point)
    except InvalidDataError:
        # On these tasks nothing of it is within the cap, though on all it is: then Cheap goes on alone.
        outcomes = held_out.counterfactuals.pure_cheap
    return outcomes.success, outcomes.cost


@dataclass(frozen=True)
class Named:
    """Which policy to use.

    Attributes
    ----------
    row
        Its row.
    best
        The row with the most success.
    simplest
        The row of the simplest policy that the data cannot tell from the best; where they can, that of the best.
    """

    row: int
    best: int
    simplest: int

    @property
    def too_little(self) -> bool:
        """Whether there is too little data to tell the best from a simpler one."""
        return self.simplest != self.best


def name_one(success: np.ndarray, indifferent: float = INDIFFERENT, choose: Choose = "simplest") -> Named:
    """Name a policy, from successes (policy, task) in the order of simplicity.

    The one with the most success is named. But where its gain over the simplest within one standard error of it is not
    known to `indifferent`, that simplest one is: a rule that is easier to run needs no evidence that it is better.
    With `choose="best"` the one with the most success is named all the same.

    Examples
    --------
    >>> clear = np.array([[0.0] * 10 + [1.0] * 10, [1.0] * 20])
    >>> name_one(clear)
    Named(row=1, best=1, simplest=1)
    >>> by_luck = np.array([[0.0] * 10 + [1.0] * 10, [1.0] * 9 + [0.0] * 9 + [1.0] * 2])
    >>> name_one(by_luck)
    Named(row=0, best=1, simplest=0)
    >>> name_one(by_luck, choose="best")
    Named(row=1, best=1, simplest=0)
    """
    best = int(success.mean(axis=1).argmax())
    difference = success[best] - success
    error = difference.std(axis=1) / np.sqrt(success.shape[1])
    simplest = int(np.flatnonzero(difference.mean(axis=1) <= error)[0])
    if error[simplest] <= indifferent:
        simplest = best
    return Named(simplest if choose == "simplest" else best, best, simplest)


def posterior_means(values: np.ndarray, seed: int) -> np.ndarray:
    """Draw means over tasks by the Bayesian bootstrap: (draw, row) from (row, task).

    Every draw gives the tasks random weights that sum to one, the same for all rows, so rows stay paired.

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
