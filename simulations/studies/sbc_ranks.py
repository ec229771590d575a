"""Rank plots for simulation-based calibration: how far the ranks' distribution is from uniform."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from simulations.studies.figures import COLOURS, figure_file


def plot_ranks(ranks: pd.DataFrame, draws: int, path: Path) -> None:
    """Plot the ranks' distribution function minus the uniform one, with a simultaneous 95% band, for every quantity."""
    columns = 5
    rows = -(-len(ranks.columns) // columns)
    grid = np.arange(draws + 2) / (draws + 1)
    band = _simultaneous_band(len(ranks), draws)
    with figure_file(path, rows, columns, size=(2.2 * columns, 1.7 * rows), share=True) as (figure, axes):
        for ax in axes.flat[len(ranks.columns) :]:
            ax.axis("off")
        for ax, name in zip(axes.flat, ranks.columns, strict=False):
            difference = _distribution(ranks[name].to_numpy(), draws) - grid
            ax.fill_between(grid, -band, band, color="#cccccc", linewidth=0)
            ax.plot(grid, difference, color=COLOURS[0], linewidth=1.2, drawstyle="steps-post")
            ax.axhline(0, color="#555555", linewidth=0.6)
            ax.set_title(str(name), fontsize=9)
        figure.supxlabel("rank of the truth among the draws, as a share", fontsize=10)
        figure.supylabel("distribution minus uniform", fontsize=10)


def _distribution(ranks: np.ndarray, draws: int) -> np.ndarray:
    counts = np.bincount(ranks, minlength=draws + 1)
    return np.concatenate([[0.0], np.cumsum(counts) / len(ranks)])


def _simultaneous_band(replicates: int, draws: int, studies: int = 4000) -> np.ndarray:
    """Half-width that 95% of studies with uniform ranks stay inside everywhere, proportional to the pointwise sd."""
    rng = np.random.default_rng(0)
    grid = np.arange(draws + 2) / (draws + 1)
    sd = np.sqrt(grid * (1 - grid) / replicates)
    inside = sd > 0
    largest = [
        np.abs((_distribution(rng.integers(0, draws + 1, replicates), draws) - grid)[inside] / sd[inside]).max()
        for _ in range(studies)
    ]
    return np.quantile(largest, 0.95) * sd
