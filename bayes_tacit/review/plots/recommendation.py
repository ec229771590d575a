"""What each family is expected to give under a cap, with intervals, and which one is recommended."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from bayes_tacit.policies import Recommendation
from bayes_tacit.review.plots.policies import policy_style
from bayes_tacit.review.plots.style import CEILING, DECISION, axes_or_new, house_style


def plot_recommendation(result: Recommendation, *, unit: str = "", ax: Axes | None = None) -> Axes:
    """Draw held-out success with its interval against held-out cost for every policy; the recommended one is ringed.

    Parameters
    ----------
    result
        What `recommend` returned.
    unit
        Unit of the cost.
    ax
        Axes to draw on; new ones by default.
    """
    with house_style():
        ax = axes_or_new(ax)
        table = result.table.sort_values("success", ascending=False)
        for _, row in table.iterrows():
            color, marker = policy_style(row["policy"])
            cost, success = [float(row["cost"])], float(row["success"])
            error = [[success - float(row["success_lower"])], [float(row["success_upper"]) - success]]
            ax.errorbar(cost, [success], error, color=color, marker=marker, ls="", capsize=3, label=row["policy"])
            if row["policy"] == result.name:
                ax.plot(cost, [success], "o", mfc="none", mec=DECISION, mew=2, ms=14, zorder=4, label="recommended")
        ax.axvline(result.cap, color=CEILING, linestyle="--", linewidth=1.2, label=f"cap {result.cap:.4g}")
        ax.yaxis.set_major_formatter(PercentFormatter(1))
        ax.margins(0.08)
        ax.set(
            xlabel="mean cost of an episode" + (f" ({unit})" if unit else ""), ylabel="success on tasks not chosen on"
        )
        ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=9)
    return ax
