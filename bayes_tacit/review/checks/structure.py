"""Whether crossings come as expected whatever the task's features, the diagnostics and the step."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pandas as pd
import xarray as xr

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.review.bins import cut, evenly, span
from bayes_tacit.review.checks.base import CheckResult, group_of, other_families, require_same_data
from bayes_tacit.review.checks.residuals import Residuals, largest_under_chance
from bayes_tacit.review.plots.checks import draw_structure
from bayes_tacit.review.plots.rows import lazily
from bayes_tacit.review.predictions import probability_crossed
from bayes_tacit.scores.core import Draws
from bayes_tacit.scores.fitted import Fitted
from bayes_tacit.scores.sources import as_draws

NAME = "Crossings by covariate"
LEVEL = 0.02
"""How often a right model may fail, at most; fitting to the same data makes it fail less often."""
FLIPS = 999
SEED = 0
FEWEST_EXPECTED = 8.0
"""Expected crossings in a bin that is judged."""
FIFTHS = evenly(5)
PLACES = np.array([0.03, 0.1, 0.25, 0.5, 0.75, 0.9, 0.97])
"""Where the shape of the threshold's distribution is looked at: a wrong one shows in the tails."""
MOST_PAIRS = 45
STEP, LATEST, PEAK = "step", "latest risk", "latest risk above all before"
LOCATION, PLACE = "predicted threshold", "place in the threshold's distribution"


def check_structure(tree: xr.DataTree, episodes: Episodes) -> CheckResult:
    r"""Check that crossings are neither more nor fewer than expected, by everything that may matter to them.

    At every checkpoint that a timed episode reached without crossing, the model expects a number of crossings; see
    `Residuals`. The crossings that came less those expected are added up over bins of each feature, of each product of
    two features (standardized), of the predicted threshold, of each diagnostic's sum so far, of the latest risk, of how
    far it is above all before, of the step, and of the place in the threshold's distribution. Bins hold equally many
    expected crossings, at least 8.

    It passes if at least 2% of data sets with the same residuals but signs by chance have a bin as far from zero, in
    its own standard errors, as the worst observed one. The worst bin is compared with the worst bin, so the number of
    bins does not matter.

    Parameters
    ----------
    tree
        A posterior; the residuals are taken at its mean.
    episodes
        What it was fitted on.
    """
    require_same_data(tree, episodes)
    constant = group_of(tree, "constant_data")
    first, last = (constant[name].values.astype(int) for name in ("window_start", "window_end"))
    return judge_structure(as_draws(tree), episodes, constant["timed_position"].values, first, last)


def judge_structure(
    fitted: Fitted, episodes: Episodes, timed: np.ndarray, first: np.ndarray, last: np.ndarray
) -> CheckResult:
    """Check the crossings of the timed episodes at the mean of the parameters; the windows are [first, last]."""
    features, diagnostics = fitted.columns_of(episodes)
    x = fitted.standardize(features.values[timed])
    u = np.nan_to_num(diagnostics.isel(episode=timed).values)
    draws = _mean(fitted.draws)
    location = draws.location(x)
    crossed = probability_crossed(draws, x, u)
    residuals = Residuals.of(crossed, first, last, episodes.n_steps[timed])
    rows, sums = [], []
    for name, values in _covariates(fitted, draws, x, u, location, crossed):
        for members in cut(values, PLACES if name == PLACE else FIFTHS, residuals.expected):
            expected = float(residuals.expected[members].sum())
            if expected >= FEWEST_EXPECTED:
                sums.append(residuals.within(members))
                rows.append((name, span(values[members]), expected, float(residuals.observed[members].sum())))
    if not rows:
        sentence = f"Fewer than {FEWEST_EXPECTED:g} crossings are expected in every part of the data, too few to judge."
        return CheckResult(NAME, None, pd.DataFrame(), sentence, "Mark more episodes.")
    table = pd.DataFrame(rows, columns=["by", "bin", "expected", "observed"])
    stacked = np.stack(sums, axis=1)
    table["z"] = stacked.sum(axis=0) / np.maximum(np.sqrt((stacked**2).sum(axis=0)), 1e-12)
    chance = largest_under_chance(stacked, FLIPS, np.random.default_rng(SEED))
    worst = table.iloc[int(table["z"].abs().to_numpy().argmax())]
    p_value = float((1 + (chance >= abs(worst["z"])).sum()) / (1 + len(chance)))
    limit = float(np.quantile(chance, 1 - LEVEL, method="higher"))
    passed = p_value >= LEVEL
    return CheckResult(
        NAME,
        passed,
        table,
        _sentence(worst, len(table), p_value),
        "" if passed else _all_advice(table, limit, fitted),
        lazily(draw_structure, table, limit),
        decisive=True,
    )


def _mean(draws: Draws) -> Draws:
    """Average the parameters; the mean of weights is on the simplex too."""
    memory = draws.memory.mean() if isinstance(draws.memory, np.ndarray) else draws.memory
    values = {name: getattr(draws, name).mean(axis=0, keepdims=True) for name in ("w", "gamma0", "gamma", "beta0")}
    slopes = {name: getattr(draws, name).mean(axis=0, keepdims=True) for name in ("beta", "s")}
    return Draws(**values, **slopes, family=draws.family, memory=float(memory), clock=draws.clock)


def _covariates(
    fitted: Fitted, draws: Draws, x: np.ndarray, u: np.ndarray, location: np.ndarray, crossed: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
    """Give everything that is known at a checkpoint, by name, each (episode, step)."""
    shape = u.shape[:2]
    for j, name in enumerate(fitted.feature_names):
        raw = x[:, j] * fitted.feature_scale[j] + fitted.feature_mean[j]
        yield name, np.broadcast_to(raw[:, None], shape)
    pairs = list(combinations(range(x.shape[1]), 2))
    for i, j in pairs if len(pairs) <= MOST_PAIRS else ():
        yield _product(fitted, i, j), np.broadcast_to((x[:, i] * x[:, j])[:, None], shape)
    if x.shape[1]:
        yield LOCATION, np.broadcast_to(np.exp(location), shape)
    for j, name in enumerate(fitted.diagnostic_names):
        yield f"sum of {name}", np.cumsum(u[..., j], axis=1)
    latest = u @ draws.w[0, : u.shape[-1]]
    yield LATEST, latest
    top = np.maximum.accumulate(latest, axis=1)
    yield PEAK, latest - np.concatenate([np.zeros((len(u), 1)), top[:, :-1]], axis=1)
    yield STEP, np.broadcast_to(np.arange(shape[1], dtype=float), shape)
    yield PLACE, crossed


def _product(fitted: Fitted, i: int, j: int) -> str:
    return f"{fitted.feature_names[i]} times {fitted.feature_names[j]}"


def _sentence(worst: pd.Series, bins: int, p_value: float) -> str:
    return (
        f"In the worst of {bins} bins ({worst['by']}: {worst['bin']}) {worst['observed']:.1f} crossings came and "
        f"{worst['expected']:.1f} were expected (p = {p_value:.2g}, limit {LEVEL})."
    )


def _all_advice(table: pd.DataFrame, limit: float, fitted: Fitted) -> str:
    """Say what to do about the worst covariates, two things at most: one fault shows in many places."""
    size = table["z"].abs().groupby(table["by"]).max().sort_values(ascending=False)
    names = [str(name) for name in size.index[size >= limit]] or [str(size.index[0])]
    return " ".join(list(dict.fromkeys(_advice(name, fitted) for name in names))[:2])


def _advice(name: str, fitted: Fitted) -> str:
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
            f"Thresholds are distributed otherwise: try the {other_families(fitted.draws.family.name)} family, compare "
            "by LOO, and look for episodes whose window was marked by mistake."
        )
    if name == LOCATION:
        return "Tasks whose predicted threshold is high or low are off: a feature that tells them apart is missing."
    return f"The {name} counts otherwise than in proportion: transform that diagnostic (its square root, an indicator)."
