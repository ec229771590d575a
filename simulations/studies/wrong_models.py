"""What the checks see of models that are wrong in one respect, by how much, and whether what the report names mends it.

Every data set is fitted by NUTS, and all checks of a report are run on it. Where one of them names a remedy in code, it
is run as it stands there, and the bands of the mended model are held against the truth.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from bayes_tacit import CheckResult, Episodes, WeaklyInformativePrior
from bayes_tacit.data import mending
from bayes_tacit.review.checks import headline
from simulations.studies.misfits import PROBABILITY, WRONG, covered, judged, right, sampled
from simulations.studies.study import Row, Setting, Study
from simulations.studies.tables import markdown_table

HELD, POOR = 0.85, 0.8
SHORT = {"chains": 2, "draws": 500, "tune": 500}
LONG = {"chains": 4, "draws": 1000, "tune": 1000}
EARLY = 3
NAMED = re.compile(r"`(with\w+\(episodes[^`]*\))`|`((?:groups|spread)=[^`]*)`")
"""A remedy in the advice of a check: what is done to the episodes, or a setting of the model."""
SHAPES: dict[str, dict[str, Any]] = {
    "one diagnostic, no feature": {"diagnostics": 1, "features": 0},
    "three diagnostics, two features": {},
    "eight diagnostics, three features": {"diagnostics": 8, "features": 3},
    "half of the marks missing": {"marked": 0.5},
    "no marks": {"marked": 0.0},
    "groups": {"spread": 0.5},
}
"""Data sets that the model is right about."""
SIZES = ((200, 1.0, 0.2), (500, 0.5, 0.2), (500, 1.0, 0.4), (2000, 1.0, 0.2))
"""Number of tasks, size of the departure, and how many of the study's replicates are drawn."""
RIGHT_SIZES = {100: 1.0, 500: 0.2}


def replicate(setting: Setting, number: int, seeds: np.random.SeedSequence) -> list[Row]:
    """Draw a data set, sample its posterior, run all checks; do what the first of them names that names a remedy."""
    world, n, size = (setting.values[name] for name in ("world", "n", "size"))
    rng = np.random.default_rng(seeds)
    wrong = world in WRONG
    drawn = WRONG[world](rng, n, size) if wrong else right(rng, n, **SHAPES[world])
    own, prior = {"groups": "group"} if world == "groups" else {}, WeaklyInformativePrior()
    tree, results = judged(drawn.episodes, prior, number, **own, **SHORT)
    failed = [each for each in results[1:] if each.passed is False]
    if not results[0].passed and not failed:
        # As the sampler's own advice has it: the library's default.
        tree, results = judged(drawn.episodes, prior, number, **own, **LONG)
        failed = [each for each in results[1:] if each.passed is False]
    row: Row = {
        "green": int(headline(results).passed),
        "caught": int(bool(failed)),
        "failed": ", ".join(each.name for each in failed),
        "covered": covered(tree, drawn.episodes, drawn.q),
        "remedy": "",
        "mended": np.nan,
    }
    if wrong and (found := _remedy(failed, drawn.episodes)) is not None:
        row["remedy"], mended, settings = found
        # What Cheap's first steps say is not known before they are over.
        known = drawn.q[:, EARLY - 1 :] if "early" in str(row["remedy"]) else drawn.q
        row["mended"] = covered(sampled(mended, prior, number, **settings, **SHORT), mended, known)
    return [row]


def _remedy(failed: Sequence[CheckResult], episodes: Episodes) -> tuple[str, Episodes, dict[str, str]] | None:
    """Run what advice has in code: its name, the episodes that it makes, and settings of the model."""
    for each in failed:
        if found := NAMED.search(each.advice):
            change, given = found.groups()
            if change is None:
                name, value = given.split("=")
                return given, episodes, {name: value.strip("'\"")}
            return change, eval(change, vars(mending) | {"episodes": episodes}), {}
    return None


def summarize(table: pd.DataFrame, folder: Path) -> str:  # noqa: ARG001  no figures
    """Return what was caught, what the bands held, and what remedies restored."""
    rows, shapes = [], []
    for world in WRONG:
        for n, size, _ in SIZES:
            if len(part := table[table["setting"] == _name(world, n, size)]):
                rows.append(
                    [world, f"{n:,}", f"{size:g}", str(len(part)), f"{part['caught'].mean():.0%}",
                     f"{part['covered'].mean():.0%}", *_mended(part), _most(part["failed"])]
                )  # fmt: skip
    for shape, n in product(SHAPES, RIGHT_SIZES):
        part = table[table["setting"] == _name(shape, n, 0.0)]
        if len(part):
            off, held = int((1 - part["green"]).sum()), f"{part['covered'].mean():.0%}"
            shapes.append([shape, f"{n:,}", str(len(part)), str(off), held, _most(part["failed"])])
    band = f"true q(t) in the {PROBABILITY:.0%} band"
    head = [
        "model",
        "n",
        "size",
        "data sets",
        "caught",
        band,
        "remedy named most",
        "in the band after it",
        "what failed most",
    ]
    return "\n\n".join(
        [
            _reading(table),
            f"## Wrong models\n\n{markdown_table(head, rows)}",
            "A size of 1 is a large departure, 0.5 half of it; `simulations/studies/misfits.py` states each. A data "
            "set counts as caught if a check other than the sampler's failed. The remedy is the first that a check of "
            "that data set writes out in code, and it is run as written. After `with_early_steps`, steps from the "
            f"{EARLY}rd on count. Where none is named, the report says that it has none, or asks to look at the data.",
            "## Right models\n\n"
            + markdown_table(["data", "n", "data sets", "not green", band, "what failed most"], shapes),
        ]
    )


def _reading(table: pd.DataFrame) -> str:
    large = {(world, n): table[table["setting"] == _name(world, n, 1.0)] for n in (500, 2000) for world in WRONG}
    said = []
    for n in (500, 2000):
        poor = [part for (_, of), part in large.items() if of == n and len(part) and part["covered"].mean() < POOR]
        found = sum(part["caught"].mean() > 0.5 for part in poor)
        said.append(f"{found} of {len(poor)} at n = {n:,}")
    right_ones = table[table["setting"].isin([_name(shape, n, 0.0) for shape in SHAPES for n in RIGHT_SIZES])]
    off, count = int((1 - right_ones["green"]).sum()), len(right_ones)
    low, high = (special.betaincinv(off + 0.5, count - off + 0.5, level) for level in (0.025, 0.975))
    caught = pd.concat(list(large.values()))
    caught = caught[caught["caught"] == 1]
    mended = caught[caught["mended"].notna()]
    cells = [part["mended"].mean() for part in large.values() if part["mended"].notna().any()]
    by_remedy = mended.groupby(mended["remedy"].map(_short))["mended"]
    listed = "; ".join(f"`{name}` {values.mean():.0%} ({len(values)})" for name, values in by_remedy)
    held, enough = (mended["mended"] >= HELD).mean(), (right_ones["covered"] >= HELD).mean()
    return (
        f"**Reading.** Of the large departures whose bands hold less than {POOR:.0%} of the truth, "
        f"{' and '.join(said)} are caught, in most of their data sets. Of {count} data sets that the model is right "
        f"about, {off} are not green ({off / count:.0%}; 95% interval {low:.0%} to {high:.0%}). Of {len(caught)} "
        f"caught data sets with a large departure, {len(mended)} have a report that names a remedy in code. After it "
        f"the {PROBABILITY:.0%} band holds at least {HELD:.0%} of the truth in {held:.0%} of them, and on average in "
        f"{sum(value >= HELD for value in cells)} of {len(cells)} cases of departure and number of tasks; of data sets "
        f"that the model is right about, it does in {enough:.0%}. By remedy, what the band holds on average (data "
        f"sets): {listed}."
    )


def _short(remedy: str) -> str:
    return re.split(r"[(=]", remedy)[0]


def _mended(part: pd.DataFrame) -> tuple[str, str]:
    named = part[part["mended"].notna()]
    if named.empty:
        return "none", ""
    return f"`{named['remedy'].map(_short).mode()[0]}` ({len(named)})", f"{named['mended'].mean():.0%}"


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
            Setting(_name(world, n, size), {"world": world, "n": n, "size": size}, share=share)
            for n, size, share in SIZES
            for world in WRONG
        ),
        *(
            Setting(_name(shape, n, 0.0), {"world": shape, "n": n, "size": 0.0}, share=share)
            for n, share in RIGHT_SIZES.items()
            for shape in SHAPES
        ),
    ],
    parameters={"lengths": SHORT, "long": LONG, "probability": PROBABILITY},
    replicate=replicate,
    summarize=summarize,
    replicates=5,
    seed=20261119,
    unsteady=("mended",),
)
