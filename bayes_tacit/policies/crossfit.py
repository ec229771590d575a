"""A recommendation that uses every task: each is judged by fits and a threshold that it had no part in.

Tasks are dealt into folds, all rollouts of a task into one. Each policy is fitted once without each fold, and says
what every threshold would have given on the fold left out. The threshold for a fold is chosen on what the other folds
gave; a policy is judged by what it gives then. What is written in the end is fitted on all tasks.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats

from bayes_tacit import validate
from bayes_tacit.data.costs import StepCost
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import DEFAULT_TIMING, Timing
from bayes_tacit.decisions.evaluation import World
from bayes_tacit.errors import ConvergenceError, InvalidDataError, TacitError, TacitWarning
from bayes_tacit.estimates.map_fit import MapFit, fit_map
from bayes_tacit.policies.base import FittedPolicy, Policy, SearchedPolicy
from bayes_tacit.policies.comparison import fitted_of
from bayes_tacit.policies.learned import Cascade, EvoRoute, Landmark
from bayes_tacit.policies.plain import Count, FirstAlarm, PureCheap, PureStrong, StepDeferral, TaskRouter
from bayes_tacit.policies.tacit_switch import TacitSwitch
from bayes_tacit.policies.value import ByValue
from bayes_tacit.router import Router
from bayes_tacit.router.rule import CALL_OF

COIN = "Coin flip"
SURE = 0.8
"""Probability of being above the coin flip below which nothing is named."""

A_TENTH = 0.001
"""A tenth of a point: what less is gained by is no reason to take the less simple policy."""

FEWEST = 20
"""Tasks below which nothing is recommended."""

DRAWS = 2000
CONTRARY = 0.02
"""Share of pairs that are added with the other outcome where windows could be met exactly."""


def held_fit(episodes: Episodes, **options: Any) -> MapFit:  # noqa: ANN401
    """Return the paper's estimate, and where it has none one that a few contrary tasks hold.

    Where every window and censored rollout can be met exactly the scale s has no optimum above zero. Then a fiftieth of
    the tasks that Strong solves, two at least, are added with Cheap's outcome turned round, as a prior that says that
    such tasks exist.
    """
    try:
        return fit_map(episodes, **options)
    except ConvergenceError:
        outcomes = episodes.outcomes
        pick = []
        for label in ("01", "11"):
            rows = np.flatnonzero(outcomes == label)
            pick += rows[:: max(1, len(rows) // max(2, int(CONTRARY * len(episodes))))].tolist()
        if not pick:
            raise
        some = episodes.take(pick).dataset
        blank = ("episode", np.full(len(pick), np.nan))
        turned = some.assign(
            cheap_success=("episode", ~some["cheap_success"].values.astype(bool)), window_start=blank, window_end=blank
        )
        ids = [f"contrary-{number}" for number in range(len(pick))]
        turned = turned.assign_coords(episode=np.array(ids, dtype=object))
        whole = episodes.dataset.assign_coords(episode=np.array([str(one) for one in episodes.ids], dtype=object))
        names = ("features", "diagnostics", "n_steps", "cheap_success", "strong_success", "window_start", "window_end")
        both = xr.concat([whole[list(names)], turned[list(names)]], dim="episode", join="outer")
        return fit_map(Episodes(both), **options)


def contest(
    world: World, *, timing: Timing = DEFAULT_TIMING, options: Mapping[str, Any] | None = None
) -> tuple[Policy, ...]:
    """Return the policies that are tried, from the simplest on.

    Examples
    --------
    >>> from bayes_tacit import StepCost, load_example
    >>> episodes = load_example()
    >>> world = World.from_restarts(episodes, strong_steps=episodes.n_steps, cost=StepCost(cheap=1, strong=3))
    >>> [policy.name for policy in contest(world)][-4:]
    ['TACIT-Switch', 'TACIT-Switch with memory', 'Advantage', 'Induction']
    """
    kind = world.counterfactuals.handoff
    names = world.episodes.diagnostic_names
    cost = world.cost if isinstance(world.cost, StepCost) and world.cost.strong > 0 else EvoRoute.cost
    fitting: dict[str, Any] = {"timing": timing, "unmarked": "due", "restarts": 2} | dict(options or {})
    remembering = fitting | {"clock": True, "memory": 0.8}
    known = world.counterfactuals
    found: list[Policy] = [PureCheap(), PureStrong(), TaskRouter()]
    found += [FirstAlarm(one, timing, kind, name=f"First Alarm ({one})") for one in names]
    found.append(Count(timing=timing, handoff=kind))
    if world.single_steps is not None:
        found += [StepDeferral(one, timing=timing, name=f"Step Deferral ({one})") for one in names]
    return (
        *found,
        Cascade(),
        Landmark(timing=timing, handoff=kind),
        EvoRoute(cost=cost, timing=timing, handoff=kind),
        TacitSwitch(estimator=partial(held_fit, **fitting), handoff=kind),
        TacitSwitch(estimator=partial(held_fit, **remembering), handoff=kind, name="TACIT-Switch with memory"),
        ByValue(known, timing=timing),
        ByValue(known, waiting=True, timing=timing, name="Induction"),
    )


@dataclass(frozen=True, eq=False)
class Advice:
    """What to run, and what to expect of it.

    Attributes
    ----------
    name
        The policy; "Pure Cheap" where nothing is worth more than a coin flip.
    router
        It, fitted on all tasks, as it will run.
    setting
        The chosen thresholds in words.
    cap
        The highest mean cost of a task; infinite where a success has a `value` instead.
    table
        A row for each policy, the coin flip among them: `policy`, its `setting`, `success` with its interval and `cost`
        on tasks left out, `above_coin` with its interval, success above the coin flip of the same cost, the probability
        `above` that this is more than nothing, and why it is left out where there is a `reason`.
    expected
        `success` and `cost` to expect of as many new tasks, by the whole procedure, with the ends of intervals that
        count the new tasks' own noise; `above_coin` and `above` likewise.
    gain
        Whether there is anything to gain.
    needed
        Where there is not, about how many tasks it would take to know that a gain of this size is there; None for more
        than a thousand times as many.
    n_tasks
        How many tasks there were.
    confidence
        With which probability the mean cost of new tasks is within the cap.
    frontier
        What the named policy gives at other budgets: `cap`, `success` with its interval, `cost`.
    """

    name: str
    router: Router
    setting: str
    cap: float
    table: pd.DataFrame
    expected: Mapping[str, float]
    gain: bool
    needed: int | None
    n_tasks: int
    confidence: float
    frontier: pd.DataFrame | None = None

    @property
    def reason(self) -> str:
        """What to do, and why, in a few sentences."""
        e = self.expected
        budget = "" if math.isinf(self.cap) else f" under a cap of {self.cap:.4g}"
        if not self.gain:
            more = "" if self.needed is None else f"; about {self.needed:,} tasks would tell whether so little is there"
            best = f"the best of what was tried is {100 * e['above_coin']:+.1f} points above"
            sure = f"above it with probability {e['above']:.0%} ({self.n_tasks} tasks{more})"
            return f"Nothing to gain here{budget}: {best} a coin flip of the same cost, {sure}. {self.name} is written."
        return (
            f"{self.name} is recommended ({self.setting}): expect {e['success']:.1%} success "
            f"({e['success_lower']:.1%} to {e['success_upper']:.1%} of {self.n_tasks} new tasks) at a cost of "
            f"{e['cost']:.4g} ({e['cost_lower']:.4g} to {e['cost_upper']:.4g}){budget}. That is "
            f"{100 * e['above_coin']:.1f} points above a coin flip of the same cost, above it with probability "
            f"{e['above']:.0%}."
        )

    def to_dict(self) -> dict[str, object]:
        """Return everything but the router, as JSON takes it."""
        table = self.table.astype(object).where(self.table.notna(), None)
        return {
            "policy": self.name,
            "setting": self.setting,
            "cap": None if math.isinf(self.cap) else self.cap,
            "expected": dict(self.expected),
            "gain": self.gain,
            "needed": self.needed,
            "tasks": self.n_tasks,
            "confidence": self.confidence,
            "policies": table.to_dict("records"),
            "frontier": None if self.frontier is None else self.frontier.to_dict("records"),
        }

    def __repr__(self) -> str:
        shown = pd.DataFrame({"policy": self.table["policy"]})
        for name in ("success", "success_lower", "success_upper", "above_coin", "above"):
            shown[f"{name}, %"] = (100 * self.table[name]).map("{:.1f}".format)
        shown["cost"] = self.table["cost"].map("{:.4g}".format)
        shown["left out because"] = self.table["reason"].str.slice(0, 60)
        return f"{self.reason}\n\n{shown.to_string(index=False)}"


@dataclass(frozen=True, eq=False)
class _Tried:
    """One policy: fitted on all tasks, and success and cost of each setting on tasks left out, (2, setting, task)."""

    fitted: FittedPolicy
    held: np.ndarray


def advise(
    world: World,
    cap: float | None = None,
    *,
    value: float | None = None,
    confidence: float = 0.5,
    policies: Iterable[Policy] | None = None,
    folds: int = 5,
    probability: float = 0.95,
    frontier: int = 0,
    seed: int = 0,
    progress: Callable[[str, int, int], None] | None = None,
) -> Advice:
    """Try every policy on all tasks by cross-fitting, and name the one that gains most above a coin flip.

    Parameters
    ----------
    world
        All tasks, for which it is known what comes of handoffs. Rollouts of one task, by a carried `task`, stay
        together.
    cap
        The highest mean cost of a task; or instead
    value
        what a success is worth: then success times value minus cost is what counts.
    confidence
        With which probability the mean cost of new tasks has to be within the cap; 0.5 leaves nothing to spare.
    policies
        What is tried; by default `contest(world)`.
    folds
        Parts that are left out in turn.
    probability
        Mass of the intervals.
    frontier
        At how many budgets to judge what is named as well.
    seed
        Decides the parts and draws.
    progress
        Called with what is done, how much of it is done, and of how much.

    Examples
    --------
    >>> from bayes_tacit import StepCost, load_example
    >>> from bayes_tacit.policies import FirstAlarm, PureCheap, TacitSwitch
    >>> episodes = load_example()
    >>> world = World.from_restarts(episodes, strong_steps=episodes.n_steps, cost=StepCost(cheap=1, strong=3))
    >>> tried = [PureCheap(), FirstAlarm("uncertainty", handoff="restart"), TacitSwitch(handoff="restart")]
    >>> advise(world, cap=40, policies=tried).name
    'TACIT-Switch'
    """
    if (cap is None) == (value is None):
        raise InvalidDataError("one of cap and value", field="cap and value", value=(cap, value))
    most = math.inf if cap is None else validate.number("cap", cap, "a finite number >= 0", least=0)
    worth = None if value is None else validate.number("value", value, "a number above 0", above=0)
    confidence = validate.number("confidence", confidence, "a number from 0.5 to below 1", least=0.5, below=1)
    tried = tuple(contest(world) if policies is None else policies)
    tell = progress or (lambda *_: None)
    groups = _groups(world.episodes)
    n_groups = int(groups.max()) + 1
    folds = min(validate.whole("folds", folds, 2, 100_000), n_groups)
    if len(world) < 2 * FEWEST:
        raise InvalidDataError(
            f"at least {2 * FEWEST}: fewer cannot tell policies apart", field="number of tasks", value=len(world)
        )
    fold = np.random.default_rng(seed).permutation(n_groups)[groups] % folds
    pure = np.array(
        [[one.success, one.cost] for one in (world.counterfactuals.pure_cheap, world.counterfactuals.pure_strong)]
    )
    known, reasons = _try_all(tried, world, fold, tell)
    pick = partial(_pick, cap=most, worth=worth, confidence=confidence)
    judged: dict[str, np.ndarray] = {}
    settings: dict[str, int] = {}
    for name, one in known.items():
        chosen = pick(one.held, np.arange(len(world)))
        if chosen is None:
            reasons[name] = f"no setting is within the cap: its lowest cost is {one.held[1].mean(axis=1).min():.4g}"
            continue
        settings[name] = chosen
        judged[name] = _judge(one.held, fold, pick, pure)
    if not judged:
        lowest = min((one.held[1].mean(axis=1).min() for one in known.values()), default=math.nan)
        raise InvalidDataError(f"at least {lowest:.4g}, the lowest cost of what was tried", field="cap", value=cap)
    names = list(judged)
    # The whole procedure: each fold under the policy that the others would have named.
    whole = np.empty((2, len(world)))
    for part in range(folds):
        out = fold == part
        best = _name(names, judged, ~out, pure, worth)
        whole[:, out] = judged[best][:, out]
    name = _name(names, judged, np.ones(len(world), dtype=bool), pure, worth)
    expected = _expected(whole, pure, groups, probability, seed)
    rows = [_row(one, _words(known[one], settings[one]), judged[one], pure, groups, probability, seed) for one in names]
    flip = _flip(pure, most)
    rows.append(_row(COIN, f"Strong with probability {flip[0]:.3g}", flip[1], pure, groups, probability, seed))
    rows += [{"policy": one, "setting": "", "reason": why} for one, why in reasons.items()]
    gain = expected["above"] >= SURE and name not in ("Pure Cheap", "Pure Strong")
    needed = None
    if not gain:
        spread = (expected["above_coin_upper"] - expected["above_coin_lower"]) / 4
        if expected["above_coin"] > 0:
            times = (stats.norm.ppf(SURE) * spread / expected["above_coin"]) ** 2
            needed = math.ceil(max(times, 1.05) * len(world)) if times < 1000 else None
        name = "Pure Cheap"
    if name in known:
        setting = known[name].fitted.candidates.iloc[settings[name]]
        router, words = known[name].fitted.router(setting), _words(known[name], settings[name])
    else:
        router, words = PureCheap().fit(world.episodes).router({}), ""
    if router.call == "strong":
        router = replace(router, call=CALL_OF[world.counterfactuals.handoff])
    router = router.with_ranges_of(world.episodes).with_reader_of(world.episodes)
    table = pd.DataFrame(rows)
    curve = None
    if frontier and name in known:
        curve = _frontier(known[name].held, fold, pure, groups, frontier, probability, seed, confidence)
    return Advice(name, router, words, most, table, expected, gain, needed, len(world), confidence, curve)


def _groups(episodes: Episodes) -> np.ndarray:
    """Number the tasks: rollouts of one task have one number."""
    ids = episodes.dataset["task"].values if "task" in episodes.dataset else episodes.ids
    return np.unique(np.asarray(ids).astype(str), return_inverse=True)[1]


def _try_all(
    tried: Sequence[Policy], world: World, fold: np.ndarray, tell: Callable[[str, int, int], None]
) -> tuple[dict[str, _Tried], dict[str, str]]:
    """Fit every policy on all tasks and without each fold; what cannot be fitted has a reason."""
    known: dict[str, _Tried] = {}
    reasons: dict[str, str] = {}
    parts = np.unique(fold)
    for done, policy in enumerate(tried, 1):
        if policy.name in known or policy.name in reasons:
            raise InvalidDataError("policies with different names: give name=...", field="policies", value=policy.name)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TacitWarning)
                fitted = fitted_of(policy, world.episodes)
                if isinstance(fitted, SearchedPolicy):
                    raise InvalidDataError("a table of candidates", field="policy", value=policy.name)
                settings = [row for _, row in fitted.candidates.iterrows()]
                held = np.empty((2, len(settings), len(world)))
                for part in parts:
                    out = fold == part
                    rest = fitted_of(policy, world.episodes.take(np.flatnonzero(~out)))
                    held[:, :, out] = world.take(np.flatnonzero(out)).each([rest.make(row) for row in settings])
            known[policy.name] = _Tried(fitted, held)
        except TacitError as error:
            reasons[policy.name] = str(error)
        tell("fitting", done, len(tried))
    return known, reasons


def _pick(held: np.ndarray, rows: np.ndarray, *, cap: float, worth: float | None, confidence: float) -> int | None:
    """Return the setting with the most success within the cap, or with the highest net value; None if there is none.

    With a confidence above one half, a setting has to keep the cap by a t-bound on its mean cost, and so have all that
    cost less: settings are tested from the cheapest on, up to the first that fails, so the choice among them is free.
    """
    success, cost = held[0][:, rows], held[1][:, rows]
    mean = cost.mean(axis=1)
    if worth is not None:
        return int((worth * success.mean(axis=1) - mean).argmax())
    n = len(rows)
    bound = mean
    if confidence > 0.5:
        bound = mean + stats.t.ppf(confidence, n - 1) * cost.std(axis=1, ddof=1) / np.sqrt(n)
    order = np.argsort(mean, kind="stable")
    # Costs that differ by rounding only are the same.
    fails = bound[order] > cap * (1 + 1e-9)
    within = order[: int(fails.argmax())] if fails.any() else order
    if not len(within):
        return None
    average = success.mean(axis=1)[within]
    best = average >= average.max() - 1e-12
    return int(within[best][mean[within][best].argmin()])


def _judge(held: np.ndarray, fold: np.ndarray, pick: Callable[..., int | None], pure: np.ndarray) -> np.ndarray:
    """Return success and cost by task, each fold under the setting that the others choose: (2, task)."""
    out = np.empty((2, held.shape[2]))
    for part in np.unique(fold):
        left = fold == part
        chosen = pick(held, np.flatnonzero(~left))
        out[:, left] = pure[0][:, left] if chosen is None else held[:, chosen, left]
    return out


def _above(means: np.ndarray, cheap: np.ndarray, strong: np.ndarray) -> np.ndarray:
    """Return success above the coin flip of the same cost, from means of success and cost, (2, ...) each."""
    span = strong[1] - cheap[1]
    share = np.divide(means[1] - cheap[1], span, out=np.zeros_like(means[1]), where=np.abs(span) > 1e-12)
    return means[0] - cheap[0] - share * (strong[0] - cheap[0])


def _name(
    names: Sequence[str], judged: Mapping[str, np.ndarray], rows: np.ndarray, pure: np.ndarray, worth: float | None
) -> str:
    """Return the policy that gains most; of those within a tenth of a point of it, the first."""
    ends = pure[:, :, rows].mean(axis=2)
    means = np.array([judged[name][:, rows].mean(axis=1) for name in names]).T
    gains = _above(means, ends[0], ends[1]) if worth is None else means[0] - means[1] / worth
    return names[int(np.flatnonzero(gains >= gains.max() - A_TENTH)[0])]


def _means(values: np.ndarray, groups: np.ndarray, seed: int) -> np.ndarray:
    """Draw means over tasks by the Bayesian bootstrap, rollouts of one task together: (draw, ...) from (..., task)."""
    weights = np.random.default_rng(seed).standard_exponential((DRAWS, int(groups.max()) + 1))[:, groups]
    flat = values.reshape(-1, values.shape[-1])
    return (weights @ flat.T / weights.sum(axis=1, keepdims=True)).reshape(DRAWS, *values.shape[:-1])


def _expected(
    judged: np.ndarray, pure: np.ndarray, groups: np.ndarray, probability: float, seed: int
) -> dict[str, float]:
    """Return what to expect of as many new tasks, whose own noise is as large as that of these."""
    draws = _means(np.stack([judged, *pure]), groups, seed)
    mean = np.stack([judged, *pure]).mean(axis=2)
    above = _above(draws[:, 0].T, draws[:, 1].T, draws[:, 2].T)
    tails = np.array([(1 - probability) / 2, (1 + probability) / 2])
    found: dict[str, float] = {}
    for at, name in enumerate(("success", "cost")):
        spread = draws[:, 0, at].std() * math.sqrt(2) * stats.t.ppf(tails, max(2, groups.max()))
        low, high = mean[0, at] + spread
        found |= {name: float(mean[0, at]), f"{name}_lower": float(max(low, 0)), f"{name}_upper": float(high)}
    found["success_upper"] = min(found["success_upper"], 1.0)
    low, high = np.quantile(above, tails)
    found["above_coin"] = float(_above(mean[0][:, None], mean[1][:, None], mean[2][:, None])[0])
    found |= {"above_coin_lower": float(low), "above_coin_upper": float(high)}
    return found | {"above": float(np.mean(above > 1e-9))}


def _row(
    name: str,
    setting: str,
    judged: np.ndarray,
    pure: np.ndarray,
    groups: np.ndarray,
    probability: float,
    seed: int,
) -> dict[str, object]:
    return {"policy": name, "setting": setting, **_expected(judged, pure, groups, probability, seed), "reason": ""}


def _flip(pure: np.ndarray, cap: float) -> tuple[float, np.ndarray]:
    """Return the probability of the coin that costs the cap, and its success and cost by task in the mean."""
    cheap, strong = pure[0][1].mean(), pure[1][1].mean()
    share = 1.0 if math.isinf(cap) or strong <= cheap else float(np.clip((cap - cheap) / (strong - cheap), 0, 1))
    return share, (1 - share) * pure[0] + share * pure[1]


def _words(one: _Tried, setting: int) -> str:
    row = one.fitted.candidates.iloc[setting]
    return ", ".join(f"{name} = {number:.4g}" for name, number in row.items() if name != "target" and number == number)


def _frontier(
    held: np.ndarray,
    fold: np.ndarray,
    pure: np.ndarray,
    groups: np.ndarray,
    n: int,
    probability: float,
    seed: int,
    confidence: float,
) -> pd.DataFrame:
    rows = []
    low, high = sorted(pure[:, 1].mean(axis=1).tolist())
    for cap in np.linspace(low, high, validate.whole("frontier", n, 2)).tolist():
        pick = partial(_pick, cap=cap, worth=None, confidence=confidence)
        found = _expected(_judge(held, fold, pick, pure), pure, groups, probability, seed)
        rows.append(
            {"cap": float(cap), **{key: found[key] for key in ("success", "success_lower", "success_upper", "cost")}}
        )
    return pd.DataFrame(rows)
