"""A played episode: the handoff score along it, and the signs of trouble under it."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bayes_tacit.review.plots.policies import policy_style
from bayes_tacit.review.plots.style import BAND_OPACITY, DECISION, SCORE, house_style

TROUBLE = LinearSegmentedColormap.from_list("trouble", ["#FFFFFF", DECISION])


def draw_played(
    scores: pd.DataFrame, diagnostics: pd.DataFrame, strong: Sequence[int], last: int, title: str
) -> Figure:
    """Draw the score of an episode over the diagnostics of the same steps.

    Parameters
    ----------
    scores
        By step: `score`, `lower` and `upper` (missing where there is no band) and `alpha`.
    diagnostics
        By step, one column each.
    strong
        Steps at which Strong acted.
    last
        The last step of the episode.
    title
        What to write above it.
    """
    names = list(diagnostics.columns)
    with house_style():
        size = (8.4, 3.1 + 0.22 * len(names))
        heights = [2.4, 0.22 * len(names)]
        figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=size, height_ratios=heights)
        _draw_scores(above, scores, strong)
        _draw_diagnostics(below, diagnostics, last)
        above.set_title(title, parse_math=False)
        figure.legend(loc="outside lower center", ncols=5)
    return figure


def _draw_scores(ax: Axes, scores: pd.DataFrame, strong: Sequence[int]) -> None:
    if strong:
        ax.axvspan(
            min(strong) - 0.5,
            max(strong) + 0.5,
            color=policy_style("Pure Strong").color,
            alpha=0.18,
            linewidth=0,
            label="Strong acts",
        )
    banded = scores.dropna(subset=["lower", "upper"])
    if len(banded):
        edges = banded["lower"].astype(float), banded["upper"].astype(float)
        ax.fill_between(banded.index, *edges, color=SCORE, alpha=BAND_OPACITY, linewidth=0, label="90% band")
    ax.plot(scores.index, scores["score"], "o-", color=SCORE, label="q(t)")
    alpha = float(scores["alpha"].iloc[0])
    ax.axhline(alpha, color=DECISION, linestyle="--", linewidth=1.2, label=rf"$\alpha$ = {alpha:.3g}")
    crossed = scores[scores["score"] >= scores["alpha"]]
    if len(crossed):
        first = crossed.index[:1], crossed["score"].iloc[:1]
        ax.plot(*first, "D", color=DECISION, markersize=8, label="first crossing", zorder=3)
    ax.set(ylim=(0, 1), ylabel="handoff score q(t)\n(probability)")


def _draw_diagnostics(ax: Axes, diagnostics: pd.DataFrame, last: int) -> None:
    names, end = list(diagnostics.columns), int(diagnostics.index.max())
    values = diagnostics.reindex(range(end + 1)).to_numpy(float).T
    edges = np.arange(values.shape[1] + 1) - 0.5
    most = max(1.0, float(np.nanmax(values)))
    rows = np.arange(len(names) + 1) - 0.5
    ax.pcolormesh(edges, rows, values, cmap=TROUBLE, vmin=0, vmax=most, edgecolors="#E4E4E4", linewidth=0.4)
    ax.set_yticks(range(len(names)), [name.replace("_", " ") for name in names], parse_math=False)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=False)
    ax.set_xlim(-0.5, max(last, end) + 0.5)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("step (counted from 0)")
