"""What partially pooled intercepts of databases with few logs gain, and the page that says so."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayes_tacit import Episodes, MapFit, fit_map, handoff_score, incidence, sample_posterior
from bayes_tacit.errors import FileFormatError, TacitError, TacitWarning
from bayes_tacit.estimates.verdict import judge
from bayes_tacit.review.checks import compare_models
from simulations.intercode.logs import DATABASE, DATABASES, Source, load
from simulations.studies.study import Row, Setting, Study
from simulations.studies.tables import COLOURS, MARKERS, figure_file, fill, markdown_table

NAME = "intercode_databases"
SHOTS = (5, 10, 20, 40)
SPARED = 16
"""Tasks that a known database has at least for the test, whatever is taken for training."""

SAMPLING: dict[str, Any] = {"draws": 600, "tune": 400, "chains": 4, "cores": 1, "progress": False}
LEAST = 1e-12
"""Probability that a log score counts at least."""


def study_of(source: Source) -> Study:
    """Return the study of these logs; results that were made of others are refused."""
    if not source.has_databases:
        raise FileFormatError(f"{source.folder / DATABASES}: no such file; expected columns task_id and database")
    return Study(
        name=NAME,
        title="Real logs: few tasks a database",
        description="What partially pooled intercepts of the databases gain on held-out tasks of InterCode's logs.",
        settings=[
            *(Setting(f"{shots} a database", {"shots": shots}) for shots in SHOTS),
            Setting(ALL, {"all": True}, share=1e-9),
        ],
        parameters={"logs": load(source).fingerprint(), "spared": SPARED, "sampling": SAMPLING},
        replicate=partial(replicate, source),
        summarize=summarize,
        replicates=10,
        seed=20261120,
        agreement=(0.1, 0.01),
        arguments=" --data path/to/intercode",
    )


def replicate(source: Source, setting: Setting, number: int, seeds: np.random.SeedSequence) -> list[Row]:
    """Fit each way on a few tasks of each large database; score its other tasks, and those of databases left out."""
    episodes = load(source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        if "all" in setting.values:
            return spreads(episodes, number)
        train, known, new = split(episodes, int(setting.values["shots"]), np.random.default_rng(seeds))
        rows: list[Row] = []
        for name, estimate in estimates(train, number).items():
            if estimate is None:
                rows.append({"kind": "failure", "policy": name})
                continue
            rows += scored(name, "known", estimate, known)
            if UNPOOLED not in name:
                rows += scored(name, "new", estimate, new)
            if isinstance(estimate, xr.DataTree) and not judge(estimate).passed:
                rows.append({"kind": "sampler", "policy": name})
    return rows


def split(episodes: Episodes, shots: int, rng: np.random.Generator) -> tuple[Episodes, Episodes, Episodes]:
    """Take so many tasks of each database that has enough; return those, its others, and all of the other databases."""
    database = episodes.dataset[DATABASE].values.astype(str)
    names, counts = np.unique(database, return_counts=True)
    large = np.isin(database, names[counts >= max(SHOTS) + SPARED])
    order = rng.permutation(len(episodes))
    place = np.zeros(len(episodes), dtype=int)
    for name in names:
        mine = order[database[order] == name]
        place[mine] = np.arange(len(mine))
    taken = large & (place < shots)
    train, known, new = (episodes.take(np.flatnonzero(which)) for which in (taken, large & ~taken, ~large))
    return train, known, new


def estimates(train: Episodes, seed: int) -> dict[str, MapFit | xr.DataTree | None]:
    """Fit in five ways: without databases, with one intercept for each, and with partially pooled ones."""
    each = " + ".join([*train.feature_names, f"C({DATABASE})"])
    ways: dict[str, dict[str, Any]] = {POOLED: {}, UNPOOLED: {"features": each}, PARTIAL: {"groups": DATABASE}}
    found: dict[str, MapFit | xr.DataTree | None] = {}
    for name in (POOLED, UNPOOLED):
        try:
            found[f"{name}, point estimate"] = fit_map(train, restarts=2, clock=True, **ways[name])
        except TacitError:
            found[f"{name}, point estimate"] = None
    for name, options in ways.items():
        found[name] = sample_posterior(train, clock=True, seed=seed, predictive_draws=4, **SAMPLING, **options)
    return found


def scored(name: str, part: str, estimate: MapFit | xr.DataTree, held: Episodes) -> list[Row]:
    """Sum the scores over the held-out tasks of each database."""
    pi, q = incidence(estimate, held), handoff_score(estimate, held)
    if isinstance(estimate, xr.DataTree):
        pi, q = pi.mean(("chain", "draw")), q.mean(("chain", "draw"))
    each = scores_of(pi.values, q.transpose("episode", "step").values, held)
    database = held.dataset[DATABASE].values.astype(str)
    return [
        {
            "kind": "score",
            "policy": name,
            "part": part,
            "database": one,
            "tasks": int((database == one).sum()),
            **{what: float(values[database == one].sum()) for what, values in each.items()},
        }
        for one in np.unique(database).tolist()
    ]


def scores_of(pi: np.ndarray, q: np.ndarray, held: Episodes) -> Mapping[str, np.ndarray]:
    """Score what was seen of each task by the probability that it had beforehand, given Cheap's diagnostics.

    Of a failure of Strong that is 1 - pi. Of a success it is q at the window's end minus q before its start, up to the
    last checkpoint where there is no window, and pi minus the last q where Cheap succeeds, too. All of it is linear in
    q and pi, so their means over the posterior give the predictive probability.
    """
    rows, last = np.arange(len(held)), held.n_steps - 1
    data = held.dataset
    strong, cheap = (data[name].values.astype(bool) for name in ("strong_success", "cheap_success"))
    start, end = data["window_start"].values, data["window_end"].values
    padded = np.column_stack([np.zeros(len(held)), q])
    first = np.where(np.isnan(start), 0, np.nan_to_num(start)).astype(int)
    final = np.where(np.isnan(end), last, np.nan_to_num(end)).astype(int)
    by_end = q[rows, last]
    seen = np.where(cheap, pi - by_end, padded[rows, final + 1] - padded[rows, first])
    probability = np.where(strong, seen, 1 - pi)
    return {
        "log_score": np.log(np.maximum(probability, LEAST)),
        "strong": np.log(np.maximum(np.where(strong, pi, 1 - pi), LEAST)),
        "brier": (by_end - (strong & ~cheap)) ** 2,
    }


def spreads(episodes: Episodes, seed: int) -> list[Row]:
    """Sample once from all tasks, with and without databases: how far apart they are, and which predicts better."""
    options = {**SAMPLING, "clock": True, "seed": seed, "predictive_draws": 4}
    trees = {POOLED: sample_posterior(episodes, **options)}
    trees[PARTIAL] = sample_posterior(episodes, groups=DATABASE, **options)
    rows: list[Row] = []
    for name in ("gamma_spread", "beta_spread"):
        draws = trees[PARTIAL]["posterior"].to_dataset()[name].values.ravel()
        low, high = np.quantile(draws, [0.05, 0.95])
        rows.append({"kind": name, "value": float(draws.mean()), "lower": float(low), "upper": float(high)})
    table = compare_models(trees).table
    elpd = table["elpd"].to_dict()
    gain = float(elpd[PARTIAL] - elpd[POOLED])
    rows.append({"kind": "loo", "value": gain, "lower": float(table["dse"].max()), "tasks": len(episodes)})
    rows += [{"kind": "sampler", "policy": name} for name, tree in trees.items() if not judge(tree).passed]
    return rows


POOLED, UNPOOLED, PARTIAL = "pooled", "unpooled", "partially pooled"
POINT = "{}, point estimate"
ROWS = (POINT.format(POOLED), POINT.format(UNPOOLED), POOLED, UNPOOLED, PARTIAL)
ALL = "all tasks"
FIGURE = "databases.png"
RESAMPLES = 4000

SCORES = {
    "log_score": ("larger is better", 3),
    "strong": ("larger is better", 3),
    "brier": ("smaller is better", 4),
}
"""Which way each score is better, and its digits."""


def summarize(table: pd.DataFrame, folder: Path) -> str:
    """Write the figure, and give the page."""
    scores = table[table["kind"] == "score"]
    settings = list(dict.fromkeys(scores["setting"]))
    known = {name: Scores.of(scores, "known", settings, name) for name in SCORES}
    new = Scores.of(scores, "new", settings, "log_score")
    _draw(known["log_score"], settings, folder / FIGURE)
    tables = {}
    for name, (better, digits) in SCORES.items():
        tables[f"{name}_means"] = _table(known[name], settings, digits, f"mean over held-out tasks, {better}", ROWS)
        body = [
            [f"{PARTIAL} minus {other}", *(_gain(known[name], setting, other, digits) for setting in settings)]
            for other in (POOLED, UNPOOLED)
        ]
        tables[f"{name}_gains"] = markdown_table([f"difference with 95% interval, {better}", *settings], body)
    gain = [f"{PARTIAL} minus {POOLED}", *(_gain(new, setting, POOLED, 3) for setting in settings)]
    names = (POINT.format(POOLED), POOLED, PARTIAL)
    return fill(NAME, **tables, new=_table(new, settings, 3, "mean over tasks, larger is better", names, gain))


def _table(scores: Scores, settings: list[str], digits: int, head: str, names: Sequence[str], *more: list[str]) -> str:
    rows = [
        [name, *(f"{scores.mean(name, one):.{digits}f}" if (name, one) in scores.sums else "" for one in settings)]
        for name in names
    ]
    return markdown_table([head, *settings], [*rows, *more])


class Scores:
    """Means of a score over tasks, and how sure differences are: databases are drawn anew."""

    def __init__(self, sums: dict[tuple[str, str], np.ndarray], tasks: dict[str, np.ndarray]) -> None:
        self.sums, self.tasks = sums, tasks

    @classmethod
    def of(cls, rows: pd.DataFrame, part: str, settings: list[str], name: str) -> Scores:
        """Sum over the splits, by database; a fit that failed in some splits is left out of the setting."""
        rows = rows[rows["part"] == part]
        splits = rows.groupby("setting")["replicate"].nunique()
        sums, tasks = {}, {}
        for setting in settings:
            mine = rows[rows["setting"] == setting]
            for policy, its in mine.groupby("policy"):
                if its["replicate"].nunique() == splits[setting]:
                    by = its.groupby("database")[[name, "tasks"]].sum().sort_index()
                    sums[str(policy), setting], tasks[setting] = by[name].to_numpy(float), by["tasks"].to_numpy(float)
        return cls(sums, tasks)

    def mean(self, policy: str, setting: str) -> float:
        """Return the mean over tasks."""
        return float(self.sums[policy, setting].sum() / self.tasks[setting].sum())

    def gain(self, policy: str, setting: str, over: str) -> tuple[float, float, float]:
        """Return the difference from another on the same tasks, with the central 95% over databases drawn anew."""
        difference, tasks = self.sums[policy, setting] - self.sums[over, setting], self.tasks[setting]
        drawn = np.random.default_rng(0).integers(0, len(tasks), size=(RESAMPLES, len(tasks)))
        low, high = np.quantile(difference[drawn].sum(axis=1) / tasks[drawn].sum(axis=1), [0.025, 0.975])
        return float(difference.sum() / tasks.sum()), float(low), float(high)


def _gain(scores: Scores, setting: str, over: str, digits: int) -> str:
    gain, low, high = scores.gain(PARTIAL, setting, over)
    return f"{gain:+.{digits}f} ({low:+.{digits}f} to {high:+.{digits}f})"


def _draw(scores: Scores, settings: list[str], path: Path) -> None:
    sizes = [int(setting.split()[0]) for setting in settings]
    with figure_file(path) as (_, axes):
        for at, other in enumerate((POOLED, UNPOOLED)):
            gains = np.array([scores.gain(PARTIAL, setting, other) for setting in settings])
            error = np.abs(gains[:, 1:] - gains[:, :1]).T
            place = [size * (0.97, 1.03)[at] for size in sizes]
            style = {"color": COLOURS[at], "marker": MARKERS[at], "capsize": 3}
            axes[0, 0].errorbar(place, gains[:, 0], yerr=error, label=f"over {other}", **style)
        axes[0, 0].axhline(0.0, color="0.6", linewidth=1)
        axes[0, 0].set(xscale="log", xlabel="training tasks a database", ylabel="gain in log score a task")
        axes[0, 0].set_xticks(sizes, [str(size) for size in sizes])
        axes[0, 0].minorticks_off()
        axes[0, 0].legend()
