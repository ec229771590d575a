"""Policies that learn from outcomes without a model of the threshold: logistic chances, and nearest past moments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, get_args

import numpy as np
import pandas as pd
from scipy import special

from bayes_tacit import validate
from bayes_tacit.data.costs import StepCost
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import (
    DEFAULT_HANDOFF,
    DEFAULT_TIMING,
    Handoff,
    Timing,
    marked_checkpoints,
    strong_acts_after,
    usable_checkpoints,
)
from bayes_tacit.data.visible import Visible
from bayes_tacit.decisions.selection import score_quantiles
from bayes_tacit.errors import EvidenceError, InvalidDataError
from bayes_tacit.model.design import Standardization
from bayes_tacit.model.spec import Unmarked
from bayes_tacit.policies.base import FittedPolicy, Setting, number_in, numbers
from bayes_tacit.policies.logistic import NEWTON, L2Logistic, LogisticFit
from bayes_tacit.policies.plain import check_settings, probability_quantiles, step_thresholds
from bayes_tacit.router import Router, rules
from bayes_tacit.router.rule import CALL_OF, failing_below
from bayes_tacit.router.rules import MOST_PLACES, Experience, Summary


@dataclass(frozen=True)
class PrefixRouter:
    """A logistic model for Pure-Cheap success from task features and the first K diagnostics (SWE-Router's shape).

    It is asked once, after K Cheap steps, if the episode goes on; where the probability is below the threshold, Strong
    starts the task anew. A restart costs the Cheap prefix, the whole Strong episode, and one call of the value head.
    The head is also paid where Cheap goes on. K, one of `prefixes`, and the threshold are chosen together; the other
    settings are those of `TaskRouter`.

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> PrefixRouter(prefixes=(1, 2), n_candidates=2).fit(load_example()).candidates.round(2)
       k  alpha  target
    0  1   0.06     0.0
    1  1   0.62     1.0
    2  2   0.04     0.0
    3  2   0.64     1.0
    """

    prefixes: tuple[int, ...] = (1, 2, 3, 4)
    features: tuple[str, ...] | None = None
    logistic: L2Logistic = NEWTON
    n_candidates: int = 101
    name: str = "Prefix router"
    sees: ClassVar[str] = "The task's features and the diagnostics of the first K steps."
    decides: ClassVar[str] = "Once, after K Cheap steps: go on with Cheap, or restart the task with Strong."

    def __post_init__(self) -> None:
        """Check the settings."""
        prefixes = tuple(validate.whole("prefixes", k, 1) for k in self.prefixes)
        if not prefixes or len(set(prefixes)) < len(prefixes):
            raise InvalidDataError("different whole numbers >= 1", field="prefixes", value=self.prefixes)
        object.__setattr__(self, "prefixes", prefixes)
        check_settings(self)

    def fit(self, training: Episodes) -> FittedPolicy:
        """Fit a model for each K on the episodes that go on after K steps."""
        visible, features = _visible(training, self.features)
        success = training.dataset["cheap_success"].values
        routers, tables = {}, []
        for k in self.prefixes:
            prefix = visible.diagnostics[:, :k]
            columns = np.full((len(prefix), k * prefix.shape[2]), np.nan)
            columns[:, : prefix.shape[1] * prefix.shape[2]] = prefix.reshape(len(prefix), -1)
            columns, judged = np.hstack([visible.task_columns(features), columns]), visible.n_steps > k
            names = (*features, *(f"{name}[{step}]" for step in range(k) for name in visible.diagnostic_names))
            model = self.logistic.fit(names, columns[judged], success[judged], f"{self.name}, K = {k}: ")
            quantiles = probability_quantiles(model.probability(columns[judged]), len(training), self.n_candidates)
            tables.append(quantiles.assign(k=k)[["k", "alpha", "target"]])
            routers[k] = Router(
                rule=rules.Prefix(k, model.chance()),
                call="restart",
                feature_names=features,
                diagnostic_names=visible.diagnostic_names,
            )

        def make(setting: Setting) -> Router:
            k = int(number_in(setting, "k"))
            if k not in routers:
                raise InvalidDataError(f"one of {list(routers)}, the prefixes it was fitted for", field="k", value=k)
            return routers[k].at(failing_below(number_in(setting, "alpha")))

        return FittedPolicy(self.name, pd.concat(tables, ignore_index=True), make)


@dataclass(frozen=True)
class Cascade:
    """A logistic model for the success of a finished Cheap episode, from features and diagnostics (FrugalGPT's shape).

    Where the probability is below the threshold, Strong starts the task anew, which costs both episodes. `summaries`
    are what is taken of each diagnostic over the episode: "total", "mean", "highest", "last". The number of steps is
    not among them: where an early end means success, it would give the outcome away; total and mean together do so in
    part. The other settings are those of `TaskRouter`.

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> fitted = Cascade(summaries=("total",), n_candidates=3).fit(load_example())
    >>> fitted.candidates.round(2)
       alpha  target
    0   0.00     0.0
    1   0.22     0.5
    2   0.87     1.0
    """

    features: tuple[str, ...] | None = None
    summaries: tuple[Summary, ...] = ("total", "highest", "last")
    logistic: L2Logistic = NEWTON
    n_candidates: int = 101
    name: str = "Cascade"
    sees: ClassVar[str] = "The task's features and the diagnostics of the whole finished Cheap episode."
    decides: ClassVar[str] = "Once, after the last Cheap step: keep its result, or restart the task with Strong."

    def __post_init__(self) -> None:
        """Check the settings."""
        summaries = tuple(validate.choice("summaries", one, get_args(Summary)) for one in self.summaries)
        if not summaries or len(set(summaries)) < len(summaries):
            raise InvalidDataError(f"different ones of {get_args(Summary)}", field="summaries", value=self.summaries)
        object.__setattr__(self, "summaries", summaries)
        check_settings(self)

    def fit(self, training: Episodes) -> FittedPolicy:
        """Fit the model, and make the candidates from its probabilities for the same episodes."""
        visible, features = _visible(training, self.features)
        inside = (np.arange(visible.diagnostics.shape[1]) < visible.n_steps[:, None])[:, :, None]
        within = np.where(inside, visible.diagnostics, 0.0)
        known = {
            "total": within.sum(axis=1),
            "mean": within.sum(axis=1) / visible.n_steps[:, None],
            "highest": within.max(axis=1),
            "last": within[np.arange(len(within)), visible.n_steps - 1],
        }
        columns = np.hstack([visible.task_columns(features), *(known[summary] for summary in self.summaries)])
        words = (f"{summary} {name}" for summary in self.summaries for name in visible.diagnostic_names)
        success = training.dataset["cheap_success"].values
        model = self.logistic.fit((*features, *words), columns, success, f"{self.name}: ")
        candidates = probability_quantiles(model.probability(columns), len(training), self.n_candidates)
        router = Router(
            rule=rules.Ended(self.summaries, model.chance()),
            call="restart",
            feature_names=features,
            diagnostic_names=visible.diagnostic_names,
        )

        def make(setting: Setting) -> Router:
            return router.at(failing_below(number_in(setting, "alpha")))

        return FittedPolicy(self.name, candidates, make)


@dataclass(frozen=True)
class Landmark:
    r"""Two logistic models, asked at every checkpoint.

    .. math:: \Pr(A = 0 \mid x, u(0), \dots, u(t)) \; \Pr(B = 1 \mid x, u(0), \dots, u(t))

    is compared with the threshold, and its first crossing hands off for good. Both models are fitted on all pairs of a
    training episode and one of its checkpoints at which a handoff is still possible. Their columns are the task's
    features, of each diagnostic the sum so far, the latest and the highest value, and log(1 + t). No marks are needed.
    The settings are those of `TaskRouter` and `FirstAlarm`.

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> training = load_example()
    >>> fitted = Landmark().fit(training)
    >>> fitted.scores(training)[1, :4].round(2)
    array([0.56, 0.59, 0.59, 0.58])
    >>> fitted.handoffs(training, {"alpha": 0.7})[:5]
    array([-1, -1,  4,  8, -1])
    """

    features: tuple[str, ...] | None = None
    logistic: L2Logistic = NEWTON
    timing: Timing = DEFAULT_TIMING
    handoff: Handoff = DEFAULT_HANDOFF
    n_candidates: int = 101
    name: str = "Landmark"
    sees: ClassVar[str] = "The task's features, and the diagnostics of all steps so far."
    decides: ClassVar[str] = "At each of Cheap's checkpoints: hand over to Strong for good, or go on."

    def __post_init__(self) -> None:
        """Check the settings."""
        check_settings(self)

    def fit(self, training: Episodes) -> FittedPolicy:
        """Fit both models on pooled checkpoints, and make the candidates from the scores of the same episodes."""
        visible, features = _visible(training, self.features)
        known = visible.so_far(features)
        columns = _with_clock(known, np.arange(known.shape[1]))
        usable = np.arange(columns.shape[1]) < usable_checkpoints(visible.n_steps, self.timing)[:, None]
        if not usable.any():
            raise EvidenceError(f"{self.name}: every rollout has one step; expected one in which a handoff can come")
        names, pairs, row = (*visible.names_so_far(features), "log steps"), columns[usable], np.nonzero(usable)[0]
        cheap, strong = (training.dataset[f"{agent}_success"].values[row] for agent in ("cheap", "strong"))
        of = f"{self.name}: "
        models = self.logistic.fit(names, pairs, cheap, of), _of_strong(self.logistic, names, pairs, strong, of)
        router = Router(
            rule=rules.TwoChances(*(model.chance() for model in models)),
            call=CALL_OF[self.handoff],
            timing=self.timing,
            feature_names=features,
            diagnostic_names=visible.diagnostic_names,
        )
        return FittedPolicy.by_quantiles(self.name, router, training, self.n_candidates)


def _of_strong(
    logistic: L2Logistic, names: tuple[str, ...], columns: np.ndarray, success: np.ndarray, of: str
) -> LogisticFit:
    """Fit Strong's success; where all outcomes are alike, that is a rate near 0 or 1, whatever was seen."""
    if success.any() and not success.all():
        return logistic.fit(names, columns, success, of)
    rate = (success.sum() + 0.5) / (len(success) + 1)
    return LogisticFit(names, Standardization.of(columns), float(special.logit(rate)), np.zeros(len(names)), 0)


RIGHT, WRONG, UNKNOWN = 0, 1, -1


@dataclass(frozen=True)
class Trim:
    """A logistic model of whether a step is wrong, and a threshold on its probability.

    An analogue of TRIM (targeted routing in multi-step reasoning, 2026), not TRIM itself, in which a process reward
    model reads each reasoning step of a small model, and a large one writes a step of low reward anew. Kept is that
    each step is judged by itself and that Strong takes single steps, by TRIM's plainest rule, a threshold. Dropped are
    the words, for which the step's diagnostics and the task's features stand, and rules that plan ahead. After an
    action (the timing "post_action") the step cannot be written anew, so Strong takes the next one.

    Nobody judged single steps here, so their labels are derived: a step is wrong if a handoff is due by then.

    ==========================  ===================================================================================
    episode                     its steps
    ==========================  ===================================================================================
    Cheap succeeds (AB = 1x)    right
    AB = 01, window [a, b]      right before a; not known from a to b - 1; wrong from b on, where Cheap is off track
    AB = 01, no window          the last one is wrong (`unmarked="due"`), or none is known (`"outcome"`)
    neither succeeds (AB = 00)  not known: nobody says where it went wrong
    ==========================  ===================================================================================

    The model is fitted on all steps that are known, each once. What comes of single steps has to be replayed
    (`World.single_steps`). The other settings are those of `TaskRouter` and `StepDeferral`.

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> training = load_example()
    >>> fitted = Trim(average_steps=(0, 2, 4)).fit(training)
    >>> fitted.candidates.round(2)
       alpha  target
    0    inf     0.0
    1   0.58     2.0
    2   0.48     4.0
    >>> fitted.scores(training)[1, :4].round(2)
    array([0.42, 0.48, 0.49, 0.44])
    """

    features: tuple[str, ...] | None = None
    logistic: L2Logistic = NEWTON
    unmarked: Unmarked = "due"
    average_steps: tuple[float, ...] | None = None
    timing: Timing = DEFAULT_TIMING
    n_candidates: int = 101
    name: str = "TRIM analogue"
    sees: ClassVar[str] = "The task's features, and the diagnostics of the latest step."
    decides: ClassVar[str] = "After each Cheap step: Cheap or Strong for the next step only; then Cheap acts again."

    def __post_init__(self) -> None:
        """Check the settings."""
        validate.choice("unmarked", self.unmarked, get_args(Unmarked))
        check_settings(self)

    def fit(self, training: Episodes) -> FittedPolicy:
        """Fit the model on the steps whose label is known, and make the candidates from its probabilities."""
        visible, features = _visible(training, self.features)
        labels = step_labels(training, self.timing, self.unmarked)
        known = labels != UNKNOWN
        counts = {word: int((labels == label).sum()) for word, label in (("right", RIGHT), ("wrong", WRONG))}
        if not all(counts.values()):
            told = " and ".join(f"{n} to be {word}" for word, n in counts.items())
            raise EvidenceError(
                f"{self.name}: {told}, of {int(visible.n_steps.sum())} training steps; expected both to learn from"
            )
        names = (*features, *(f"last {name}" for name in visible.diagnostic_names))
        task = visible.task_columns(features)[:, None]
        task = np.broadcast_to(task, (*visible.diagnostics.shape[:2], len(features)))
        columns = np.concatenate([task, visible.diagnostics], axis=2)
        model = self.logistic.fit(names, columns[known], labels[known] == WRONG)
        router = Router(
            rule=rules.StepChance(model.chance()),
            call="strong_once",
            timing=self.timing,
            feature_names=features,
            diagnostic_names=visible.diagnostic_names,
        )
        usable = usable_checkpoints(visible.n_steps, self.timing)
        scores = router.score(training).steps
        return FittedPolicy.of(
            self.name, router, step_thresholds(scores, usable, self.average_steps, self.n_candidates)
        )


def step_labels(episodes: Episodes, timing: Timing, unmarked: Unmarked) -> np.ndarray:
    """Say of each step whether it is right (0) or wrong (1), as `Trim` derives it; -1 where nobody knows."""
    dataset = episodes.dataset
    n_steps = dataset["n_steps"].values
    step = np.arange(dataset.sizes["step"])
    cheap, strong = (dataset[f"{agent}_success"].values.astype(bool) for agent in ("cheap", "strong"))
    first, last = (marked_checkpoints(dataset[f"window_{end}"].values, n_steps, timing) for end in ("start", "end"))
    marked = ~np.isnan(dataset["window_start"].values)
    labels = np.full((len(n_steps), len(step)), UNKNOWN)
    labels[cheap] = RIGHT
    labels[marked[:, None] & (step < first[:, None])] = RIGHT
    labels[marked[:, None] & (step >= last[:, None])] = WRONG
    if unmarked == "due":
        labels[(~cheap & strong & ~marked)[:, None] & (step == n_steps[:, None] - 1)] = WRONG
    labels[step >= n_steps[:, None]] = UNKNOWN
    return labels


STRONG_STEPS = "strong_steps"
"""The carried variable with the length of Strong's own rollouts."""

PRICES = (0.0, 0.05, 0.1, 0.2, 0.4)

FINEST = 2.0**-20
"""Costs are kept as multiples of it, so that sums of them are exact in any order."""


@dataclass(frozen=True)
class EvoRoute:
    r"""Nearest neighbours among past episodes, with what came of them and what it cost.

    An analogue of EvoRoute (experience-driven self-routing agents, 2026), not EvoRoute itself. Kept is that before each
    step, the first one too, the past moments that are most like this one are looked up, and that their successes and
    costs decide. Dropped are roles, time, and all models but two: what is chosen is a handoff for good. The experience
    is that of the training episodes, and does not grow while a router runs.

    A moment is known by the task's features and by the history: of each diagnostic the sum so far, the latest and the
    highest value, and log(1 + steps seen), all standardized; distances are Euclidean. Over the nearest moments

    .. math:: \overline B - \overline A - \text{price} \cdot \overline{\text{extra cost}} \ge \alpha

    hands off: what Strong alone solves more often than Cheap, less the price of what it would cost more. Neither marks
    nor a model are needed. As for `Landmark`, B is how Strong did from the start. Moments are split in halves, each
    time along what varies most, until there are `limit` places; a place keeps its mean and its sums, so a file is
    bounded, and nothing of an episode itself is in it.

    Attributes
    ----------
    nearest, limit
        The share of the experience that is asked, and the places that are kept.
    prices
        Prices to try: success that is given up for what Strong costs on average.
    cost
        What steps cost. Only the ratio matters. Strong is taken to need as many steps as in its own rollout, if the
        episodes carry `strong_steps`, or else as many as Cheap still took.
    start
        Whether to decide before the first step too, from the features alone.

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> training = load_example()
    >>> fitted = EvoRoute(prices=(0, 0.1)).fit(training)
    >>> fitted.scores(training)[1, :3].round(2)      # after each of the first three steps
    array([0.49, 0.48, 0.52])
    >>> fitted.handoffs(training, {"price": 0, "alpha": 0.6})[:5]
    array([-1, -1, 11, 10, -1])
    """

    features: tuple[str, ...] | None = None
    nearest: float = 0.08
    limit: int = 256
    prices: tuple[float, ...] = PRICES
    cost: StepCost = StepCost(cheap=1, strong=3)  # noqa: RUF009 - a frozen value
    start: bool = True
    timing: Timing = DEFAULT_TIMING
    handoff: Handoff = DEFAULT_HANDOFF
    n_candidates: int = 101
    name: str = "EvoRoute analogue"
    sees: ClassVar[str] = "The task's features, and the diagnostics of all steps so far, beside those of past episodes."
    decides: ClassVar[str] = "Before each of Cheap's steps: hand over to Strong for good, or go on."

    def __post_init__(self) -> None:
        """Check the settings."""
        validate.number("nearest", self.nearest, "a share above 0 and at most 1", above=0, most=1)
        validate.whole("limit", self.limit, 1, MOST_PLACES)
        object.__setattr__(self, "prices", tuple(numbers("prices", self.prices, "numbers >= 0").tolist()))
        if not isinstance(self.cost, StepCost) or self.cost.strong == 0:
            raise InvalidDataError("a StepCost in which Strong's steps cost something", field="cost", value=self.cost)
        validate.flag("start", self.start)
        check_settings(self)

    def fit(self, training: Episodes) -> FittedPolicy:
        """Condense all moments of the training episodes, and make the candidates from their scores."""
        visible = Visible.of(training, (STRONG_STEPS, *(self.features or ())))
        features = visible.feature_names if self.features is None else self.features
        horizon = visible.diagnostics.shape[1]
        asked = np.arange(horizon + 1) <= usable_checkpoints(visible.n_steps, self.timing)[:, None]
        asked[:, 0] = self.start
        if not asked.any():
            raise EvidenceError(f"{self.name}: every rollout has one step; expected one in which a handoff can come")
        later = visible.so_far(features)
        first = np.zeros((len(later), 1, later.shape[2]))
        first[:, 0, : len(features)] = visible.task_columns(features)
        moments = _with_clock(np.concatenate([first, later], axis=1), np.arange(horizon + 1))
        episode, column = np.nonzero(asked)
        outcomes = np.stack([training.dataset[f"{agent}_success"].values[episode] for agent in ("cheap", "strong")])
        # A decision at a moment has Strong act from there on, or in place of the step that was proposed there.
        left = visible.n_steps[episode] - np.maximum(column - 1 + strong_acts_after(self.timing), 0)
        carried = visible.carried.get(STRONG_STEPS)
        strong = left if carried is None else np.asarray(carried, dtype=float)[episode]
        extra = (self.cost.strong * strong - self.cost.cheap * left) / (self.cost.strong * strong.mean())
        experience = condensed(moments[asked], outcomes, extra, self.limit, self.nearest)
        # All scores that a router would make of these episodes: what is asked does not depend on the price.
        scored = np.arange(horizon + 1) <= visible.n_steps[:, None]
        scored[:, 0] = self.start
        found = experience.ask(moments[scored])
        routers, tables = {}, []
        for price in self.prices:
            rule = rules.NetGain(experience, price, self.start)
            routers[price] = Router(
                rule=rule,
                call=CALL_OF[self.handoff],
                timing=self.timing,
                feature_names=features,
                diagnostic_names=visible.diagnostic_names,
            )
            alpha = score_quantiles(rule.gain(found)[:, None], self.n_candidates, above=-np.inf).alpha
            tables.append(pd.DataFrame({"price": price, "alpha": alpha}))

        def make(setting: Setting) -> Router:
            price, alpha = number_in(setting, "price"), number_in(setting, "alpha")
            if price not in routers:
                rule = rules.NetGain(experience, price, self.start)
                routers[price] = replace(routers[self.prices[0]], rule=rule)
            return routers[price].at(alpha, alpha if self.start else np.inf)

        return FittedPolicy(self.name, pd.concat(tables, ignore_index=True), make)


def condensed(moments: np.ndarray, outcomes: np.ndarray, extra: np.ndarray, limit: int, nearest: float) -> Experience:
    """Condense moments (moment, column) to at most `limit` places, of which a share `nearest` is asked, at least one.

    `outcomes` are whether Cheap and whether Strong went on to succeed (2, moment), `extra` what Strong would have cost
    more.

    Examples
    --------
    >>> moments = np.array([[0.0], [0.2], [5.0], [5.2]])
    >>> past = condensed(moments, np.array([[1, 1, 0, 0], [1, 1, 1, 0]]), np.ones(4), limit=2, nearest=0.5)
    >>> past.count, past.cheap, past.strong, past.ask(np.array([[4.0]]))
    (array([2., 2.]), array([2., 0.]), array([2., 1.]), array([[2., 0., 1., 2.]]))
    """
    standardization = Standardization.of(moments)
    z = standardization.apply(moments)
    cells = halved(z, limit)
    summed: Mapping[str, np.ndarray] = {
        "cheap": outcomes[0].astype(float),
        "strong": outcomes[1].astype(float),
        "cost": np.rint(extra / FINEST) * FINEST,
    }
    return Experience(
        standardization.mean,
        standardization.scale,
        np.array([z[cell].mean(axis=0) for cell in cells]),
        np.array([len(cell) for cell in cells]),
        **{name: np.array([values[cell].sum() for cell in cells]) for name, values in summed.items()},
        nearest=max(1, round(nearest * len(cells))),
    )


def halved(points: np.ndarray, limit: int) -> list[np.ndarray]:
    """Split points at the median of what varies most among them, again and again, into at most so many parts.

    The largest part is split next, the earliest of equals; so parts differ in size by a factor of about two at most.
    """
    parts = [np.arange(len(points))]
    while len(parts) < limit:
        split = _splits(parts, points, limit - len(parts))
        if len(split) == len(parts):
            break
        parts = split
    return parts


def _splits(parts: list[np.ndarray], points: np.ndarray, at_most: int) -> list[np.ndarray]:
    """Halve so many of the parts, the largest first."""
    largest = sorted(range(len(parts)), key=lambda place: -len(parts[place]))[:at_most]
    chosen = {place for place in largest if len(parts[place]) > 1}
    out = []
    for place, part in enumerate(parts):
        if place not in chosen:
            out.append(part)
            continue
        values = points[part]
        order = np.argsort(values[:, values.var(axis=0).argmax()], kind="stable")
        half = len(part) // 2
        out += [part[order[:half]], part[order[half:]]]
    return out


def _visible(training: Episodes, wanted: tuple[str, ...] | None) -> tuple[Visible, tuple[str, ...]]:
    """Return what may be seen of training episodes, and the features to use."""
    visible = Visible.of(training, wanted or ())
    return visible, visible.feature_names if wanted is None else wanted


def _with_clock(known: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Append log(1 + steps) to what is known at each moment, (episode, moment, column)."""
    clock = np.broadcast_to(np.log1p(steps)[:, None], (*known.shape[:2], 1))
    return np.concatenate([known, clock], axis=2)
