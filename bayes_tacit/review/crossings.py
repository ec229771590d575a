r"""Whether crossings come when the model expects them: by step, and by everything else that may matter to them.

Both checks add up parts over the episodes, totals that are zero on average if the model is right, and ask how far from
zero they get by chance. The parameters were fitted to the same episodes, which takes from a total T what they can
explain; a total that did not allow for it would seem less surprising than it is. To first order an episode moves T by
its own part and by what it does to the parameters,

.. math:: c_i = r_i + \operatorname{Cov}(T(\theta), \ell_i(\theta)),

the covariance being over the posterior and :math:`\ell_i` the episode's log-likelihood (the infinitesimal jackknife of
a posterior mean). Then T has the variance of independent terms :math:`c_i`, and signs by chance on these terms give the
distribution of the worst of many totals (the multiplier method of Lin, Wei and Ying, 1993, for martingale residuals).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from scipy import sparse, special

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.model.evidence import told_if_alike
from bayes_tacit.model.families import FAMILIES
from bayes_tacit.model.spec import spec_of
from bayes_tacit.review import style
from bayes_tacit.review.findings import (
    LEVEL,
    ROUNDING,
    CheckResult,
    chance_of,
    cut,
    envelope,
    evenly,
    flat_draws,
    group_of,
    limit_of,
    require_same_data,
    span,
    too_few,
    unjudged,
)
from bayes_tacit.review.plots import probability_crossed, share_crossed
from bayes_tacit.review.style import Panel, draw_rows, lazily
from bayes_tacit.scores.core import Draws
from bayes_tacit.scores.fitted import Fitted, as_draws

CROSSING_STEPS, BY_COVARIATE = "Crossing steps", "Crossings by covariate"
POSITIONS, LEVELS = np.arange(1, 11) / 10, np.arange(1, 20) / 20
STRUCTURE_LEVEL = 0.005
"""How often a right model may fail the check by covariate."""
FLIPS, STRUCTURE_FLIPS, SEED = 1999, 4999, 0
MOST_CHECKPOINTS = 400_000
"""Of more, a random part of the episodes is looked at: a fault that it does not show would not matter."""
MOST_DRAWS, FEWEST_DRAWS, MOST_PROBABILITIES = 400, 100, 4_000_000
"""How many draws are taken to see what fitting did; fewer where there are many checkpoints."""
LARGEST_UNMARKED = 0.1
"""Share of AB = 01 episodes without a mark beyond which the bands are said not to hold."""
UNREAD = 'Mark them, or fit with `unmarked="due"` if every AB = 01 episode crosses by the end of its rollout.'
SOME_MARKS = "Have a teacher mark some of the AB = 01 episodes, or add rollouts of other lengths, and fit again."
UNMARKED = "Have a teacher mark the AB = 01 episodes (those that only Strong solves), and fit again."

FEWEST_EXPECTED = 8.0
"""Expected crossings in a bin that is judged."""
FIFTHS = evenly(5)
PLACES = np.array([0.03, 0.1, 0.25, 0.5, 0.75, 0.9, 0.97])
"""Where the shape of the threshold's distribution is looked at: a wrong one shows in the tails."""
MOST_PAIRS = 45
STEP, LATEST, PEAK = "step", "latest risk", "latest risk above all before"
LOCATION, PLACE, TAILS = "predicted threshold", "place in the threshold's distribution", "tails"
TINY, SMALLEST = 1e-9, 1e-12
QUARTILE = float(special.ndtri(0.75))
"""Of a normal distribution; that of a Cauchy distribution is its scale."""
LARGEST_RATIO = 2.0
"""Of the log of two hazards, so that no single checkpoint decides."""
SMALLEST_VARIANCE = 1e-24
MOST_GROUPS = 2000
"""Episodes beyond this number get signs in groups: their sums are as normal as they will be."""
SMALLEST_SHARE = 0.1
"""Of a total's variance before the fit: what is left after it is known up to noise, and counts for at least so much."""
TO_DO = {
    LATEST: "What counts seems to be the latest risk more than the sum of all: fit with a `memory` below 1, and "
    "compare by LOO.",
    STEP: "Time itself seems to count: fit with `clock=True`, and look whether the marks were made by the clock.",
    PLACE: "Thresholds are distributed otherwise: try the {} family, compare by LOO, and look for episodes whose "
    "window was marked by mistake. If two kinds of tasks are mixed, there is no remedy here but a feature that tells "
    "them apart.",
    LOCATION: "Tasks whose predicted threshold is high or low are off: a feature that tells them apart is missing.",
}
"""What to do where crossings are more or fewer than expected, by what."""


def check_crossing_steps(tree: xr.DataTree, episodes: Episodes) -> CheckResult:
    r"""Check predicted crossing steps against the teacher's windows, among the timed episodes.

    An observed crossing step is known up to its window [a, b]; where Cheap succeeded too, it is known to be past the
    end. Two things are compared with replicated data sets from the posterior predictive distribution:

    - **When.** The share of episodes that have crossed by 10%, 20%, ..., 100% of their rollout. The observed share is
      bounded: episodes whose window has ended have crossed for sure, those whose window has begun may have. No
      assumption about where in the window the crossing was.
    - **Calibration.** With F_i the distribution of the crossing step of episode i at the posterior mean, the crossing's
      place in it is spread evenly over (F_i(a - 1), F_i(b)], and the mean of these uniform distributions over the
      episodes should itself be uniform (the nonrandomized PIT of Czado, Gneiting and Held, 2009). This sees each
      episode at its own place, and assumes what the likelihood assumes: that a window says no more than that the
      crossing is inside it.

    It passes if the observed bounds meet the band that holds 99% of the replicates at all positions at once, and the
    largest departure of the mean PIT from uniform is exceeded by at least 1% of data sets by chance. In these every
    episode's own departure, less what fitting took from it, has a sign by chance (see `check_structure`). Replicates
    have not been fitted to, so a right model leaves their band less often than 1% of the time.

    It also fails if more than 10% of the AB = 01 episodes have no mark and the model was fitted with
    `unmarked="outcome"`: they cross too, and the likelihood does not know it. And it fails if there is no mark at all
    and the final risks of all tasks are alike: the data then say little of when to hand over.
    """
    require_same_data(tree, episodes)
    draws = flat_draws(group_of(tree, "replicates")["threshold"])
    constant = group_of(tree, "constant_data")
    first, last = (constant[name].values.astype(int) for name in ("window_start", "window_end"))
    n_steps = episodes.n_steps[constant["timed_position"].values]
    if not (first < n_steps).any():
        sentence = "No episode has a mark, so nothing was learned of when to hand over: q(t) is what the prior says."
        return CheckResult(CROSSING_STEPS, False, pd.DataFrame(), sentence, UNMARKED, decisive=True)
    if few := too_few(CROSSING_STEPS, draws):
        return few
    timing = _timing(draws, first, last, n_steps)
    calibration = judge_calibration(TimedEpisodes.of_tree(tree, episodes))
    fits = bool(timing["inside"].all()) and calibration.p_value >= LEVEL
    unread, alike = _unread(tree, episodes), _alike(constant)
    advice = (
        f"{_direction(timing, calibration)} Try the {_other_families(spec_of(tree).family)} family and compare by LOO; "
        "look for a diagnostic that the teacher saw and the model does not have, for a feature with a nonlinear effect "
        "on the threshold, and for windows marked by another rule."
    )
    return CheckResult(
        CROSSING_STEPS,
        fits and not unread and not alike,
        timing,
        " ".join(filter(None, (_sentence(timing, calibration, len(first)), unread, alike))),
        " ".join(filter(None, (UNREAD if unread else "", SOME_MARKS if alike else "", "" if fits else advice))),
        lazily(_draw_steps, timing, calibration),
        decisive=True,
        p_value=calibration.p_value,
    )


def _timing(draws: np.ndarray, first: np.ndarray, last: np.ndarray, n_steps: np.ndarray) -> pd.DataFrame:
    # A crossing at step t has happened by position r of a rollout of H steps if t + 1 <= r H.
    deadline = np.floor(POSITIONS[:, None] * n_steps + 1e-9) - 1
    band = envelope(share_crossed(draws, deadline))
    surely, possibly = (share_crossed(step, deadline) for step in (last, first))
    inside = (surely <= band.upper + ROUNDING) & (possibly >= band.lower - ROUNDING)
    columns = {"observed_least": surely, "observed_most": possibly, "predicted": band.mean}
    columns |= {"lower": band.lower, "upper": band.upper, "inside": inside}
    return pd.DataFrame(columns, index=pd.Index([f"{position:.0%}" for position in POSITIONS], name="crossed by"))


@dataclass(frozen=True)
class Calibration:
    """The mean PIT minus uniform at LEVELS, and the largest departure that chance explains."""

    departure: np.ndarray
    limit: float
    p_value: float


def judge_calibration(seen: TimedEpisodes) -> Calibration:
    """Compute how evenly the crossings lie in their predictive distributions."""

    def places(crossed: np.ndarray) -> np.ndarray:
        return _pit(*window_ends(crossed, *seen.windows))

    parts = places(seen.crossed) - LEVELS
    moved = seen.moved(lambda crossed: places(crossed).sum(axis=0))
    found = Totals.of(parts, moved, FLIPS, np.random.default_rng(SEED))
    worst, departure = np.abs(found.chance).max(axis=1) / len(parts), found.total / len(parts)
    return Calibration(departure, limit_of(worst, LEVEL), chance_of(worst, float(np.abs(departure).max())))


def _pit(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    # Distribution functions, at LEVELS, of the uniform distributions over (lower, upper]: (episode, level).
    width = (upper - lower)[:, None]
    reached = LEVELS - lower[:, None]
    inside = np.divide(reached, width, out=np.where(reached >= 0, 1.0, 0.0), where=width > 0)
    return inside.clip(0, 1)


def _sentence(table: pd.DataFrame, calibration: Calibration, n: int) -> str:
    ever, outside = table.loc["100%"], ", ".join(table.index[~table["inside"]])
    where = (
        f"the observed share leaves the predicted band at {outside} of the rollout"
        if outside
        else "at every point of the rollout the observed share lies in the predicted band"
    )
    return (
        f"Of {n} timed episodes {ever['observed_most']:.0%} crossed ({ever['predicted']:.0%} predicted); {where}, and "
        f"the crossing's place in its predictive distribution departs from uniform by at most "
        f"{np.abs(calibration.departure).max():.3f} (limit {calibration.limit:.3f}, p = {calibration.p_value:.2g})."
    )


def _direction(table: pd.DataFrame, calibration: Calibration) -> str:
    late = table.index[table["observed_least"] > table["upper"] + ROUNDING]
    early = table.index[table["observed_most"] < table["lower"] - ROUNDING]
    if parts := [f"too {word} at {', '.join(at)}" for word, at in (("late", late), ("early", early)) if len(at)]:
        return f"The model crosses {' and '.join(parts)} of the rollout."
    # Where more than its share lies in the lower part of the predictive distribution, crossings came before predicted.
    low, high = (part.mean() for part in np.array_split(calibration.departure, 2))
    if low * high < 0:
        return f"The model is too {'sure' if low > 0 else 'unsure'} of when episodes cross."
    return f"The model has episodes cross too {'late' if low + high > 0 else 'early'}, each seen in its own place."


def _unread(tree: xr.DataTree, episodes: Episodes) -> str:
    solved = episodes.outcomes == "01"
    missing = int((solved & ~episodes.has_window).sum())
    if spec_of(tree).unmarked != "outcome" or missing <= LARGEST_UNMARKED * solved.sum():
        return ""
    return (
        f"{missing} of {solved.sum()} AB = 01 episodes have no mark and are read by their outcome alone: "
        "thresholds seem higher than they are, and the bands of q(t) do not hold."
    )


def _alike(constant: xr.Dataset) -> str:
    before, within = (constant[f"diagnostics_{side}"].values for side in ("before", "within"))
    if before.ndim > 2:
        # Of a learned memory, as if nothing were forgotten.
        before, within = before[-1], within[-1]
    told = told_if_alike(before, within, int(constant["n_interval"]))
    return f"{told[0].upper()}{told[1:]}." if told else ""


def _draw_steps(table: pd.DataFrame, calibration: Calibration) -> Figure:
    """Draw the share that has crossed by each position of the rollout, and the mean PIT minus uniform by level."""
    columns = style.in_a_row(2)
    figure = Figure(figsize=(style.page_width(), 3.6 * 2 / columns), layout="constrained")
    left, right = figure.subplots(2 // columns, columns, squeeze=False).flat
    shade: dict[str, Any] = {"color": style.PREDICTED, "alpha": style.BAND_OPACITY, "linewidth": 0}
    left.fill_between(POSITIONS, table["lower"], table["upper"], label="predicted, 99% of replicates", **shade)
    left.plot(POSITIONS, table["predicted"], color=style.PREDICTED, label="predicted mean")
    bounds = table["observed_least"], table["observed_most"]
    marks: dict[str, Any] = {"color": style.OBSERVED, "zorder": 3}
    left.vlines(POSITIONS, *bounds, linewidth=1.5, label="observed, between bounds", **marks)
    for bound in bounds:
        left.plot(POSITIONS, bound, "_", markersize=7, **marks)
    left.xaxis.set_major_formatter(PercentFormatter(1.0))
    left.set(xlabel="part of the rollout", ylabel="share of episodes that crossed", title="When", ylim=(0, 1))
    left.legend(loc="upper left")
    limit, departure = calibration.limit, calibration.departure
    right.axhspan(-limit, limit, label="99% of replicates", **shade)
    right.axhline(0, color=style.PREDICTED)
    right.plot(LEVELS, departure, "o-", color=style.OBSERVED, linewidth=1.2, label="observed")
    right.set(xlabel="place in the predictive distribution", ylabel="mean PIT minus uniform", title="Calibration")
    reach = 1.35 * max(limit, float(np.abs(departure).max()))
    right.set(xlim=(0, 1), ylim=(-reach, reach))
    right.legend(loc="upper right", ncols=2)
    return figure


def check_structure(tree: xr.DataTree, episodes: Episodes) -> CheckResult:
    r"""Check that crossings are neither more nor fewer than expected, by everything that may matter to them.

    At every checkpoint that a timed episode reached without crossing, the model expects a number of crossings; see
    `Residuals`. The crossings that came less those expected are added up over bins of each feature, of each product of
    two features (standardized), of the predicted threshold, of each diagnostic's sum so far, of the latest risk, of how
    far it is above all before, of the step, and of the place in the threshold's distribution. Bins hold equally many
    expected crossings, at least 8. One more total weighs every checkpoint by how much likelier a crossing would be
    there if thresholds had the tails of a Cauchy distribution.

    It passes if at least 0.5% of data sets with the same residuals but signs by chance have a bin as far from zero, in
    its own standard errors (by the root of its deviance), as the worst observed one. The worst bin is compared with the
    worst bin, so the number of bins does not matter. What fitting to the same data takes from the residuals is allowed
    for, by the covariance of the totals and each episode's log-likelihood over the posterior
    (see the top of `bayes_tacit.review.crossings`). The study `power` shows how often it fails, rightly and wrongly.
    """
    require_same_data(tree, episodes)
    return judge_structure(TimedEpisodes.of_tree(tree, episodes))


def judge_structure(seen: TimedEpisodes) -> CheckResult:
    """Check the crossings of the timed episodes at the mean of the parameters."""
    residuals = Residuals.of(seen.crossed, *seen.windows)
    bins = list(_bins(seen, residuals))
    if not bins:
        sentence = f"Fewer than {FEWEST_EXPECTED:g} crossings are expected in every part of the data, too few to judge."
        return unjudged(BY_COVARIATE, sentence, "Mark more episodes.")
    table = pd.DataFrame([part.row for part in bins], columns=["by", "bin", "expected", "observed"])
    totals = _totals(seen, residuals, bins)
    table["z"] = _distance(table, totals)
    worst = table.iloc[int(table["z"].abs().to_numpy().argmax())]
    sentence = (
        f"In the worst of {len(table)} bins ({worst['by']}: {worst['bin']}) {worst['observed']:.1f} crossings came and "
        f"{worst['expected']:.1f} were expected"
    )
    return judge_totals(
        BY_COVARIATE, table, totals.worst(), STRUCTURE_LEVEL, sentence,
        lambda limit: _structure_advice(table, limit, seen.fitted),
        "crossings less those expected, by bin, in standard errors",
    )  # fmt: skip


def judge_totals(
    name: str,
    table: pd.DataFrame,
    chance: np.ndarray,
    level: float,
    sentence: str,
    advice: Callable[[float], str],
    xlabel: str,
    *,
    one_sided: bool = False,
) -> CheckResult:
    """Compare the largest z of a table of totals with what chance gives the largest of them."""
    size = table["z"] if one_sided else table["z"].abs()
    p_value, limit = chance_of(chance, float(size.max())), limit_of(chance, level)
    passed, beyond = p_value >= level, size > limit
    series = {"within": (table["z"].where(~beyond), None, style.SCORE)}
    series |= {"beyond": (table["z"].where(beyond), None, style.DECISION)} if beyond.any() else {}
    limits = (limit,) if one_sided else (-limit, limit)
    panel = Panel(xlabel, series, limits, 0.0, "limit for the worst of all")
    drawn = lazily(draw_rows, table["by"], panel)
    told = "" if passed else advice(limit)
    sentence = f"{sentence} (p = {p_value:.2g}, limit {level})."
    return CheckResult(name, passed, table, sentence, told, drawn, decisive=True, p_value=p_value)


class _Bin(NamedTuple):
    """Some checkpoints with what each counts for, and their row of the table."""

    row: tuple[str, str, float, float]
    checkpoint: np.ndarray
    weight: np.ndarray


def _bins(seen: TimedEpisodes, residuals: Residuals) -> Iterator[_Bin]:
    def row(name: str, label: str, members: np.ndarray) -> tuple[str, str, float, float]:
        expected, observed = (float(part[members].sum()) for part in (residuals.expected, residuals.observed))
        return name, label, expected, observed

    for name, values in _covariates(seen):
        for members in cut(values, PLACES if name == PLACE else FIFTHS, residuals.expected):
            if residuals.expected[members].sum() >= FEWEST_EXPECTED:
                at = np.flatnonzero(members)
                yield _Bin(row(name, span(values[members]), members), at, np.ones(len(at)))
    tails = _heavier_tails(seen.crossed)
    if residuals.expected[tails > 0].sum() >= FEWEST_EXPECTED:
        yield _Bin(row(PLACE, TAILS, tails > 0), np.arange(tails.size), tails.ravel())


def _totals(seen: TimedEpisodes, residuals: Residuals, bins: list[_Bin]) -> Totals:
    difference = residuals.difference
    place = np.repeat(np.arange(len(bins)), [len(part.checkpoint) for part in bins])
    checkpoint, weight = (np.concatenate([getattr(part, of) for part in bins]) for of in ("checkpoint", "weight"))
    entries = weight * difference.ravel()[checkpoint], (checkpoint // difference.shape[1], place)
    parts = sparse.coo_array(entries, (len(difference), len(bins))).toarray()
    members = sparse.csr_array((weight, (place, checkpoint)), (len(bins), difference.size))
    moved = seen.moved(lambda crossed: members @ Residuals.of(crossed, *seen.windows).difference.ravel())
    # The variance that the model has for the total of each bin: where few crossings came, those that came vary less
    # than those expected would. The model's own variance is that of known steps; that windows take something from it
    # shows in all bins of a covariate together.
    known = np.array([float((part.weight**2 * residuals.variance.ravel()[part.checkpoint]).sum()) for part in bins])
    table = pd.DataFrame({"by": [(part.row[0], part.row[1] == TAILS) for part in bins]})
    table["known"], table["seen"] = known, (parts**2).sum(axis=0)
    pooled = table.groupby("by")[["known", "seen"]].transform("sum")
    least = known * np.minimum(1.0, (pooled["seen"] / pooled["known"]).to_numpy())
    return Totals.of(parts, moved, STRUCTURE_FLIPS, np.random.default_rng(SEED), least)


def _distance(table: pd.DataFrame, totals: Totals) -> np.ndarray:
    # Each total in standard errors; of a count as the root of its deviance, since more is likelier than less.
    expected, observed = table["expected"].to_numpy(), table["observed"].to_numpy()
    deviance = 2 * (special.xlogy(observed, observed / expected) - (observed - expected)) * expected / totals.error**2
    root = np.sign(totals.total) * np.sqrt(np.maximum(deviance, 0.0))
    return np.where(table["bin"] == TAILS, totals.z, root)


def _covariates(seen: TimedEpisodes) -> Iterator[tuple[str, np.ndarray]]:
    """Yield everything that is known at a checkpoint and may matter, by name, each (episode, step)."""
    fitted, draws, x, u = seen.fitted, seen.mean, seen.x, seen.u
    shape, names = u.shape[:2], fitted.feature_names

    def by_task(values: np.ndarray) -> np.ndarray:
        return np.broadcast_to(values[:, None], shape)

    for j, name in enumerate(names[: fitted.n_ungrouped]):
        yield name, by_task(x[:, j] * fitted.feature_scale[j] + fitted.feature_mean[j])
    pairs = list(combinations(range(fitted.n_ungrouped), 2))
    for i, j in pairs if len(pairs) <= MOST_PAIRS else ():
        yield f"{names[i]} times {names[j]}", by_task(x[:, i] * x[:, j])
    if x.shape[1]:
        yield LOCATION, by_task(np.exp(draws.location(x)[:, 0]))
    for j, name in enumerate(fitted.diagnostic_names):
        yield f"sum of {name}", np.cumsum(u[..., j], axis=1)
    latest = u @ draws.w[0, : u.shape[-1]]
    yield LATEST, latest
    top = np.maximum.accumulate(latest, axis=1)
    yield PEAK, latest - np.concatenate([np.zeros((len(u), 1)), top[:, :-1]], axis=1)
    yield STEP, np.broadcast_to(np.arange(shape[1], dtype=float), shape)
    yield PLACE, seen.crossed


def _structure_advice(table: pd.DataFrame, limit: float, fitted: Fitted) -> str:
    # Two things at most: one fault shows in many places.
    size = table["z"].abs().groupby(table["by"]).max().sort_values(ascending=False)
    names = [str(name) for name in size.index[size >= limit]] or [str(size.index[0])]
    return " ".join(list(dict.fromkeys(_advice_on(name, fitted) for name in names))[:2])


def _advice_on(name: str, fitted: Fitted) -> str:
    features = fitted.feature_names
    if name in features:
        return (
            f"The effect of {name} on the threshold is not linear on the log scale: add a transformed feature (its "
            "square, its logarithm, an indicator), and compare by LOO."
        )
    for one, other in combinations(features, 2):
        if name == f"{one} times {other}":
            return f"{one} and {other} act together: add their product as a feature, and compare by LOO."
    if name in TO_DO or name == PEAK:
        return TO_DO[LATEST if name == PEAK else name].format(_other_families(fitted.draws.family.name))
    return f"The {name} counts otherwise than in proportion: transform that diagnostic (its square root, an indicator)."


def _heavier_tails(crossed: np.ndarray) -> np.ndarray:
    """Return the log of how much likelier a crossing would be at each checkpoint if thresholds had heavier tails.

    F (episode, step) is put on a normal scale, and a Cauchy distribution with the same quartiles in its place; the log
    of the ratio of both hazards is the weight by which a total tells them apart best.
    """
    normal = special.ndtri(crossed.clip(TINY, 1 - TINY))
    heavy = np.where(crossed > TINY, 0.5 + np.arctan(normal / QUARTILE) / np.pi, 0.0)
    ours, theirs = ((part - _earlier(part)) / np.maximum(1 - _earlier(part), TINY) for part in (crossed, heavy))
    ratio = np.log(np.maximum(theirs, TINY) / np.maximum(ours, TINY))
    return np.where(ours > TINY, ratio, 0.0).clip(-LARGEST_RATIO, LARGEST_RATIO)


def _earlier(crossed: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros((len(crossed), 1)), crossed[:, :-1]], axis=1)


def _other_families(family: object) -> str:
    *first, last = (other.label for name, other in FAMILIES.items() if name != family)
    return f"{', '.join(first)} or {last}"


@dataclass(frozen=True)
class TimedEpisodes:
    """The timed episodes, and the parameters that should explain their windows.

    `x` are standardized features (episode, feature), `u` diagnostics (episode, step, diagnostic), zero past the end;
    `first` and `last` the checkpoints of the window, the number of steps where the threshold was not crossed.
    """

    fitted: Fitted
    x: np.ndarray
    u: np.ndarray
    first: np.ndarray
    last: np.ndarray
    n_steps: np.ndarray

    @classmethod
    def of(
        cls, fitted: Fitted, episodes: Episodes, timed: np.ndarray, first: np.ndarray, last: np.ndarray
    ) -> TimedEpisodes:
        """Read the episodes at some positions, whose windows are [first, last]."""
        most = max(1, MOST_CHECKPOINTS // max(1, episodes.horizon))
        if len(timed) > most:
            some = np.sort(np.random.default_rng(SEED).choice(len(timed), most, replace=False))
            timed, first, last = timed[some], first[some], last[some]
        features, diagnostics = fitted.columns_of(episodes)
        x = fitted.standardize(features.values[timed])
        u = np.nan_to_num(diagnostics.isel(episode=timed).values)
        return cls(fitted, x, u, first, last, episodes.n_steps[timed])

    @classmethod
    def of_tree(cls, tree: xr.DataTree, episodes: Episodes) -> TimedEpisodes:
        """Read a posterior and the episodes that it was fitted on."""
        constant = group_of(tree, "constant_data")
        first, last = (constant[name].values.astype(int) for name in ("window_start", "window_end"))
        return cls.of(as_draws(tree), episodes, constant["timed_position"].values, first, last)

    @property
    def windows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """First and last checkpoint of each window, and the length of the rollout."""
        return self.first, self.last, self.n_steps

    @cached_property
    def mean(self) -> Draws:
        """The mean of the parameters; that of weights is on the simplex too."""
        draws = self.fitted.draws
        names = ("w", "gamma0", "gamma", "beta0", "beta", "s", *(() if draws.delta is None else ("delta",)))
        values = {name: getattr(draws, name).mean(axis=0, keepdims=True) for name in names}
        return Draws(**values, family=draws.family, memory=float(np.mean(draws.memory)), clock=draws.clock)

    @cached_property
    def crossed(self) -> np.ndarray:
        """F at the mean of the parameters: (episode, step)."""
        return probability_crossed(self.mean, self.x, self.u)

    def moved(self, total: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Return what each episode does, by way of the parameters, to totals of F: (episode, total)."""
        checkpoints = max(1, self.u.shape[0] * self.u.shape[1])
        draws = self.fitted.draws.thinned(int(np.clip(MOST_PROBABILITIES // checkpoints, FEWEST_DRAWS, MOST_DRAWS)))
        totals, log_likelihood = [], []
        for m in range(len(draws)):
            crossed = probability_crossed(draws.take(slice(m, m + 1)), self.x, self.u)
            totals.append(total(crossed))
            log_likelihood.append(log_mass(crossed, *self.windows))
        return moved_by_fitting(np.array(totals), np.array(log_likelihood))


@dataclass(frozen=True)
class Residuals:
    r"""Observed and expected crossings at each checkpoint of each timed episode.

    With F(t) the probability that an episode has crossed by step t, a checkpoint that it reached uncrossed is expected
    to bring h(t) = (F(t) - F(t-1)) / (1 - F(t-1)) crossings. A window says in which steps the crossing was, not where,
    so the observed crossing is spread over the window as F has it, and so is the share that was still uncrossed. Under
    a right model every difference has mean zero, whatever was known at that checkpoint, and differences of different
    episodes are independent: the martingale residuals of survival analysis, averaged over the windows.

    `observed` and `expected` are (episode, step), both zero where nothing can be expected any more; `variance` is that
    of the observed crossing if its step were known, given what was seen before.
    """

    observed: np.ndarray
    expected: np.ndarray
    variance: np.ndarray

    @classmethod
    def of(cls, crossed: np.ndarray, first: np.ndarray, last: np.ndarray, n_steps: np.ndarray) -> Residuals:
        """Compare F (episode, step) with windows [first, last]; without a crossing, first is at least n_steps."""
        step, row = np.arange(crossed.shape[1]), np.arange(len(crossed))
        inside, before = step < n_steps[:, None], _earlier(crossed)
        mass = np.where(inside, crossed - before, 0.0)
        hazard = np.where(inside, mass / np.maximum(1 - before, SMALLEST), 0.0)
        never = (first >= n_steps)[:, None]
        start, end = np.minimum(first, n_steps - 1), np.minimum(last, n_steps - 1)
        low, high = before[row, start][:, None], crossed[row, end][:, None]
        window = (step >= start[:, None]) & (step <= end[:, None]) & ~never
        width = np.where(high > low, high - low, np.inf)
        left = np.where(window, ((high - before) / width).clip(0, 1), step < start[:, None])
        observed = np.where(window, mass / width, 0.0)
        # A window without mass under the model says nothing of where in it the crossing was.
        known = never | np.isfinite(width)
        expected = np.where(never, 1.0, left) * hazard
        return cls(*(np.where(known, part, 0.0) for part in (observed, expected, expected * (1 - hazard))))

    @property
    def difference(self) -> np.ndarray:
        """Observed less expected, (episode, step)."""
        return self.observed - self.expected


def log_mass(crossed: np.ndarray, first: np.ndarray, last: np.ndarray, n_steps: np.ndarray) -> np.ndarray:
    """Return the log probability of each window under F (episode, step): what an episode says of the parameters."""
    below, upto = window_ends(crossed, first, last, n_steps)
    return np.log(np.maximum(upto - below, SMALLEST))


def window_ends(
    crossed: np.ndarray, first: np.ndarray, last: np.ndarray, n_steps: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return F just before each window and at its end; a window past the rollout ends at 1."""
    row = np.arange(len(crossed))
    before = np.where(first > 0, crossed[row, np.minimum(first, n_steps) - 1], 0.0)
    return before, np.where(first >= n_steps, 1.0, crossed[row, np.minimum(last, n_steps - 1)])


@dataclass(frozen=True)
class Totals:
    """Sums over the episodes, their standard errors if the model is right, and the same sums with signs by chance.

    `chance` is (flip, total).
    """

    total: np.ndarray
    error: np.ndarray
    chance: np.ndarray

    @classmethod
    def of(
        cls,
        parts: np.ndarray,
        moved: np.ndarray,
        flips: int,
        rng: np.random.Generator,
        least: np.ndarray | float = 0.0,
    ) -> Totals:
        """Sum (episode, total) parts.

        `moved` is what each episode does to a total by way of the parameters, and `least` the smallest variance that
        the sums of parts, before the fit, are believed to have.
        """
        before = (parts**2).sum(axis=0)
        after = (parts + moved) * np.sqrt(np.maximum(1.0, least / np.maximum(before, SMALLEST_VARIANCE)))
        groups = min(len(after), MOST_GROUPS)
        joined = np.zeros((groups, after.shape[1]))
        np.add.at(joined, rng.permutation(len(after)) % groups, after)
        signs = rng.choice([-1.0, 1.0], size=(flips, groups))
        variance = np.maximum((after**2).sum(axis=0), SMALLEST_SHARE * np.maximum(before, least))
        return cls(parts.sum(axis=0), np.sqrt(np.maximum(variance, SMALLEST_VARIANCE)), signs @ joined)

    @property
    def z(self) -> np.ndarray:
        """The totals in standard errors."""
        return self.total / self.error

    def worst(self) -> np.ndarray:
        """Return the largest total, in standard errors, of each flip."""
        largest: np.ndarray = np.abs(self.chance / self.error).max(axis=1)
        return largest


def moved_by_fitting(totals: np.ndarray, log_likelihood: np.ndarray) -> np.ndarray:
    """Compute the covariance of (draw, total) totals and (draw, episode) log-likelihoods: (episode, total).

    Of a single draw nothing is known of what fitting did, and it counts as nothing.
    """
    if len(totals) < 2:
        return np.zeros((log_likelihood.shape[1], totals.shape[1]))
    centred = log_likelihood - log_likelihood.mean(axis=0)
    covariance: np.ndarray = centred.T @ (totals - totals.mean(axis=0)) / (len(totals) - 1)
    return covariance
