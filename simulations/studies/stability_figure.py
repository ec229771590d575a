"""The figure of the stability study."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from simulations.stability.bound import Constants
from simulations.stability.contamination import WRONG_OUTCOMES
from simulations.studies.figures import COLOURS, LINES, MARKERS, figure_file
from simulations.studies.stability_tables import KINDS, SHOWN_RATE, cell

GREY = "#777777"


def plot(grid: pd.DataFrame, large: pd.DataFrame, constants: Constants, path: Path) -> None:
    """Draw the error against n, with the bound as far as it applies, and against the share of wrong marks."""
    sizes, size = sorted(grid["n"].unique()), int(large["n"].iloc[0])
    with figure_file(path, 1, 2, size=(11.4, 4.4)) as (_, axes):
        left, right = axes[0]
        for style, kind in enumerate(("clean", *KINDS)):
            shown, along = pd.concat([grid, large]), [*sizes, size] if kind in ("clean", WRONG_OUTCOMES) else sizes
            _line(left, along, [cell(shown, kind, n).mean("error_whitened") for n in along], kind, style)
        most = float(large.loc[large["kind"] == WRONG_OUTCOMES, "rate"].max())
        there = cell(large, WRONG_OUTCOMES, size, most).mean("error_whitened")
        label = f"{WRONG_OUTCOMES}, {most:.0%}"
        left.plot([size], [there], linestyle="", color=COLOURS[6], marker=MARKERS[6], markersize=7, label=label)
        formula = np.geomspace(sizes[0], constants.tasks_needed, 20)
        applies = np.geomspace(constants.tasks_needed, 3 * size, 20)
        for tasks, line, label in ((formula, ":", "formula, clean"), (applies, "-", "the same, where it applies")):
            left.plot(tasks, [constants.bound("clean", n, 0.0) for n in tasks], color=GREY, linestyle=line, label=label)
        left.axhline(constants.radius, color=GREY, linewidth=0.8)
        left.annotate(f"r = {constants.radius:g}", (5 * sizes[-1], 0.93 * constants.radius), va="top", color=GREY)
        left.set(xscale="log", yscale="log", xlabel="training tasks n", ylabel="error of the parameters, whitened")
        left.set_title(f"{SHOWN_RATE:.0%} of the marks wrong")
        left.set_xticks([*sizes, size], [*(f"{n:,}" for n in sizes), f"{size / 1e6:g} million"])
        left.set_xticks([], minor=True)
        n = sizes[-1]
        rates = sorted(grid.loc[grid["kind"] == KINDS[0], "rate"].unique())
        for style, kind in enumerate(KINDS, start=1):
            means = [cell(grid, kind, n, rate).mean("error_whitened") for rate in rates]
            _line(right, [100 * rate for rate in rates], means, kind, style)
        right.set(xscale="log", yscale="log", xlabel="wrong, % of the marks (outcomes: of all tasks)")
        right.set_title(f"n = {n:,}")
        right.set_xticks([100 * rate for rate in rates], [f"{100 * rate:g}" for rate in rates])
        right.set_xticks([], minor=True)
        handles, labels = left.get_legend_handles_labels()
        right.legend(handles, labels, loc="center left", bbox_to_anchor=(1.01, 0.5))


def _line(ax: Axes, x: Sequence[float], y: Sequence[float], label: str, style: int) -> None:
    ax.plot(x, y, color=COLOURS[style], marker=MARKERS[style], linestyle=LINES[style], markersize=5, label=label)
