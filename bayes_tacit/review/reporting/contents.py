"""What a report says, before it is a page: the parameters' table, the episodes to show."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
import xarray as xr

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.scores.bands import crossing_probability
from bayes_tacit.scores.score import incidence

PROBABILITY = 0.9
MOST_SHOWN = 40


def parameter_table(tree: xr.DataTree, diagnostics: pd.DataFrame) -> pd.DataFrame:
    """Give mean, sd and equal-tailed interval of every parameter beside the sampler's diagnostics, weights first."""
    posterior = tree["posterior"].to_dataset()
    tail = (1 - PROBABILITY) / 2
    rows = {}
    for name in ("w", "gamma0", "gamma", "beta0", "beta", "s"):
        if name not in posterior:
            continue
        array = posterior[name].transpose("chain", "draw", ...)
        labels = [name] if array.ndim == 2 else [f"{name}[{label}]" for label in array[array.dims[2]].values]
        values = array.values.reshape(array.shape[0] * array.shape[1], -1)
        for label, column in zip(labels, values.T, strict=True):
            rows[label] = [column.mean(), column.std(ddof=1), *np.quantile(column, [tail, 1 - tail])]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["mean", "sd", "lower", "upper"])
    return table.join(diagnostics).rename_axis("parameter")


def choose(episodes: Episodes, chosen: Iterable[object] | None) -> list[object]:
    """Give the ids of the episodes to show: the given ones, or some that differ.

    Those are three with a window (early, halfway and late in the rollout), two with AB = 11 (a short and a long
    rollout) and one with AB = 00, as far as there are such.
    """
    ids = episodes.ids.tolist()
    if chosen is not None:
        wanted = [chosen] if isinstance(chosen, str) else list(chosen)
        unknown = [episode for episode in wanted if episode not in set(ids)]
        if unknown:
            raise InvalidDataError(f"ids of the episodes, such as {ids[0]!r}", field="chosen", value=unknown)
        if len(wanted) > MOST_SHOWN:
            raise InvalidDataError(f"at most {MOST_SHOWN}", field="number of chosen episodes", value=len(wanted))
        return list(dict.fromkeys(wanted))
    place = episodes.dataset["window_start"].values / episodes.n_steps
    outcomes = episodes.outcomes
    picked = [
        *_spread(np.flatnonzero(episodes.has_window), place, (0.1, 0.5, 0.9)),
        *_spread(np.flatnonzero(outcomes == "11"), episodes.n_steps, (0.25, 0.75)),
        *_spread(np.flatnonzero(outcomes == "00"), episodes.n_steps, (0.5,)),
    ]
    return [ids[position] for position in dict.fromkeys(picked)]


def chosen_table(tree: xr.DataTree, episodes: Episodes, alpha: float | None) -> pd.DataFrame:
    """Describe the episodes that are shown, and with an alpha when each would be handed over."""
    start, end = (episodes.dataset[name].values for name in ("window_start", "window_end"))
    table = pd.DataFrame(
        {
            "AB": episodes.outcomes,
            "steps": episodes.n_steps,
            "teacher window": [_window(*bounds) for bounds in zip(start, end, strict=True)],
            "mean pi": incidence(tree, episodes).mean(("chain", "draw")).values,
        },
        index=pd.Index(list(map(str, episodes.ids)), name="episode"),
    )
    if alpha is not None:
        crossing = crossing_probability(tree, episodes, alpha)
        by_step = crossing["by_step"].fillna(1.0).values
        never = crossing["never"].values
        table["likely handoff"] = [
            "never" if share >= 0.5 else f"step {int((row < 0.5).sum())}"
            for row, share in zip(by_step, never, strict=True)
        ]
        table["P(no handoff)"] = never
    return table


def _spread(positions: np.ndarray, by: np.ndarray, quantiles: tuple[float, ...]) -> list[int]:
    """Give the positions at some quantiles of a quantity."""
    if not len(positions):
        return []
    order = positions[np.argsort(by[positions], kind="stable")]
    return [int(order[round(q * (len(order) - 1))]) for q in quantiles]


def _window(start: float, end: float) -> str:
    if np.isnan(start):
        return "none"
    return f"step {start:.0f}" if start == end else f"steps {start:.0f} to {end:.0f}"
