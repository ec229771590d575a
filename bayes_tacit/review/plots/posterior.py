"""Figures of a posterior: what the sampler did, mostly by arviz_plots, and what it found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import arviz_plots
import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.review.plots.fits import plot_weights
from bayes_tacit.review.plots.rows import dot_rows
from bayes_tacit.review.plots.scores import plot_handoff_score
from bayes_tacit.review.plots.style import CEILING, SCORE, shortened
from bayes_tacit.review.plots.widths import WIDE, is_narrow, legend_under, page_width

PROBABILITY = 0.9
COLUMNS = 4


def draw_weights(tree: xr.DataTree) -> Figure:
    """Draw the weights with their intervals."""
    figure = Figure(figsize=(page_width(), 1.4 + 0.42 * _weight_count(tree)), layout="constrained")
    axis = plot_weights(tree, probability=PROBABILITY, ax=figure.subplots())
    names = [shortened(label.get_text(), 16 if is_narrow() else 40) for label in axis.get_yticklabels()]
    axis.set_yticks(axis.get_yticks(), names, parse_math=False)
    if is_narrow():
        legend_under(axis)
    return figure


def draw_coefficients(summary: pd.DataFrame) -> Figure:
    """Draw the other parameters with their intervals."""
    rows = summary[~summary.index.str.startswith("w[")]
    figure, (axis,), position = dot_rows(rows.index)
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
    axis.set_title(shortened(name, 48), parse_math=False)
    handles, labels = axis.get_legend_handles_labels()
    if (legend := axis.get_legend()) is not None:
        legend.remove()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
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
        axis.set_title(shortened(name, 22), parse_math=False)
        axis.tick_params(labelbottom=True)
        axis.xaxis.set_major_locator(MaxNLocator(nbins=2, steps=[1, 5, 10]))
    figure.supxlabel(xlabel, fontsize=10)
    return figure


def _by_parameter(posterior: xr.Dataset) -> dict[str, xr.DataArray]:
    """Give every scalar parameter's draws under the name that it has in the tables."""
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


def _weight_count(tree: xr.DataTree) -> int:
    group = "posterior" if "w" in tree["posterior"] else "constant_data"
    return int(np.size(tree[group]["diagnostic"]))
