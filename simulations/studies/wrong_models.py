"""What the checks see of models that are wrong in one respect, by how much, and whether what the report names mends it.

Every data set is fitted by NUTS, and all checks of a report are run on it. Where the page is not green and the checks
name a remedy, it is applied, and the bands of the mended model are held against the truth.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy import special

from bayes_tacit import Episodes, credible_band, sample_posterior
from bayes_tacit.data.mending import with_early_steps, without_marks
from bayes_tacit.errors import TacitWarning
from bayes_tacit.review.checks import headline, run_checks
from simulations.studies.misfits import WRONG, right
from simulations.studies.study import Row, Setting, Study
from simulations.studies.tables import markdown_table

PROBABILITY, HELD, POOR = 0.9, 0.85, 0.8
LENGTHS = {"chains": 2, "draws": 500, "tune": 500}
EARLY = 3
REMEDIES: dict[str, tuple[str, Callable[[Episodes], Episodes], dict[str, str]]] = {
    "drift": ("without_marks", without_marks, {}),
    "late": ("without_marks", without_marks, {}),
    "missing late": ("without_marks", without_marks, {}),
    "incidence by rollout": ("with_early_steps", lambda episodes: with_early_steps(episodes, EARLY), {}),
    "clusters": ("groups", lambda episodes: episodes, {"groups": "cluster"}),
    "scale": ('spread="features"', lambda episodes: episodes, {"spread": "features"}),
}
"""What mends a wrong model: its name in the report, what is done to the episodes, and settings of the model."""
SHAPES: dict[str, dict[str, Any]] = {
    "one diagnostic, no feature": {"diagnostics": 1, "features": 0},
    "three diagnostics, two features": {},
    "eight diagnostics, three features": {"diagnostics": 8, "features": 3},
    "half of the marks missing": {"marked": 0.5},
    "no marks": {"marked": 0.0},
    "groups": {"spread": 0.5},
}
"""Data sets that the model is right about."""
SIZES = ((200, 1.0), (500, 0.5), (500, 1.0), (2000, 1.0))
RIGHT_SIZES = (100, 500)


def replicate(setting: Setting, number: int, seeds: np.random.SeedSequence) -> list[Row]:
    """Draw a data set, sample its posterior, run all checks; mend the model if a remedy is known."""
    world, n, size = (setting.values[name] for name in ("world", "n", "size"))
    rng = np.random.default_rng(seeds)
    wrong = world in WRONG
    drawn = WRONG[world](rng, n, size) if wrong else right(rng, n, **SHAPES[world])
    own = {"groups": "group"} if world == "groups" else {}
    tree = _sampled(drawn.episodes, number, own)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        results = run_checks(tree, drawn.episodes)
        if not results[0].passed and not any(each.passed is False for each in results[1:]):
            # As the sampler's own advice has it.
            tree = _sampled(drawn.episodes, number, own, draws=1500)
            results = run_checks(tree, drawn.episodes)
    failed = [each.name for each in results[1:] if each.passed is False]
    row: Row = {
        "green": int(headline(results).passed),
        "caught": int(bool(failed)),
        "failed": ", ".join(failed),
        "covered": _covered(tree, drawn.episodes, drawn.q),
        "named": np.nan,
        "mended": np.nan,
    }
    if wrong and failed and world in REMEDIES:
        name, change, settings = REMEDIES[world]
        row["named"] = int(any(name in each.advice for each in results))
        mended = change(drawn.episodes)
        # What Cheap's first steps say is not known before they are over.
        known = drawn.q[:, EARLY - 1 :] if world == "incidence by rollout" else drawn.q
        row["mended"] = _covered(_sampled(mended, number, settings), mended, known)
    return [row]


def _sampled(episodes: Episodes, seed: int, settings: dict[str, str], draws: int = LENGTHS["draws"]) -> xr.DataTree:
    lengths: dict[str, Any] = LENGTHS | {"draws": draws, "cores": 1, "seed": seed, "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        return sample_posterior(episodes, zero_mass="drop_window", **lengths, **settings)  # type: ignore[arg-type]


def _covered(tree: xr.DataTree, episodes: Episodes, q: np.ndarray) -> float:
    band = credible_band(tree, episodes, probability=PROBABILITY)
    lower, upper = (band[side].values[:, -q.shape[1] :] for side in ("lower", "upper"))
    known = np.isfinite(q)
    return float(((lower <= q) & (q <= upper))[known].mean())


def summarize(table: pd.DataFrame, folder: Path) -> str:  # noqa: ARG001  no figures
    """Return what was caught, what the bands held, and what remedies restored."""
    rows, large = [], []
    for world in WRONG:
        for n, size in SIZES:
            part = table[table["setting"] == _name(world, n, size)]
            if len(part):
                rows.append([world, f"{n:,}", f"{size:g}", str(len(part)), f"{part['caught'].mean():.0%}",
                             f"{part['covered'].mean():.0%}", *_mended(part), _most(part["failed"])])  # fmt: skip
                large.append((world, n, size, part))
    head = ["model", "n", "size", "data sets", "caught", f"true q(t) in the {PROBABILITY:.0%} band", "remedy named",
            "in the band after it", "what failed most"]  # fmt: skip
    shapes = []
    for shape in SHAPES:
        for n in RIGHT_SIZES:
            part = table[table["setting"] == _name(shape, n, 0.0)]
            if len(part):
                shapes.append([shape, f"{n:,}", str(len(part)), str(int((1 - part["green"]).sum())),
                               f"{part['covered'].mean():.0%}", _most(part["failed"])])  # fmt: skip
    return "\n\n".join(
        [
            _reading(table, large),
            f"## Wrong models\n\n{markdown_table(head, rows)}",
            "A size of 1 is a large departure, 0.5 half of it; `simulations/studies/misfits.py` states each. A data "
            "set counts as caught if a check other than the sampler's failed. The remedy is the one for that model, "
            "whether the report of that data set names it or not. Of `incidence by rollout` after the "
            f"remedy, steps from the {EARLY}rd on count.",
            "## Right models\n\n"
            + markdown_table(
                ["data", "n", "data sets", "not green", "true q(t) in the band", "what failed most"], shapes
            ),
        ]
    )


def _reading(table: pd.DataFrame, large: list[tuple[str, int, float, pd.DataFrame]]) -> str:
    said = []
    for n in (500, 2000):
        full = [(world, part) for world, of, size, part in large if of == n and size == 1]
        poor = [world for world, part in full if part["covered"].mean() < POOR]
        found = [world for world, part in full if world in poor and part["caught"].mean() > 0.5]
        said.append(f"{len(found)} of {len(poor)} at n = {n:,}")
    alarms = table[table["setting"].isin([_name(shape, n, 0.0) for shape in SHAPES for n in RIGHT_SIZES])]
    off = int((1 - alarms["green"]).sum())
    low, high = (special.betaincinv(off + 0.5, len(alarms) - off + 0.5, level) for level in (0.025, 0.975))
    averages = [part["mended"].mean() for world, _, size, part in large if world in REMEDIES and size == 1]
    means = [value for value in averages if np.isfinite(value)]
    a_cell = int(table.groupby("setting").size().max())
    thin = "One data set stands for each line: examples, no rates. " if a_cell == 1 else ""
    by_remedy: dict[str, list[float]] = {REMEDIES[world][0]: [] for world, *_ in large if world in REMEDIES}
    for world, _, size, part in large:
        if world in REMEDIES and size == 1:
            by_remedy[REMEDIES[world][0]] += part["mended"].dropna().tolist()
    held = "; ".join(f"`{name}` {np.mean(values):.0%} ({len(values)})" for name, values in by_remedy.items() if values)
    return (
        f"**Reading.** {thin}Of the large departures whose bands hold less than {POOR:.0%} of the truth, "
        f"{' and '.join(said)} are caught, in most of their data sets. "
        f"Of {len(alarms)} data sets that the model is right about, {off} are not green ({off / len(alarms):.0%}; 95% "
        f"interval {low:.0%} to {high:.0%}). After the remedy the {PROBABILITY:.0%} band holds at least {HELD:.0%} of "
        f"the truth on average in {sum(value >= HELD for value in means)} of {len(means)} cases of a large departure "
        f"and number of tasks. By remedy, what the band holds on average (data sets of a large departure): {held}."
    )


def _mended(part: pd.DataFrame) -> tuple[str, str]:
    if part["mended"].isna().all():
        return "none", ""
    return f"{part['named'].mean():.0%}", f"{part['mended'].mean():.0%}"


def _most(failed: pd.Series) -> str:
    names = failed[failed != ""].str.split(", ").explode()
    return "" if names.empty else str(names.value_counts().index[0])


def _name(world: str, n: int, size: float) -> str:
    return f"{world}, {n}, {size:g}"


STUDY = Study(
    name="wrong_models",
    title="What checks see of wrong models, and what mends them",
    description="Ten wrong models by size of the departure and number of tasks, and right models of six shapes.",
    settings=[
        *(
            Setting(_name(world, n, size), {"world": world, "n": n, "size": size})
            for n, size in SIZES
            for world in WRONG
        ),
        *(
            Setting(_name(shape, n, 0.0), {"world": shape, "n": n, "size": 0.0})
            for n in RIGHT_SIZES
            for shape in SHAPES
        ),
    ],
    parameters={"lengths": LENGTHS, "probability": PROBABILITY},
    replicate=replicate,
    summarize=summarize,
    replicates=1,
    seed=20261119,
)
