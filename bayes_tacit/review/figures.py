"""Figures inside pages: the numbers of each check, what the sampler did and what it found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import arviz_plots
import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.review import style
from bayes_tacit.review.plots import plot_handoff_score, plot_weights
from bayes_tacit.review.style import BAND_OPACITY, CEILING, DECISION, OBSERVED, PREDICTED, SCORE, WIDE

HIGHEST_DRAWN = 2.0
"""Pareto k above which all are drawn alike."""
PROBABILITY = 0.9
COLUMNS = 4


def draw_sampler(table: pd.DataFrame, largest_rhat: float, least_ess: int) -> Figure:
    """Draw R-hat and effective sample sizes of every parameter, with their limits."""
    figure, (left, right), position = style.dot_rows(table.index, panels=2)
    left.plot(table["rhat"], position, "o", color=SCORE, markersize=6)
    right.plot(table["ess_bulk"], position, "o", color=SCORE, markersize=6, label="bulk")
    right.plot(table["ess_tail"], position, "o", color=PREDICTED, markersize=6, label="tail")
    for axis, limit in ((left, largest_rhat), (right, least_ess)):
        axis.axvline(limit, color=DECISION, linewidth=1.2, linestyle="--", label="limit")
    left.set(xlabel="R-hat")
    right.set(xlabel="effective sample size", xlim=(0, None))
    style.legend_beside(right)
    return figure


def draw_crossing_steps(table: pd.DataFrame, departure: pd.Series, limit: float) -> Figure:
    """Draw the share that has crossed by each position of the rollout, and the mean PIT minus uniform by level."""
    columns = style.in_a_row(2)
    figure = Figure(figsize=(style.page_width(), 3.6 * 2 / columns), layout="constrained")
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
    columns = style.in_a_row(min(4, len(names)), narrow=2)
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(style.page_width(), (2.2 if style.is_narrow() else 3.0) * rows), layout="constrained")
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
        panel.set(xlabel=style.literal(name))
        if name == identity:
            panel.axline((0.5, 0.5), slope=1, color=CEILING, linewidth=1, zorder=0)
            panel.set(xlim=(0, 1), ylim=(0, 1))
    for panel in panels[len(names) :]:
        panel.set_axis_off()
    for row in range(rows):
        panels[row * columns].set_ylabel("Strong succeeds")
    style.legend_under(panels[0])
    return figure


def draw_loo(k: pd.Series, limit: float) -> Figure:
    """Draw Pareto k of every episode, and name those above the limit."""
    figure = Figure(figsize=(style.page_width(), 2.8), layout="constrained")
    axis = figure.subplots()
    values = k.clip(upper=HIGHEST_DRAWN).to_numpy()
    bad = values > limit
    axis.scatter(np.arange(len(k))[~bad], values[~bad], s=5, color=SCORE, alpha=0.6, lw=0)
    axis.scatter(np.arange(len(k))[bad], values[bad], s=16, color=DECISION)
    for position in np.flatnonzero(bad)[np.argsort(-values[bad])][:5]:
        axis.annotate(
            style.literal(k.index[position]), (position, values[position]), xytext=(4, 3), textcoords="offset points"
        )
    axis.axhline(limit, color=DECISION, lw=1, ls="--", label=f"limit {limit}")
    axis.set(xlabel="episode, in the order of the data", ylabel="Pareto k")
    axis.legend(loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0)
    return figure


def draw_prior_sensitivity(table: pd.DataFrame, limit: float) -> Figure:
    """Draw how sensitive each parameter is to prior and likelihood."""
    figure, (axis,), position = style.dot_rows(table.index)
    axis.plot(table["likelihood"], position, "o", color=PREDICTED, markersize=6, label="likelihood")
    axis.plot(table["prior"], position, "o", color=SCORE, markersize=6, label="prior")
    axis.axvline(limit, color=DECISION, linewidth=1.2, linestyle="--", label=f"limit {limit}")
    axis.set(xlabel="sensitivity to power scaling", xlim=(0, None))
    style.legend_beside(axis)
    return figure


def draw_weights(table: pd.DataFrame) -> Figure:
    """Draw the posterior mean of each weight with one sd, beside equal weights."""
    figure, (axis,), position = style.dot_rows(table.index)
    axis.errorbar(
        table["mean"], position, xerr=table["sd"], fmt="o", color=SCORE, capsize=3, label="posterior mean, one sd"
    )
    axis.axvline(float(table["equal weights"].iloc[0]), color=PREDICTED, linestyle="--", label="equal weights")
    axis.set(xlabel="weight w", xlim=(0, None))
    style.legend_beside(axis)
    return figure


def draw_map_agreement(table: pd.DataFrame, limit: float) -> Figure:
    """Draw the point estimate in posterior sds from the mean."""
    figure, (axis,), position = style.dot_rows(table.index)
    axis.axvspan(-1, 1, color=SCORE, alpha=BAND_OPACITY, linewidth=0, label="posterior mean, one sd")
    axis.axvline(0, color=SCORE)
    axis.plot(table["z"], position, "o", color=OBSERVED, markersize=6, label="point estimate", zorder=3)
    for side in (-1, 1):
        label = "limit" if side > 0 else None
        axis.axvline(side * limit, color=DECISION, linewidth=1.2, linestyle="--", label=label)
    reach = max(2.0, 1.1 * float(table["z"].abs().max()))
    axis.set(xlabel="posterior sds from the mean", xlim=(-reach, reach))
    style.legend_beside(axis)
    return figure


def draw_memory(rho: np.ndarray, prior: Callable[[np.ndarray], np.ndarray]) -> Figure:
    """Draw the posterior of a learned memory from 0 to 1, with its prior."""
    figure = Figure(figsize=(style.page_width(), 2.8), layout="constrained")
    axis = figure.subplots()
    inside = np.linspace(0.005, 0.995, 199)
    axis.hist(rho, bins=50, range=(0, 1), density=True, color=SCORE, alpha=0.75, label="posterior")
    axis.plot(inside, prior(inside), color=PREDICTED, linestyle="--", label="prior")
    axis.axvline(1.0, color=DECISION, linewidth=1.5, label="the paper: nothing is forgotten")
    axis.set(xlabel="memory rho", ylabel="density", xlim=(0, 1.01))
    style.legend_beside(axis)
    return figure


def draw_memory_profile(gains: pd.Series, limit: float) -> Figure:
    """Draw the log likelihood by memory, minus that of the paper's."""
    figure = Figure(figsize=(style.page_width(), 2.8), layout="constrained")
    axis = figure.subplots()
    memories, heights = gains.index.to_numpy(), gains.to_numpy()
    axis.plot(memories, heights, "o-", color=SCORE, markersize=4, label="best fit at each memory")
    axis.axhline(limit, color=DECISION, linewidth=1.2, linestyle="--", label=f"limit {limit}")
    axis.axhline(0, color=CEILING, linewidth=1, zorder=0)
    axis.set(xlabel="memory rho (1: the paper, nothing is forgotten)", ylabel="log likelihood\nabove the paper's")
    # Memories that are far worse would hide what is near.
    low, high = float(gains[np.isfinite(gains)].min()), float(gains.max())
    axis.set(xlim=(0, 1.01), ylim=(max(low, -2 * max(high, 10.0)) - 1, max(2 * limit, 1.1 * high)))
    style.legend_beside(axis)
    return figure


def draw_comparison(table: pd.DataFrame) -> Figure:
    """Draw how much less than the best each model predicts."""
    figure, (axis,), position = style.dot_rows(table.index)
    axis.errorbar(table["elpd_diff"], position, xerr=table["dse"], fmt="o", color=SCORE, capsize=3)
    axis.axvline(0, color=CEILING, linewidth=1, zorder=0)
    axis.set(xlabel="elpd less than that of the best model, with one standard error")
    return figure


def draw_structure(table: pd.DataFrame, limit: float, label: str) -> Figure:
    """Draw the totals of a check with the limit for the worst of them, one row a covariate."""
    names = list(table["by"].unique())
    figure, (axis,), position = style.dot_rows(names)
    height = dict(zip(names, position, strict=True))
    rows = table["by"].map(height)
    beyond = table["z"].abs() > limit
    for chosen, color in ((~beyond, SCORE), (beyond, DECISION)):
        axis.plot(table["z"][chosen], rows[chosen], "o", color=color, markersize=5, alpha=0.8)
    for side in (-1, 1):
        named = "limit for the worst of all" if side > 0 else None
        axis.axvline(side * limit, color=DECISION, linewidth=1.2, linestyle="--", label=named)
    axis.axvline(0, color=CEILING, linewidth=1, zorder=0)
    axis.set(xlabel=label)
    axis.legend(loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0)
    return figure


def draw_weight_intervals(tree: xr.DataTree) -> Figure:
    """Draw the weights with their intervals."""
    weights = tree["posterior" if "w" in tree["posterior"] else "constant_data"]["diagnostic"].size
    figure = Figure(figsize=(style.page_width(), 1.4 + 0.42 * weights), layout="constrained")
    axis = plot_weights(tree, probability=PROBABILITY, ax=figure.subplots())
    names = [style.shortened(label.get_text(), 16 if style.is_narrow() else 40) for label in axis.get_yticklabels()]
    axis.set_yticks(axis.get_yticks(), names, parse_math=False)
    if style.is_narrow():
        style.legend_under(axis)
    return figure


def draw_coefficients(summary: pd.DataFrame) -> Figure:
    """Draw the other parameters with their intervals."""
    rows = summary[~summary.index.str.startswith("w[")]
    figure, (axis,), position = style.dot_rows(rows.index)
    axis.hlines(position, rows["lower"], rows["upper"], color=SCORE, linewidth=2.5)
    axis.plot(rows["mean"], position, "o", color=SCORE, markersize=7, markeredgecolor="white")
    axis.axvline(0, color=CEILING, linestyle=":")
    axis.set(xlabel=f"posterior mean and {PROBABILITY:.0%} interval; gamma[.] and beta[.] per sd of a feature")
    return figure


def draw_traces(tree: xr.DataTree) -> Figure:
    """Draw every parameter along every chain."""
    return _grid(arviz_plots.plot_trace, tree, "draw", {"trace": {"width": 0.4, "alpha": 0.8}})


def draw_ranks(tree: xr.DataTree) -> Figure:
    """Draw how the ranks of each chain's draws depart from uniform."""
    visuals = {"ecdf_lines": {"width": 1.2}, "remove_axis": False}
    figure = _grid(arviz_plots.plot_rank, tree, "rank among all draws", visuals)
    # One scale for all, and written: a departure that looks large is not, where nothing is.
    shown = [axis for axis in figure.axes if axis.lines]
    reach = 1.15 * max(float(np.abs(line.get_ydata()).max()) for axis in shown for line in axis.lines)
    for axis in shown:
        axis.set(ylim=(-reach, 1.5 * reach), ylabel="")
        axis.yaxis.set_major_locator(MaxNLocator(nbins=3))
        axis.tick_params(axis="y", left=True, labelleft=True)
        for text in axis.texts:
            text.set_text(text.get_text().partition("(")[0].replace("=", " = "))
            text.set(transform=axis.transAxes, position=(0.03, 0.97), verticalalignment="top")
    figure.supylabel("share of draws up to the rank, minus the rank", fontsize=10)
    return figure


def draw_energy(tree: xr.DataTree) -> Figure:
    """Draw the distribution of the energy and of its changes from draw to draw."""
    shown = arviz_plots.plot_energy(tree, backend="matplotlib", figure_kwargs=_size(3.2))
    figure: Figure = shown.viz["figure"].item()
    points, distribution = figure.axes[:2]
    chains = tree["posterior"].sizes["chain"]
    points.set_yticks(range(chains))
    points.set(title="BFMI by chain", ylim=(-0.5, chains - 0.5))
    distribution.set(xlabel="energy, centered", title="Energy")
    return figure


def draw_score(tree: xr.DataTree, episodes: Episodes, episode: object, alpha: float | None, name: str) -> Figure:
    """Draw the handoff score of one episode with its band, the teacher's window and alpha."""
    figure = Figure(figsize=(WIDE / 2, 3.1), layout="constrained")
    axis = plot_handoff_score(tree, episodes, episode, alpha=alpha, probability=PROBABILITY, ax=figure.subplots())
    axis.set_title(style.shortened(name, 48), parse_math=False)
    style.legend_under(axis, columns=3)
    return figure


def _grid(plot: Callable[..., Any], tree: xr.DataTree, xlabel: str, visuals: dict[str, Any]) -> Figure:
    parameters = _by_parameter(tree["posterior"].to_dataset())
    # A variable of a DataTree cannot have any name, so the parameters' names are only written as titles.
    numbered = {f"parameter {number}": values for number, values in enumerate(parameters.values())}
    shown = plot(
        xr.DataTree.from_dict({"posterior": xr.Dataset(numbered)}),
        backend="matplotlib",
        col_wrap=COLUMNS,
        visuals=visuals,
        figure_kwargs=_size(0.5 + 1.5 * -(-len(parameters) // COLUMNS)),
    )
    figure: Figure = shown.viz["figure"].item()
    for variable, name in zip(numbered, parameters, strict=True):
        axis = shown.viz["plot"][variable].item()
        axis.set_xlabel("")
        axis.set_title(style.shortened(name, 22), parse_math=False)
        axis.tick_params(labelbottom=True)
        axis.xaxis.set_major_locator(MaxNLocator(nbins=2, steps=[1, 5, 10]))
    figure.supxlabel(xlabel, fontsize=10)
    return figure


def _by_parameter(posterior: xr.Dataset) -> dict[str, xr.DataArray]:
    out: dict[str, xr.DataArray] = {}
    for name, array in posterior.data_vars.items():
        extra = [dim for dim in array.dims if dim not in ("chain", "draw")]
        if not extra:
            out[str(name)] = array
            continue
        for label in array[extra[0]].values:
            out[f"{name}[{label}]"] = array.sel({extra[0]: label}, drop=True)
    return out


def _size(height: float) -> dict[str, object]:
    return {"figsize": (WIDE, height), "figsize_units": "inches"}
