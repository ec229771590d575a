"""What each policy is expected to give under a cap, which is recommended, and what that one gives at other budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from bayes_tacit.policies import Recommendation
from bayes_tacit.review.plots.policies import policy_style
from bayes_tacit.review.plots.style import CEILING, DECISION, house_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_recommendation(result: Recommendation, *, unit: str = "", figure: Figure | None = None) -> Figure:
    """Draw held-out success with its interval for every policy, and success against cost of the recommended one.

    Parameters
    ----------
    result
        What `recommend` returned; with `frontier=7`, say, also what it gives at that many budgets.
    unit
        Unit of the cost.
    figure
        Figure to draw on; a new one by default.
    """
    import matplotlib.pyplot as plt

    with house_style():
        both = result.frontier is not None
        out = plt.figure(figsize=(11.5 if both else 7.0, 5.0), layout="constrained") if figure is None else figure
        axes = out.subplots(1, 2 if both else 1, squeeze=False)[0]
        _forest(axes[0], result)
        if result.frontier is not None:
            _frontier(axes[1], result, result.frontier, unit)
    return out


def _forest(ax: Axes, result: Recommendation) -> None:
    table = result.table.sort_values("success")
    for place, (_, row) in enumerate(table.iterrows()):
        color, marker = policy_style(row["policy"])
        success = float(row["success"])
        error = [[success - float(row["success_lower"])], [float(row["success_upper"]) - success]]
        ax.errorbar([success], [place], xerr=error, color=color, marker=marker, ls="", capsize=3, markersize=7)
        if row["policy"] == result.name:
            ax.plot([success], [place], "o", mfc="none", mec=DECISION, mew=2, ms=15, zorder=4)
    names = [f"{name}  (cost {cost:.4g})" for name, cost in zip(table["policy"], table["cost"], strict=True)]
    ax.set_yticks(range(len(names)), names)
    ax.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.set(xlabel="success on tasks not chosen on", title=f"under a cap of {result.cap:.4g}; ringed: recommended")


def _frontier(ax: Axes, result: Recommendation, frontier: pd.DataFrame, unit: str) -> None:
    color, marker = policy_style(result.name)
    cost, success = frontier["cost"], frontier["success"]
    ax.fill_between(cost, frontier["success_lower"], frontier["success_upper"], color=color, alpha=0.2, linewidth=0)
    ax.plot(cost, success, color=color, marker=marker, markersize=6)
    ax.axvline(result.cap, color=CEILING, linestyle="--", linewidth=1.2)
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    label = "mean cost of an episode" + (f" ({unit})" if unit else "")
    ax.set(xlabel=label, ylabel="success on tasks not chosen on", title=f"{result.name} at other budgets")
