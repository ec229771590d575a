"""What was learned, and how it compares with what was observed."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from bayes_tacit import validate
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.estimates.map_fit import MapFit
from bayes_tacit.estimates.map_fit.intervals import weight_interval
from bayes_tacit.review.plots.style import (
    BAND_OPACITY,
    CEILING,
    OBSERVED,
    PREDICTED,
    SCORE,
    axes_or_new,
    house_style,
    legend_below,
)
from bayes_tacit.review.predictions import crossed_by_step, incidence_calibration
from bayes_tacit.scores.sources import as_draws


def plot_weights(fit_or_tree: MapFit | xr.DataTree, *, probability: float = 0.9, ax: Axes | None = None) -> Axes:
    """Draw the weights of the diagnostics with their intervals.

    Parameters
    ----------
    fit_or_tree
        A posterior: means with equal-tailed intervals. A fit: estimates with intervals that are normal on the logit
        scale, as in its table, and none where there is no standard error.
    probability
        Mass of the intervals.
    ax
        Axes to draw on; new ones by default.

    Examples
    --------
    >>> from bayes_tacit import fit_map, load_example
    >>> ax = plot_weights(fit_map(load_example()))
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['repeat', 'uncertainty', 'stalled', 'invalid']
    """
    validate.probability("probability", probability)
    fitted = as_draws(fit_or_tree)
    w = fitted.draws.w
    if isinstance(fit_or_tree, MapFit):
        lower, upper = weight_interval(w[0], fit_or_tree.standard_errors["w"], probability)
    else:
        lower, upper = np.quantile(w, [(1 - probability) / 2, (1 + probability) / 2], axis=0)
    center = w.mean(axis=0)
    position = np.arange(len(center))
    with house_style():
        ax = axes_or_new(ax)
        ax.hlines(position, lower, upper, color=SCORE, linewidth=2.5, label=f"{100 * probability:.4g}% interval")
        label = "estimate" if isinstance(fit_or_tree, MapFit) else "posterior mean"
        ax.plot(center, position, "o", color=SCORE, markersize=7, markeredgecolor="white", label=label)
        ax.axvline(1 / len(center), color=CEILING, linestyle=":", label="equal weights")
        ax.set_yticks(position, fitted.weight_names, parse_math=False)
        ax.set_ylim(len(center) - 0.5, -0.5)
        ax.set_xlim(left=0)
        ax.grid(visible=False, axis="y")
        ax.set(xlabel="weight w (no unit; the weights sum to 1)", ylabel="diagnostic")
        legend_below(ax)
    return ax


def plot_calibration(
    fit_or_tree: MapFit | xr.DataTree,
    episodes: Episodes,
    *,
    bins: int = 10,
    probability: float = 0.9,
    ax: Axes | None = None,
) -> Axes:
    """Draw how often Strong succeeded against the predicted probability, by bins of the prediction.

    Numbers and parameters are those of `bayes_tacit.review.predictions.incidence_calibration`. A calibrated incidence
    follows the diagonal.

    Examples
    --------
    >>> from bayes_tacit import fit_map, load_example
    >>> episodes = load_example()
    >>> plot_calibration(fit_map(episodes), episodes, bins=5).get_title(loc="left")
    '5 bins of 235 to 252 episodes'
    """
    table = incidence_calibration(fit_or_tree, episodes, bins=bins, probability=probability)
    reach = np.abs(table[["lower", "upper"]].to_numpy().T - table["observed"].to_numpy())
    with house_style():
        ax = axes_or_new(ax, figsize=(4.8, 4.8))
        ax.plot([0, 1], [0, 1], color=CEILING, linestyle=":", label="calibrated")
        label = f"observed, {100 * probability:.4g}% interval"
        ax.errorbar(
            table["predicted"], table["observed"], yerr=reach, fmt="o", color=SCORE, elinewidth=1.4, label=label
        )
        ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        ax.set(xlabel=r"predicted incidence $\pi$ (probability)", ylabel="share of episodes where Strong succeeds")
        smallest, largest = table["episodes"].min(), table["episodes"].max()
        count = f"{smallest:,}" if smallest == largest else f"{smallest:,} to {largest:,}"
        ax.set_title(f"{len(table)} bins of {count} episodes")
        ax.legend(loc="upper left")
    return ax


def plot_crossing_steps(
    fit_or_tree: MapFit | xr.DataTree,
    episodes: Episodes,
    *,
    probability: float = 0.9,
    replicates: int = 200,
    seed: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Draw the share of timed episodes that have crossed their threshold by each step, observed and predicted.

    Numbers and parameters are those of `bayes_tacit.review.predictions.crossed_by_step`. The observed share is known
    up to the teacher windows: it lies between the share whose window has ended and the share whose window has begun.

    Examples
    --------
    >>> from bayes_tacit import fit_map, load_example
    >>> episodes = load_example()
    >>> plot_crossing_steps(fit_map(episodes), episodes).get_ylabel()
    'share of timed episodes that have crossed'
    """
    table = crossed_by_step(fit_or_tree, episodes, probability=probability, replicates=replicates, seed=seed)
    with house_style():
        ax = axes_or_new(ax)
        label = f"predicted, {100 * probability:.4g}% interval"
        ax.fill_between(
            table.index, table["lower"], table["upper"], color=PREDICTED, alpha=BAND_OPACITY, linewidth=0, label=label
        )
        ax.plot(table.index, table["predicted"], color=PREDICTED, label="predicted mean")
        ax.plot(table.index, table["began"], color=OBSERVED, linewidth=1.1, linestyle="--", label="window has begun")
        ax.plot(table.index, table["ended"], color=OBSERVED, linewidth=1.1, label="window has ended")
        ax.set_ylim(0, 1)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set(xlabel="step (checkpoints, counted from 0)", ylabel="share of timed episodes that have crossed")
        ax.legend(loc="upper left")
    return ax
