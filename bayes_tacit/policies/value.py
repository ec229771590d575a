"""Policies by value: a handoff where it is worth more than going on, in success minus lambda times cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd
from scipy import special

from bayes_tacit import validate
from bayes_tacit.data.counterfactuals import Counterfactuals
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import DEFAULT_TIMING, Timing, discards_proposal, handoff_steps, usable_checkpoints
from bayes_tacit.data.visible import Visible
from bayes_tacit.decisions.selection import score_quantiles
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.logs.reader import DIAGNOSTICS, FEATURES
from bayes_tacit.policies.base import FittedPolicy, Setting, number_in
from bayes_tacit.policies.logistic import L2Logistic
from bayes_tacit.router import Router
from bayes_tacit.router.rule import CALL_OF, Chance, Line, scan
from bayes_tacit.router.rules import Advantage, CertainAdvantage, Induction, Outlook, Outlooks, inputs

Known = Counterfactuals | Callable[[Episodes], Counterfactuals]
"""What comes of handoffs: a table that holds the training episodes, or a function that makes one of them."""

PENALTY = 10.0
"""Of a ridge on standardized columns, in squared units of what is predicted."""

WAITING = 100.0
"""The same of how much waiting is worth: without evidence, it is worth nothing."""

CHEAPEST = 0.05
"""A handoff counts as costing at least this share of what it costs on average."""

FEWEST = 15
"""Training tasks that have to be under way for what waiting there is worth to be learned."""

LAMBDAS = 24


@dataclass(frozen=True, eq=False)
class ByValue:
    """A handoff where it makes success likelier by more than lambda times what it costs more.

    Cheap's and the handoff's chances are those of the episodes' reader of words, or where there is none (or `words` is
    false) two logistic models on the features and all diagnostics so far. What a handoff costs more is a linear model
    on the same. Quantiles of the training scores are tried as lambda.

    Attributes
    ----------
    known
        What comes of each handoff of the training episodes, and what it costs.
    waiting
        Whether going on is worth more because Cheap may be stopped later as well, learned by backward induction.
    certain
        With which probability a handoff has to be worth lambda; without it, what is likeliest counts. The three models
        are then on all columns, the reader's among them, and the penalties normal priors: 0 for the mean, and for what
        a handoff costs in units of its residual variance. Likelihood and prior count by 1/m, with m a task's moments
        in the mean, for they share one outcome: so the mode stays, and a posterior is as wide as its tasks make it.
        Draws are from the normal approximation around the mode.
    n_draws, seed
        How many draws a router holds, and what decides them.

    Examples
    --------
    >>> from bayes_tacit import Counterfactuals, StepCost, load_example
    >>> episodes = load_example()
    >>> known = Counterfactuals.from_restarts(episodes, strong_steps=episodes.n_steps, cost=StepCost(1, 3))
    >>> ByValue(known).fit(episodes).handoffs(episodes, {"alpha": 0.015})[:5]
    array([-1, -1,  0, 10, -1])
    """

    known: Known
    waiting: bool = False
    certain: float | None = None
    n_draws: int = 64
    seed: int = 0
    logistic: L2Logistic = L2Logistic(penalty=10.0)  # noqa: RUF009 - a frozen value
    timing: Timing = DEFAULT_TIMING
    n_candidates: int = 101
    words: bool = True
    name: str = "Advantage"
    sees: ClassVar[str] = "The task's features, and the diagnostics of all steps so far."
    decides: ClassVar[str] = "Before the first step and at each of Cheap's checkpoints: hand over for good, or go on."

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.certain is not None:
            validate.number("certain", self.certain, "a number above 0 and below 1", above=0, below=1)
            validate.whole("n_draws", self.n_draws, 1)
            validate.whole("seed", self.seed, 0)
            if self.waiting:
                raise InvalidDataError("False where `certain` is given", field="waiting", value=self.waiting)

    def fit(self, training: Episodes) -> FittedPolicy:
        """Learn what handoffs give and cost, on all checkpoints at which one is possible."""
        table = self.known.select(training.ids) if isinstance(self.known, Counterfactuals) else self.known(training)
        moments = _Moments.of(training, table, self.timing)
        rule: Advantage | CertainAdvantage
        if self.certain is not None:
            rule = self._certain(self.certain, moments)
        else:
            rule = self._advantage(moments)
            rule = self._induction(rule, moments) if self.waiting else rule
        router = Router(
            rule=rule,
            call=CALL_OF[table.handoff],
            timing=self.timing,
            feature_names=moments.visible.feature_names,
            diagnostic_names=moments.visible.diagnostic_names,
        )
        found = scan(rule, moments.visible.features, moments.visible.diagnostics, moments.visible.n_steps)
        usable = router.usable(found.steps, moments.visible.n_steps)
        candidates = score_quantiles(
            np.column_stack([rule.opening(rule.begin(moments.visible.features)), usable]),
            self.n_candidates,
            above=-np.inf,
        )

        def make(setting: Setting) -> Router:
            alpha = number_in(setting, "alpha")
            return replace(router, alpha=alpha, alpha_start=alpha)

        return FittedPolicy(self.name, pd.DataFrame({"alpha": candidates.alpha}), make)

    def _advantage(self, moments: _Moments) -> Advantage:
        visible = moments.visible
        read_later: tuple[int, ...] = ()
        read_start: tuple[int, ...] = ()
        if (
            self.words
            and set(FEATURES) <= set(visible.feature_names)
            and {DIAGNOSTICS[0], DIAGNOSTICS[2]} <= set(visible.diagnostic_names)
        ):
            f, d = len(visible.feature_names), len(visible.diagnostic_names)
            latest = [f + d + visible.diagnostic_names.index(name) for name in (DIAGNOSTICS[0], DIAGNOSTICS[2])]
            read_start = tuple(visible.feature_names.index(name) for name in FEATURES)
            read_later = tuple(latest)
        task = moments.task
        start = self._outlook(read_start, visible.features, task, np.zeros(len(task), dtype=int), moments)
        later = self._outlook(read_later, moments.columns, moments.rows, moments.handoff, moments)
        return Advantage(start, later)

    def _outlook(
        self, read: tuple[int, ...], columns: np.ndarray, rows: np.ndarray, handoff: np.ndarray, moments: _Moments
    ) -> Outlook:
        never, success, price, floor = moments.outcomes(rows, handoff)
        mean, scale = _standard(columns)
        line = _ridge((columns - mean) / scale, price, PENALTY)
        return Outlook(
            read,
            self._chance(columns, never, skip=bool(read)),
            self._chance(columns, success, skip=bool(read)),
            Line(mean, scale, float(line[0]), line[1:], floor),
        )

    def _chance(self, columns: np.ndarray, success: np.ndarray, *, skip: bool) -> Chance:
        """Learn a chance; a constant where a reader knows better, or all outcomes are alike."""
        outcome = success > 0.5
        if not skip and outcome.any() and not outcome.all():
            names = tuple(f"c{number}" for number in range(columns.shape[1]))
            return self.logistic.fit(names, columns, outcome, "value: ").chance()
        rate, width = (outcome.sum() + 0.5) / (len(outcome) + 1), columns.shape[1]
        return Chance(np.zeros(width), np.ones(width), float(special.logit(rate)), np.zeros(width))

    def _certain(self, certain: float, moments: _Moments) -> CertainAdvantage:
        rng, visible, task = np.random.default_rng(self.seed), moments.visible, moments.task
        start = self._outlooks(visible.features, task, np.zeros(len(task), dtype=int), moments, rng)
        later = self._outlooks(moments.columns, moments.rows, moments.handoff, moments, rng)
        return CertainAdvantage(start, later, certain)

    def _outlooks(
        self, columns: np.ndarray, rows: np.ndarray, handoff: np.ndarray, moments: _Moments, rng: np.random.Generator
    ) -> Outlooks:
        never, success, price, floor = moments.outcomes(rows, handoff)
        mean, scale = _standard(columns)
        each = len(rows) / len(np.unique(rows))
        cheap, strong = (self._log_odds(columns, outcome > 0.5, each, rng) for outcome in (never, success))
        z = (columns - mean) / scale
        line, design = _ridge(z, price, PENALTY), np.column_stack([np.ones(len(z)), z])
        precision = design.T @ design + _penalties(z.shape[1], PENALTY)
        noise = np.linalg.solve(np.linalg.cholesky(precision).T, rng.standard_normal((len(line), self.n_draws)))
        spread = np.sqrt(each * np.mean((price - design @ line) ** 2))
        return Outlooks(mean, scale, cheap, strong, line + spread * noise.T, floor)

    def _log_odds(self, columns: np.ndarray, outcome: np.ndarray, each: float, rng: np.random.Generator) -> np.ndarray:
        """Draw a logistic model on standardized columns, (draw, 1 + column), from (likelihood * prior)^(1 / each).

        Where all outcomes are alike, a rate is drawn under Jeffreys' prior.
        """
        out = np.zeros((self.n_draws, 1 + columns.shape[1]))
        if outcome.all() or not outcome.any():
            won, lost = outcome.sum() / each + 0.5, (~outcome).sum() / each + 0.5
            out[:, 0] = special.logit(np.clip(rng.beta(won, lost, self.n_draws), 1e-9, 1 - 1e-9))
            return out
        fit = self.logistic.fit(tuple(f"c{number}" for number in range(columns.shape[1])), columns, outcome, "value: ")
        mean, scale = _standard(columns)
        mode = np.append(*fit.on(mean, scale))
        for row, draw in zip(out, self.logistic.laplace(fit, columns, self.n_draws, rng), strict=True):
            row[:] = mode + np.sqrt(each) * (np.append(*draw.on(mean, scale)) - mode)
        return out

    def _induction(self, rule: Advantage, moments: _Moments) -> Induction:
        """Learn how much waiting is worth, from the last moment back.

        Each task stops, in hindsight, where the model of the tasks without it says so (leave one out); what it then
        gave is what going on was worth a moment earlier.
        """
        table, horizon = moments.table, moments.table.shape[2] - 1
        cheap, strong, price = moments.expected(rule)
        usable = ~np.isnan(price)
        top = np.nanquantile((strong - cheap) / price, 0.99)
        lambdas = np.r_[0.0, np.geomspace(max(top, 1e-9) / 200, max(top, 1e-9) * 1.5, LAMBDAS)]
        waiting = np.zeros((len(lambdas), horizon, 6))
        for k, price_of in enumerate(lambdas):
            worth = table[0] - price_of * table[1]
            later = worth[:, -1].copy()
            for at in range(horizon - 1, -1, -1):
                rows = np.flatnonzero(usable[:, at])
                if not len(rows):
                    continue
                given = inputs(cheap[rows, at], strong[rows, at], price[rows, at])
                now = strong[rows, at] - cheap[rows, at] - price_of * price[rows, at]
                stop = worth[rows, moments.steps[at]]
                left = now
                if len(rows) >= FEWEST:
                    waiting[k, at], held = _waiting(given, stop - later[rows] - now)
                    left = now + held
                later[rows] = np.where(left > 0, stop, later[rows])
        # Where few tasks are left, waiting is worth what it was the moment before.
        for at in range(1, horizon):
            if usable[:, at].sum() < FEWEST:
                waiting[:, at] = waiting[:, at - 1]
        return Induction(rule.start, rule.later, lambdas, waiting)


@dataclass(frozen=True, eq=False)
class _Moments:
    """All moments of training episodes at which a handoff is possible."""

    visible: Visible
    table: np.ndarray
    steps: np.ndarray
    task: np.ndarray
    rows: np.ndarray
    handoff: np.ndarray
    columns: np.ndarray
    checkpoint: np.ndarray

    @classmethod
    def of(cls, training: Episodes, known: Counterfactuals, timing: Timing) -> _Moments:
        visible = Visible.of(training)
        table = known.table(discards_proposal=discards_proposal(timing))
        seen = visible.so_far(visible.feature_names)
        usable = np.arange(seen.shape[1]) < usable_checkpoints(visible.n_steps, timing)[:, None]
        rows, at = np.nonzero(usable)
        columns = np.column_stack([seen[rows, at], np.log1p(at)])
        steps = np.concatenate([[0], handoff_steps(np.arange(table.shape[2] - 1), timing)])[: table.shape[2] - 1]
        return cls(visible, table, steps, np.arange(len(training)), rows, handoff_steps(at, timing), columns, at)

    def outcomes(self, rows: np.ndarray, handoff: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """Return how Cheap's rest and a handoff end at some moments, what it costs more, and the least that counts."""
        success, cost = self.table[:2]
        floor = CHEAPEST * float(np.mean((cost[:, 0] - cost[:, -1]).clip(min=0)))
        price = cost[rows, handoff] - cost[rows, -1]
        return success[rows, -1], success[rows, handoff], price, max(floor, 1e-12)

    def expected(self, rule: Advantage) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return both chances and the price at each moment, (episode, moment); NaN where no handoff is possible."""
        shape = (len(self.task), self.table.shape[2] - 1)
        out = np.full((3, *shape), np.nan)
        out[:, :, 0] = rule.start(self.visible.features, odds=True)
        inside = self.checkpoint + 1 < shape[1]
        out[:, self.rows[inside], self.checkpoint[inside] + 1] = rule.later(self.columns[inside], odds=False)
        return out[0], out[1], out[2]


def _ridge(columns: np.ndarray, values: np.ndarray, penalty: float) -> np.ndarray:
    """Return intercept and slopes on standardized columns; the intercept is not penalized."""
    design = np.column_stack([np.ones(len(columns)), columns])
    return np.asarray(np.linalg.solve(design.T @ design + _penalties(columns.shape[1], penalty), design.T @ values))


def _penalties(columns: int, penalty: float) -> np.ndarray:
    return np.diag([1e-9] + [penalty] * columns)


def _standard(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return means and scales; a scale of 1 where a column does not differ."""
    scale = columns.std(axis=0)
    return columns.mean(axis=0), np.where(scale > 0, scale, 1.0)


def _waiting(given: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a ridge on the inputs of `bayes_tacit.router.rules.inputs`, and what it says of each row without it."""
    mean, scale = given[:, 1:].mean(axis=0), given[:, 1:].std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    design = np.column_stack([np.ones(len(given)), (given[:, 1:] - mean) / scale])
    gram = np.linalg.inv(design.T @ design + np.diag([1.0] + [WAITING] * 5))
    line = gram @ design.T @ values
    leverage = np.einsum("ij,jk,ik->i", design, gram, design)
    held = values - (values - design @ line) / np.maximum(1 - leverage, 1e-3)
    slopes = line[1:] / scale
    return np.concatenate([[line[0] - mean @ slopes], slopes]), held
