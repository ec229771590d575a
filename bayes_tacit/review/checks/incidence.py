"""Whether Strong succeeds as often as predicted, whatever the task's features."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from bayes_tacit.review.checks.base import CheckResult, group_of
from bayes_tacit.review.checks.predictive import FEWEST_DRAWS, LEVEL, ROUNDING, TOO_FEW, envelope, flat_draws
from bayes_tacit.review.plots.checks import draw_incidence
from bayes_tacit.review.plots.rows import lazily
from bayes_tacit.scores.sources import as_draws

NAME = "Incidence calibration"
PREDICTED = "predicted pi"
MOST_BINS = {PREDICTED: 10}
MOST_BINS_OF_A_FEATURE = 5
BLOCK = 1024
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
    draws = flat_draws(group_of(tree, "posterior_predictive")["strong_success"])
    constant = group_of(tree, "constant_data")
    observed = constant["strong_outcome"].values
    if len(draws) < FEWEST_DRAWS:
        sentence = f"There are {len(draws)} predictive draws, too few to judge by."
        return CheckResult(NAME, None, pd.DataFrame(), sentence, TOO_FEW.format(needed=FEWEST_DRAWS))
    values = {PREDICTED: _mean_incidence(tree, constant)} | _raw_features(constant)
    bins = [(name, *part) for name, column in values.items() for part in _bins(column, name)]
    members = np.stack([mask for *_, mask in bins])
    size = members.sum(axis=1)
    share = members @ observed / size
    band = envelope((draws.astype(float) @ members.T) / size)
    p_value = band.p_value(share)
    table = pd.DataFrame(
        {
            "by": [name for name, *_ in bins],
            "bin": [label for _, label, _, _ in bins],
            "middle": [middle for _, _, middle, _ in bins],
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
    )


def _mean_incidence(tree: xr.DataTree, constant: xr.Dataset) -> np.ndarray:
    draws = as_draws(tree).draws
    n = constant.sizes["episode"]
    x = constant["features"].values if "features" in constant else np.zeros((n, 0))
    return np.concatenate([draws.incidence(x[k : k + BLOCK]).mean(axis=-1) for k in range(0, n, BLOCK)])


def _raw_features(constant: xr.Dataset) -> dict[str, np.ndarray]:
    """Features in the user's units."""
    if "feature" not in constant.coords:
        return {}
    raw = constant["features"].values * constant["feature_scale"].values + constant["feature_mean"].values
    return {str(name): column for name, column in zip(constant["feature"].values, raw.T, strict=True)}


def _bins(values: np.ndarray, name: str) -> list[tuple[str, float, np.ndarray]]:
    """Cut into bins of about equally many episodes: label, mean value, members."""
    n = len(values)
    count = int(np.clip(n // FEWEST_EPISODES, 2, MOST_BINS.get(name, MOST_BINS_OF_A_FEATURE)))
    # Standardizing and back moves a value by rounding; what was one value is to stay one.
    rounded = np.round(values, 9)
    distinct = np.unique(rounded)
    if len(distinct) <= count:
        return [(f"{value:.4g}", float(value), rounded == value) for value in distinct]
    edges = np.unique(np.quantile(rounded, np.linspace(0, 1, count + 1), method="closest_observation"))
    position = np.searchsorted(edges[1:-1], rounded, side="left")
    out = []
    for k in range(len(edges) - 1):
        mask = position == k
        if mask.any():
            inside = rounded[mask]
            out.append((f"{inside.min():.3g} to {inside.max():.3g}", float(inside.mean()), mask))
    return out


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
