"""Figures of the studies: the house style, and files whose bytes depend on nothing but what is drawn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayes_tacit.review.style import house_style
from simulations.studies.tables import mean_and_half_width

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "-", (0, (4, 2)), "-.", ":", (0, (6, 1, 1, 1, 1, 1)), "-")


@contextmanager
def figure_file(
    path: Path, rows: int = 1, columns: int = 1, size: tuple[float, float] = (6.4, 4.0), *, share: bool = False
) -> Iterator[tuple[Figure, np.ndarray]]:
    """Yield a figure and its axes (row, column) in the house style; what is drawn on it is written at the end.

    With `share`, all axes have the same limits.
    """
    with house_style():
        figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, sharex=share, sharey=share)
        try:
            yield figure, axes
            figure.savefig(path, metadata={"Software": None})
        finally:
            plt.close(figure)


def plot_means(ax: Axes, x: Iterable[float], replicates: Iterable[Iterable[float]], *, label: str, style: int) -> None:
    """Draw means over replicates with Student-t 95% intervals; `style` picks colour, marker and line."""
    pairs = [mean_and_half_width(values) for values in replicates]
    ax.errorbar(
        list(x),
        [mean for mean, _ in pairs],
        yerr=[half or 0.0 for _, half in pairs],
        color=COLOURS[style],
        marker=MARKERS[style],
        linestyle=LINES[style],
        markersize=5,
        capsize=2.5,
        elinewidth=1.1,
        label=label,
    )


def legend_beside(ax: Axes, title: str | None = None) -> None:
    """Put the legend to the right of the axes, where it hides nothing."""
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), title=title)
