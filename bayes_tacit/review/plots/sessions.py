"""Figures of a log of sessions: when they were handed off, scores against outcomes, drift, days."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from bayes_tacit.review.plots.rows import dot_rows
from bayes_tacit.review.plots.style import CEILING, DECISION, OBSERVED, PREDICTED, SCORE
from bayes_tacit.review.plots.widths import WIDE

DAY = 86_400
MOST_TICKS = 7


def draw_handoff_steps(counts: pd.Series) -> Figure:
    """Draw how many sessions were handed off at each step; the index is the step, -1 for before the first."""
    figure = Figure(figsize=(WIDE, 2.6), layout="constrained")
    axes = figure.subplots()
    axes.bar(counts.index, counts, color=DECISION, width=0.8)
    axes.set(xlabel="step of the handoff (-1: before the first)", ylabel="sessions")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def draw_outcomes(table: pd.DataFrame) -> Figure:
    """Draw what came of sessions by score; columns group, score, share, lower, upper, probability."""
    figure = Figure(figsize=(WIDE, 3.4), layout="constrained")
    words = {"handed off": "share that succeeded", "Cheap to the end": "share that failed"}
    for panel, (group, label) in zip(figure.subplots(1, 2), words.items(), strict=True):
        part = table[table["group"] == group]
        half = np.stack([part["share"] - part["lower"], part["upper"] - part["share"]]).clip(min=0)
        panel.errorbar(part["score"], part["share"], yerr=half, fmt="o", color=OBSERVED, capsize=3, label="observed")
        if table["probability"].all():
            panel.axline((0.5, 0.5), slope=1, color=CEILING, linewidth=1, zorder=0, label="as the score says")
            panel.set(xlim=(0, 1))
        panel.set(xlabel="score", ylabel=label, title=group.capitalize(), ylim=(-0.02, 1.02))
        panel.yaxis.set_major_formatter(PercentFormatter(1.0))
        panel.legend(loc="lower right" if group == "handed off" else "upper left")
    return figure


def draw_drift(table: pd.DataFrame) -> Figure:
    """Draw by how much each feature and diagnostic lies higher or lower; columns higher, lower, limit by name."""
    figure, (axes,), position = dot_rows(table.index)
    axes.hlines(position, -table["lower"], table["higher"], color=CEILING, linewidth=1, zorder=1)
    for sign, column, color in ((1, "higher", SCORE), (-1, "lower", PREDICTED)):
        axes.plot(sign * table[column], position, "o", color=color, markersize=6, label=f"lies {column}")
        axes.vlines(sign * table["limit"], position - 0.35, position + 0.35, color=DECISION, linewidth=1.2)
    axes.plot([], [], "|", color=DECISION, markersize=10, label="limit")
    reach = max(0.3, 1.15 * float(table[["higher", "lower", "limit"]].to_numpy().max()))
    axes.set(
        xlabel="part of all values that lies lower (left) or higher (right) than in training", xlim=(-reach, reach)
    )
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def draw_days(table: pd.DataFrame) -> Figure:
    """Draw shares by day; columns day (since 1970), handed, ratio, success."""
    figure = Figure(figsize=(WIDE, 3.0), layout="constrained")
    axes = figure.subplots()
    days = table["day"].to_numpy()
    lines = (("handed", "handed off", DECISION), ("ratio", "cost, of Pure Strong's", SCORE))
    for column, label, color in (*lines, ("success", "success, where known", PREDICTED)):
        axes.plot(days, table[column], "o-", color=color, label=label)
    axes.set(ylim=(-0.02, None))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    shown = days[:: -(-len(days) // MOST_TICKS)]
    axes.set_xticks(shown, [f"{datetime.fromtimestamp(day * DAY, UTC):%Y-%m-%d}" for day in shown])
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure
