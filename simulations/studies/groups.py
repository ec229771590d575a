"""Few episodes a group: one intercept for all groups, one for each by itself, or partially pooled ones."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy import special

from bayes_tacit import Episodes, fit_map, handoff_score, sample_posterior
from bayes_tacit.errors import TacitError, TacitWarning
from simulations.model_based import quietly
from simulations.studies.study import Row, Setting, Study
from simulations.studies.tables import COLOURS, figure_file, fill, markdown_table, mean_and_half_width, with_half_width

GROUPS, HORIZON, NEW_TASKS = 8, 12, 400
INCIDENCE_SPREAD, LOCATION_SPREAD = 1.0, 0.5
CHAINS, DRAWS, TUNE = 2, 250, 300
ROWS = ("pooled", "unpooled", "partially pooled", "partially pooled, new groups", "pooled, new groups")


def simulate(rng: np.random.Generator, group: np.ndarray, effects: np.ndarray) -> tuple[Episodes, np.ndarray]:
    """Draw tasks of some groups, whose intercepts are (group, 2); return the true q(t) at every checkpoint, too."""
    n = len(group)
    x, risk = rng.normal(size=n), rng.gamma(2.0, 0.12, size=(n, HORIZON))
    logit = 0.6 + 0.7 * x + effects[group, 0]
    location = 0.4 - 0.3 * x + effects[group, 1]
    strong = rng.random(n) < special.expit(logit)
    total = np.cumsum(risk, axis=1)
    crossing = (total < np.exp(location + 0.5 * rng.normal(size=n))[:, None]).sum(axis=1)
    crossed = crossing < HORIZON
    mark = np.where(strong & crossed, crossing, np.nan)
    dataset = xr.Dataset(
        {
            "features": (("episode", "feature"), x[:, None]),
            "diagnostics": (("episode", "step", "diagnostic"), risk[:, :, None]),
            "n_steps": ("episode", np.full(n, HORIZON)),
            "cheap_success": ("episode", np.where(strong, ~crossed, rng.random(n) < 0.3)),
            "strong_success": ("episode", strong),
            "window_start": ("episode", mark),
            "window_end": ("episode", mark),
            "database": ("episode", [f"g{each:02}" for each in group]),
        },
        coords={"episode": np.arange(n), "step": np.arange(HORIZON), "feature": ["x"], "diagnostic": ["risk"]},
    )
    q = special.expit(logit)[:, None] * special.ndtr((np.log(total) - location[:, None]) / 0.5)
    return quietly(dataset), q


def replicate(setting: Setting, number: int, seeds: np.random.SeedSequence) -> list[Row]:
    """Fit the three ways on so many episodes a group, and score new tasks of the same groups and of new ones."""
    rng = np.random.default_rng(seeds)
    effects = rng.normal(size=(2 * GROUPS, 2)) * [INCIDENCE_SPREAD, LOCATION_SPREAD]
    train, _ = simulate(rng, np.repeat(np.arange(GROUPS), setting.values["episodes"]), effects)
    known, known_q = simulate(rng, rng.integers(0, GROUPS, NEW_TASKS), effects)
    new, new_q = simulate(rng, rng.integers(GROUPS, 2 * GROUPS, NEW_TASKS), effects)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        pooled = fit_map(train, ridge=1e-4, restarts=1)
        try:
            unpooled: Any = fit_map(train, ridge=1e-4, restarts=2, features="x + C(database)")
        except TacitError:
            unpooled = None
        settings: dict[str, Any] = {"draws": DRAWS, "tune": TUNE, "chains": CHAINS, "progress": False}
        partial = sample_posterior(
            train, groups="database", seed=number, predictive_draws=4, target_accept=0.95, **settings
        )
    rows = {
        "pooled": _error(handoff_score(pooled, known), known_q),
        "unpooled": np.nan if unpooled is None else _error(handoff_score(unpooled, known), known_q),
        "partially pooled": _error(handoff_score(partial, known).mean(("chain", "draw")), known_q),
        "partially pooled, new groups": _error(handoff_score(partial, new).mean(("chain", "draw")), new_q),
        "pooled, new groups": _error(handoff_score(pooled, new), new_q),
    }
    return [{"policy": name, "error": error} for name, error in rows.items()]


def _error(q: xr.DataArray, truth: np.ndarray) -> float:
    return float(np.abs(q.transpose("episode", "step").values - truth).mean())


def summarize(table: pd.DataFrame, folder: Path) -> str:
    """Return the mean error of q by the number of episodes a group, and a figure of it."""
    cells: list[list[str]] = []
    means: dict[str, list[float]] = {name: [] for name in ROWS}
    settings = list(dict.fromkeys(table["setting"]))
    for name in ROWS:
        row = [name]
        for setting in settings:
            errors = table.loc[(table["setting"] == setting) & (table["policy"] == name), "error"].dropna()
            means[name].append(float(errors.mean()))
            row.append(with_half_width(*mean_and_half_width(errors), digits=4))
        cells.append(row)
    sizes = [int(setting.split()[0]) for setting in settings]
    with figure_file(folder / "groups.png") as (_, axes):
        for colour, name in zip(COLOURS, ROWS[:3], strict=False):
            axes[0, 0].plot(sizes, means[name], "o-", color=colour, label=name)
        axes[0, 0].set(xscale="log", xlabel="episodes a group", ylabel="mean absolute error of q(t)", xticks=sizes)
        axes[0, 0].set_xticklabels([str(size) for size in sizes])
        axes[0, 0].legend()
    return fill("groups", errors=markdown_table(["q(t) by", *settings], cells))


STUDY = Study(
    name="groups",
    title="Few episodes a group",
    description="What partial pooling of groups gains over one intercept for all and one for each, at 5 to 100 "
    "episodes.",
    settings=[Setting(f"{episodes} a group", {"episodes": episodes}) for episodes in (5, 20, 100)],
    parameters={"groups": GROUPS, "horizon": HORIZON, "chains": CHAINS, "draws": DRAWS, "tune": TUNE},
    replicate=replicate,
    summarize=summarize,
    replicates=20,
    seed=20261119,
    agreement=(0.1, 0.01),
)
