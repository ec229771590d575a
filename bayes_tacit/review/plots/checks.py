"""Figures of the checks: the numbers of each, beside their limits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from bayes_tacit.review.plots.rows import dot_rows, literal
from bayes_tacit.review.plots.style import BAND_OPACITY, CEILING, DECISION, OBSERVED, PREDICTED, SCORE
from bayes_tacit.review.plots.widths import in_a_row, is_narrow, legend_beside, legend_under, page_width

HIGHEST_DRAWN = 2.0
"""Pareto k above which all are drawn alike."""


def draw_sampler(table: pd.DataFrame, largest_rhat: float, least_ess: int) -> Figure:
    """Draw R-hat and effective sample sizes of every parameter, with their limits."""
    figure, (left, right), position = dot_rows(table.index, panels=2)
    left.plot(table["rhat"], position, "o", color=SCORE, markersize=6)
    right.plot(table["ess_bulk"], position, "o", color=SCORE, markersize=6, label="bulk")
    right.plot(table["ess_tail"], position, "o", color=PREDICTED, markersize=6, label="tail")
    for axis, limit in ((left, largest_rhat), (right, least_ess)):
        axis.axvline(limit, color=DECISION, linewidth=1.2, linestyle="--", label="limit")
    left.set(xlabel="R-hat")
    right.set(xlabel="effective sample size", xlim=(0, None))
    legend_beside(right)
    return figure


def draw_crossing_steps(table: pd.DataFrame, departure: pd.Series, limit: float) -> Figure:
    """Draw the share that has crossed by each position of the rollout, and the mean PIT minus uniform by level."""
    columns = in_a_row(2)
    figure = Figure(figsize=(page_width(), 3.6 * 2 / columns), layout="constrained")
    left, right = figure.subplots(2 // columns, columns, squeeze=False).flat
    positions = table["position"]
    shade = {"color": PREDICTED, "alpha": BAND_OPACITY, "linewidth": 0}
    left.fill_between(positions, table["lower"], table["upper"], label="predicted, 99% of replicates", **shade)
    left.plot(positions, table["predicted"], color=PREDICTED, label="predicted mean")
    bounds = table["observed_least"], table["observed_most"]
    left.vlines(positions, *bounds, color=OBSERVED, linewidth=1.5, zorder=3, label="observed, between bounds")
    for bound in bounds:
        left.plot(positions, bound, "_", color=OBSERVED, markersize=7, zorder=3)
    left.xaxis.set_major_formatter(PercentFormatter(1.0))
    left.set(xlabel="part of the rollout", ylabel="share of episodes that crossed", title="When", ylim=(0, 1))
    left.legend(loc="upper left")
    right.axhspan(-limit, limit, label="99% of replicates", **shade)
    right.axhline(0, color=PREDICTED)
    right.plot(departure.index, departure, "o-", color=OBSERVED, linewidth=1.2, label="observed")
    right.set(xlabel="place in the predictive distribution", ylabel="mean PIT minus uniform", title="Calibration")
    reach = 1.35 * max(limit, float(np.abs(departure).max()))
    right.set(xlim=(0, 1), ylim=(-reach, reach))
    right.legend(loc="upper right", ncols=2)
    return figure


def draw_incidence(table: pd.DataFrame, identity: str) -> Figure:
    """Draw observed and predicted shares by bins of each variable; that of `identity` is predicted by itself."""
    names = table["by"].unique()
    columns = in_a_row(min(4, len(names)), narrow=2)
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(page_width(), (2.2 if is_narrow() else 3.0) * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel()
    for panel, name in zip(panels, names, strict=False):
        part = table[table["by"] == name]
        half = np.stack([part["predicted"] - part["lower"], part["upper"] - part["predicted"]]).clip(min=0)
        panel.errorbar(
            part["middle"],
            part["predicted"],
            yerr=half,
            fmt="_",
            color=PREDICTED,
            capsize=3,
            label="predicted, 99%",
        )
        panel.scatter(part["middle"], part["observed"], color=OBSERVED, s=22, zorder=3, label="observed")
        panel.set(xlabel=literal(name))
        if name == identity:
            panel.axline((0.5, 0.5), slope=1, color=CEILING, linewidth=1, zorder=0)
            panel.set(xlim=(0, 1), ylim=(0, 1))
    for panel in panels[len(names) :]:
        panel.set_axis_off()
    for row in range(rows):
        panels[row * columns].set_ylabel("Strong succeeds")
    legend_under(panels[0])
    return figure


def draw_loo(k: pd.Series, limit: float) -> Figure:
    """Draw Pareto k of every episode, and name those above the limit."""
    figure = Figure(figsize=(page_width(), 2.8), layout="constrained")
    axis = figure.subplots()
    values = k.clip(upper=HIGHEST_DRAWN).to_numpy()
    bad = values > limit
    axis.scatter(np.arange(len(k))[~bad], values[~bad], s=5, color=SCORE, alpha=0.6, lw=0)
    axis.scatter(np.arange(len(k))[bad], values[bad], s=16, color=DECISION)
    for position in np.flatnonzero(bad)[np.argsort(-values[bad])][:5]:
        axis.annotate(
            literal(k.index[position]), (position, values[position]), xytext=(4, 3), textcoords="offset points"
        )
    axis.axhline(limit, color=DECISION, lw=1, ls="--", label=f"limit {limit}")
    axis.set(xlabel="episode, in the order of the data", ylabel="Pareto k")
    axis.legend(loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0)
    return figure


def draw_prior_sensitivity(table: pd.DataFrame, limit: float) -> Figure:
    """Draw how sensitive each parameter is to prior and likelihood."""
    figure, (axis,), position = dot_rows(table.index)
    axis.plot(table["likelihood"], position, "o", color=PREDICTED, markersize=6, label="likelihood")
    axis.plot(table["prior"], position, "o", color=SCORE, markersize=6, label="prior")
    axis.axvline(limit, color=DECISION, linewidth=1.2, linestyle="--", label=f"limit {limit}")
    axis.set(xlabel="sensitivity to power scaling", xlim=(0, None))
    legend_beside(axis)
    return figure


def draw_weights(table: pd.DataFrame) -> Figure:
    """Draw the posterior mean of each weight with one sd, beside equal weights."""
    figure, (axis,), position = dot_rows(table.index)
    axis.errorbar(
        table["mean"], position, xerr=table["sd"], fmt="o", color=SCORE, capsize=3, label="posterior mean, one sd"
    )
    axis.axvline(float(table["equal weights"].iloc[0]), color=PREDICTED, linestyle="--", label="equal weights")
    axis.set(xlabel="weight w", xlim=(0, None))
    legend_beside(axis)
    return figure


def draw_map_agreement(table: pd.DataFrame, limit: float) -> Figure:
    """Draw the point estimate in posterior sds from the mean."""
    figure, (axis,), position = dot_rows(table.index)
    axis.axvspan(-1, 1, color=SCORE, alpha=BAND_OPACITY, linewidth=0, label="posterior mean, one sd")
    axis.axvline(0, color=SCORE)
    axis.plot(table["z"], position, "o", color=OBSERVED, markersize=6, label="point estimate", zorder=3)
    for side in (-1, 1):
        label = "limit" if side > 0 else None
        axis.axvline(side * limit, color=DECISION, linewidth=1.2, linestyle="--", label=label)
    reach = max(2.0, 1.1 * float(table["z"].abs().max()))
    axis.set(xlabel="posterior sds from the mean", xlim=(-reach, reach))
    legend_beside(axis)
    return figure


def draw_memory(rho: np.ndarray, prior: Callable[[np.ndarray], np.ndarray]) -> Figure:
    """Draw the posterior of a learned memory from 0 to 1, with its prior."""
    figure = Figure(figsize=(page_width(), 2.8), layout="constrained")
    axis = figure.subplots()
    inside = np.linspace(0.005, 0.995, 199)
    axis.hist(rho, bins=50, range=(0, 1), density=True, color=SCORE, alpha=0.75, label="posterior")
    axis.plot(inside, prior(inside), color=PREDICTED, linestyle="--", label="prior")
    axis.axvline(1.0, color=DECISION, linewidth=1.5, label="the paper: nothing is forgotten")
    axis.set(xlabel="memory rho", ylabel="density", xlim=(0, 1.01))
    legend_beside(axis)
    return figure


def draw_memory_profile(gains: pd.Series, limit: float) -> Figure:
    """Draw the log likelihood by memory, minus that of the paper's."""
    figure = Figure(figsize=(page_width(), 2.8), layout="constrained")
    axis = figure.subplots()
    memories, heights = gains.index.to_numpy(), gains.to_numpy()
    axis.plot(memories, heights, "o-", color=SCORE, markersize=4, label="best fit at each memory")
    axis.axhline(limit, color=DECISION, linewidth=1.2, linestyle="--", label=f"limit {limit}")
    axis.axhline(0, color=CEILING, linewidth=1, zorder=0)
    axis.set(xlabel="memory rho (1: the paper, nothing is forgotten)", ylabel="log likelihood\nabove the paper's")
    # Memories that are far worse would hide what is near.
    low, high = float(gains[np.isfinite(gains)].min()), float(gains.max())
    axis.set(xlim=(0, 1.01), ylim=(max(low, -2 * max(high, 10.0)) - 1, max(2 * limit, 1.1 * high)))
    legend_beside(axis)
    return figure


def draw_comparison(table: pd.DataFrame) -> Figure:
    """Draw how much less than the best each model predicts."""
    figure, (axis,), position = dot_rows(table.index)
    axis.errorbar(table["elpd_diff"], position, xerr=table["dse"], fmt="o", color=SCORE, capsize=3)
    axis.axvline(0, color=CEILING, linewidth=1, zorder=0)
    axis.set(xlabel="elpd less than that of the best model, with one standard error")
    return figure


def draw_structure(table: pd.DataFrame, limit: float) -> Figure:
    """Draw how far the crossings of each bin are from those expected, one row a covariate."""
    names = list(table["by"].unique())
    figure, (axis,), position = dot_rows(names)
    height = dict(zip(names, position, strict=True))
    rows = table["by"].map(height)
    beyond = table["z"].abs() > limit
    for chosen, color in ((~beyond, SCORE), (beyond, DECISION)):
        axis.plot(table["z"][chosen], rows[chosen], "o", color=color, markersize=5, alpha=0.8)
    for side in (-1, 1):
        label = "limit for the worst of all" if side > 0 else None
        axis.axvline(side * limit, color=DECISION, linewidth=1.2, linestyle="--", label=label)
    axis.axvline(0, color=CEILING, linewidth=1, zorder=0)
    axis.set(xlabel="crossings less those expected, by bin, in standard errors")
    axis.legend(loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0)
    return figure
