"""The success-cost curve: what every policy gives on the test tasks at each budget, with the chosen points ringed."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from bayes_tacit.policies import success_cost_curve
from bayes_tacit.policies.base import Searching
from bayes_tacit.review.style import policy_style
from simulations.played.experiment import Experiment
from simulations.played.policies import DUE
from simulations.played.story import Words
from simulations.studies.figures import figure_file

CAPS = tuple(share / 100 for share in range(30, 101, 5))
"""Budgets on the development tasks, as shares of what Pure Strong costs there."""

PURE = ("Pure Cheap", "Pure Strong")


def curves(experiment: Experiment) -> pd.DataFrame:
    """Choose each policy's setting at each budget on the development tasks; give what it does on the test tasks.

    Policies that search for their setting are left out: they have a search for each budget.
    """
    strong = float(experiment.development.counterfactuals.pure_strong.cost.mean())
    fitted = experiment.comparison.fitted.items()
    learned = {name: one for name, one in fitted if name not in PURE and not isinstance(one, Searching)}
    table = success_cost_curve(
        learned, experiment.development, experiment.test, [strong * share for share in CAPS]
    ).dropna(subset=["success"])
    return table.assign(share=(table["cap"] / strong).round(6))


def plot_curves(experiment: Experiment, table: pd.DataFrame, path: Path, words: Words) -> None:
    """Draw them."""
    points = {
        row["policy"]: (row["cost"], 100 * row["success"]) for row in experiment.comparison.table.to_dict("records")
    }
    with figure_file(path, size=(9.6, 5.4)) as (figure, axes):
        ax = axes[0, 0]
        for name in table["policy"].unique():
            color, marker = policy_style(name)
            line = "--" if "quantile" in name else ":" if name == DUE else "-"
            curve = table[table["policy"] == name].drop_duplicates(["cost", "success"]).sort_values("cost")
            ax.plot(
                curve["cost"],
                100 * curve["success"],
                line,
                color=color,
                marker=marker,
                markersize=5,
                linewidth=1.4,
                label=name,
            )
            cost, success = points[name]
            ax.plot([cost], [success], "o", mfc="none", mec=color, mew=1.8, markersize=14)
        for name in [name for name in points if name not in {*table["policy"], *PURE}]:
            color, marker = policy_style(name)
            filled = "none" if name.endswith("restart") else "full"
            ax.plot(*points[name], marker, color=color, markersize=6, fillstyle=filled, label=name)
            ax.plot(*points[name], "o", mfc="none", mec=color, mew=1.8, markersize=14)
        for name in PURE:
            color, marker = policy_style(name)
            ax.plot(*points[name], marker, color=color, markersize=9, label=name)
        ax.margins(0.08)
        ax.set(
            xlabel=f"mean cost of a test {words.tasks[:-1]} ({words.unit})", ylabel=f"success on test {words.tasks}, %"
        )
        share = f"{experiment.share:.0%}"
        figure.legend(loc="outside right center", title=f"ringed: chosen under\n{share} of Pure Strong's cost")
