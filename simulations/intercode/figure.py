"""Success against cost on real logs, with intervals."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from bayes_tacit.review.style import policy_style
from simulations.intercode.uncertainty import Tally
from simulations.studies.figures import figure_file, legend_beside

CURVES = "curves.png"


def plot_curves(table: pd.DataFrame, tally: Tally, names: list[str], path: Path) -> None:
    """Draw each policy's success on test tasks against its cost there, as shares, with 95% intervals by task."""
    rows = table[(table["setting"] == "random") & (table["kind"] == "curve")]
    cost = rows.groupby(["policy", "share"])["of_strong"].mean()
    with figure_file(path, size=(9.0, 5.2)) as (_, axes):
        (ax,) = axes.flat
        for name in names:
            keys = sorted((key for key in tally.keys if key[0] == name), key=lambda key: key[1])
            style = policy_style(name)
            success = [100 * tally.success(key) for key in keys]
            ends = [[100 * end for end in tally.interval(key)] for key in keys]
            below = [value - low for value, (low, _) in zip(success, ends, strict=True)]
            above = [high - value for value, (_, high) in zip(success, ends, strict=True)]
            ax.errorbar(
                [100 * cost[key] for key in keys],
                success,
                yerr=[below, above],
                color=style.color,
                marker=style.marker,
                linestyle="none" if len(keys) == 1 else "-",
                linewidth=1.4,
                markersize=5,
                capsize=2,
                elinewidth=0.5,
                label=name,
            )
        ax.set_xlabel("mean cost on test tasks, % of Pure Strong's")
        ax.set_ylabel("success on test tasks, %")
        legend_beside(ax)
