r"""Whether anything is left in the residuals: trends that the model does not have, and tasks that resemble each other.

Each episode's log-likelihood has a slope in the logit of its pi, in the location and the log of the scale of its
threshold, in the log of each weight, and in a power of the diagnostics' sums. Under a right model every slope is zero
on average, whatever was known of the task. A model that lets one of them move with a covariate z has, at the fitted
one, the slope :math:`T = \sum_i e_i z_i`; far from zero, the larger model explains the data better (Rao's score test).
Nothing is fitted anew. What fitting took from T is allowed for as in `bayes_tacit.review.crossings`, and signs by
chance show how far the worst of all T gets under a right model, however many there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from scipy import sparse, special

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.layout import carried_variables
from bayes_tacit.estimates.completion import evidence_of, linear_predictors, scale_at
from bayes_tacit.model.evidence import Evidence, final_sums
from bayes_tacit.model.families import NUMPY
from bayes_tacit.model.likelihood import threshold_log_likelihood
from bayes_tacit.review import figures
from bayes_tacit.review.crossings import Totals, chance_of, moved_by_fitting
from bayes_tacit.review.findings import CheckResult, group_of, require_same_data
from bayes_tacit.review.style import lazily

TRENDS, DEPENDENCE = "Trends in residuals", "Dependence between tasks"
LEVEL, DEPENDENCE_LEVEL = 0.01, 0.005
"""How often a right model may fail."""
FLIPS, MOST_FLIPPED, SEED = 4999, 20_000_000, 0
MOST_DRAWS, FEWEST_DRAWS, MOST_SLOPES = 300, 50, 1_000_000
"""How many draws are taken to see what fitting did; fewer of many episodes."""
STEP = 1e-3
EARLY = (1, 3)
"""After how many steps it is asked whether what the rollout has shown tells of Strong's success."""
FEWEST_MISSING = 5
MOST_PRODUCTS = 24
FARTHEST = 4.0
"""Standard deviations beyond which a covariate counts no more: no single task decides."""
LAGS = 3
"""How many tasks apart two of them count as neighbours in the data."""
NEIGHBOURS = "neighbours in the data"

INCIDENCE, LOCATION, SCALE, POWER, MARKED = "incidence", "location", "scale", "power", "location of the marked"
SPREAD, ROLLOUT, MISSING, DRIFT = "spread by feature", "incidence by rollout", "missing marks", "drift"
RETURNS, PRODUCT = "diminishing returns", "feature times diagnostic"
ADVICE = {
    SPREAD: 'The spread of thresholds depends on {}: sample with `spread="features"`.',
    ROLLOUT: "Whether Strong succeeds shows in Cheap's first steps ({}), which pi does not know: sample from "
    "`with_early_steps(episodes)`, whose features hold them, and decide from there on.",
    MISSING: "Which AB = 01 episodes have a mark depends on when the handoff was due: mark those without one, or "
    "sample from `without_marks(episodes)`, if there are many tasks.",
    DRIFT: "Marks or tasks change along the data or with the rollout's length ({}): look whether the teacher kept to "
    "one rule, and mark again, or sample from `without_marks(episodes)`, if there are many tasks.",
    RETURNS: "Diagnostics count less and less, or more and more, as they add up: no setting of the model mends that.",
    PRODUCT: "A diagnostic counts more in some tasks than in others ({}): no setting of the model mends that.",
}
"""What to do about a trend, by its kind."""


Point = tuple[Evidence, np.ndarray, np.ndarray, np.ndarray | float]
"""What the masses of windows depend on: the evidence, the weights, the locations, the scale."""


class Trend(NamedTuple):
    """One total: a kind of departure, the covariate, whose slopes it takes, and the covariate's value by episode."""

    kind: str
    by: str
    slope: str
    values: np.ndarray


def check_trends(tree: xr.DataTree, episodes: Episodes) -> CheckResult:
    r"""Check that residuals have no trend that a larger model would explain.

    The trends are score tests of larger models, each with a row of the table:

    - *spread by feature*: log s is linear in a feature;
    - *incidence by rollout*: the logit of pi is linear in a diagnostic's sum over Cheap's first one or three steps;
    - *missing marks*: among AB = 01, those marked cross at another place of their distribution than the model says, or
      those not marked are those that it expects to cross late or early;
    - *drift*: incidence or location are linear in the place in the data, or location in the rollout's length;
    - *diminishing returns*: a power of the diagnostics' sums counts, other than 1;
    - *feature times diagnostic*: the log of a diagnostic's weight is linear in a feature.

    It passes if at least 1% of data sets with the same residuals but signs by chance have a total as far from zero, in
    its standard errors, as the worst observed one.

    Parameters
    ----------
    tree
        A posterior with `log_likelihood`.
    episodes
        What it was fitted on.
    """
    require_same_data(tree, episodes)
    return judge_trends(Slopes.of_tree(tree, episodes))


def judge_trends(slopes: Slopes) -> CheckResult:
    """Check the slopes of the episodes' log-likelihoods for trends."""
    trends = list(_trends(slopes))
    z = np.column_stack([trend.values for trend in trends])
    source = [trend.slope for trend in trends]

    def parts(found: dict[str, np.ndarray]) -> np.ndarray:
        return np.column_stack([found[name] for name in source]) * z

    own = parts(slopes.at_mean)
    moved = moved_by_fitting(np.array([parts(found).sum(axis=0) for found in slopes.by_draw()]), slopes.log_likelihood)
    rows = [(trend.kind, trend.by) for trend in trends]
    missing = next((at for at, row in enumerate(rows) if row[0] == MISSING), None)
    if missing is not None:
        own, moved = _with_expected_place(slopes, own, moved, missing)
        rows += [(MISSING, "expected place"), (MISSING, "both")]
    totals = Totals.of(own, moved, FLIPS, np.random.default_rng(SEED))
    table = pd.DataFrame(rows, columns=["by", "covariate"]).assign(z=totals.z)
    chance = totals.worst()
    worst = table.iloc[int(table["z"].abs().to_numpy().argmax())]
    p_value, limit = chance_of(chance, abs(worst["z"])), float(np.quantile(chance, 1 - LEVEL, method="higher"))
    passed = p_value >= LEVEL
    sentence = (
        f"The largest of {len(table)} trends ({worst['by']}: {worst['covariate']}) is {abs(worst['z']):.1f} standard "
        f"errors from none (p = {p_value:.2g}, limit {LEVEL})."
    )
    drawn = lazily(figures.draw_structure, table, limit, "trend, in standard errors")
    advice = "" if passed else _advice(table, limit)
    return CheckResult(TRENDS, passed, table, sentence, advice, drawn, decisive=True, p_value=p_value)


def _advice(table: pd.DataFrame, limit: float) -> str:
    # The worst kind, and another one only if it is nearly as bad: one fault shows in many places.
    size = table["z"].abs()
    worst = size.groupby(table["by"]).max().sort_values(ascending=False)
    named = [str(kind) for kind in worst.index[(worst >= limit) & (worst >= 0.8 * worst.iloc[0])]][:2]
    told = []
    for kind in named or [str(worst.index[0])]:
        part = table[(table["by"] == kind) & (size >= 0.8 * worst[kind])]
        told.append(ADVICE[kind].format(", ".join(part["covariate"].head(3))))
    return " ".join(told)


@dataclass(frozen=True)
class Slopes:
    """The slopes of each episode's log-likelihood, at the mean of the parameters and under each draw.

    Attributes
    ----------
    evidence
        Of the episodes, as the model read them.
    episodes
        The episodes.
    logit, location
        (draw, episode) and (draw, timed).
    s
        (draw,), or (draw, timed) where it depends on the features.
    w
        (draw, diagnostic); a column of ones if the weights are fixed.
    memory
        (draw,) if it is learned, else one number.
    log_likelihood
        (draw, episode).
    """

    evidence: Evidence
    episodes: Episodes
    logit: np.ndarray
    location: np.ndarray
    s: np.ndarray
    w: np.ndarray
    memory: np.ndarray | float
    log_likelihood: np.ndarray

    @classmethod
    def of_tree(cls, tree: xr.DataTree, episodes: Episodes) -> Slopes:
        """Read a posterior and the episodes that it was fitted on."""
        evidence, posterior = evidence_of(tree), group_of(tree, "posterior")
        most = int(np.clip(MOST_SLOPES // max(1, evidence.n), FEWEST_DRAWS, MOST_DRAWS))
        every = -(-posterior.sizes["draw"] * posterior.sizes["chain"] // most)
        some = posterior.isel(draw=slice(None, None, every))
        logit, location, flat = linear_predictors(some, evidence)
        total = group_of(tree, "log_likelihood")["total"].isel(draw=slice(None, None, every))
        values = total.transpose("chain", "draw", "episode").values.astype(float)
        learned = evidence.weights is None and flat["w"].size > 0
        memory = flat["rho"] if flat["rho"].size else float(evidence.spec.memory)
        w = flat["w"] if learned else np.ones((len(logit), 1))
        scale = np.array([scale_at(flat, evidence, draw) for draw in range(len(logit))])
        return cls(evidence, episodes, logit, location, scale, w, memory, values.reshape(-1, evidence.n))

    @property
    def weighted(self) -> bool:
        """Whether there are weights to learn."""
        return self.w.shape[1] > 1

    @cached_property
    def marked(self) -> np.ndarray:
        """Which timed episodes have a mark, and were not marked past their end."""
        evidence = self.evidence
        return np.asarray(self.episodes.has_window[evidence.timed] & ~evidence.open_above)

    @cached_property
    def _end(self) -> np.ndarray:
        # Sums over whole rollouts, (timed, diagnostic), in the evidence's columns.
        return final_sums(self.episodes, self.evidence, float(np.mean(self.memory)))

    @cached_property
    def place(self) -> np.ndarray:
        """Where the risk at the end lies in each timed episode's distribution of thresholds, standardized."""
        return self._place(self.location.mean(axis=0), self.s.mean(axis=0), self.w.mean(axis=0))

    @cached_property
    def at_mean(self) -> dict[str, np.ndarray]:
        """The slopes at the mean of the parameters, by name."""
        logit, location, s, w = (part.mean(axis=0) for part in (self.logit, self.location, self.s, self.w))
        return self._at(logit, location, s, w, float(np.mean(self.memory)))

    def by_draw(self) -> Iterator[dict[str, np.ndarray]]:
        """Yield the slopes under each draw."""
        memory = np.broadcast_to(self.memory, len(self.s))
        for at in zip(self.logit, self.location, self.s, self.w, memory, strict=True):
            yield self._at(*at)

    def _place(self, location: np.ndarray, s: np.ndarray | float, w: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            place: np.ndarray = (np.log(self._end @ w) - location) / s
        return place.clip(-FARTHEST, FARTHEST)

    def _at(
        self, logit: np.ndarray, location: np.ndarray, s: np.ndarray | float, w: np.ndarray, memory: float
    ) -> dict[str, np.ndarray]:
        evidence = self.evidence.at_memory(memory)

        def slope(up: Point, down: Point) -> np.ndarray:
            rise = np.subtract(*(threshold_log_likelihood(*point, NUMPY) for point in (up, down)))
            out = np.zeros(evidence.n)
            out[evidence.timed] = np.nan_to_num(rise / (2 * STEP), posinf=0.0, neginf=0.0)
            return out

        found = {
            INCIDENCE: evidence.strong_success - special.expit(logit),
            LOCATION: slope((evidence, w, location + STEP, s), (evidence, w, location - STEP, s)),
            SCALE: slope((evidence, w, location, s * np.exp(STEP)), (evidence, w, location, s * np.exp(-STEP))),
        }
        place, family = self._place(location, s, w), evidence.family
        due = -np.exp(family.log_pdf(place) - family.log_cdf(place, NUMPY)) / s
        found[MARKED] = found[LOCATION].copy()
        found[MARKED][evidence.timed] = np.where(self.marked, found[LOCATION][evidence.timed] - due, 0.0)
        if self.weighted:
            up, down = (_to_power(evidence, 1 + side) for side in (STEP, -STEP))
            found[POWER] = slope((up, w, location, s), (down, w, location, s))
            for j in range(len(w)):
                more, less = (w * np.exp(side * (np.arange(len(w)) == j)) for side in (STEP, -STEP))
                found[_weight(j)] = slope((evidence, more, location, s), (evidence, less, location, s))
        return found


def _weight(j: int) -> str:
    return f"weight {j}"


def _to_power(evidence: Evidence, power: float) -> Evidence:
    before = evidence.before**power
    return replace(evidence, before=before, within=(evidence.before + evidence.within) ** power - before)


def _trends(slopes: Slopes) -> Iterator[Trend]:
    evidence, episodes = slopes.evidence, slopes.episodes
    n, features = evidence.n, evidence.features
    for j, name in enumerate(evidence.feature_names):
        yield Trend(SPREAD, name, SCALE, features[:, j].clip(-FARTHEST, FARTHEST))
    early = episodes.dataset["diagnostics"].isel(step=slice(0, max(EARLY))).fillna(0).values
    for steps in EARLY:
        for j, name in enumerate(episodes.diagnostic_names):
            if (values := _standardized(early[:, :steps, j].sum(axis=1))).any():
                label = f"{name} at the first step" if steps == 1 else f"{name} in {steps} steps"
                yield Trend(ROLLOUT, label, INCIDENCE, values)
    order, length = _standardized(np.arange(n)), _standardized(episodes.n_steps)
    for kind, values in (("place in the data", order), ("length of the rollout", length)):
        if values.any():
            if kind == "place in the data":
                yield Trend(DRIFT, f"{kind}, Strong's success", INCIDENCE, values)
            yield Trend(DRIFT, f"{kind}, thresholds", LOCATION, values)
            yield Trend(DRIFT, f"{kind}, marks", MARKED, values)
    if _missing(slopes).sum() >= FEWEST_MISSING <= slopes.marked.sum():
        yield Trend(MISSING, "place of the marks", MARKED, np.ones(n))
    if slopes.weighted:
        yield Trend(RETURNS, "power of the sums", POWER, np.ones(n))
        if len(evidence.feature_names) * len(evidence.diagnostic_names) <= MOST_PRODUCTS:
            for j, name in enumerate(evidence.feature_names):
                for k, diagnostic in enumerate(evidence.diagnostic_names):
                    values = features[:, j].clip(-FARTHEST, FARTHEST)
                    yield Trend(PRODUCT, f"{name} and {diagnostic}", _weight(k), values)


def _standardized(values: np.ndarray) -> np.ndarray:
    spread = float(np.std(values))
    return ((values - np.mean(values)) / spread).clip(-FARTHEST, FARTHEST) if spread > 0 else np.zeros(len(values))


def _missing(slopes: Slopes) -> np.ndarray:
    """Return which timed episodes are AB = 01 without a mark."""
    timed = slopes.evidence.timed
    return np.asarray((slopes.episodes.outcomes[timed] == "01") & ~slopes.episodes.has_window[timed])


def _with_expected_place(
    slopes: Slopes, own: np.ndarray, moved: np.ndarray, marks: int
) -> tuple[np.ndarray, np.ndarray]:
    """Add whether those with a mark are expected to cross early, given their features, and both ways to see it."""
    timed = slopes.evidence.timed
    solved = slopes.marked | _missing(slopes)
    x = np.column_stack([np.ones(int(solved.sum())), slopes.evidence.features[timed[solved]]])

    def beyond_features(values: np.ndarray) -> np.ndarray:
        left: np.ndarray = values - x @ np.linalg.lstsq(x, values, rcond=None)[0]
        return left

    expected = np.zeros(slopes.evidence.n)
    marked = slopes.marked[solved].astype(float)
    expected[timed[solved]] = beyond_features(marked) * beyond_features(slopes.place[solved])
    size = [np.sqrt(np.sum(part**2)) + np.finfo(float).tiny for part in (expected, own[:, marks] + moved[:, marks])]
    both = expected / size[0] - own[:, marks] / size[1]
    return (
        np.column_stack([own, expected, both]),
        np.column_stack([moved, np.zeros_like(expected), -moved[:, marks] / size[1]]),
    )


def check_dependence(tree: xr.DataTree, episodes: Episodes) -> CheckResult:
    r"""Check that tasks of a kind, or side by side in the data, have no residuals in common.

    If tasks of a kind resemble each other beyond their features, their residuals do: the sum of products of residuals
    over pairs of a kind (the score test of intercepts that the kinds have of their own) is above zero. Kinds are the
    values of every carried column that repeat, and neighbours in the data. Bands that take such tasks as independent
    are too narrow. It passes if at least 0.5% of data sets with signs by chance have a sum as large as the largest.

    Parameters
    ----------
    tree
        A posterior.
    episodes
        What it was fitted on, with the columns that they carry.
    """
    require_same_data(tree, episodes)
    return judge_dependence(Slopes.of_tree(tree, episodes))


def judge_dependence(slopes: Slopes) -> CheckResult:
    """Check the residuals of incidence and location for what tasks have in common."""
    n = slopes.evidence.n
    residuals = {
        what: slopes.at_mean[name] for what, name in (("Strong's success", INCIDENCE), ("thresholds", LOCATION))
    }
    signs = np.random.default_rng(SEED).choice([-1.0, 1.0], size=(min(FLIPS, max(999, MOST_FLIPPED // n)), n))
    rows, chance = [], []
    for what, residual in residuals.items():
        for name, pairs in {**_kinds(slopes.episodes), NEIGHBOURS: None}.items():
            total, flipped = (_products(values, pairs) for values in (residual[None], signs * residual))
            spread = float(flipped.std())
            if spread > 0:
                rows.append((name, what, float(total[0]) / spread))
                chance.append(flipped / spread)
    table = pd.DataFrame(rows, columns=["by", "residuals of", "z"])
    if table.empty:
        return CheckResult(
            DEPENDENCE, None, table, "There are too few tasks to tell whether they depend on each other."
        )
    largest = np.max(chance, axis=0)
    worst = table.iloc[int(table["z"].to_numpy().argmax())]
    p_value = chance_of(largest, float(worst["z"]))
    limit = float(np.quantile(largest, 1 - DEPENDENCE_LEVEL, method="higher"))
    passed = p_value >= DEPENDENCE_LEVEL
    sentence = (
        f"What tasks have in common beyond their features is largest by {worst['by']}, in {worst['residuals of']}: "
        f"{worst['z']:.1f} standard errors (p = {p_value:.2g}, limit {DEPENDENCE_LEVEL})."
    )
    drawn = lazily(figures.draw_structure, table, limit, "products of residuals, in standard errors")
    advice = "" if passed else _dependence_advice(str(worst["by"]))
    return CheckResult(DEPENDENCE, passed, table, sentence, advice, drawn, decisive=True, p_value=p_value)


def _dependence_advice(name: str) -> str:
    if name == NEIGHBOURS:
        return (
            "Tasks that are side by side in the data resemble each other: carry a column that says what they have in "
            "common (a database, a repository, a day), and sample with `groups` of it."
        )
    return f"Sample with `groups={name!r}`, which gives each of its values intercepts of its own."


def _kinds(episodes: Episodes) -> dict[str, sparse.csr_array]:
    """Return which kind each episode is of, (kind, episode), for carried columns of values that repeat."""
    n, out = len(episodes), {}
    for name in carried_variables(episodes.dataset):
        column = episodes.dataset[name]
        if column.dims != ("episode",):
            continue
        code, values = pd.factorize(pd.Series(column.values.tolist(), dtype=object).astype(str))
        if 1 < len(values) <= n / 2:
            out[name] = sparse.csr_array((np.ones(n), (code, np.arange(n))))
    return out


def _products(values: np.ndarray, kinds: sparse.csr_array | None) -> np.ndarray:
    """Sum the products of (row, episode) values over pairs of a kind, or of neighbours: (row,)."""
    if kinds is None:
        total = np.zeros(len(values))
        for lag in range(1, min(LAGS, values.shape[1] - 1) + 1):
            total += (values[:, lag:] * values[:, :-lag]).sum(axis=1)
        return total
    sums: np.ndarray = kinds @ values.T
    return (sums**2).sum(axis=0) - (values**2).sum(axis=1)
