"""What is odd about the episodes themselves, and what no check of them sees, with bounds on what that may come to."""

from __future__ import annotations

import hashlib
import warnings
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from math import comb

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.layout import blocks
from bayes_tacit.errors import ConvergenceError, EvidenceError, TacitWarning
from bayes_tacit.estimates.map_fit import fit_map
from bayes_tacit.model.spec import spec_of
from bayes_tacit.review.findings import CheckResult, group_of
from bayes_tacit.scores.score import handoff_score

ODDITIES, ASSUMED = "Duplicates and leaks", "What no check sees"
ASSUMPTIONS = (
    "where Cheap succeeds too, that says no more of the threshold than that it was not reached",
    "whether Strong would succeed does not depend on Cheap's later steps, given the features",
    "tasks that no column puts together, and that are not side by side, are independent",
    "a mark says no more than that the crossing is inside it",
)
"""What the model takes for granted and no data of this kind can show."""
FAR, ALPHA = 10.0, 0.5
UNLIKELY = 1e-4
"""A coincidence that chance brings less often is none."""
FEWEST_STRONG = 3
LEAST_SHARE = 0.01
"""Of the episodes: so many that are there a second time make bands too narrow."""
SHOWN = 3


def check_data(tree: xr.DataTree, episodes: Episodes) -> CheckResult:
    """Check that no task is there twice and no feature gives Strong's success away.

    Episodes are alike if all features and all diagnostics are the same. Coarse data may have such by chance, and their
    outcomes and windows then agree no more often than those of any two episodes. Where they agree far more often (by
    chance less than once in 10,000 data sets), the same task was recorded again under another id, and counts twice.

    It fails if more than 1% of the episodes are such, or if every success of Strong is on one side of a feature, or of
    the predicted pi: either that is so in all tasks, or the outcome leaked into the feature.

    Parameters
    ----------
    tree
        A posterior.
    episodes
        What it was fitted on.
    """
    again, told = _duplicates(episodes)
    leaks = _leaks(tree)
    table = pd.DataFrame(
        {
            "found": [len(again), len(leaks)],
            "such as": [", ".join(map(str, found[:SHOWN])) for found in (again, leaks)],
        },
        index=pd.Index(["episodes that are there again", "features that give the outcome away"], name="what"),
    )
    twice = len(again) > LEAST_SHARE * len(episodes)
    sentences, advice = [told or "No task is there twice."], []
    if twice:
        advice.append("Leave the duplicates out: they make bands too narrow.")
    if leaks:
        sentences.append(f"Every success of Strong is on one side of {', '.join(leaks)}.")
        advice.append(
            f"Look whether {leaks[0]} was known before Cheap's first step: an outcome that leaked into a feature is "
            "the likely cause. If it is sound, only its prior keeps its coefficient finite."
        )
    passed = not twice and not leaks
    return CheckResult(ODDITIES, passed, table, " ".join(sentences), " ".join(advice), decisive=bool(leaks))


def _duplicates(episodes: Episodes) -> tuple[list[object], str]:
    """Return the ids of episodes that are there again, and what is to be said of those that are alike."""
    dataset, n = episodes.dataset, len(episodes)
    known: dict[bytes, list[int]] = defaultdict(list)
    for rows in blocks(dataset):
        part = dataset[["features", "diagnostics"]].isel(episode=rows)
        features, diagnostics = part["features"].values, part["diagnostics"].values
        for row, (x, u, steps) in enumerate(zip(features, diagnostics, episodes.n_steps[rows], strict=True)):
            digest = hashlib.blake2b(np.ascontiguousarray(x).tobytes(), digest_size=16)
            digest.update(np.ascontiguousarray(u[:steps]).tobytes())
            known[digest.digest()].append(rows.start + row)
    alike = [places for places in known.values() if len(places) > 1]
    if not alike:
        return [], ""
    ends = np.nan_to_num(np.column_stack([dataset[name].values for name in ("window_start", "window_end")]), nan=-1)
    seen = [(str(outcome), *end) for outcome, end in zip(episodes.outcomes, ends.tolist(), strict=True)]
    share = pd.Series(seen).value_counts(normalize=True).to_numpy()
    pairs = [pair for places in alike for pair in pairwise(places)]
    agreeing = [one for other, one in pairs if seen[one] == seen[other]]
    chance = float(stats.binom.sf(len(agreeing) - 1, len(pairs), float((share**2).sum())))
    if chance >= UNLIKELY or not agreeing:
        return [], f"{len(pairs)} of {n} episodes are alike in features and diagnostics, which coarse data may be."
    ids = episodes.ids[agreeing].tolist()
    return ids, (
        f"{len(ids)} of {n} episodes are there again under another id, alike in features, diagnostics, outcomes and "
        f"window (such as {ids[0]!r})."
    )


def _leaks(tree: xr.DataTree) -> list[str]:
    """Return the features, and predicted pi, that have all successes of Strong on one side, beyond chance."""
    constant, posterior = group_of(tree, "constant_data"), group_of(tree, "posterior")
    strong = constant["strong_outcome"].values.astype(bool)
    fewer = int(min(strong.sum(), (~strong).sum()))
    if "feature" not in constant.coords or "gamma" not in posterior or fewer < FEWEST_STRONG:
        return []
    x, names = constant["features"].values, constant["feature"].values.tolist()
    # A single column parts them by chance as often as one of two orders comes of all ways to place the fewer ones.
    if 2 * len(names) / comb(len(strong), fewer) > UNLIKELY:
        return []
    found = [str(name) for name, column in zip(names, x.T, strict=True) if _parts(column, strong)]
    together = x @ posterior["gamma"].mean(("chain", "draw")).values
    return found or (["the predicted pi"] if _parts(together, strong) and len(strong) > 20 * len(names) else [])


def _parts(values: np.ndarray, strong: np.ndarray) -> bool:
    yes, no = values[strong], values[~strong]
    return bool(yes.min() > no.max() or no.min() > yes.max())


def bound_assumptions(tree: xr.DataTree, episodes: Episodes) -> CheckResult:
    """State what no check sees, and bound what the first of it may come to.

    Where Cheap succeeds too, its threshold is known to lie beyond the rollout's risk, and how far is taken from other
    tasks with the same features (independent censoring). Should Cheap's success go with where the threshold is, q(t) is
    off, and nothing in the data shows it. The table has q(t) and the decisions of point estimates at both ends: every
    such threshold crossed at the last step, and every one ten times as far away as is known.

    Parameters
    ----------
    tree
        A posterior.
    episodes
        What it was fitted on.

    Returns
    -------
    CheckResult
        A hint; there is nothing to pass. `table` has, for each end and for the model as it is, the mean of q(t) over
        all checkpoints and the share of tasks that are handed over at alpha = 0.5.
    """
    sentence = f"Nothing in the data speaks for or against these: {'; '.join(ASSUMPTIONS)}."
    spec = spec_of(tree)
    both = episodes.outcomes == "11"
    if spec.groups is not None or spec.noise is not None or spec.spread != "same" or not both.any():
        return CheckResult(ASSUMED, None, pd.DataFrame(), sentence, hint=True)
    dataset, last = episodes.dataset, episodes.n_steps - 1
    ends = {name: ("episode", np.where(both, last, dataset[name].values)) for name in ("window_start", "window_end")}
    crossed = dataset.assign(ends | {"cheap_success": ("episode", dataset["cheap_success"].values & ~both)})
    farther = dataset.assign(
        diagnostics=dataset["diagnostics"] * xr.DataArray(np.where(both, FAR, 1.0), dims="episode")
    )
    plain = replace(spec, zero_mass="drop_window", memory=1.0 if spec.memory == "learned" else spec.memory)
    rows = {}
    try:
        for name, changed in (
            ("crossed at the last step", crossed),
            ("as known", dataset),
            ("ten times as far", farther),
        ):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TacitWarning)
                fit = fit_map(Episodes(changed), spec=plain, floor=None, restarts=1)
            q = handoff_score(fit, episodes).values
            # What Cheap did not play has no score.
            q = q[~np.isnan(q).all(axis=1)]
            rows[name] = [np.nanmean(q), (np.nanmax(q, axis=1) >= ALPHA).mean()]
    except (ConvergenceError, EvidenceError):
        return CheckResult(ASSUMED, None, pd.DataFrame(), sentence, hint=True)
    columns = ["mean q(t)", f"handed over at {ALPHA}"]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("where both succeed, thresholds")
    lowest, highest = sorted(table["mean q(t)"].iloc[[0, 2]])
    sentence += (
        f" Of the first: were the thresholds of AB = 11 at the last step, or ten times as far, q(t) would be "
        f"{highest:.2f} or {lowest:.2f} on average, and is {table['mean q(t)'].iloc[1]:.2f}."
    )
    return CheckResult(ASSUMED, None, table, sentence, hint=True)
