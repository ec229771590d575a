"""Whether crossings come as expected whatever the task's features, the diagnostics and the step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from scipy import sparse, special

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.review.bins import cut, evenly, span
from bayes_tacit.review.checks.base import CheckResult, require_same_data
from bayes_tacit.review.checks.covariates import PLACE, TAILS, advice_on, covariates, heavier_tails
from bayes_tacit.review.checks.residuals import Residuals, log_mass
from bayes_tacit.review.checks.timed import TimedEpisodes
from bayes_tacit.review.checks.totals import Totals, chance_of, moved_by_fitting
from bayes_tacit.review.plots.checks import draw_structure
from bayes_tacit.review.plots.rows import lazily
from bayes_tacit.scores.fitted import Fitted

NAME = "Crossings by covariate"
LEVEL = 0.005
"""How often a right model may fail."""
FLIPS = 4999
SEED = 0
FEWEST_EXPECTED = 8.0
"""Expected crossings in a bin that is judged."""
FIFTHS = evenly(5)
PLACES = np.array([0.03, 0.1, 0.25, 0.5, 0.75, 0.9, 0.97])
"""Where the shape of the threshold's distribution is looked at: a wrong one shows in the tails."""


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
    (`bayes_tacit.review.checks.totals`). The study `power` shows how often it fails, rightly and wrongly.

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
        return CheckResult(NAME, None, pd.DataFrame(), sentence, "Mark more episodes.")
    table = pd.DataFrame([part.row for part in bins], columns=["by", "bin", "expected", "observed"])
    totals = _totals(seen, residuals, bins)
    table["z"] = _distance(table, totals)
    chance = totals.worst()
    worst = table.iloc[int(table["z"].abs().to_numpy().argmax())]
    p_value = chance_of(chance, abs(worst["z"]))
    limit = float(np.quantile(chance, 1 - LEVEL, method="higher"))
    passed = p_value >= LEVEL
    return CheckResult(
        NAME,
        passed,
        table,
        _sentence(worst, len(table), p_value),
        "" if passed else _advice(table, limit, seen.fitted),
        lazily(draw_structure, table, limit),
        decisive=True,
        p_value=p_value,
    )


@dataclass(frozen=True)
class _Bin:
    """Some checkpoints with what each counts for, and the row of the table that is shown of them."""

    row: tuple[str, str, float, float]
    checkpoint: np.ndarray
    weight: np.ndarray


def _bins(seen: TimedEpisodes, residuals: Residuals) -> Iterator[_Bin]:
    """Cut the checkpoints by every covariate; and weigh all of them by what heavier tails would do."""

    def row(name: str, label: str, members: np.ndarray) -> tuple[str, str, float, float]:
        expected, observed = (float(part[members].sum()) for part in (residuals.expected, residuals.observed))
        return name, label, expected, observed

    for name, values in covariates(seen.fitted, seen.mean, seen.x, seen.u, seen.crossed):
        for members in cut(values, PLACES if name == PLACE else FIFTHS, residuals.expected):
            if residuals.expected[members].sum() >= FEWEST_EXPECTED:
                at = np.flatnonzero(members)
                yield _Bin(row(name, span(values[members]), members), at, np.ones(len(at)))
    tails = heavier_tails(seen.crossed)
    if residuals.expected[tails > 0].sum() >= FEWEST_EXPECTED:
        yield _Bin(row(PLACE, TAILS, tails > 0), np.arange(tails.size), tails.ravel())


def _totals(seen: TimedEpisodes, residuals: Residuals, bins: list[_Bin]) -> Totals:
    """Add residuals up over the bins, and see what fitting did to the totals."""
    steps = seen.u.shape[1]
    place = np.repeat(np.arange(len(bins)), [len(part.checkpoint) for part in bins])
    checkpoint, weight = (np.concatenate([getattr(part, of) for part in bins]) for of in ("checkpoint", "weight"))

    def by_bin(values: np.ndarray) -> np.ndarray:
        """Add (episode, step) values up: (episode, bin)."""
        entries = weight * values.ravel()[checkpoint], (checkpoint // steps, place)
        return sparse.coo_array(entries, (len(values), len(bins))).toarray()

    members = sparse.csr_array((weight, (place, checkpoint)), (len(bins), residuals.expected.size))
    totals, log_likelihood = [], []
    for crossed in seen.crossed_by_draw():
        totals.append(members @ Residuals.of(crossed, *seen.windows).difference.ravel())
        log_likelihood.append(log_mass(crossed, *seen.windows))
    moved = moved_by_fitting(np.array(totals), np.array(log_likelihood))
    parts = by_bin(residuals.difference)
    return Totals.of(parts, moved, FLIPS, np.random.default_rng(SEED), _least_variance(parts, residuals, bins))


def _least_variance(parts: np.ndarray, residuals: Residuals, bins: list[_Bin]) -> np.ndarray:
    """Give the variance that the model has for the total of each bin.

    Where few crossings came, those that came vary less than those expected would. The model's own variance is that of
    known steps; that windows take something from it shows in all bins of a covariate together.
    """
    known = np.array([float((part.weight**2 * residuals.variance.ravel()[part.checkpoint]).sum()) for part in bins])
    table = pd.DataFrame({"by": [(part.row[0], part.row[1] == TAILS) for part in bins]})
    table["known"], table["seen"] = known, (parts**2).sum(axis=0)
    pooled = table.groupby("by")[["known", "seen"]].transform("sum")
    return known * np.minimum(1.0, (pooled["seen"] / pooled["known"]).to_numpy())


def _distance(table: pd.DataFrame, totals: Totals) -> np.ndarray:
    """Give each total in standard errors; of a count as the root of its deviance, since more is likelier than less.

    Examples
    --------
    >>> table = pd.DataFrame({"bin": ["1", "2", TAILS], "expected": [10.0, 10.0, 3.0], "observed": [20.0, 5.0, 9.0]})
    >>> _distance(table, Totals(np.array([10.0, -5.0, 2.0]), np.sqrt([10.0, 10.0, 1.0]), np.zeros((1, 3)))).round(2)
    array([ 2.78, -1.75,  2.  ])
    """
    expected, observed = table["expected"].to_numpy(), table["observed"].to_numpy()
    deviance = 2 * (special.xlogy(observed, observed / expected) - (observed - expected)) * expected / totals.error**2
    root = np.sign(totals.total) * np.sqrt(np.maximum(deviance, 0.0))
    return np.where(table["bin"] == TAILS, totals.z, root)


def _sentence(worst: pd.Series, bins: int, p_value: float) -> str:
    return (
        f"In the worst of {bins} bins ({worst['by']}: {worst['bin']}) {worst['observed']:.1f} crossings came and "
        f"{worst['expected']:.1f} were expected (p = {p_value:.2g}, limit {LEVEL})."
    )


def _advice(table: pd.DataFrame, limit: float, fitted: Fitted) -> str:
    """Say what to do about the worst covariates, two things at most: one fault shows in many places."""
    size = table["z"].abs().groupby(table["by"]).max().sort_values(ascending=False)
    names = [str(name) for name in size.index[size >= limit]] or [str(size.index[0])]
    return " ".join(list(dict.fromkeys(advice_on(name, fitted) for name in names))[:2])
