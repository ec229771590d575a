"""The handoff score along an episode, and along many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bayes_tacit import validate
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import mark_moves_by
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.estimates.map_fit import MapFit
from bayes_tacit.review.plots.style import (
    BAND_OPACITY,
    CEILING,
    DECISION,
    SCORE,
    WINDOW,
    axes_or_new,
    house_style,
    joint_legend,
    legend_below,
    shortened,
)
from bayes_tacit.review.predictions import incidence_of
from bayes_tacit.scores.bands import credible_band
from bayes_tacit.scores.score import handoff_score
from bayes_tacit.scores.sources import as_draws
from bayes_tacit.scores.ties import reached_from

MOST_PANELS = 40

X_LABEL = "step (checkpoints, counted from 0)"
Y_LABEL = "handoff score q(t) (probability)"


def plot_handoff_score(
    fit_or_tree: MapFit | xr.DataTree,
    episodes: Episodes,
    episode: object,
    *,
    alpha: float | None = None,
    probability: float = 0.9,
    ax: Axes | None = None,
) -> Axes:
    """Draw the handoff score of one episode.

    Parameters
    ----------
    fit_or_tree
        A fit, or a posterior, whose mean score is then drawn with a credible band.
    episodes, episode
        Some episodes, and the id of the one to draw.
    alpha
        Decision threshold; where the score first reaches it is marked.
    probability
        Mass of the band.
    ax
        Axes to draw on; new ones by default.

    Returns
    -------
    matplotlib.axes.Axes
        With the score, the incidence pi that it stays under, and the teacher window if there is one.

    Examples
    --------
    >>> from bayes_tacit import fit_map, load_example
    >>> episodes = load_example()
    >>> plot_handoff_score(fit_map(episodes), episodes, "task-0001", alpha=0.3).get_title(loc="left")
    'task-0001'
    """
    (panel,) = _panels(fit_or_tree, episodes.select([episode]), probability)
    with house_style():
        ax = axes_or_new(ax)
        _draw(ax, panel, alpha, probability)
        ax.set(xlabel=X_LABEL, ylabel=Y_LABEL)
        ax.set_title(shortened(panel.title, 60), parse_math=False)
        legend_below(ax)
    return ax


def plot_handoff_scores(
    fit_or_tree: MapFit | xr.DataTree,
    episodes: Episodes,
    ids: Sequence[object] | None = None,
    *,
    alpha: float | None = None,
    probability: float = 0.9,
    columns: int = 3,
) -> Figure:
    """Draw the handoff scores of several episodes, a small panel each.

    Parameters
    ----------
    fit_or_tree, episodes, alpha, probability
        As for `plot_handoff_score`.
    ids
        The episodes to draw; the first nine by default.
    columns
        Panels in a row.

    Examples
    --------
    >>> from bayes_tacit import fit_map, load_example
    >>> episodes = load_example()
    >>> figure = plot_handoff_scores(fit_map(episodes), episodes, ["task-0001", "task-0002"], alpha=0.3)
    >>> [ax.get_title(loc="left") for ax in figure.axes]
    ['task-0001', 'task-0002']
    """
    validate.whole("columns", columns, 1)
    chosen = episodes.take(slice(9)) if ids is None else episodes.select(ids)
    if len(chosen) > MOST_PANELS:
        raise InvalidDataError(f"at most {MOST_PANELS}", field="number of episodes to draw", value=len(chosen))
    panels = _panels(fit_or_tree, chosen, probability)
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    with house_style():
        size = (max(2.6 * columns, 4.6), 1.8 * rows + 1.0)
        figure, grid = plt.subplots(rows, columns, sharex=True, sharey=True, squeeze=False, figsize=size)
        for ax in grid.flat[len(panels) :]:
            ax.remove()
        for ax, panel in zip(grid.flat, panels, strict=False):
            _draw(ax, panel, alpha, probability)
            ax.set_title(shortened(panel.title, 26), parse_math=False)
        for ax in grid.flat[max(0, len(panels) - columns) : len(panels)]:
            ax.tick_params(labelbottom=True)
        figure.supxlabel(X_LABEL, fontsize=10)
        figure.supylabel(Y_LABEL, fontsize=10)
        joint_legend(figure, "outside upper center")
    return figure


@dataclass(frozen=True)
class _Panel:
    """What is drawn of one episode."""

    title: str
    center: np.ndarray
    band: tuple[np.ndarray, np.ndarray] | None
    ceiling: float
    window: tuple[float, float] | None


def _panels(fit_or_tree: MapFit | xr.DataTree, episodes: Episodes, probability: float) -> list[_Panel]:
    fitted = as_draws(fit_or_tree)
    band = None if isinstance(fit_or_tree, MapFit) else credible_band(fit_or_tree, episodes, probability=probability)
    center = handoff_score(fit_or_tree, episodes).values if band is None else band["mean"].values
    ceiling = incidence_of(fitted, episodes)
    shift = mark_moves_by(fitted.timing)
    marks = np.column_stack([episodes.dataset[name].values + shift for name in ("window_start", "window_end")])
    return [
        _Panel(
            title=str(episodes.ids[i]),
            center=center[i, :n],
            band=None if band is None else (band["lower"].values[i, :n], band["upper"].values[i, :n]),
            ceiling=float(ceiling[i]),
            window=None if np.isnan(marks[i, 0]) else (float(marks[i, 0]), float(marks[i, 1])),
        )
        for i, n in enumerate(episodes.n_steps)
    ]


def _draw(ax: Axes, panel: _Panel, alpha: float | None, probability: float) -> None:
    steps = np.arange(len(panel.center))
    if panel.window is not None:
        first, last = panel.window
        ax.axvspan(first - 0.5, last + 0.5, color=WINDOW, alpha=0.25, linewidth=0, label="teacher window")
    if panel.band is not None:
        label = f"{100 * probability:.4g}% band"
        ax.fill_between(steps, *panel.band, color=SCORE, alpha=BAND_OPACITY, linewidth=0, label=label)
    ax.plot(steps, panel.center, "o-", color=SCORE, label="q(t)" if panel.band is None else "mean of q(t)")
    ax.axhline(panel.ceiling, color=CEILING, linestyle=":", label=r"incidence $\pi$")
    if alpha is not None:
        validate.threshold("alpha", alpha)
        ax.axhline(alpha, color=DECISION, linestyle="--", linewidth=1.2, label=rf"$\alpha$ = {alpha:.3g}")
        crossed = np.flatnonzero(panel.center >= reached_from(alpha))
        if crossed.size:
            t = crossed[0]
            ax.plot([t], [panel.center[t]], "D", color=DECISION, markersize=8, label="first crossing", zorder=3)
    ax.set_ylim(0, 1)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
