"""The success-cost curve of a set of candidates, with the chosen one ringed."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from bayes_tacit.decisions.selection.choice import Choice, Points, column, table_of
from bayes_tacit.decisions.selection.points import efficient_frontier
from bayes_tacit.review.plots.style import CEILING, DECISION, PREDICTED, SCORE, axes_or_new, house_style, legend_below


def plot_operating_points(
    points: Points,
    choice: Choice | None = None,
    *,
    label: str = "candidates",
    color: str = SCORE,
    frontier: bool = True,
    unit: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw success against cost for every candidate.

    Parameters
    ----------
    points
        As for `choose`. They are joined by rising alpha, or by rising cost where there is none.
    choice
        The chosen candidate, which is ringed; its cap is drawn as a line.
    label, color
        Of the curve. Several policies can be drawn on the same axes.
    frontier
        Whether to draw the efficient frontier, the most success that the candidates give at each cost.
    unit
        Unit of the cost.
    ax
        Axes to draw on; new ones by default.

    Examples
    --------
    >>> points = {"alpha": [0.1, 0.2, 0.3], "success": [0.8, 0.7, 0.6], "cost": [19, 16, 12]}
    >>> from bayes_tacit.decisions.selection import choose
    >>> ax = plot_operating_points(points, choose(points, cap=16), unit="4B calls")
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('mean cost of an episode (4B calls)', 'success (share of episodes)')
    """
    table = table_of(points)
    success, cost = column(table, "success"), column(table, "cost")
    order = np.argsort(column(table, "alpha", missing=True) if "alpha" in table else cost, kind="stable")
    with house_style():
        ax = axes_or_new(ax)
        if frontier:
            best = efficient_frontier(table)
            # Between two points the budget buys no more than the cheaper one.
            ax.step(best["cost"], best["success"], where="post", color=PREDICTED, linewidth=5, alpha=0.35)
            ax.lines[-1].set_label("efficient frontier")
        ax.plot(cost[order], success[order], "o-", color=color, linewidth=1.2, markersize=5, label=label)
        if choice is not None:
            cap = f"cap {choice.cap:.4g}"
            # Policies under the same cap share its line.
            if cap not in ax.get_legend_handles_labels()[1]:
                ax.axvline(choice.cap, color=CEILING, linestyle="--", linewidth=1.2, label=cap)
            name = f"{label}, chosen" + (rf", $\alpha$ = {choice.alpha:.3g}" if "alpha" in choice.point else "")
            ax.plot([choice.cost], [choice.success], "o", mfc="none", mec=DECISION, mew=2, ms=13, zorder=4, label=name)
        ax.yaxis.set_major_formatter(PercentFormatter(1))
        ax.margins(0.08)
        ax.set(xlabel="mean cost of an episode" + (f" ({unit})" if unit else ""), ylabel="success (share of episodes)")
        # Two columns, because names of policies are long.
        legend_below(ax, columns=2)
    return ax
