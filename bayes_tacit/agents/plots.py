"""A played episode as a figure: the handoff score along it, and the signs of trouble under it."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bayes_tacit.agents.scored import Scored, recorded_scores
from bayes_tacit.agents.transcript.record import Transcript
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.review.plots.policies import policy_style
from bayes_tacit.review.plots.style import BAND_OPACITY, DECISION, SCORE, house_style, shortened

__all__ = ["plot_episode"]

TROUBLE = LinearSegmentedColormap.from_list("trouble", ["#FFFFFF", DECISION])
LONGEST_TITLE = 80


def plot_episode(transcript: Transcript) -> Figure:
    """Draw the handoff score q(t) of a played episode over the diagnostics of the same steps.

    Parameters
    ----------
    transcript
        An episode under a policy that records its score, as TACIT-Switch does at each of Cheap's checkpoints.

    Returns
    -------
    matplotlib.figure.Figure
        Above: the score, its band if the router has draws, alpha, the first crossing, and the steps at which Strong
        acted. Below: each diagnostic, the darker the larger.

    Raises
    ------
    InvalidDataError
        If the transcript has no score.
    """
    scores = list(recorded_scores(transcript))
    if not scores:
        raise InvalidDataError(
            "an episode under a policy that records q(t), such as Tacit",
            episode=transcript.episode,
            field="policy",
            value=transcript.header.policy,
        )
    names = list(transcript.checkpoints[0].diagnostics or {})
    with house_style():
        size = (8.4, 3.1 + 0.22 * len(names))
        heights = [2.4, 0.22 * len(names)]
        figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=size, height_ratios=heights)
        _draw_scores(above, scores, transcript)
        _draw_diagnostics(below, names, transcript)
        above.set_title(_title(transcript), parse_math=False)
        figure.legend(loc="outside lower center", ncols=5)
    return figure


def _draw_scores(ax: Axes, scores: list[Scored], transcript: Transcript) -> None:
    steps, center = [one.step for one in scores], [one.score for one in scores]
    strong = sorted({one.step for one in transcript.executed if one.agent == "strong"})
    if strong:
        ax.axvspan(
            strong[0] - 0.5,
            strong[-1] + 0.5,
            color=policy_style("Pure Strong").color,
            alpha=0.18,
            linewidth=0,
            label="Strong acts",
        )
    banded = [(one.step, one.lower, one.upper) for one in scores if one.lower is not None and one.upper is not None]
    if banded:
        at, lower, upper = zip(*banded, strict=True)
        ax.fill_between(at, lower, upper, color=SCORE, alpha=BAND_OPACITY, linewidth=0, label="90% band")
    ax.plot(steps, center, "o-", color=SCORE, label="q(t)")
    alpha = scores[0].alpha
    ax.axhline(alpha, color=DECISION, linestyle="--", linewidth=1.2, label=rf"$\alpha$ = {alpha:g}")
    crossed = [one for one in scores if one.score >= one.alpha]
    if crossed:
        first = crossed[0]
        ax.plot([first.step], [first.score], "D", color=DECISION, markersize=8, label="first crossing", zorder=3)
    ax.set(ylim=(0, 1), ylabel="handoff score q(t)\n(probability)")


def _draw_diagnostics(ax: Axes, names: list[str], transcript: Transcript) -> None:
    checkpoints = transcript.checkpoints
    values = np.full((len(names), checkpoints[-1].step + 1), np.nan)
    for one in checkpoints:
        values[:, one.step] = [(one.diagnostics or {})[name] for name in names]
    edges = np.arange(values.shape[1] + 1) - 0.5
    most = max(1.0, float(np.nanmax(values)))
    rows = np.arange(len(names) + 1) - 0.5
    ax.pcolormesh(edges, rows, values, cmap=TROUBLE, vmin=0, vmax=most, edgecolors="#E4E4E4", linewidth=0.4)
    ax.set_yticks(range(len(names)), [name.replace("_", " ") for name in names], parse_math=False)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=False)
    last = max(one.step for one in transcript.executed) if transcript.executed else checkpoints[-1].step
    ax.set_xlim(-0.5, max(last, checkpoints[-1].step) + 0.5)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("step (counted from 0)")


def _title(transcript: Transcript) -> str:
    end = "solved" if transcript.end.success else "not solved"
    task = shortened((transcript.task or transcript.episode).rstrip("."), LONGEST_TITLE)
    return f"{task}: {end} after {transcript.end.actions} actions"
