"""Few tasks a database: one intercept for all, one for each by itself, or partially pooled ones, on the real logs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from bayes_tacit import Episodes, MapFit, fit_map, handoff_score, incidence, sample_posterior
from bayes_tacit.errors import FileFormatError, TacitError, TacitWarning
from bayes_tacit.estimates.verdict import judge
from bayes_tacit.review.checks import compare_models
from simulations.intercode.few_shot_page import ALL, PARTIAL, POOLED, UNPOOLED, summarize
from simulations.intercode.logs import DATABASE, DATABASES, Source, load
from simulations.studies.study import Row, Setting, Study

NAME = "intercode_databases"
SHOTS = (5, 10, 20, 40)
SPARED = 16
"""Tasks that a known database has at least for the test, whatever is taken for training."""

SAMPLING: dict[str, Any] = {"draws": 600, "tune": 400, "chains": 4, "cores": 1, "progress": False}
LEAST = 1e-12
"""Probability that a log score counts at least."""


def study_of(source: Source) -> Study:
    """Give the study of these logs; results that were made of others are refused."""
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
    """Take so many tasks of each database that has enough; give those, its others, and all of the other databases."""
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
