r"""Whether anything is left in the residuals: trends that a larger model would explain.

Each episode's log-likelihood has a slope in the logit of its pi, in the location and the log of the scale of its
threshold, in the log of each weight, and in a power of the diagnostics' sums. Under a right model every slope is zero
on average, whatever was known of the task. A model that lets one of them move with a covariate z has, at the fitted
one, the slope :math:`T = \sum_i e_i z_i`; far from zero, the larger model explains the data better (Rao's score test).
Nothing is fitted anew. What fitting took from T is allowed for as in `bayes_tacit.review.crossings`, and signs by
chance show how far the worst of all T gets under a right model, however many there are.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from scipy import special

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.mending import with_returns
from bayes_tacit.errors import ConvergenceError, EvidenceError, TacitWarning
from bayes_tacit.estimates.completion import evidence_of, linear_predictors, scale_at
from bayes_tacit.estimates.map_fit import fit_map
from bayes_tacit.model.evidence import Evidence, final_sums
from bayes_tacit.model.families import NUMPY
from bayes_tacit.model.likelihood import threshold_log_likelihood
from bayes_tacit.review.crossings import SEED, Totals, judge_totals, moved_by_fitting
from bayes_tacit.review.findings import LEVEL, CheckResult, flat_draws, group_of, require_same_data

TRENDS = "Trends in residuals"
FLIPS = 4999
MOST_DRAWS, FEWEST_DRAWS, MOST_SLOPES = 300, 50, 1_000_000
"""How many draws are taken to see what fitting did; fewer of many episodes."""
SLOPE_STEP = 1e-3
EARLY = (1, 3)
"""After how many steps it is asked whether what the rollout has shown tells of Strong's success."""
FEWEST_MISSING, MOST_PRODUCTS = 5, 24
FARTHEST = 4.0
"""Standard deviations beyond which a covariate counts no more: no single task decides."""
POWERS, RATES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.25, 1.5, 2.0), (0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 9.0)
"""What is tried where sums do not count in proportion."""

INCIDENCE, LOCATION, SCALE, POWER, MARKED = "incidence", "location", "scale", "power", "location of the marked"
SPREAD, ROLLOUT, MISSING, DRIFT = "spread by feature", "incidence by rollout", "missing marks", "drift"
AND = " and "
RETURNS, PRODUCT = "diminishing returns", "feature times diagnostic"
ADVICE = {
    SPREAD: 'The spread of thresholds depends on {}: sample with `spread="features"`.',
    ROLLOUT: "Whether Strong succeeds shows in Cheap's first steps ({}), which pi does not know: sample from "
    "`with_early_steps(episodes)`, whose features hold them, and decide from there on.",
    MISSING: "Which AB = 01 episodes have a mark depends on when the handoff was due: mark those without one, or "
    "sample from `without_marks(episodes)`, if there are many tasks.",
    DRIFT: "Marks or tasks change along the data or with the rollout's length ({}): look whether the teacher kept to "
    "one rule, and mark again, or sample from `without_marks(episodes)`, if there are many tasks.",
    RETURNS: "Diagnostics count less and less, or more and more, as they add up: {}.",
    PRODUCT: "A diagnostic counts more in some tasks than in others: {}.",
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
    - *diminishing returns*: each diagnostic's sum counts by a power other than one;
    - *feature times diagnostic*: a diagnostic's weight depends on a feature.

    It passes if at least 1% of data sets with signs by chance have a trend as far from zero as the largest one. What to
    do is said of the largest kind, and of another one that is nearly as large: one fault shows in many places.
    """
    require_same_data(tree, episodes)
    slopes = Slopes.of_tree(tree, episodes)
    trends = list(_trends(slopes))

    def parts(found: dict[str, np.ndarray]) -> np.ndarray:
        return np.column_stack([found[trend.slope] * trend.values for trend in trends])

    own = parts(slopes.at_mean)
    moved = moved_by_fitting(np.array([parts(found).sum(axis=0) for found in slopes.by_draw()]), slopes.log_likelihood)
    rows = [(trend.kind, trend.by) for trend in trends]
    missing = next((at for at, row in enumerate(rows) if row[0] == MISSING), None)
    if missing is not None:
        own, moved = _with_expected_place(slopes, own, moved, missing)
        rows += [(MISSING, "expected place"), (MISSING, "both")]
    totals = Totals.of(own, moved, FLIPS, np.random.default_rng(SEED))
    table = pd.DataFrame(rows, columns=["by", "covariate"]).assign(z=totals.z)
    worst = table.iloc[int(table["z"].abs().to_numpy().argmax())]
    sentence = (
        f"The largest of {len(table)} trends ({worst['by']}: {worst['covariate']}) is {abs(worst['z']):.1f} standard "
        "errors from none"
    )
    return judge_totals(
        TRENDS, table, totals.worst(), LEVEL, sentence, lambda limit: _advice(table, limit, slopes),
        "trend, in standard errors",
    )  # fmt: skip


def _advice(table: pd.DataFrame, limit: float, slopes: Slopes) -> str:
    # The worst kind, and another one only if it is nearly as bad: one fault shows in many places.
    size = table["z"].abs()
    worst = size.groupby(table["by"]).max().sort_values(ascending=False)
    named = [str(kind) for kind in worst.index[(worst >= limit) & (worst >= 0.8 * worst.iloc[0])]][:2]
    told = []
    for kind in named or [str(worst.index[0])]:
        part = table[(table["by"] == kind) & (size >= 0.8 * worst[kind])]
        what = ", ".join(part["covariate"].head(3))
        if kind == RETURNS:
            what = _returns(slopes)
        elif kind == PRODUCT:
            what = _product(table[table["by"] == kind], limit)
        told.append(ADVICE[kind].format(what))
    return " ".join(told)


def _product(table: pd.DataFrame, limit: float) -> str:
    """Return what lets the weights depend on the feature that matters most to them."""
    pairs = [covariate.rsplit(AND, 1) for covariate in table["covariate"]]
    size = table["z"].abs().to_numpy()
    feature = pairs[int(size.argmax())][0]
    named = [
        name for (other, name), z in zip(pairs, size, strict=True) if other == feature and z >= min(limit, size.max())
    ]
    listed = ", ".join(map(repr, [feature, *named]))
    return f"sample from `with_product(episodes, {listed})`"


def _returns(slopes: Slopes) -> str:
    """Return which transformation of the sums explains outcomes and windows best, if one does."""
    episodes, spec = slopes.episodes, slopes.evidence.spec
    if spec.groups is not None or spec.noise is not None or spec.spread != "same" or spec.memory == "learned":
        return "no setting of this model mends that"
    tried = {"power=1": episodes} | {f"power={power:g}": with_returns(episodes, power=power) for power in POWERS}
    tried |= {f"rate={rate:g}": with_returns(episodes, rate=rate) for rate in RATES}
    found, plain = {}, replace(spec, zero_mass="drop_window")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        for name, changed in tried.items():
            try:
                found[name] = fit_map(
                    changed, spec=plain, ridge=1 / (2 * len(episodes)), floor=None, restarts=1
                ).objective
            except (ConvergenceError, EvidenceError):
                continue
    best = min(found, key=found.__getitem__, default="power=1")
    return "no power or logarithm mends that" if best == "power=1" else f"sample from `with_returns(episodes, {best})`"


@dataclass(frozen=True)
class Slopes:
    """The slopes of each episode's log-likelihood, at the mean of the parameters and under each draw.

    `logit` and `log_likelihood` are (draw, episode), `location` is (draw, timed), `s` (draw,), or (draw, timed) where
    it depends on the features, `w` (draw, diagnostic), a column of ones if the weights are fixed, and `memory` one
    number, or (draw,) if it is learned.
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
        some = {"draw": slice(None, None, -(-posterior.sizes["draw"] * posterior.sizes["chain"] // most))}
        logit, location, flat = linear_predictors(posterior.isel(some), evidence)
        learned = evidence.weights is None and flat["w"].size > 0
        memory = flat["rho"] if flat["rho"].size else float(evidence.spec.memory)
        w = flat["w"] if learned else np.ones((len(logit), 1))
        scale = np.array([scale_at(flat, evidence, draw) for draw in range(len(logit))])
        likelihood = flat_draws(group_of(tree, "log_likelihood")["total"].isel(some)).astype(float)
        return cls(evidence, episodes, logit, location, scale, w, memory, likelihood)

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
    def missing(self) -> np.ndarray:
        """Which timed episodes are AB = 01 without a mark."""
        timed = self.evidence.timed
        return np.asarray((self.episodes.outcomes[timed] == "01") & ~self.episodes.has_window[timed])

    @cached_property
    def _end(self) -> np.ndarray:
        # Sums over whole rollouts, (timed, diagnostic), in the evidence's columns.
        return final_sums(self.episodes, self.evidence, float(np.mean(self.memory)))

    def place(self, location: np.ndarray, s: np.ndarray | float, w: np.ndarray) -> np.ndarray:
        """Where the risk at the end lies in each timed episode's distribution of thresholds, standardized."""
        with np.errstate(divide="ignore"):
            place: np.ndarray = (np.log(self._end @ w) - location) / s
        return place.clip(-FARTHEST, FARTHEST)

    @cached_property
    def mean_place(self) -> np.ndarray:
        """The place at the mean of the parameters."""
        return self.place(self.location.mean(axis=0), self.s.mean(axis=0), self.w.mean(axis=0))

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

    def _at(
        self, logit: np.ndarray, location: np.ndarray, s: np.ndarray | float, w: np.ndarray, memory: float
    ) -> dict[str, np.ndarray]:
        evidence = self.evidence.at_memory(memory)

        def slope(up: Point, down: Point) -> np.ndarray:
            rise = np.subtract(*(threshold_log_likelihood(*point, NUMPY) for point in (up, down)))
            out = np.zeros(evidence.n)
            out[evidence.timed] = np.nan_to_num(rise / (2 * SLOPE_STEP), posinf=0.0, neginf=0.0)
            return out

        up, down = SLOPE_STEP, -SLOPE_STEP
        found = {
            INCIDENCE: evidence.strong_success - special.expit(logit),
            LOCATION: slope((evidence, w, location + up, s), (evidence, w, location + down, s)),
            SCALE: slope((evidence, w, location, s * np.exp(up)), (evidence, w, location, s * np.exp(down))),
        }
        place, family = self.place(location, s, w), evidence.family
        due = -np.exp(family.log_pdf(place) - family.log_cdf(place, NUMPY)) / s
        found[MARKED] = found[LOCATION].copy()
        found[MARKED][evidence.timed] = np.where(self.marked, found[LOCATION][evidence.timed] - due, 0.0)
        if self.weighted:
            more, less = (_to_power(evidence, 1 + side) for side in (up, down))
            found[POWER] = slope((more, w, location, s), (less, w, location, s))
            for j, one in enumerate(np.eye(len(w))):
                rising, falling = ((evidence, w * np.exp(side * one), location, s) for side in (up, down))
                found[f"weight {j}"] = slope(rising, falling)
        return found


def _to_power(evidence: Evidence, power: float) -> Evidence:
    before = evidence.before**power
    return replace(evidence, before=before, within=(evidence.before + evidence.within) ** power - before)


def _trends(slopes: Slopes) -> Iterator[Trend]:
    evidence, episodes = slopes.evidence, slopes.episodes
    n, diagnostics = evidence.n, episodes.diagnostic_names
    features = dict(zip(evidence.feature_names, evidence.features.T.clip(-FARTHEST, FARTHEST), strict=True))
    for name, values in features.items():
        yield Trend(SPREAD, name, SCALE, values)
    early = episodes.dataset["diagnostics"].isel(step=slice(0, max(EARLY))).fillna(0).values
    for steps in EARLY:
        for j, name in enumerate(diagnostics):
            if (values := _standardized(early[:, :steps, j].sum(axis=1))).any():
                label = f"{name} at the first step" if steps == 1 else f"{name} in {steps} steps"
                yield Trend(ROLLOUT, label, INCIDENCE, values)
    order, length = _standardized(np.arange(n)), _standardized(episodes.n_steps)
    if order.any():
        yield Trend(DRIFT, "place in the data, Strong's success", INCIDENCE, order)
    for name, values in (("place in the data", order), ("length of the rollout", length)):
        if values.any():
            yield Trend(DRIFT, f"{name}, thresholds", LOCATION, values)
            yield Trend(DRIFT, f"{name}, marks", MARKED, values)
    if slopes.missing.sum() >= FEWEST_MISSING <= slopes.marked.sum():
        yield Trend(MISSING, "place of the marks", MARKED, np.ones(n))
    if slopes.weighted:
        yield Trend(RETURNS, "power of the sums", POWER, np.ones(n))
        if len(features) * len(diagnostics) <= MOST_PRODUCTS:
            for name, values in features.items():
                for k, diagnostic in enumerate(diagnostics):
                    yield Trend(PRODUCT, f"{name}{AND}{diagnostic}", f"weight {k}", values)


def _standardized(values: np.ndarray) -> np.ndarray:
    spread = float(np.std(values))
    return ((values - np.mean(values)) / spread).clip(-FARTHEST, FARTHEST) if spread > 0 else np.zeros(len(values))


def _with_expected_place(
    slopes: Slopes, own: np.ndarray, moved: np.ndarray, marks: int
) -> tuple[np.ndarray, np.ndarray]:
    """Add whether those with a mark are expected to cross early, given their features, and both ways to see it."""
    solved = slopes.marked | slopes.missing
    rows = slopes.evidence.timed[solved]
    x = np.column_stack([np.ones(len(rows)), slopes.evidence.features[rows]])

    def beyond_features(values: np.ndarray) -> np.ndarray:
        left: np.ndarray = values - x @ np.linalg.lstsq(x, values, rcond=None)[0]
        return left

    expected = np.zeros(slopes.evidence.n)
    marked = slopes.marked[solved].astype(float)
    expected[rows] = beyond_features(marked) * beyond_features(slopes.mean_place[solved])
    size = [np.sqrt(np.sum(part**2)) + np.finfo(float).tiny for part in (expected, own[:, marks] + moved[:, marks])]
    both = expected / size[0] - own[:, marks] / size[1]
    return (
        np.column_stack([own, expected, both]),
        np.column_stack([moved, np.zeros_like(expected), -moved[:, marks] / size[1]]),
    )
