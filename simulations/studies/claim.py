"""The paper's central claim, tallied: TACIT-Switch beside the learned baselines and beside what is recommended.

Nothing is computed anew but intervals: the rows come from the committed results of the other studies and experiments,
and of larger protocols, whose outcomes by game are not committed, from the tables of their pages.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from bayes_tacit import Episodes
from bayes_tacit.data.costs import Outcomes
from bayes_tacit.decisions.selection import bootstrap
from bayes_tacit.errors import InvalidDataError, TacitWarning
from simulations import published
from simulations.studies.storage import TABLE, read_table
from simulations.studies.study import Row, Setting, Study
from simulations.studies.tables import fill, markdown_table

Rows = Mapping[str, Mapping[Hashable, Any]]
"""Of an experiment, by policy."""

RESULTS = Path(__file__).parents[1] / "results"
TACIT, RECOMMENDED = "TACIT-Switch", "Recommended"
BASELINES = ("Task Router", "Step Deferral", "Prefix router")
LARGER = "The larger protocol"
EVERY_QUESTION = "Every question once"
SECTIONS = (LARGER, EVERY_QUESTION)
EPISODES = "episodes.parquet"
TEST_SHARE = 0.3
"""Share of InterCode's tasks that a split tests on; splits overlap."""


@dataclass(frozen=True)
class Source:
    """Where the rows of an experiment are: the results folder, and what of it."""

    # folder, part: The results folder; the setting, the budget or the section of the page.
    folder: str
    part: str
    made_of: str  # What the test is on, in words
    # Whether the baselines' and TACIT-Switch's figures were what the simulator was calibrated to.
    constructed: bool = False
    # What the test games may not share with any fit game, "room" or "parent task"; such rows are part of others.
    apart: str = ""


SOURCES = {
    "InterCode, 40% of Strong's cost": Source("intercode", "0.4", "100 splits of 1,034 real logs"),
    "InterCode, 50% of Strong's cost": Source("intercode", "0.5", "100 splits of 1,034 real logs"),
    "InterCode, 60% of Strong's cost": Source("intercode", "0.6", "100 splits of 1,034 real logs"),
    "ALFWorld, learned pair": Source("alfworld_learned", "episodes", "134 games"),
    "learned, rooms of no fit game": Source("alfworld_learned", "episodes", "46 of the games", apart="room"),
    "learned, parent tasks of no fit game": Source(
        "alfworld_learned", "episodes", "123 of the games", apart="parent task"
    ),
    "ALFWorld, learned pair, larger": Source("alfworld_learned", LARGER, "340 games"),
    "ALFWorld, scripted pair": Source("alfworld", "episodes", "134 games"),
    "scripted, rooms of no fit game": Source("alfworld", "episodes", "46 of the games", apart="room"),
    "scripted, parent tasks of no fit game": Source("alfworld", "episodes", "123 of the games", apart="parent task"),
    "ALFWorld, scripted pair, larger": Source("alfworld", LARGER, "274 games"),
    "DABench, analysts by rule": Source("dabench", "episodes", "66 questions"),
    "DABench, analysts by rule, larger": Source("dabench", EVERY_QUESTION, "254 questions"),
    "random mechanisms": Source("random", "random", "200 mechanisms"),
    "mechanism, calibrated": Source("mechanism", "baseline", "100 replicates", constructed=True),
}
"""Every experiment that compares TACIT-Switch with the baselines on test tasks, real logs first."""


def digest() -> str:
    """Return a digest of all that is read, so that a page made from other results is noticed."""
    found = hashlib.sha256()
    for source in SOURCES.values():
        if source.part in SECTIONS:
            found.update("\n".join(_section(source)).encode())
        elif source.part == "episodes":
            found.update((RESULTS / source.folder / EPISODES).read_bytes() + _named(source.folder).encode())
        else:
            found.update((RESULTS / source.folder / TABLE).read_bytes())
    return found.hexdigest()[:16]


def replicate(setting: Setting, number: int, seeds: np.random.SeedSequence) -> list[Row]:  # noqa: ARG001
    """Return a row for each policy of an experiment: success, cost, and TACIT-Switch minus it with a 95% interval."""
    source = SOURCES[setting.name]
    if source.part == "episodes":
        return _by_episode(source)
    if source.part in SECTIONS:
        return _by_page(source)
    return _by_replicate(source)


def _by_episode(source: Source) -> list[Row]:
    """Pair games or questions, and resample them."""
    table = pd.read_parquet(RESULTS / source.folder / EPISODES)
    if source.apart:
        table = table[~table["episode"].map(_shared(source.apart)).isin(_of_fit_games(source))]
    named = _named(source.folder)
    columns = ["success", "cost", "cheap_calls", "strong_calls"]
    outcomes = {
        str(name): Outcomes(*(rows.sort_values("episode")[column].to_numpy(float) for column in columns))
        for name, rows in table.groupby("policy")
    }
    return [
        _row(name, one, named if name == RECOMMENDED else "", *_interval(outcomes[TACIT], one))
        for name, one in {
            **{name: outcomes[name] for name in (TACIT, *BASELINES)},
            RECOMMENDED: outcomes[named],
        }.items()
    ]


def _shared(what: str) -> Callable[[str], str]:
    """Return what names a game's room or its parent task: the last number of, or all of, the middle of its id."""
    if what == "room":
        return lambda game: game.split("/")[1].rpartition("-")[2]
    return lambda game: game.split("/")[1]


def _of_fit_games(source: Source) -> set[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        games = Episodes.read(RESULTS / source.folder / "training.nc").ids
    return {_shared(source.apart)(str(game)) for game in games}


def _interval(ours: Outcomes, theirs: Outcomes) -> tuple[float, float, float]:
    middle, low, high = bootstrap(ours, theirs, resamples=10_000, seed=0).loc["success_difference"].to_numpy(float)
    return float(middle), float(low), float(high)


def _row(name: str, one: Outcomes, named: str, difference: float, lower: float, upper: float) -> Row:
    success, cost = float(np.mean(one.success)), float(np.mean(one.cost))
    return _as_row(name, success, cost, named, (difference, lower, upper))


def _as_row(name: str, success: float, cost: float, named: str, interval: tuple[float, float, float]) -> Row:
    difference, lower, upper = (100 * value + 0.0 for value in interval)
    return {
        "policy": name,
        "success": 100 * success,
        "cost": cost,
        "named": named,
        "difference": difference,
        "lower": lower,
        "upper": upper,
    }


def _named(folder: str) -> str:
    """Return the policy that the page says was recommended before the test."""
    found = re.search(r"`recommend` names \*\*(.+?)\*\*", (RESULTS / folder / "README.md").read_text(encoding="utf-8"))
    if found is None:
        raise InvalidDataError("a sentence on what is recommended", field="page", value=folder)
    return found[1]


def _by_page(source: Source) -> list[Row]:
    """Read the table of a larger protocol: its intervals are a paired bootstrap over tasks, as those above."""
    section = _section(source)
    cells = {line.strip("| ").split(" | ")[0]: line.strip("| ").split(" | ") for line in section}
    named = re.search(r"Recommended, by part: (.+?)\.\s", " ".join(section) + " ")
    rows = []
    for name in (TACIT, *BASELINES, RECOMMENDED):
        share = re.search(r"(\d+)/(\d+)", cells[name][1])
        assert share is not None
        numbers = (
            [float(one) / 100 for one in re.findall(r"[-+][\d.]+", cells[name][-1])] if name != TACIT else [0.0] * 3
        )
        said = named[1] if named and name == RECOMMENDED else ""
        success = int(share[1]) / int(share[2])
        rows.append(_as_row(name, success, float(cells[name][2]), said, (numbers[0], numbers[1], numbers[2])))
    return rows


def _section(source: Source) -> list[str]:
    """Return the rows and sentences on policies of a section of a page."""
    page = (RESULTS / source.folder / "README.md").read_text(encoding="utf-8")
    section = next(part for part in page.split("\n## ") if part.startswith(source.part))
    return [line for line in section.splitlines() if line.startswith("| ") or "Recommended, by part" in line]


def _by_replicate(source: Source) -> list[Row]:
    """Pair replicates, mechanisms or splits, with Student-t intervals; wider by the splits' overlap where they do."""
    table = read_table(RESULTS / source.folder / TABLE).dropna(subset=["policy"])
    logs = source.folder == "intercode"
    if logs:
        share = np.isclose(table["share"], float(source.part))
        table = table[(table["setting"] == "random") & (table["kind"] == "curve") & share]
        table = table.assign(policy=table["policy"].replace({"recommended": RECOMMENDED}))
    names = [name for name in (TACIT, *BASELINES, RECOMMENDED) if (table["policy"] == name).any()]
    wide = {
        measure: table.pivot_table(index="replicate", columns="policy", values=measure)
        for measure in ("success", "cost")
    }
    named = table.loc[table["policy"] == RECOMMENDED, "choice" if logs else "recommended"].value_counts(normalize=True)
    rows = []
    for name in names:
        gain = (wide["success"][TACIT] - wide["success"][name]).dropna()
        # Splits share tasks, so their spread is corrected as Nadeau and Bengio do for repeated random splits.
        overlap = TEST_SHARE / (1 - TEST_SHARE) if logs else 0.0
        half = stats.t.ppf(0.975, len(gain) - 1) * gain.std(ddof=1) * np.sqrt(1 / len(gain) + overlap)
        said = ", ".join(f"{one} {part:.0%}" for one, part in named[:2].items()) if name == RECOMMENDED else ""
        interval = (gain.mean(), gain.mean() - half, gain.mean() + half)
        rows.append(_as_row(name, wide["success"][name].mean(), wide["cost"][name].mean(), said, interval))
    best = wide["success"][[name for name in BASELINES if name in names]].max(axis=1)
    rows[0]["ahead_of_best"] = float((wide["success"][TACIT] > best).mean())
    return rows


def summarize(table: pd.DataFrame, folder: Path) -> str:  # noqa: ARG001
    """Put all experiments into one table, the paper's beside them."""
    by_name: dict[str, dict[str, dict[Hashable, Any]]] = {}
    for row in table.to_dict("records"):
        by_name.setdefault(row["setting"], {})[row["policy"]] = row
    minus = [f"minus {name}" for name in BASELINES]
    every = (TACIT, *BASELINES, RECOMMENDED)
    costs = [
        [name, *(f"{rows[one]['cost']:.1f}" if one in rows else "" for one in every)] for name, rows in by_name.items()
    ]
    return fill(
        "claim",
        baselines=markdown_table(
            ["experiment", "test", "TACIT-Switch, %", *minus, "place of the four"],
            [_baseline_cells(name, rows) for name, rows in by_name.items()],
        ),
        recommended=markdown_table(
            ["experiment", "recommended from development tasks", "its success, %", "TACIT-Switch minus it, points"],
            [_recommended_cells(name, rows) for name, rows in by_name.items() if RECOMMENDED in rows],
        ),
        paper=markdown_table(
            ["experiment of the paper", "test tasks", "TACIT-Switch, %", *minus],
            [_paper_cells(name, *given) for name, given in published.INTERACTIVE_SUCCESSES.items()],
        ),
        costs=markdown_table(["experiment", *every], costs),
    )


def _place(rows: Rows) -> tuple[int, int]:
    there = [name for name in BASELINES if name in rows]
    return 1 + sum(rows[name]["success"] > rows[TACIT]["success"] for name in there), 1 + len(there)


def _points(row: Mapping[Hashable, Any]) -> str:
    return f"{row['difference']:+.1f} ({row['lower']:+.1f} to {row['upper']:+.1f})"


def _baseline_cells(name: str, rows: Rows) -> list[str]:
    source, (place, of) = SOURCES[name], _place(rows)
    gains = [_points(rows[one]) if one in rows else "not in logs" for one in BASELINES]
    said = "by construction" if source.constructed else f"{place} of {of}"
    return [name, source.made_of, f"{rows[TACIT]['success']:.1f}", *gains, said]


def _recommended_cells(name: str, rows: Rows) -> list[str]:
    row = rows[RECOMMENDED]
    return [name, str(row["named"]), f"{row['success']:.1f}", _points(row)]


def _paper_cells(name: str, n: int, wins: Mapping[str, int]) -> list[str]:
    def over(one: str) -> str:
        gain = f"{100 * (wins[TACIT] - wins[one]) / n:+.1f}"
        lower, upper = published.INTERACTIVE_OVER_PREFIX.get(name, (None, None))
        return f"{gain} ({lower:+.1f} to {upper:+.1f})" if one == "Prefix router" and lower is not None else gain

    return [name, str(n), f"{100 * wins[TACIT] / n:.1f}", *(over(one) for one in BASELINES)]


STUDY = Study(
    name="claim",
    title="The claim, tallied",
    description="TACIT-Switch against the paper's baselines and what is recommended, over all experiments at hand.",
    settings=[Setting(name) for name in SOURCES],
    parameters={"sources": digest()},
    replicate=replicate,
    summarize=summarize,
    replicates=1,
    seed=0,
)
