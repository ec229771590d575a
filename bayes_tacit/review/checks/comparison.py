"""Which of several models of the same episodes predicts best."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import arviz_stats
import numpy as np
import pandas as pd
import xarray as xr

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.estimates.posterior.completion import completed
from bayes_tacit.review.checks.base import CheckResult, group_of
from bayes_tacit.review.checks.loo import LARGEST_K, loo, pareto_k
from bayes_tacit.review.plots.checks import draw_comparison
from bayes_tacit.review.plots.rows import lazily

NAME = "Model comparison"
CLEAR = 2.0
"""Standard errors of the difference beyond which one model is said to predict better."""
SMALL = 4.0
"""Difference in elpd below which models predict alike, and its standard error is too small (Sivula et al., 2020)."""


def compare_models(trees: Mapping[str, xr.DataTree]) -> CheckResult:
    """Compare models of the same episodes by leave-one-out predictive accuracy.

    The models may differ in features, diagnostics, weights, prior, threshold family, memory and clock. They must have
    seen the same outcomes and the same windows: a difference in elpd between other data means nothing. A model is said
    to predict worse than the best one if the difference is more than 4 and more than two of its standard errors.

    A window in which some model sees no risk has no mass under it, and is dropped there if it is not refused
    (`zero_mass="drop_window"`). Such episodes are left out for all models, and counted. That flatters the model that
    dropped them: to compare on all episodes, give every model a clock.

    Parameters
    ----------
    trees
        Two or more posteriors, by the name to show for each.

    Returns
    -------
    CheckResult
        `passed` is None. `table` has one row a model, best first: `elpd`, `se`, `elpd_diff` from the best and its
        `dse`, stacking `weight`, effective parameters `p`, and the number of episodes with a Pareto k above 0.7.

    Examples
    --------
    >>> compare_models({"all features": tree, "without subgoals": smaller})  # doctest: +SKIP
    """
    if len(trees) < 2:
        raise InvalidDataError("two or more posteriors", field="models to compare", value=list(trees))
    trees = {name: completed(tree) for name, tree in trees.items()}
    names = list(trees)
    for name in names[1:]:
        _require_same_outcomes(names[0], trees[names[0]], name, trees[name])
    all_ids = group_of(trees[names[0]], "log_likelihood")["episode"].values
    dropped = _dropped(trees)
    ids = all_ids[[episode not in dropped for episode in all_ids.tolist()]]
    if not len(ids):
        raise InvalidDataError("some episodes whose windows all models use", field="episodes to compare on", value=0)
    found = {name: loo(_with_episodes(tree, ids)) for name, tree in trees.items()}
    table = _table(found)
    unreliable = table.index[table["high_k"] > 0].tolist()
    advice = (
        f"Pareto k is above {LARGEST_K} in {', '.join(map(str, unreliable))}: run check_loo on it, and mind that its "
        "elpd is probably too high."
        if unreliable
        else ""
    )
    sentence = _sentence(table) + _left_out(dropped, len(all_ids))
    return CheckResult(NAME, None, table, sentence, advice, lazily(draw_comparison, table))


def _dropped(trees: Mapping[str, xr.DataTree]) -> dict[object, list[str]]:
    """Give the episodes that have a window in some models and none in others, with the names of these."""
    windows = {name: _windows(tree) for name, tree in trees.items()}
    bounded = dict.fromkeys(episode for tree in trees.values() for episode in _bounded_above(tree))
    without = {episode: [name for name, found in windows.items() if episode not in found] for episode in bounded}
    return {episode: names for episode, names in without.items() if names}


def _left_out(dropped: dict[object, list[str]], n: int) -> str:
    if not dropped:
        return ""
    names = ", ".join(dict.fromkeys(name for names in dropped.values() for name in names))
    return (
        f" Left out are {len(dropped)} of {n} episodes, such as {next(iter(dropped))!r}, whose windows have no mass in "
        f"{names}, which flatters it; with clock=True in every model all episodes count."
    )


def _with_episodes(tree: xr.DataTree, ids: np.ndarray) -> xr.DataTree:
    """Give what LOO reads, with the episodes in a common order."""
    return xr.DataTree.from_dict(
        {
            "posterior": group_of(tree, "posterior"),
            "log_likelihood": group_of(tree, "log_likelihood")[["total", "timed"]].sel(episode=ids),
        }
    )


def _require_same_outcomes(reference: str, one: xr.DataTree, name: str, other: xr.DataTree) -> None:
    for setting, default in (("unmarked", "outcome"), ("timing", "post_action")):
        read, also = (tree.attrs.get(setting, default) for tree in (one, other))
        if read != also:
            raise InvalidDataError(
                f"{read!r} as in {reference!r}: what the windows say is not the same otherwise",
                field=f"{setting} in {name!r}",
                value=also,
            )
    for what, by_id in (("strong_success", _outcomes), ("teacher windows", _windows)):
        expected, given = by_id(one), by_id(other)
        if what == "strong_success" and expected.keys() != given.keys():
            odd = sorted(expected.keys() ^ given.keys(), key=str)[0]
            raise InvalidDataError(
                f"the episodes of {reference!r} ({len(expected)}; one has {odd!r}, the other does not)",
                field=f"number of episodes in {name!r}",
                value=len(given),
            )
        for episode, value in expected.items():
            if episode in given and given[episode] != value:
                raise InvalidDataError(
                    f"{value} as in {reference!r}: only models of the same data can be compared",
                    episode=episode,
                    field=f"{what} in {name!r}",
                    value=given[episode],
                )


def _outcomes(tree: xr.DataTree) -> dict[object, int]:
    outcome = group_of(tree, "constant_data")["strong_outcome"]
    return dict(zip(outcome["episode"].values.tolist(), outcome.values.tolist(), strict=True))


def _windows(tree: xr.DataTree) -> dict[object, tuple[int, int]]:
    constant = group_of(tree, "constant_data")
    bounds = zip(constant["window_start"].values.tolist(), constant["window_end"].values.tolist(), strict=True)
    return dict(zip(constant["timed"].values.tolist(), bounds, strict=True))


def _bounded_above(tree: xr.DataTree) -> list[object]:
    """Give the episodes with a window that ends; of those without an upper end, one that saw no risk says nothing."""
    constant = group_of(tree, "constant_data")
    timed: list[object] = constant["timed"].values.tolist()
    return timed[: int(constant["n_left"]) + int(constant["n_interval"])]


def _table(found: dict[str, Any]) -> pd.DataFrame:
    with warnings.catch_warnings():
        # Of equal models, the difference has no standard error to divide by.
        warnings.filterwarnings("ignore", message="invalid value encountered", category=RuntimeWarning)
        compared = arviz_stats.compare(found, round_to="none")
    table = compared[["elpd", "se", "elpd_diff", "dse", "weight", "p"]].astype(float)
    table["high_k"] = [int((pareto_k(found[name]) > LARGEST_K).sum()) for name in table.index]
    return table.rename_axis("model")


def _sentence(table: pd.DataFrame) -> str:
    best = table.index[0]
    others = table.iloc[1:]
    worse = others[(others["elpd_diff"].abs() > SMALL) & (others["elpd_diff"].abs() > CLEAR * others["dse"])]
    alike = others.index.difference(worse.index, sort=False)
    parts = []
    if len(worse):
        listed = "; ".join(f"{name} by {-row['elpd_diff']:.1f} (se {row['dse']:.1f})" for name, row in worse.iterrows())
        parts.append(f"{best} predicts better than {listed}")
    if len(alike):
        parts.append(f"{', '.join(map(str, alike))} cannot be told from {best}")
    return "; ".join(parts) + "."
