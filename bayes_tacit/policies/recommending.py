"""A recommendation that uses every task: each is judged by fits and a threshold that it had no part in.

Tasks are dealt into folds, all rollouts of a task into one. Each policy is fitted once without each fold, and says
what every threshold would have given on the fold left out. The threshold for a fold is chosen on what the other folds
gave; a policy is judged by what it gives then. What is written in the end is fitted on all tasks.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from bayes_tacit import validate
from bayes_tacit.data.costs import StepCost
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import DEFAULT_TIMING, Timing
from bayes_tacit.decisions.evaluation import World
from bayes_tacit.decisions.selection import SAME
from bayes_tacit.errors import ConvergenceError, InvalidDataError, TacitError, TacitWarning
from bayes_tacit.estimates.map_fit import MapFit, fit_map
from bayes_tacit.logs.reader import DIAGNOSTICS
from bayes_tacit.policies.base import FittedPolicy, Policy, Setting
from bayes_tacit.policies.learned import Cascade, EvoRoute, Landmark, Trim
from bayes_tacit.policies.plain import Count, FirstAlarm, PureCheap, PureStrong, StepDeferral, TaskRouter
from bayes_tacit.policies.tacit_switch import TacitSwitch
from bayes_tacit.policies.value import ByValue
from bayes_tacit.router import Router
from bayes_tacit.router.rule import CALL_OF

COIN = "Coin flip"
CHEAP, STRONG = PureCheap.name, PureStrong.name
SURE = 0.8
"""Probability of being above the coin flip below which nothing is named."""

A_TENTH = 0.001
"""A tenth of a point: what less is gained by is no reason to take the less simple policy."""

MANY = 200
"""Tasks from which on a fit without a fifth of them is as good as one of all."""

FEWEST = 40
"""Tasks below which nothing is recommended."""

DRAWS = 2000
AROUND = (0.8, 0.9, 1.0, 1.1, 1.2)
"""Shares of a budget at which a gain is looked at: few tasks hardly know it at one of them alone."""

OVER, SURE_OF_THAT = 1.05, 0.75
"""Without a `confidence` a setting has to cost less than so many times the cap with this probability."""

MOST_TIMES = 1000
"""More tasks than so many times those there are, and nobody need wait for them."""

type Progress = Callable[[str, int, int], None]


def held_fit(episodes: Episodes, **options: Any) -> MapFit:  # noqa: ANN401
    """Return the paper's estimate; where it has none, that with a proper prior of the scale s, and a warning."""
    try:
        return fit_map(episodes, **options)
    except ConvergenceError:
        fit = fit_map(episodes, hold_scale=True, **options)
    warnings.warn("its scale s has no optimum on these tasks, so a proper prior holds it", TacitWarning, stacklevel=2)
    return fit


def contest(
    world: World,
    *,
    timing: Timing = DEFAULT_TIMING,
    options: Mapping[str, Any] | None = None,
    certain: float | None = None,
) -> tuple[Policy, ...]:
    """Return the policies that are tried, from the simplest on; `options` are what `fit_map` is called with besides.

    Those that call Strong for single steps are among them where the world can replay that, and the Bayesian policy by
    value where it is said how `certain` a handoff has to be worth its price.

    Examples
    --------
    >>> from bayes_tacit import StepCost, load_example
    >>> episodes = load_example()
    >>> world = World.from_restarts(episodes, strong_steps=episodes.n_steps, cost=StepCost(cheap=1, strong=3))
    >>> [policy.name for policy in contest(world)][-4:]
    ['TACIT-Switch', 'TACIT-Switch with memory', 'Advantage', 'Induction']
    """
    known, kind, names = world.counterfactuals, world.counterfactuals.handoff, world.episodes.diagnostic_names
    replayed = names if world.single_steps is not None else ()
    cost = world.cost if isinstance(world.cost, StepCost) and world.cost.strong > 0 else EvoRoute.cost
    fitting: dict[str, Any] = {"timing": timing, "unmarked": "due", "restarts": 2} | dict(options or {})
    remembering = fitting | {"clock": True, "memory": 0.8}
    # What a reader says of one side alone is for the policies by value.
    alarms = [one for one in names if one not in DIAGNOSTICS[:3]]
    return (
        PureCheap(),
        PureStrong(),
        TaskRouter(),
        *(FirstAlarm(one, timing, kind, name=f"First Alarm ({one})") for one in alarms),
        Count(timing=timing, handoff=kind),
        *(StepDeferral(one, timing=timing, name=f"Step Deferral ({one})") for one in replayed),
        Cascade(),
        *([Trim(timing=timing, unmarked=fitting["unmarked"])] if replayed else []),
        Landmark(timing=timing, handoff=kind),
        EvoRoute(cost=cost, timing=timing, handoff=kind),
        TacitSwitch(estimator=partial(held_fit, **fitting), handoff=kind),
        TacitSwitch(estimator=partial(held_fit, **remembering), handoff=kind, name="TACIT-Switch with memory"),
        ByValue(known, timing=timing),
        ByValue(known, waiting=True, timing=timing, name="Induction"),
        *([ByValue(known, certain=certain, timing=timing, name="Certain advantage")] if certain is not None else []),
    )


@dataclass(frozen=True, eq=False)
class Recommendation:
    """What to run, and what to expect of it.

    Attributes
    ----------
    name, router, setting
        The policy, "Pure Cheap" where nothing is worth more than a coin flip; it, fitted on all tasks, as it will run;
        and its thresholds in words.
    cap, confidence
        The highest mean cost of a task, infinite where a success has a `value` instead, and with which probability new
        tasks keep it.
    table
        A row for each policy, the coin flip among them: `policy`, its `setting`, `success` with its interval and `cost`
        on tasks left out, `above_coin` with its interval, success above the coin flip of the same cost, the probability
        `above` that this is more than nothing, why it cannot be named where there is a `reason`, and what its fit
        warned of as a `note`.
    expected
        `success` and `cost` to expect of as many new tasks, by the whole procedure, with the ends of intervals that
        count the new tasks' own noise; `above_coin`; and `above`, for up to 200 tasks that at budgets around this one.
    gain, needed, n_tasks
        Whether there is anything to gain; where there is not, with about how many tasks a gain would show, by the
        learning curve (None for more than a thousand times as many); and how many tasks there were.
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
            more = "" if self.needed is None else f"; with about {self.needed:,} a gain would show"
            best = f"the best of what was tried is {100 * e['above_coin']:+.1f} points above"
            sure = f"above it with probability {e['above']:.0%} ({self.n_tasks} tasks{more})"
            written = f"{self.name}, the better of both models at this value," if math.isinf(self.cap) else self.name
            return f"Nothing to gain here{budget}: {best} a coin flip of the same cost, {sure}. {written} is written."
        kept = "" if math.isinf(self.cap) else f", which new tasks keep with probability {self.confidence:.0%}"
        note = self.table.loc[self.table["policy"] == self.name, "note"].item()
        return (
            f"{self.name} is recommended ({self.setting}): expect {e['success']:.1%} success "
            f"({e['success_lower']:.1%} to {e['success_upper']:.1%} of {self.n_tasks} new tasks) at a cost of "
            f"{e['cost']:.4g} ({e['cost_lower']:.4g} to {e['cost_upper']:.4g}){budget}{kept}. That is "
            f"{100 * e['above_coin']:.1f} points above a coin flip of the same cost, above it with probability "
            f"{e['above']:.0%}." + (f" Note: {note}." if note else "")
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
        shown["cannot be named because"] = self.table["reason"].str.slice(0, 60)
        return f"{self.reason}\n\n{shown.to_string(index=False)}"


def recommend(
    world: World,
    cap: float | None = None,
    *,
    value: float | None = None,
    confidence: float = 0.5,
    at_most: float | None = None,
    training: Episodes | None = None,
    policies: Iterable[Policy | FittedPolicy] | None = None,
    folds: int | None = None,
    probability: float = 0.95,
    frontier: int = 0,
    seed: int = 0,
    progress: Progress | None = None,
) -> Recommendation:
    """Try every policy on all tasks by cross-fitting, and name the one that gains most above a coin flip.

    `CrossFit` gives recommendations under several budgets from one set of fits.

    Parameters
    ----------
    world
        All tasks, for which it is known what comes of handoffs. Rollouts of one task, by a carried `task`, stay
        together.
    cap, value
        The highest mean cost of a task; or what a success is worth: then success times value minus cost is what counts.
    confidence
        With which probability the mean cost of new tasks has to be within the cap; at 0.5 it is as likely above it as
        below, and above 1.05 of it with a probability of 0.25 at most.
    at_most
        The highest cost of a single task by a handoff: the router hands off no later than at the last step up to which
        every task here would have kept it.
    training
        Other episodes, if policies are to be fitted on those; then only thresholds are chosen in the world.
    policies
        What is tried, from the simplest on; by default `contest(world)`. What is fitted already is taken as it is.
    folds
        Parts that are left out in turn; by default ten up to 200 tasks, or else five.
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
    >>> recommend(world, cap=40, policies=tried).name
    'TACIT-Switch'
    """
    settings = _Budget.of(cap, value, confidence)
    fits = CrossFit.of(world, policies, training=training, at_most=at_most, folds=folds, seed=seed, progress=progress)
    return fits._named(settings, probability, frontier)


@dataclass(frozen=True)
class _Budget:
    """What a choice has to keep: a cap with some confidence, or what a success is worth."""

    cap: float
    worth: float | None
    confidence: float

    @classmethod
    def of(cls, cap: float | None, value: float | None, confidence: float) -> _Budget:
        if (cap is None) == (value is None):
            raise InvalidDataError("one of cap and value", field="cap and value", value=(cap, value))
        most = math.inf if cap is None else validate.number("cap", cap, "a finite number >= 0", least=0)
        worth = None if value is None else validate.number("value", value, "a number above 0", above=0)
        sure = validate.number("confidence", confidence, "a number from 0.5 to below 1", least=0.5, below=1)
        return cls(most, worth, sure)

    def net(self, outcomes: np.ndarray) -> float:
        """Return what success is worth minus what it costs, of success and cost by task (2, task)."""
        success, cost = outcomes.mean(axis=1)
        return float((self.worth or 1.0) * success - cost)

    def takes_strong(self, pure: np.ndarray) -> bool:
        """Return whether Strong alone is the better of both models under the budget, from `CrossFit.pure`."""
        if self.worth is not None:
            return self.net(pure[1]) > self.net(pure[0])
        success, cost = pure.mean(axis=2).T
        return bool(cost[1] <= self.cap and success[1] > success[0])

    def pick(self, one: _Tried, out: int | None = None) -> int | None:
        """Return the setting with the most success within the cap, or with the highest net value; None for none.

        Tasks of the part `out` do not count.

        A setting has to keep the cap on tasks left out, and as its router will run (`run`, its mean cost then), and
        1.05 of it by a t-bound on its mean cost. With a confidence above one half it has to keep the cap itself by a
        t-bound, and so have all that cost less: settings are tested from the cheapest on, up to the first that fails,
        so the choice among them is free.
        """
        n, success, cost, error = one.averages(out)
        if self.worth is not None:
            return int((self.worth * success - cost).argmax())
        bound = np.maximum(cost, one.run)
        if self.confidence > 0.5:
            bound = bound + stats.t.ppf(self.confidence, n - 1) * error
        else:
            bound = np.maximum(bound, (bound + stats.t.ppf(SURE_OF_THAT, n - 1) * error) / OVER)
        order = np.argsort(cost, kind="stable")
        fails = bound[order] > self.cap * (1 + SAME)
        # Without a bound, costs need not rise along with those of the router as it runs.
        within = order[~fails] if self.confidence == 0.5 else order[: int(fails.argmax())] if fails.any() else order
        if not len(within):
            return None
        best = within[success[within] >= success[within].max() - 1e-12]
        return int(best[cost[best].argmin()])


@dataclass(frozen=True, eq=False)
class _Tried:
    """One policy, fitted on all tasks.

    Success and cost of each setting on tasks left out (2, setting, task), its mean cost as it will run, what the fit
    warned of, and the part that each task is left out with.
    """

    fitted: FittedPolicy
    held: np.ndarray
    run: np.ndarray
    note: str
    fold: np.ndarray

    @cached_property
    def _sums(self) -> np.ndarray:
        """Tasks, success, cost and squared cost in each part: (4, part, setting)."""
        success, cost = self.held
        parts = (np.arange(self.fold.max() + 1)[:, None] == self.fold).astype(float)
        return np.stack([parts @ each.T for each in (np.ones_like(cost), success, cost, cost**2)])

    def averages(self, out: int | None) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
        """Return how many tasks are not in a part, success and cost of each setting on them, and the cost's error."""
        kept = np.arange(self._sums.shape[1]) != out
        n, success, cost, squared = self._sums[:, kept].sum(axis=1)
        variance = np.maximum(squared / n - (cost / n) ** 2, 0) * n / (n - 1)
        return int(n[0]), success / n, cost / n, np.sqrt(variance / n)


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Policies, fitted on all tasks and without each part: what recommendations under any budget are made from.

    `groups` and `fold` are the number of the task whose rollout each is, and the part that it is left out with; `known`
    and `reasons` by name what could be fitted, and why the others could not; `last_handoff` is the last step from which
    Strong may take over.

    Examples
    --------
    >>> from bayes_tacit import StepCost, load_example
    >>> episodes = load_example()
    >>> world = World.from_restarts(episodes, strong_steps=episodes.n_steps, cost=StepCost(cheap=1, strong=3))
    >>> fits = CrossFit.of(world, [PureCheap(), FirstAlarm("uncertainty", handoff="restart")])
    >>> [fits.recommend(cap, confidence=0.9).name for cap in (30, 45)]
    ['First Alarm', 'Pure Cheap']
    """

    world: World
    policies: tuple[Policy | FittedPolicy, ...]
    groups: np.ndarray
    fold: np.ndarray
    known: Mapping[str, _Tried]
    reasons: Mapping[str, str]
    last_handoff: int | None
    seed: int

    @classmethod
    def of(
        cls,
        world: World,
        policies: Iterable[Policy | FittedPolicy] | None = None,
        *,
        training: Episodes | None = None,
        at_most: float | None = None,
        folds: int | None = None,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> CrossFit:
        """Fit every policy; parameters are those of `recommend`."""
        if not isinstance(world, World):
            raise InvalidDataError("World", field="world", value=world)
        if len(world) < FEWEST:
            raise InvalidDataError(
                f"at least {FEWEST}: fewer cannot tell policies apart", field="number of tasks", value=len(world)
            )
        tried = tuple(contest(world) if policies is None else policies)
        names = [policy.name for policy in tried]
        if len(set(names)) < len(names):
            raise InvalidDataError("policies with different names: give name=...", field="policies", value=names)
        groups = _groups(world.episodes)
        n = int(groups.max()) + 1
        folds = folds_for(n) if folds is None else min(validate.whole("folds", folds, 2, 100_000), n)
        fold = np.random.default_rng(seed).permutation(n)[groups] % folds
        last = None if at_most is None else _last_handoff(world, at_most)
        known: dict[str, _Tried] = {}
        reasons: dict[str, str] = {}
        for done, policy in enumerate(tried, 1):
            try:
                known[policy.name] = _try(policy, world, training, fold, last)
            except (TacitError, np.linalg.LinAlgError) as error:
                reasons[policy.name] = str(error)
            if progress is not None:
                progress("fitting", done, len(tried))
        return cls(world, tried, groups, fold, known, reasons, last, seed)

    def recommend(
        self,
        cap: float | None = None,
        *,
        value: float | None = None,
        confidence: float = 0.5,
        probability: float = 0.95,
        frontier: int = 0,
    ) -> Recommendation:
        """Name the policy that gains most under one budget; parameters are those of `recommend`."""
        return self._named(_Budget.of(cap, value, confidence), probability, frontier)

    @cached_property
    def pure(self) -> np.ndarray:
        """Success and cost of Cheap alone and of Strong alone: (agent, 2, task)."""
        table = self.world.counterfactuals
        return np.array([[one.success, one.cost] for one in (table.pure_cheap, table.pure_strong)])

    def _named(self, budget: _Budget, probability: float, frontier: int) -> Recommendation:
        world, pure = self.world, self.pure
        expect = partial(self._expected, probability=probability)
        settings, judged, reasons = self._judged(budget)
        expected = expect(self._whole(judged, budget))
        expected["above"] = self._sure(budget)
        every = np.ones(len(world), dtype=bool)
        name = self._best(judged, every, budget)
        rows = [{"policy": one, "setting": settings[one][1], **expect(judged[one]), "reason": ""} for one in judged]
        for at, one in enumerate((CHEAP, STRONG)):
            if one in self.known and one not in judged:
                rows.append({"policy": one, "setting": "", **expect(pure[at]), "reason": reasons.pop(one)})
        share, flip = _flip(pure, budget)
        words = f"Strong with probability {share:.3g}"
        rows.append({"policy": COIN, "setting": words, **expect(flip), "reason": "what others are compared with"})
        rows += [{"policy": one, "setting": "", "reason": why} for one, why in reasons.items()]
        table = pd.DataFrame(rows)
        table["note"] = [self.known[one].note if one in self.known else "" for one in table["policy"]]
        gain = expected["above"] >= SURE and name not in (CHEAP, STRONG)
        if budget.worth is not None:
            gain = gain and budget.net(judged[name]) > max(map(budget.net, pure))
        needed = None if gain else self._needed(expected, budget)
        if gain:
            setting, words = settings[name]
            router = _as_it_runs(self.known[name].fitted.router(setting), world, self.last_handoff)
        else:
            pures = PureStrong() if budget.takes_strong(pure) else PureCheap()
            name, words = pures.name, ""
            router = _as_it_runs(pures.fit(world.episodes).router({}), world, self.last_handoff)
        curve = self._frontier(name, budget, expect, frontier) if frontier and name in self.known else None
        router = router.with_ranges_of(world.episodes).with_reader_of(world.episodes)
        return Recommendation(
            name, router, words, budget.cap, table, expected, gain, needed, len(world), budget.confidence, curve
        )

    def _judged(self, budget: _Budget) -> tuple[dict[str, tuple[Setting, str]], dict[str, np.ndarray], dict[str, str]]:
        """Return by policy its setting, success and cost by task (2, task), and why it cannot be named."""
        settings: dict[str, tuple[Setting, str]] = {}
        judged: dict[str, np.ndarray] = {}
        reasons = dict(self.reasons)
        for name, one in self.known.items():
            try:
                settings[name], judged[name] = self._judge(one, budget)
            except TacitError as error:
                reasons[name] = str(error)
        if not judged:
            lowest = min((one.held[1].mean(axis=1).min() for one in self.known.values()), default=math.nan)
            raise InvalidDataError(
                f"at least {lowest:.4g}, the lowest cost of what was tried", field="cap", value=budget.cap
            )
        return settings, judged, reasons

    def _judge(self, one: _Tried, budget: _Budget) -> tuple[tuple[Setting, str], np.ndarray]:
        """Choose one policy's setting, and judge each fold under the setting that the others choose."""
        out = np.empty((2, len(self.world)))
        chosen = budget.pick(one)
        if chosen is None:
            lowest = one.held[1].mean(axis=1).min()
            raise TacitError(f"no setting is within the cap: its lowest cost is {lowest:.4g}")
        for part in np.unique(self.fold):
            left = self.fold == part
            found = budget.pick(one, int(part))
            out[:, left] = self.pure[0][:, left] if found is None else one.held[:, found, left]
        setting = one.fitted.candidates.iloc[chosen]
        words = (f"{name} = {number:.4g}" for name, number in setting.items() if name != "target" and number == number)
        return (setting, ", ".join(words)), out

    def _best(self, judged: Mapping[str, np.ndarray], rows: np.ndarray, budget: _Budget) -> str:
        """Return the policy that gains most on these tasks; of those within a tenth of a point of it, the first.

        Of many policies one looks best by luck. Those by value price what all others look at, so another one has to be
        ahead of the best of them by a standard error of the difference.
        """
        cheap, strong = self.pure[:, :, rows].mean(axis=2)
        span = strong[1] - cheap[1]
        price = (strong[0] - cheap[0]) / span if abs(span) > 1e-12 else 0.0
        price = price if budget.worth is None else 1 / budget.worth
        net = np.array([each[0, rows] - price * each[1, rows] for each in judged.values()])
        gains = net.mean(axis=1)
        usual = np.isin(list(judged), [one.name for one in self.policies if isinstance(one, ByValue)])
        if usual.any():
            behind = net - net[np.where(usual, gains, -np.inf).argmax()]
            gains = gains - np.where(usual, 0, behind.std(axis=1) / np.sqrt(net.shape[1]))
        return list(judged)[int(np.flatnonzero(gains >= gains.max() - A_TENTH)[0])]

    def _whole(self, judged: Mapping[str, np.ndarray], budget: _Budget) -> np.ndarray:
        """Judge the whole procedure: each fold under the policy that the others would have named."""
        whole = np.empty((2, len(self.world)))
        for part in np.unique(self.fold):
            out = self.fold == part
            whole[:, out] = judged[self._best(judged, ~out, budget)][:, out]
        return whole

    def _sure(self, budget: _Budget) -> float:
        """Return the probability that the whole procedure is above the coin flip; of few tasks around the budget."""
        above = np.zeros(DRAWS)
        for share in AROUND if self.groups.max() < MANY else (1.0,):
            worth = None if budget.worth is None else budget.worth * share
            near = replace(budget, cap=budget.cap * share, worth=worth)
            with suppress(TacitError):
                draws, _ = self._drawn(self._whole(self._judged(near)[1], near))
                above += _above(*draws)
        return float(np.mean(above > 1e-9))

    @cached_property
    def _weights(self) -> np.ndarray:
        """Weights of tasks in each draw of the Bayesian bootstrap, all rollouts of a task alike."""
        drawn = np.random.default_rng(self.seed).standard_exponential((DRAWS, int(self.groups.max()) + 1))
        weights = drawn[:, self.groups]
        return weights / weights.sum(axis=1, keepdims=True)

    def _drawn(self, judged: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return success and cost of it, of Cheap and of Strong: (3, 2, draw), and their means (3, 2)."""
        values = np.stack([judged, *self.pure])
        return np.einsum("dt,aot->aod", self._weights, values, optimize=True), values.mean(axis=2)

    def _expected(self, judged: np.ndarray, probability: float = 0.95) -> dict[str, float]:
        """Return what to expect of as many new tasks, whose own noise is as large as that of these."""
        draws, mean = self._drawn(judged)
        tails = np.array([(1 - probability) / 2, (1 + probability) / 2])
        found: dict[str, float] = {}
        for at, name in enumerate(("success", "cost")):
            spread = draws[0, at].std() * math.sqrt(2) * stats.t.ppf(tails, max(2, self.groups.max()))
            low, high = mean[0, at] + spread
            found |= {name: float(mean[0, at]), f"{name}_lower": float(max(low, 0)), f"{name}_upper": float(high)}
        found["success_upper"] = min(found["success_upper"], 1.0)
        above = _above(*draws)
        low, high = np.quantile(above, tails)
        found["above_coin"] = float(_above(*mean[:, :, None])[0])
        found |= {"above_coin_lower": float(low), "above_coin_upper": float(high)}
        return found | {"above": float(np.mean(above > 1e-9))}

    def _needed(self, expected: Mapping[str, float], budget: _Budget) -> int | None:
        """Return with how many tasks a gain would show: what is learned grows as a - b / n, what is noise shrinks.

        The second point of the curve is what halves of the tasks learn for the other half.
        """
        n, share = len(self.world), 1 - 1 / (int(self.fold.max()) + 1)
        gain, slope = expected["above_coin"], 0.0
        if share > 0.5 and self._halves is not None:
            try:
                judged = self._halves._judged(budget)[1]
            except TacitError:
                return None
            half = self._halves._expected(self._halves._whole(judged, budget))["above_coin"]
            slope = max(0.0, (gain - half) / (2 - 1 / share))
        spread = (expected["above_coin_upper"] - expected["above_coin_lower"]) / (2 * stats.norm.ppf(0.975))
        times = np.geomspace(1.05, MOST_TIMES, 500)
        shown = gain + slope * (1 / share - 1 / times) >= stats.norm.ppf(SURE) * spread / np.sqrt(times)
        return math.ceil(times[shown.argmax()] * n) if shown.any() else None

    @cached_property
    def _halves(self) -> CrossFit | None:
        """The same policies with two folds; None where they were fitted elsewhere."""
        if not all(isinstance(policy, Policy) for policy in self.policies):
            return None
        return CrossFit.of(self.world, self.policies, folds=2, seed=self.seed)

    def _frontier(self, name: str, budget: _Budget, expect: Callable[..., dict[str, float]], n: int) -> pd.DataFrame:
        rows = []
        low, high = sorted(self.pure[:, 1].mean(axis=1).tolist())
        for cap in np.linspace(low, high, validate.whole("frontier", n, 2)).tolist():
            try:
                found = expect(self._judge(self.known[name], replace(budget, cap=cap, worth=None))[1])
            except TacitError:
                found = expect(self.pure[0])
            rows.append(
                {"cap": cap, **{key: found[key] for key in ("success", "success_lower", "success_upper", "cost")}}
            )
        return pd.DataFrame(rows)


def folds_for(n: int) -> int:
    """Return how many parts are left out in turn: more of few tasks, so that fits without one are like that of all."""
    return min(n, 10 if n <= MANY else 5)


def _groups(episodes: Episodes) -> np.ndarray:
    """Number the tasks: rollouts of one task have one number."""
    ids = episodes.dataset["task"].values if "task" in episodes.dataset else episodes.ids
    return np.unique(np.asarray(ids).astype(str), return_inverse=True)[1]


def _last_handoff(world: World, at_most: float) -> int:
    """Return the last step up to which no handoff of any task would have cost more."""
    at_most = validate.number("at_most", at_most, "a number above 0", above=0)
    table = world.counterfactuals
    cost = table.table()[1, :, :-1]
    inside = np.arange(cost.shape[1]) < table.n_steps[:, None]
    dear = np.where(inside, cost, 0).max(axis=0) > at_most * (1 + SAME)
    if dear[0]:
        expected = f"at least {cost[:, 0].max():.4g}, what Strong alone costs on some task"
        raise InvalidDataError(expected, field="at_most", value=at_most)
    return int(dear.argmax()) - 1 if dear.any() else len(dear)


def _as_it_runs(router: Router, world: World, last: int | None) -> Router:
    """Return a router as it is written: its handoff is the world's, and no later than it may be."""
    if router.call == "strong":
        router = replace(router, call=CALL_OF[world.counterfactuals.handoff])
    return router if last is None else replace(router, last_handoff=last)


def _try(
    policy: Policy | FittedPolicy, world: World, training: Episodes | None, fold: np.ndarray, last: int | None
) -> _Tried:
    """Fit a policy on all tasks and without each fold, and look at each setting on the tasks left out."""
    elsewhere = training is not None or not isinstance(policy, Policy)

    def fitted_on(episodes: Episodes) -> FittedPolicy:
        return policy.fit(episodes) if isinstance(policy, Policy) else policy

    def routers(fitted: FittedPolicy) -> list[Router]:
        return [_as_it_runs(fitted.make(row), world, last) for row in settings]

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = fitted_on(world.episodes if training is None else training)
    note = next((str(one.message) for one in caught if issubclass(one.category, TacitWarning)), "")
    settings = [row for _, row in fitted.candidates.iterrows()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        run = world.each(routers(fitted))
        if elsewhere:
            return _Tried(fitted, run, run[1].mean(axis=1), note, fold)
        held = np.empty_like(run)
        for part in np.unique(fold):
            out = fold == part
            rest = fitted_on(world.episodes.take(np.flatnonzero(~out)))
            held[:, :, out] = world.take(np.flatnonzero(out)).each(routers(rest))
    return _Tried(fitted, held, run[1].mean(axis=1), note, fold)


def _above(means: np.ndarray, cheap: np.ndarray, strong: np.ndarray) -> np.ndarray:
    """Return success above the coin flip of the same cost, from means of success and cost, (2, ...) each."""
    span = strong[1] - cheap[1]
    share = np.divide(means[1] - cheap[1], span, out=np.zeros_like(means[1]), where=np.abs(span) > 1e-12)
    return means[0] - cheap[0] - share * (strong[0] - cheap[0])


def _flip(pure: np.ndarray, budget: _Budget) -> tuple[float, np.ndarray]:
    """Return the probability of the best coin under the budget, and its success and cost by task in the mean."""
    cheap, strong = pure[0][1].mean(), pure[1][1].mean()
    if budget.worth is not None:
        share = float(budget.takes_strong(pure))
    else:
        share = 1.0 if strong <= cheap else float(np.clip((budget.cap - cheap) / (strong - cheap), 0, 1))
    return share, (1 - share) * pure[0] + share * pure[1]
