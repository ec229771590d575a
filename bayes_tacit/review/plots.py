"""Plots for users and the tables they draw: scores, what was learned, predicted beside observed, operating points.

Every function draws on the axes or figure that it is passed, or on new ones, and returns them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from scipy import special

from bayes_tacit import validate
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import mark_moves_by, marked_checkpoints
from bayes_tacit.decisions.bounds import Bounds, Suggestion
from bayes_tacit.decisions.selection import Choice, Points, column, efficient_frontier, table_of
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.estimates.map_fit import MapFit
from bayes_tacit.estimates.map_result import weight_interval
from bayes_tacit.policies import Recommendation
from bayes_tacit.review import style
from bayes_tacit.review.findings import cut, evenly
from bayes_tacit.review.style import house_style, policy_style
from bayes_tacit.router.rule import reached_from
from bayes_tacit.scores.bands import credible_band
from bayes_tacit.scores.core import Draws, score
from bayes_tacit.scores.fitted import Fitted, as_draws
from bayes_tacit.scores.score import computed, handoff_score, slices

ROWS = 1 << 12
MOST_PANELS = 40
TROUBLE = LinearSegmentedColormap.from_list("trouble", ["#FFFFFF", style.DECISION])
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
    """Draw the handoff score of one episode, with the incidence pi that it stays under, and the teacher's window.

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

    Examples
    --------
    >>> from bayes_tacit import fit_map, load_example
    >>> episodes = load_example()
    >>> plot_handoff_score(fit_map(episodes), episodes, "task-0001", alpha=0.3).get_title(loc="left")
    'task-0001'
    """
    chosen = episodes.select([episode])
    paint = _painter(fit_or_tree, chosen, alpha, probability)
    with house_style():
        ax = style.axes_or_new(ax)
        paint(ax, 0)
        ax.set(xlabel=X_LABEL, ylabel=Y_LABEL)
        ax.set_title(style.shortened(str(chosen.ids[0]), 60), parse_math=False)
        style.legend_below(ax)
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
    """Draw the handoff scores of several episodes, by default the first nine, a small panel each.

    The other parameters are those of `plot_handoff_score`; `columns` is how many panels are in a row.

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
    paint = _painter(fit_or_tree, chosen, alpha, probability)
    columns = min(columns, len(chosen))
    rows = -(-len(chosen) // columns)
    with house_style():
        size = (max(2.6 * columns, 4.6), 1.8 * rows + 1.0)
        figure, grid = plt.subplots(rows, columns, sharex=True, sharey=True, squeeze=False, figsize=size)
        for i, ax in enumerate(grid.flat):
            if i >= len(chosen):
                ax.remove()
                continue
            paint(ax, i)
            ax.set_title(style.shortened(str(chosen.ids[i]), 26), parse_math=False)
            if i >= len(chosen) - columns:
                ax.tick_params(labelbottom=True)
        figure.supxlabel(X_LABEL, fontsize=10)
        figure.supylabel(Y_LABEL, fontsize=10)
        style.joint_legend(figure, "outside upper center")
    return figure


def _painter(
    fit_or_tree: MapFit | xr.DataTree, episodes: Episodes, alpha: float | None, probability: float
) -> Callable[[Axes, int], None]:
    """Compute the scores of episodes, and return a function that draws the i-th one."""
    fitted = as_draws(fit_or_tree)
    band = None if isinstance(fit_or_tree, MapFit) else credible_band(fit_or_tree, episodes, probability=probability)
    center = handoff_score(fit_or_tree, episodes).values if band is None else band["mean"].values
    ceiling = incidence_of(fitted, episodes)
    shift = mark_moves_by(fitted.timing)
    first, last = (episodes.dataset[name].values + shift for name in ("window_start", "window_end"))
    if alpha is not None:
        validate.threshold("alpha", alpha)

    def paint(ax: Axes, i: int) -> None:
        n = int(episodes.n_steps[i])
        if not np.isnan(first[i]):
            low, high = float(first[i]) - 0.5, float(last[i]) + 0.5
            ax.axvspan(low, high, color=style.WINDOW, alpha=0.25, linewidth=0, label="teacher window")
        edges = None if band is None else tuple(band[side].values[i, :n] for side in ("lower", "upper"))
        score_label = "q(t)" if band is None else "mean of q(t)"
        ax.axhline(float(ceiling[i]), color=style.CEILING, linestyle=":", label=r"incidence $\pi$")
        _paint_score(ax, np.arange(n), center[i, :n], edges, alpha, (score_label, f"{100 * probability:.4g}% band"))
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))

    return paint


def _paint_score(
    ax: Axes,
    steps: np.ndarray,
    q: np.ndarray,
    edges: Sequence[np.ndarray] | None,
    alpha: float | np.ndarray | None,
    labels: tuple[str, str],
) -> None:
    """Draw a score along its steps, its band, alpha, which may change, and where the score first reaches it."""
    if edges is not None:
        shade: dict[str, Any] = {"color": style.SCORE, "alpha": style.BAND_OPACITY, "linewidth": 0}
        ax.fill_between(steps, edges[0], edges[1], label=labels[1], **shade)
    ax.plot(steps, q, "o-", color=style.SCORE, label=labels[0])
    if alpha is not None:
        first = float(np.ravel(alpha)[0])
        ax.axhline(first, color=style.DECISION, linestyle="--", linewidth=1.2, label=rf"$\alpha$ = {first:.3g}")
        for t in np.flatnonzero(q >= reached_from(np.asarray(alpha)))[:1]:
            diamond: dict[str, Any] = {"color": style.DECISION, "markersize": 8, "label": "first crossing", "zorder": 3}
            ax.plot([steps[t]], [q[t]], "D", **diamond)
    ax.set_ylim(0, 1)


def plot_weights(fit_or_tree: MapFit | xr.DataTree, *, probability: float = 0.9, ax: Axes | None = None) -> Axes:
    """Draw the weights of the diagnostics with intervals of a probability.

    Of a posterior these are means with equal-tailed intervals; of a fit estimates with intervals that are normal on the
    logit scale, as in its table, and none where there is no standard error.

    Examples
    --------
    >>> from bayes_tacit import fit_map, load_example
    >>> ax = plot_weights(fit_map(load_example()))
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['repeat', 'uncertainty', 'stalled', 'invalid']
    """
    validate.probability("probability", probability)
    fitted = as_draws(fit_or_tree)
    w = fitted.draws.w
    if isinstance(fit_or_tree, MapFit):
        lower, upper = weight_interval(w[0], fit_or_tree.standard_errors["w"], probability)
    else:
        lower, upper = np.quantile(w, tails(probability), axis=0)
    center = w.mean(axis=0)
    position = np.arange(len(center))
    with house_style():
        ax = style.axes_or_new(ax)
        ax.hlines(position, lower, upper, color=style.SCORE, linewidth=2.5, label=f"{100 * probability:.4g}% interval")
        label = "estimate" if isinstance(fit_or_tree, MapFit) else "posterior mean"
        ax.plot(center, position, "o", color=style.SCORE, markersize=7, markeredgecolor="white", label=label)
        ax.axvline(1 / len(center), color=style.CEILING, linestyle=":", label="equal weights")
        ax.set_yticks(position, fitted.weight_names, parse_math=False)
        ax.set_ylim(len(center) - 0.5, -0.5)
        ax.set_xlim(left=0)
        ax.grid(visible=False, axis="y")
        ax.set(xlabel="weight w (no unit; the weights sum to 1)", ylabel="diagnostic")
        style.legend_below(ax)
    return ax


def incidence_calibration(
    fit_or_tree: MapFit | xr.DataTree, episodes: Episodes, *, bins: int = 10, probability: float = 0.9
) -> pd.DataFrame:
    """Compare the predicted probability that Strong succeeds with how often it did.

    Parameters
    ----------
    fit_or_tree, episodes
        A fit, or a posterior, whose mean incidence is then used, and episodes, best such that it has not seen.
    bins
        How many bins of about equally many episodes; episodes with the same prediction share one.
    probability
        Mass of the interval of each observed share: Jeffreys' interval for a proportion.

    Returns
    -------
    pandas.DataFrame
        One row a bin, by rising prediction: `predicted` (mean pi), `observed` (share with B = 1), its `lower` and
        `upper`, and `episodes`, how many there are.

    Examples
    --------
    >>> from bayes_tacit import fit_map, load_example
    >>> episodes = load_example()
    >>> incidence_calibration(fit_map(episodes), episodes, bins=3).round(2)
       predicted  observed  lower  upper  episodes
    0       0.53      0.50   0.46   0.54       400
    1       0.72      0.73   0.70   0.77       413
    2       0.85      0.87   0.84   0.89       387
    """
    validate.whole("bins", bins, 1)
    validate.probability("probability", probability)
    pi = incidence_of(as_draws(fit_or_tree), episodes)
    strong = episodes.dataset["strong_success"].values
    members = np.stack(list(cut(pi, evenly(bins))))
    count, successes = members.sum(axis=1), members @ strong.astype(float)
    lower, upper = (special.betaincinv(successes + 0.5, count - successes + 0.5, level) for level in tails(probability))
    shares = {"predicted": members @ pi / count, "observed": successes / count, "lower": lower, "upper": upper}
    return pd.DataFrame(shares | {"episodes": count})


def plot_calibration(
    fit_or_tree: MapFit | xr.DataTree,
    episodes: Episodes,
    *,
    bins: int = 10,
    probability: float = 0.9,
    ax: Axes | None = None,
) -> Axes:
    """Draw the table of `incidence_calibration`. A calibrated incidence follows the diagonal.

    Examples
    --------
    >>> from bayes_tacit import fit_map, load_example
    >>> episodes = load_example()
    >>> plot_calibration(fit_map(episodes), episodes, bins=5).get_title(loc="left")
    '5 bins of 235 to 252 episodes'
    """
    table = incidence_calibration(fit_or_tree, episodes, bins=bins, probability=probability)
    predicted, observed = table["predicted"], table["observed"]
    reach = np.abs(table[["lower", "upper"]].to_numpy().T - observed.to_numpy())
    with house_style():
        ax = style.axes_or_new(ax, figsize=(4.8, 4.8))
        ax.plot([0, 1], [0, 1], color=style.CEILING, linestyle=":", label="calibrated")
        label = f"observed, {100 * probability:.4g}% interval"
        ax.errorbar(predicted, observed, yerr=reach, fmt="o", color=style.SCORE, elinewidth=1.4, label=label)
        ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        ax.set(xlabel=r"predicted incidence $\pi$ (probability)", ylabel="share of episodes where Strong succeeds")
        smallest, largest = table["episodes"].min(), table["episodes"].max()
        count = f"{smallest:,}" if smallest == largest else f"{smallest:,} to {largest:,}"
        ax.set_title(f"{len(table)} bins of {count} episodes")
        ax.legend(loc="upper left")
    return ax


def crossed_by_step(
    fit_or_tree: MapFit | xr.DataTree,
    episodes: Episodes,
    *,
    probability: float = 0.9,
    replicates: int = 200,
    seed: int = 0,
) -> pd.DataFrame:
    """Compare the steps at which the timed episodes cross their thresholds with the predicted ones.

    Timed episodes are those with a teacher window and those where both agents succeed, which never cross. A replicate
    takes one draw of the parameters, draws a threshold for every timed episode, and sees by which step its cumulative
    risk reaches it; both uncertainties are in the interval.

    Parameters
    ----------
    fit_or_tree, episodes
        A fit, or a posterior, of which evenly spaced draws are used, and any episodes with some that are timed.
    probability
        Mass of the predictive interval, equal-tailed.
    replicates, seed
        How many sets of episodes to draw, and what decides the draws.

    Returns
    -------
    pandas.DataFrame
        By `step`: the share of timed episodes whose window has begun (`began`) and has ended (`ended`), between which
        the observed crossings lie; the `predicted` share, its `lower` and `upper`.

    Examples
    --------
    >>> from bayes_tacit import fit_map, load_example
    >>> episodes = load_example()
    >>> crossed_by_step(fit_map(episodes), episodes).loc[10].round(2).to_dict()
    {'began': 0.44, 'ended': 0.38, 'predicted': 0.43, 'lower': 0.41, 'upper': 0.45}
    """
    validate.whole("replicates", replicates, 1)
    validate.probability("probability", probability)
    fitted = as_draws(fit_or_tree)
    features, diagnostics = fitted.columns_of(episodes)
    timed = np.flatnonzero(episodes.has_window | (episodes.outcomes == "11"))
    if not timed.size:
        raise InvalidDataError("some with a teacher window or with AB = 11", field="timed episodes", value=[])
    chosen = np.linspace(0, len(fitted.draws) - 1, replicates).round().astype(int)
    rng = np.random.default_rng(seed)
    share = np.zeros((replicates, episodes.horizon))
    for rows in slices(len(timed), ROWS):
        x = fitted.standardize(features.values[timed[rows]])
        u = diagnostics.isel(episode=timed[rows]).values
        for replicate, m in enumerate(chosen):
            # Past the end of a rollout the comparison is false, and what has crossed stays crossed.
            crossed = probability_crossed(fitted.draws.take(slice(m, m + 1)), x, u) >= rng.random((len(u), 1))
            share[replicate] += np.maximum.accumulate(crossed, axis=1).sum(axis=0) / len(timed)
    n_steps = episodes.n_steps[timed]
    # What has not crossed by the last checkpoint never does.
    deadline = np.minimum(np.arange(episodes.horizon)[:, None], n_steps - 1)
    began, ended = (
        share_crossed(marked_checkpoints(episodes.dataset[name].values[timed], n_steps, fitted.timing), deadline)
        for name in ("window_start", "window_end")
    )
    lower, upper = np.quantile(share, tails(probability), axis=0)
    columns = {"began": began, "ended": ended, "predicted": share.mean(axis=0), "lower": lower, "upper": upper}
    return pd.DataFrame(columns, index=pd.RangeIndex(episodes.horizon, name="step"))


def plot_crossing_steps(
    fit_or_tree: MapFit | xr.DataTree,
    episodes: Episodes,
    *,
    probability: float = 0.9,
    replicates: int = 200,
    seed: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Draw the table of `crossed_by_step`: the share of timed episodes that have crossed by each step.

    The observed share is known up to the teacher windows: it lies between the share whose window has ended and the
    share whose window has begun.

    Examples
    --------
    >>> from bayes_tacit import fit_map, load_example
    >>> episodes = load_example()
    >>> plot_crossing_steps(fit_map(episodes), episodes).get_ylabel()
    'share of timed episodes that have crossed'
    """
    table = crossed_by_step(fit_or_tree, episodes, probability=probability, replicates=replicates, seed=seed)
    with house_style():
        ax = style.axes_or_new(ax)
        shade: dict[str, Any] = {"color": style.PREDICTED, "alpha": style.BAND_OPACITY, "linewidth": 0}
        label = f"predicted, {100 * probability:.4g}% interval"
        ax.fill_between(table.index, table["lower"], table["upper"], label=label, **shade)
        ax.plot(table.index, table["predicted"], color=style.PREDICTED, label="predicted mean")
        for name, line in (("began", "--"), ("ended", "-")):
            drawn: dict[str, Any] = {"color": style.OBSERVED, "linewidth": 1.1, "linestyle": line}
            ax.plot(table.index, table[name], label=f"window has {'begun' if name == 'began' else name}", **drawn)
        ax.set_ylim(0, 1)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set(xlabel=X_LABEL, ylabel="share of timed episodes that have crossed")
        ax.legend(loc="upper left")
    return ax


def incidence_of(fitted: Fitted, episodes: Episodes) -> np.ndarray:
    """Average pi over the draws, by episode."""
    features, _ = fitted.columns_of(episodes)
    return mean_incidence(fitted.draws, fitted.standardize(features.values))


def mean_incidence(draws: Draws, x: np.ndarray) -> np.ndarray:
    """Average pi over the draws, for standardized features (episode, feature)."""
    return np.concatenate([computed(Draws.incidence, draws, x[rows]).mean(axis=0) for rows in slices(len(x), ROWS)])


def probability_crossed(draws: Draws, x: np.ndarray, diagnostics: np.ndarray) -> np.ndarray:
    """Return F(R(t)), the probability of having crossed by each step, under one draw: (episode, step)."""
    location = draws.location(x)[:, None]
    scale = draws.s if draws.delta is None else draws.scale(x)[:, None]
    return score(1.0, location, scale, draws.cumulative_risk(diagnostics), draws.family)[..., 0]


def share_crossed(steps: np.ndarray, deadline: np.ndarray) -> np.ndarray:
    """Compute the share of episodes that have crossed by each of several deadlines, (..., deadline).

    `steps` are crossing steps (..., episode), the number of steps of a rollout where there is no crossing; `deadline`
    is the last checkpoint that counts, (deadline, episode).
    """
    return np.stack([(steps <= by).mean(axis=-1) for by in deadline], axis=-1)


def tails(probability: float) -> tuple[float, float]:
    """Return the levels between which an equal-tailed interval lies."""
    return (1 - probability) / 2, (1 + probability) / 2


def plot_operating_points(
    points: Points,
    choice: Choice | None = None,
    *,
    label: str = "candidates",
    color: str = style.SCORE,
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
    label, color, ax
        Of the curve, and the axes to draw on, which several policies may share; new ones by default.
    frontier, unit
        Whether to draw the most success that the candidates give at each cost, and the unit of the cost.

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
        ax = style.axes_or_new(ax)
        if frontier:
            best = efficient_frontier(table)
            # Between two points the budget buys no more than the cheaper one.
            wide: dict[str, Any] = {
                "color": style.PREDICTED,
                "linewidth": 5,
                "alpha": 0.35,
                "label": "efficient frontier",
            }
            ax.step(best["cost"], best["success"], where="post", **wide)
        ax.plot(cost[order], success[order], "o-", color=color, linewidth=1.2, markersize=5, label=label)
        if choice is not None:
            cap = f"cap {choice.cap:.4g}"
            # Policies under the same cap share its line.
            if cap not in ax.get_legend_handles_labels()[1]:
                ax.axvline(choice.cap, color=style.CEILING, linestyle="--", linewidth=1.2, label=cap)
            name = f"{label}, chosen" + (rf", $\alpha$ = {choice.alpha:.3g}" if "alpha" in choice.point else "")
            _ring(ax, choice.cost, choice.success, 13, label=name)
        ax.yaxis.set_major_formatter(PercentFormatter(1))
        ax.margins(0.08)
        ax.set(xlabel=_cost_label(unit), ylabel="success (share of episodes)")
        # Two columns, because names of policies are long.
        style.legend_below(ax, columns=2)
    return ax


def _cost_label(unit: str) -> str:
    return "mean cost of an episode" + (f" ({unit})" if unit else "")


def _ring(ax: Axes, x: float, y: float, size: int, label: str | None = None) -> None:
    ax.plot([x], [y], "o", mfc="none", mec=style.DECISION, mew=2, ms=size, zorder=4, label=label)


def plot_bounds(
    bounds: Bounds, suggestion: Suggestion | None = None, *, unit: str = "", figure: Figure | None = None
) -> Figure:
    """Draw the bounds of success and cost of every threshold: certain ones, and those under the assumptions.

    `bounds` are from `bounds_from_logs`; a cost without an upper bound is not drawn. Of the `suggestion`, the threshold
    and the cap are drawn as lines; `unit` is that of the cost.
    """
    with house_style():
        out = plt.figure(figsize=(9.6, 4.6), layout="constrained") if figure is None else figure
        left, right = out.subplots(1, 2)
        tables = ((bounds.certain, 0.18, "certain"), (bounds.narrowed, 0.45, "if the assumptions hold"))
        for axis, name in ((left, "success"), (right, "cost")):
            for table, opacity, label in tables:
                shown = table.sort_values("alpha")
                low, high = shown[f"{name}_low"], shown[f"{name}_high"]
                shade: dict[str, Any] = {"color": style.SCORE, "alpha": opacity, "linewidth": 0, "label": label}
                axis.fill_between(shown["alpha"], low, high, where=np.isfinite(high), **shade)
            if suggestion is not None:
                label = rf"$\alpha$ = {suggestion.alpha:.3g}"
                axis.axvline(suggestion.alpha, color=style.DECISION, linestyle="--", linewidth=1.2, label=label)
            axis.set_xlabel(r"threshold $\alpha$")
        left.axhline(bounds.cheap_success, color=style.CEILING, linestyle=":", label="Pure Cheap")
        left.axhline(bounds.strong_success, color=style.OBSERVED, linestyle=":", label="Pure Strong")
        left.yaxis.set_major_formatter(PercentFormatter(1))
        left.set(ylabel="success (share of episodes)", ylim=(0, 1))
        right.axhline(bounds.cheap_cost, color=style.CEILING, linestyle=":")
        if bounds.strong_cost_low == bounds.strong_cost_high:
            right.axhline(bounds.strong_cost_low, color=style.OBSERVED, linestyle=":")
        if suggestion is not None:
            right.axhline(suggestion.cap, color=style.DECISION, linewidth=1.2, label=f"cap {suggestion.cap:.4g}")
        right.set(ylabel=_cost_label(unit))
        right.set_ylim(bottom=0)
        style.joint_legend(out, "outside lower center")
    return out


def plot_recommendation(result: Recommendation, *, unit: str = "", figure: Figure | None = None) -> Figure:
    """Draw held-out success with its interval for every policy, and success against cost of the recommended one.

    The second panel is there if `recommend` was asked for a `frontier`; `unit` is that of the cost.
    """
    with house_style():
        both = result.frontier is not None
        out = plt.figure(figsize=(11.5 if both else 7.0, 5.0), layout="constrained") if figure is None else figure
        ax, *other = out.subplots(1, 2 if both else 1, squeeze=False)[0]
        table = result.table.dropna(subset="success").sort_values("success")
        for place, (_, row) in enumerate(table.iterrows()):
            color, marker = policy_style(row["policy"])
            success = float(row["success"])
            error = [[success - float(row["success_lower"])], [float(row["success_upper"]) - success]]
            ax.errorbar([success], [place], xerr=error, color=color, marker=marker, ls="", capsize=3, markersize=7)
            if row["policy"] == result.name:
                _ring(ax, success, place, 15)
        names = [f"{name}  (cost {cost:.4g})" for name, cost in zip(table["policy"], table["cost"], strict=True)]
        ax.set_yticks(range(len(names)), names)
        ax.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        ax.set(xlabel="success on tasks not chosen on", title=f"under a cap of {result.cap:.4g}; ringed: recommended")
        if (frontier := result.frontier) is not None:
            (ax,), (color, marker) = other, policy_style(result.name)
            cost, edges = frontier["cost"], (frontier["success_lower"], frontier["success_upper"])
            ax.fill_between(cost, *edges, color=color, alpha=0.2, linewidth=0)
            ax.plot(cost, frontier["success"], color=color, marker=marker, markersize=6)
            ax.axvline(result.cap, color=style.CEILING, linestyle="--", linewidth=1.2)
            ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
            ax.set(xlabel=_cost_label(unit), ylabel="success on tasks not chosen on")
            ax.set_title(f"{result.name} at other budgets")
    return out


def draw_played(
    scores: pd.DataFrame, diagnostics: pd.DataFrame, strong: Sequence[int], last: int, title: str
) -> Figure:
    """Draw the score of an episode over the diagnostics of the same steps.

    `scores` has, by step, `score`, `lower` and `upper` (missing where there is no band) and `alpha`; `diagnostics` one
    column each. Strong acted in the steps `strong`, and `last` is the last step of the episode.
    """
    names = list(diagnostics.columns)
    with house_style():
        size, heights = (8.4, 3.1 + 0.22 * len(names)), [2.4, 0.22 * len(names)]
        figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=size, height_ratios=heights)
        if strong:
            shade: dict[str, Any] = {"color": policy_style("Pure Strong").color, "alpha": 0.18, "linewidth": 0}
            above.axvspan(min(strong) - 0.5, max(strong) + 0.5, label="Strong acts", **shade)
        q, alpha, *edges = (scores[name].to_numpy(float) for name in ("score", "alpha", "lower", "upper"))
        banded = np.isfinite(edges).all(axis=0).any()
        labels = "q(t)", "90% band"
        _paint_score(above, scores.index.to_numpy(), q, edges if banded else None, alpha, labels)
        above.set(ylabel="handoff score q(t)\n(probability)")
        above.set_title(title, parse_math=False)
        _draw_diagnostics(below, diagnostics, last)
        figure.legend(loc="outside lower center", ncols=5)
    return figure


def _draw_diagnostics(ax: Axes, diagnostics: pd.DataFrame, last: int) -> None:
    names, end = list(diagnostics.columns), int(diagnostics.index.max())
    values = diagnostics.reindex(range(end + 1)).to_numpy(float).T
    edges = np.arange(values.shape[1] + 1) - 0.5
    rows = np.arange(len(names) + 1) - 0.5
    most = max(1.0, float(np.nanmax(values)))
    ax.pcolormesh(edges, rows, values, cmap=TROUBLE, vmin=0, vmax=most, edgecolors="#E4E4E4", linewidth=0.4)
    ax.set_yticks(range(len(names)), [name.replace("_", " ") for name in names], parse_math=False)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=False)
    ax.set_xlim(-0.5, max(last, end) + 0.5)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("step (counted from 0)")
