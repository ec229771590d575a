"""What logs alone say about every threshold: bounds on success and on cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from bayes_tacit.decisions.bounds import Bounds, Suggestion
from bayes_tacit.review.plots.style import CEILING, DECISION, OBSERVED, SCORE, house_style, joint_legend

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_bounds(
    bounds: Bounds, suggestion: Suggestion | None = None, *, unit: str = "", figure: Figure | None = None
) -> Figure:
    """Draw between which bounds success and cost of every threshold lie, for certain and if the assumptions hold.

    Parameters
    ----------
    bounds
        From `bounds_from_logs`. A cost without an upper bound is not drawn.
    suggestion
        The threshold that was taken, which is drawn as a line, and the cap.
    unit
        Unit of the cost.
    figure
        Figure to draw on; a new one by default.
    """
    import matplotlib.pyplot as plt

    with house_style():
        out = plt.figure(figsize=(9.6, 4.6), layout="constrained") if figure is None else figure
        left, right = out.subplots(1, 2)
        for axis, name in ((left, "success"), (right, "cost")):
            _bands(axis, bounds, name)
            if suggestion is not None:
                label = rf"$\alpha$ = {suggestion.alpha:.3g}"
                axis.axvline(suggestion.alpha, color=DECISION, linestyle="--", linewidth=1.2, label=label)
            axis.set_xlabel(r"threshold $\alpha$")
        left.axhline(bounds.cheap_success, color=CEILING, linestyle=":", label="Pure Cheap")
        left.axhline(bounds.strong_success, color=OBSERVED, linestyle=":", label="Pure Strong")
        left.yaxis.set_major_formatter(PercentFormatter(1))
        left.set(ylabel="success (share of episodes)", ylim=(0, 1))
        right.axhline(bounds.cheap_cost, color=CEILING, linestyle=":")
        if bounds.strong_cost_low == bounds.strong_cost_high:
            right.axhline(bounds.strong_cost_low, color=OBSERVED, linestyle=":")
        if suggestion is not None:
            right.axhline(suggestion.cap, color=DECISION, linewidth=1.2, label=f"cap {suggestion.cap:.4g}")
        right.set(ylabel="mean cost of an episode" + (f" ({unit})" if unit else ""))
        right.set_ylim(bottom=0)
        joint_legend(out, "outside lower center")
    return out


def _bands(axis: Axes, bounds: Bounds, name: str) -> None:
    for table, opacity, label in (
        (bounds.certain, 0.18, "certain"),
        (bounds.narrowed, 0.45, "if the assumptions hold"),
    ):
        shown = table.sort_values("alpha")
        low, high = shown[f"{name}_low"], shown[f"{name}_high"]
        axis.fill_between(
            shown["alpha"], low, high, where=np.isfinite(high), color=SCORE, alpha=opacity, linewidth=0, label=label
        )
