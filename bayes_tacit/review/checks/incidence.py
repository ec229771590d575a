"""Whether Strong succeeds as often as predicted, whatever the task's features."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from bayes_tacit.review.bins import cut, evenly, span
from bayes_tacit.review.checks.base import CheckResult, group_of, replicates_of
from bayes_tacit.review.checks.predictive import FEWEST_DRAWS, LEVEL, ROUNDING, envelope, flat_draws, too_few
from bayes_tacit.review.plots.checks import draw_incidence
from bayes_tacit.review.plots.rows import lazily
from bayes_tacit.review.predictions import mean_incidence
from bayes_tacit.scores.sources import as_draws

NAME = "Incidence calibration"
PREDICTED = "predicted pi"
MOST_BINS = {PREDICTED: 10}
MOST_BINS_OF_A_FEATURE = 5
FEWEST_EPISODES = 20
"""Episodes in a bin, where there are enough for two."""


def check_incidence_calibration(tree: xr.DataTree) -> CheckResult:
    """Check the share of episodes in which Strong succeeds, by bins of predicted pi and of every feature.

    Episodes are put into bins with equally many each (up to 10 by the posterior mean of pi, up to 5 by a feature; a
    feature with few values is binned by value). The observed share in every bin is compared with the shares in
    replicated data sets from the posterior predictive distribution.

    It passes if at least 1% of the replicates have a bin as far from its predicted share, in predictive sds, as the
    worst observed one. The worst bin is compared with the worst bin, so the number of bins and features does not
    matter. The interval in the table is the band that holds 99% of the replicates in all bins at once.

    Parameters
    ----------
    tree
        A posterior with posterior predictive draws.
    """
    draws = flat_draws(replicates_of(tree)["strong_success"])
    constant = group_of(tree, "constant_data")
    observed = constant["strong_outcome"].values
    if len(draws) < FEWEST_DRAWS:
        return too_few(NAME, draws)
    x = constant["features"].values if "features" in constant else np.zeros((len(observed), 0))
    fitted = as_draws(tree)
    if fitted.n_ungrouped < len(fitted.feature_names):
        position = constant["group_position"].values
        x = np.column_stack([x, np.eye(len(fitted.feature_names) - fitted.n_ungrouped)[position]])
    values = {PREDICTED: mean_incidence(fitted.draws, x)} | _raw_features(constant)
    bins = [(name, *part) for name, column in values.items() for part in _bins(column, name)]
    members = np.stack([mask for *_, mask in bins])
    size = members.sum(axis=1)
    share = members @ observed / size
    band = envelope((draws.astype(float) @ members.T) / size)
    p_value = band.p_value(share)
    table = pd.DataFrame(
        {
            "by": [name for name, *_ in bins],
            "bin": [label for _, label, _ in bins],
            "middle": [float(values[name][mask].mean()) for name, _, mask in bins],
            "episodes": size,
            "observed": share,
            "predicted": band.mean,
            "lower": band.lower,
            "upper": band.upper,
            "inside": (share >= band.lower - ROUNDING) & (share <= band.upper + ROUNDING),
        }
    )
    passed = p_value >= LEVEL
    return CheckResult(
        NAME,
        passed,
        table,
        _sentence(table, p_value),
        "" if passed else _advice(table),
        lazily(draw_incidence, table, PREDICTED),
        decisive=True,
        p_value=p_value,
    )


def _raw_features(constant: xr.Dataset) -> dict[str, np.ndarray]:
    """Features in the user's units."""
    if "feature" not in constant.coords:
        return {}
    raw = constant["features"].values * constant["feature_scale"].values + constant["feature_mean"].values
    return {str(name): column for name, column in zip(constant["feature"].values, raw.T, strict=True)}


def _bins(values: np.ndarray, name: str) -> list[tuple[str, np.ndarray]]:
    """Cut into bins of about equally many episodes: name and members of each."""
    count = int(np.clip(len(values) // FEWEST_EPISODES, 2, MOST_BINS.get(name, MOST_BINS_OF_A_FEATURE)))
    return [(span(values[mask]), mask) for mask in cut(values, evenly(count))]


def _sentence(table: pd.DataFrame, p_value: float) -> str:
    z = ((table["observed"] - table["predicted"]).abs() / (table["upper"] - table["lower"])).fillna(0)
    worst = table.iloc[int(z.to_numpy().argmax())]
    return (
        f"Strong's observed success rate lies in the predicted band in {int(table['inside'].sum())} of {len(table)} "
        f"bins; the worst is {worst['by']} {worst['bin']}, where {worst['observed']:.0%} succeed and "
        f"{worst['predicted']:.0%} were predicted (p = {p_value:.2g})."
    )


def _advice(table: pd.DataFrame) -> str:
    names = table.loc[~table["inside"], "by"].unique().tolist()
    features = [name for name in names if name != PREDICTED]
    what = f"the effect of {', '.join(features)}" if features else "the effect of the features"
    return (
        f"pi is not to be taken at face value: {what} on Strong's success is not linear on the logit scale. Add a "
        "transformed feature (a square, a logarithm, an indicator), or one for the kind of task that is off."
    )
