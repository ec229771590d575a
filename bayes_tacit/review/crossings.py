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

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from scipy import sparse, special

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.model.evidence import told_if_alike
from bayes_tacit.model.families import FAMILIES
from bayes_tacit.model.spec import spec_of
from bayes_tacit.review import figures
from bayes_tacit.review.findings import CheckResult, group_of, require_same_data, too_few
from bayes_tacit.review.predictions import (
    LEVEL,
    ROUNDING,
    Residuals,
    TimedEpisodes,
    cut,
    envelope,
    evenly,
    flat_draws,
    log_mass,
    share_crossed,
    span,
    window_ends,
)
from bayes_tacit.review.style import lazily
from bayes_tacit.scores.fitted import Fitted

CROSSING_STEPS, BY_COVARIATE = "Crossing steps", "Crossings by covariate"
POSITIONS = np.arange(1, 11) / 10
LEVELS = np.arange(1, 20) / 20
STRUCTURE_LEVEL = 0.005
"""How often a right model may fail the check by covariate."""
FLIPS, STRUCTURE_FLIPS = 1999, 4999
SEED = 0
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
LOCATION, PLACE = "predicted threshold", "place in the threshold's distribution"
TAILS = "tails"
TINY = 1e-9
QUARTILE = float(special.ndtri(0.75))
"""Of a normal distribution; that of a Cauchy distribution is its scale."""
LARGEST_RATIO = 2.0
"""Of the log of two hazards, so that no single checkpoint decides."""

SMALLEST_VARIANCE = 1e-24
MOST_GROUPS = 2000
"""Episodes beyond this number get signs in groups: their sums are as normal as they will be."""
SMALLEST_SHARE = 0.1
"""Of a total's variance before the fit: what is left after it is known up to noise, and counts for at least so much."""


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

    Parameters
    ----------
    tree
        A posterior with posterior predictive draws.
    episodes
        What it was fitted on; only the lengths of the rollouts are read.
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
    unread = _unread(tree, episodes)
    alike = _alike(constant)
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
        lazily(
            figures.draw_crossing_steps,
            timing.assign(position=POSITIONS),
            pd.Series(calibration.departure, LEVELS),
            calibration.limit,
        ),
        decisive=True,
        p_value=calibration.p_value,
    )


def _timing(draws: np.ndarray, first: np.ndarray, last: np.ndarray, n_steps: np.ndarray) -> pd.DataFrame:
    # A crossing at step t has happened by position r of a rollout of H steps if t + 1 <= r H.
    deadline = np.floor(POSITIONS[:, None] * n_steps + 1e-9) - 1
    band = envelope(share_crossed(draws, deadline))
    surely, possibly = (share_crossed(step, deadline) for step in (last, first))
    inside = (surely <= band.upper + ROUNDING) & (possibly >= band.lower - ROUNDING)
    return pd.DataFrame(
        {
            "observed_least": surely,
            "observed_most": possibly,
            "predicted": band.mean,
            "lower": band.lower,
            "upper": band.upper,
            "inside": inside,
        },
        index=pd.Index([f"{position:.0%}" for position in POSITIONS], name="crossed by"),
    )


@dataclass(frozen=True)
class Calibration:
    """The mean PIT minus uniform at LEVELS, and the largest departure that chance explains."""

    departure: np.ndarray
    limit: float
    p_value: float


def judge_calibration(seen: TimedEpisodes) -> Calibration:
    """Compute how evenly the crossings lie in their predictive distributions."""
    parts = _pit(*window_ends(seen.crossed, *seen.windows)) - LEVELS
    totals, log_likelihood = [], []
    for crossed in seen.crossed_by_draw():
        totals.append(_pit(*window_ends(crossed, *seen.windows)).sum(axis=0))
        log_likelihood.append(log_mass(crossed, *seen.windows))
    moved = moved_by_fitting(np.array(totals), np.array(log_likelihood))
    found = Totals.of(parts, moved, FLIPS, np.random.default_rng(SEED))
    n = len(parts)
    worst = np.abs(found.chance).max(axis=1) / n
    limit = float(np.quantile(worst, 1 - LEVEL, method="higher"))
    departure = found.total / n
    return Calibration(departure, limit, chance_of(worst, float(np.abs(departure).max())))


def _pit(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    # Distribution functions, at LEVELS, of the uniform distributions over (lower, upper]: (episode, level).
    width = (upper - lower)[:, None]
    reached = LEVELS - lower[:, None]
    inside = np.divide(reached, width, out=np.where(reached >= 0, 1.0, 0.0), where=width > 0)
    return inside.clip(0, 1)


def _sentence(table: pd.DataFrame, calibration: Calibration, n: int) -> str:
    ever = table.loc["100%"]
    outside = ", ".join(table.index[~table["inside"]])
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
    parts = [f"too {word} at {', '.join(at)}" for word, at in (("late", late), ("early", early)) if len(at)]
    if parts:
        return f"The model crosses {' and '.join(parts)} of the rollout."
    # Where more than its share lies in the lower part of the predictive distribution, crossings came before predicted.
    low, high = (part.mean() for part in np.array_split(calibration.departure, 2))
    if low * high < 0:
        return f"The model is too {'sure' if low > 0 else 'unsure'} of when episodes cross."
    return f"The model has episodes cross too {'late' if low + high > 0 else 'early'}, each seen in its own place."


def _unread(tree: xr.DataTree, episodes: Episodes) -> str:
    missing = (episodes.outcomes == "01") & ~episodes.has_window
    solved = int((episodes.outcomes == "01").sum())
    if spec_of(tree).unmarked != "outcome" or missing.sum() <= LARGEST_UNMARKED * solved:
        return ""
    return (
        f"{int(missing.sum())} of {solved} AB = 01 episodes have no mark and are read by their outcome alone: "
        "thresholds seem higher than they are, and the bands of q(t) do not hold."
    )


def _alike(constant: xr.Dataset) -> str:
    before, within = (constant[f"diagnostics_{side}"].values for side in ("before", "within"))
    if before.ndim > 2:
        # Of a learned memory, as if nothing were forgotten.
        before, within = before[-1], within[-1]
    told = told_if_alike(before, within, int(constant["n_interval"]))
    return f"{told[0].upper()}{told[1:]}." if told else ""


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

    Parameters
    ----------
    tree
        A posterior; the residuals are taken at its mean.
    episodes
        What it was fitted on.
    """
    require_same_data(tree, episodes)
    return judge_structure(TimedEpisodes.of_tree(tree, episodes))


def judge_structure(seen: TimedEpisodes) -> CheckResult:
    """Check the crossings of the timed episodes at the mean of the parameters."""
    residuals = Residuals.of(seen.crossed, *seen.windows)
    bins = list(_bins(seen, residuals))
    if not bins:
        sentence = f"Fewer than {FEWEST_EXPECTED:g} crossings are expected in every part of the data, too few to judge."
        return CheckResult(BY_COVARIATE, None, pd.DataFrame(), sentence, "Mark more episodes.")
    table = pd.DataFrame([part.row for part in bins], columns=["by", "bin", "expected", "observed"])
    totals = _totals(seen, residuals, bins)
    table["z"] = _distance(table, totals)
    chance = totals.worst()
    worst = table.iloc[int(table["z"].abs().to_numpy().argmax())]
    p_value = chance_of(chance, abs(worst["z"]))
    limit = float(np.quantile(chance, 1 - STRUCTURE_LEVEL, method="higher"))
    passed = p_value >= STRUCTURE_LEVEL
    return CheckResult(
        BY_COVARIATE,
        passed,
        table,
        _structure_sentence(worst, len(table), p_value),
        "" if passed else _structure_advice(table, limit, seen.fitted),
        lazily(figures.draw_structure, table, limit, "crossings less those expected, by bin, in standard errors"),
        decisive=True,
        p_value=p_value,
    )


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
    steps = seen.u.shape[1]
    place = np.repeat(np.arange(len(bins)), [len(part.checkpoint) for part in bins])
    checkpoint, weight = (np.concatenate([getattr(part, of) for part in bins]) for of in ("checkpoint", "weight"))

    def by_bin(values: np.ndarray) -> np.ndarray:
        entries = weight * values.ravel()[checkpoint], (checkpoint // steps, place)
        return sparse.coo_array(entries, (len(values), len(bins))).toarray()

    members = sparse.csr_array((weight, (place, checkpoint)), (len(bins), residuals.expected.size))
    totals, log_likelihood = [], []
    for crossed in seen.crossed_by_draw():
        totals.append(members @ Residuals.of(crossed, *seen.windows).difference.ravel())
        log_likelihood.append(log_mass(crossed, *seen.windows))
    moved = moved_by_fitting(np.array(totals), np.array(log_likelihood))
    parts = by_bin(residuals.difference)
    return Totals.of(
        parts, moved, STRUCTURE_FLIPS, np.random.default_rng(SEED), _least_variance(parts, residuals, bins)
    )


def _least_variance(parts: np.ndarray, residuals: Residuals, bins: list[_Bin]) -> np.ndarray:
    # The variance that the model has for the total of each bin: where few crossings came, those that came vary less
    # than those expected would. The model's own variance is that of known steps; that windows take something from it
    # shows in all bins of a covariate together.
    known = np.array([float((part.weight**2 * residuals.variance.ravel()[part.checkpoint]).sum()) for part in bins])
    table = pd.DataFrame({"by": [(part.row[0], part.row[1] == TAILS) for part in bins]})
    table["known"], table["seen"] = known, (parts**2).sum(axis=0)
    pooled = table.groupby("by")[["known", "seen"]].transform("sum")
    return known * np.minimum(1.0, (pooled["seen"] / pooled["known"]).to_numpy())


def _distance(table: pd.DataFrame, totals: Totals) -> np.ndarray:
    # Each total in standard errors; of a count as the root of its deviance, since more is likelier than less.
    expected, observed = table["expected"].to_numpy(), table["observed"].to_numpy()
    deviance = 2 * (special.xlogy(observed, observed / expected) - (observed - expected)) * expected / totals.error**2
    root = np.sign(totals.total) * np.sqrt(np.maximum(deviance, 0.0))
    return np.where(table["bin"] == TAILS, totals.z, root)


def _structure_sentence(worst: pd.Series, bins: int, p_value: float) -> str:
    return (
        f"In the worst of {bins} bins ({worst['by']}: {worst['bin']}) {worst['observed']:.1f} crossings came and "
        f"{worst['expected']:.1f} were expected (p = {p_value:.2g}, limit {STRUCTURE_LEVEL})."
    )


def _structure_advice(table: pd.DataFrame, limit: float, fitted: Fitted) -> str:
    # Two things at most: one fault shows in many places.
    size = table["z"].abs().groupby(table["by"]).max().sort_values(ascending=False)
    names = [str(name) for name in size.index[size >= limit]] or [str(size.index[0])]
    return " ".join(list(dict.fromkeys(_advice_on(name, fitted) for name in names))[:2])


def _covariates(seen: TimedEpisodes) -> Iterator[tuple[str, np.ndarray]]:
    """Yield everything that is known at a checkpoint and may matter, by name, each (episode, step)."""
    fitted, draws, x, u = seen.fitted, seen.mean, seen.x, seen.u
    shape = u.shape[:2]
    for j, name in enumerate(fitted.feature_names[: fitted.n_ungrouped]):
        raw = x[:, j] * fitted.feature_scale[j] + fitted.feature_mean[j]
        yield name, np.broadcast_to(raw[:, None], shape)
    pairs = list(combinations(range(fitted.n_ungrouped), 2))
    for i, j in pairs if len(pairs) <= MOST_PAIRS else ():
        yield _product(fitted, i, j), np.broadcast_to((x[:, i] * x[:, j])[:, None], shape)
    if x.shape[1]:
        yield LOCATION, np.broadcast_to(np.exp(draws.location(x)), shape)
    for j, name in enumerate(fitted.diagnostic_names):
        yield f"sum of {name}", np.cumsum(u[..., j], axis=1)
    latest = u @ draws.w[0, : u.shape[-1]]
    yield LATEST, latest
    top = np.maximum.accumulate(latest, axis=1)
    yield PEAK, latest - np.concatenate([np.zeros((len(u), 1)), top[:, :-1]], axis=1)
    yield STEP, np.broadcast_to(np.arange(shape[1], dtype=float), shape)
    yield PLACE, seen.crossed


def _product(fitted: Fitted, i: int, j: int) -> str:
    return f"{fitted.feature_names[i]} times {fitted.feature_names[j]}"


def _advice_on(name: str, fitted: Fitted) -> str:
    pairs = {_product(fitted, i, j): (i, j) for i, j in combinations(range(len(fitted.feature_names)), 2)}
    if name in fitted.feature_names:
        return (
            f"The effect of {name} on the threshold is not linear on the log scale: add a transformed feature (its "
            "square, its logarithm, an indicator), and compare by LOO."
        )
    if name in pairs:
        one, other = (fitted.feature_names[k] for k in pairs[name])
        return f"{one} and {other} act together: add their product as a feature, and compare by LOO."
    if name in (LATEST, PEAK):
        return (
            "What counts seems to be the latest risk more than the sum of all: fit with a `memory` below 1, and "
            "compare by LOO."
        )
    if name == STEP:
        return "Time itself seems to count: fit with `clock=True`, and look whether the marks were made by the clock."
    if name == PLACE:
        return (
            f"Thresholds are distributed otherwise: try the {_other_families(fitted.draws.family.name)} family, "
            "compare by LOO, and look for episodes whose window was marked by mistake."
        )
    if name == LOCATION:
        return "Tasks whose predicted threshold is high or low are off: a feature that tells them apart is missing."
    return f"The {name} counts otherwise than in proportion: transform that diagnostic (its square root, an indicator)."


def _heavier_tails(crossed: np.ndarray) -> np.ndarray:
    """Return the log of how much likelier a crossing would be at each checkpoint if thresholds had heavier tails.

    F (episode, step) is put on a normal scale, and a Cauchy distribution with the same quartiles in its place; the log
    of the ratio of both hazards is the weight by which a total tells them apart best.
    """
    normal = special.ndtri(crossed.clip(TINY, 1 - TINY))
    heavy = np.where(crossed > TINY, 0.5 + np.arctan(normal / QUARTILE) / np.pi, 0.0)
    ours, theirs = _hazard(crossed), _hazard(heavy)
    ratio = np.log(np.maximum(theirs, TINY) / np.maximum(ours, TINY))
    return np.where(ours > TINY, ratio, 0.0).clip(-LARGEST_RATIO, LARGEST_RATIO)


def _hazard(crossed: np.ndarray) -> np.ndarray:
    before = np.concatenate([np.zeros((len(crossed), 1)), crossed[:, :-1]], axis=1)
    hazard: np.ndarray = (crossed - before) / np.maximum(1 - before, TINY)
    return hazard


def _other_families(family: object) -> str:
    *first, last = (other.label for name, other in FAMILIES.items() if name != family)
    return f"{', '.join(first)} or {last}"


@dataclass(frozen=True)
class Totals:
    """Sums over the episodes, and the same sums with signs drawn at random.

    Attributes
    ----------
    total
        As observed.
    error
        Standard error of each if the model is right.
    chance
        (flip, total): the totals with signs by chance.
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

    Examples
    --------
    The mean of numbers y with a flat prior: what remains of the sum of y - mean is nothing.

    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=50)
    >>> draws = y.mean() + rng.normal(size=100_000) / np.sqrt(50)
    >>> total = (y.sum() - 50 * draws)[:, None]
    >>> log_likelihood = -0.5 * (y - draws[:, None]) ** 2
    >>> left = (y - y.mean())[:, None] + moved_by_fitting(total, log_likelihood)
    >>> bool(np.abs(left).max() < 0.05)
    True
    """
    if len(totals) < 2:
        return np.zeros((log_likelihood.shape[1], totals.shape[1]))
    centred = log_likelihood - log_likelihood.mean(axis=0)
    covariance: np.ndarray = centred.T @ (totals - totals.mean(axis=0)) / (len(totals) - 1)
    return covariance


def chance_of(worst: np.ndarray, observed: float) -> float:
    """Return the share of flips that are at least as far out as what was observed, counting that too.

    Examples
    --------
    >>> chance_of(np.array([1.0, 2.0, 3.0]), 2.5)
    0.5
    """
    return float((1 + (worst >= observed - 1e-12).sum()) / (1 + len(worst)))
