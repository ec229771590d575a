"""What tasks have in common, what is odd about the data, what no check sees, and calibration by simulation."""

from __future__ import annotations

import hashlib
import warnings
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import Any

import arviz_plots
import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.figure import Figure
from scipy import sparse, stats

from bayes_tacit import validate
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.layout import blocks, carried_variables
from bayes_tacit.errors import ConvergenceError, EvidenceError, InvalidDataError, TacitWarning
from bayes_tacit.estimates.completion import prior_of
from bayes_tacit.estimates.map_fit import UNLIKELY, fit_map, parting_columns
from bayes_tacit.estimates.posterior import sample_posterior
from bayes_tacit.model.spec import spec_of
from bayes_tacit.progress import bars
from bayes_tacit.review.crossings import SEED, judge_totals
from bayes_tacit.review.findings import (
    LEVEL,
    CheckResult,
    by_parameter,
    flat_draws,
    group_of,
    names_in,
    require_same_data,
    unjudged,
)
from bayes_tacit.review.plots import probability_crossed
from bayes_tacit.review.style import lazily, page_width
from bayes_tacit.review.trends import FLIPS, INCIDENCE, LOCATION, Slopes
from bayes_tacit.scores.fitted import as_draws
from bayes_tacit.scores.score import handoff_score

DEPENDENCE, ODDITIES, ASSUMED = "Dependence between tasks", "Duplicates and leaks", "What no check sees"
CALIBRATION = "Calibration by simulation"
DEPENDENCE_LEVEL, MOST_FLIPPED = 0.005, 20_000_000
LAGS = 3
"""How many tasks apart two of them count as neighbours in the data."""
_SPENT = ("steps", "score", "cost", "input_tokens", "cached_tokens", "written_tokens", "output_tokens", "seconds")
RESULTS = frozenset(f"{side}_{name}" for side in ("cheap", "strong") for name in _SPENT)
"""Carried columns with what the rollouts came to, as `import` names them."""
NEIGHBOURS = "neighbours in the data"
ASSUMPTIONS = (
    "where Cheap succeeds too, that says no more of the threshold than that it was not reached",
    "whether Strong would succeed does not depend on Cheap's later steps, given the features",
    "tasks that no column puts together, and that are not side by side, are independent",
    "a mark says no more than that the crossing is inside it",
)
"""What the model takes for granted and no data of this kind can show."""
FAR, ALPHA = 10.0, 0.5
LEAST_SHARE = 0.01
"""Of the episodes: so many that are there a second time make bands too narrow."""
SHOWN = 3
REPLICATES, MOST_REPLICATES = 50, 1000
LENGTHS: dict[str, Any] = {"chains": 2, "draws": 300, "tune": 400, "predictive_draws": 1}
RANKED = 99


def check_dependence(tree: xr.DataTree, episodes: Episodes) -> CheckResult:
    r"""Check that tasks of a kind, or side by side in the data, have no residuals in common.

    If tasks of a kind resemble each other beyond their features, their residuals do: the sum of products of residuals
    over pairs of a kind (the score test of intercepts that the kinds have of their own) is above zero. Kinds are the
    values of every carried column that repeat, and neighbours in the data. Bands that take such tasks as independent
    are too narrow. It passes if at least 0.5% of data sets with signs by chance have a sum as large as the largest.
    """
    require_same_data(tree, episodes)
    slopes = Slopes.of_tree(tree, episodes)
    n = slopes.evidence.n
    residuals = {"Strong's success": slopes.at_mean[INCIDENCE], "thresholds": slopes.at_mean[LOCATION]}
    signs = np.random.default_rng(SEED).choice([-1.0, 1.0], size=(min(FLIPS, max(999, MOST_FLIPPED // n)), n))
    rows, chance = [], []
    for what, residual in residuals.items():
        for name, pairs in {**_kinds(episodes), NEIGHBOURS: None}.items():
            total, flipped = (_products(values, pairs) for values in (residual[None], signs * residual))
            if (spread := float(flipped.std())) > 0:
                rows.append((name, what, float(total[0]) / spread))
                chance.append(flipped / spread)
    table = pd.DataFrame(rows, columns=["by", "residuals of", "z"])
    if table.empty:
        return unjudged(DEPENDENCE, "There are too few tasks to tell whether they depend on each other.")
    worst = table.iloc[int(table["z"].to_numpy().argmax())]
    sentence = (
        f"What tasks have in common beyond their features is largest by {worst['by']}, in {worst['residuals of']}: "
        f"{worst['z']:.1f} standard errors"
    )
    advice = f"Sample with `groups={worst['by']!r}`, which gives each of its values intercepts of its own."
    if worst["by"] == NEIGHBOURS:
        advice = (
            "Tasks that are side by side in the data resemble each other: carry a column that says what they have in "
            "common (a database, a repository, a day), and sample with `groups` of it."
        )
    label = "products of residuals, in standard errors"
    # Only what is above zero speaks of dependence.
    largest = np.max(chance, axis=0)
    return judge_totals(DEPENDENCE, table, largest, DEPENDENCE_LEVEL, sentence, lambda _: advice, label, one_sided=True)


def _kinds(episodes: Episodes) -> dict[str, sparse.csr_array]:
    """Return which kind each episode is of, (kind, episode), for carried columns of values that repeat.

    What the rollouts came to is no kind: that it goes with success says nothing of the tasks.
    """
    n, out = len(episodes), {}
    for name in carried_variables(episodes.dataset):
        column = episodes.dataset[name]
        if column.dims != ("episode",) or name in RESULTS:
            continue
        code, values = pd.factorize(pd.Series(column.values.tolist(), dtype=object).astype(str))
        if 1 < len(values) <= n / 2:
            out[name] = sparse.csr_array((np.ones(n), (code, np.arange(n))))
    return out


def _products(values: np.ndarray, kinds: sparse.csr_array | None) -> np.ndarray:
    """Sum the products of (row, episode) values over pairs of a kind, or of neighbours: (row,)."""
    if kinds is None:
        lags = range(1, min(LAGS, values.shape[1] - 1) + 1)
        return sum((np.einsum("re,re->r", values[:, lag:], values[:, :-lag]) for lag in lags), np.zeros(len(values)))
    sums: np.ndarray = kinds @ values.T
    return (sums**2).sum(axis=0) - (values**2).sum(axis=1)


def check_data(tree: xr.DataTree, episodes: Episodes) -> CheckResult:
    """Check that no task is there twice and no feature gives Strong's success away.

    Episodes are alike if all features and all diagnostics are the same. Coarse data may have such by chance, and their
    outcomes and windows then agree no more often than those of any two episodes. Where they agree far more often (by
    chance less than once in 10,000 data sets), the same task was recorded again under another id, and counts twice.

    It fails if more than 1% of the episodes are such, or if every success of Strong is on one side of a feature, or of
    the predicted pi: either that is so in all tasks, or the outcome leaked into the feature.
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
    pairs = [pair for places in known.values() for pair in pairwise(places)]
    if not pairs:
        return [], ""
    ends = np.nan_to_num(np.column_stack([dataset[name].values for name in ("window_start", "window_end")]), nan=-1)
    seen = [(str(outcome), *end) for outcome, end in zip(episodes.outcomes, ends.tolist(), strict=True)]
    share = pd.Series(seen).value_counts(normalize=True).to_numpy()
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
    strong, names = constant["strong_outcome"].values.astype(bool), names_in(constant)
    if not names or "gamma" not in posterior:
        return []
    x = constant["features"].values
    together = (x @ posterior["gamma"].mean(("chain", "draw")).values)[:, None]
    linear = parting_columns(together, ["the predicted pi"], strong) if len(strong) > 20 * len(names) else []
    return parting_columns(x, names, strong) or linear


def bound_assumptions(tree: xr.DataTree, episodes: Episodes) -> CheckResult:
    """State what no check sees, and bound what the first of it may come to.

    Where Cheap succeeds too, its threshold is known to lie beyond the rollout's risk, and how far is taken from other
    tasks with the same features (independent censoring). Should Cheap's success go with where the threshold is, q(t) is
    off, and nothing in the data shows it. The table has q(t) and the decisions of point estimates at both ends: every
    such threshold crossed at the last step, and every one ten times as far away as is known. For each, and for the
    model as it is, it has the mean of q(t) over all checkpoints and the share of tasks that are handed over at
    alpha = 0.5. It is a hint; there is nothing to pass.
    """
    sentence = f"Nothing in the data speaks for or against these: {'; '.join(ASSUMPTIONS)}."
    spec, both = spec_of(tree), episodes.outcomes == "11"
    if spec.groups is not None or spec.noise is not None or spec.spread != "same" or not both.any():
        return unjudged(ASSUMED, sentence, hint=True)
    dataset, last = episodes.dataset, episodes.n_steps - 1
    ends = {name: ("episode", np.where(both, last, dataset[name].values)) for name in ("window_start", "window_end")}
    crossed = dataset.assign(ends | {"cheap_success": ("episode", dataset["cheap_success"].values & ~both)})
    by = xr.DataArray(np.where(both, FAR, 1.0), dims="episode")
    worlds = {
        "crossed at the last step": crossed,
        "as known": dataset,
        "ten times as far": dataset.assign(diagnostics=dataset["diagnostics"] * by),
    }
    plain = replace(spec, zero_mass="drop_window", memory=1.0 if spec.memory == "learned" else spec.memory)
    rows = {}
    try:
        for name, changed in worlds.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TacitWarning)
                fit = fit_map(Episodes(changed), spec=plain, floor=None, restarts=1)
            q = handoff_score(fit, episodes).values
            # What Cheap did not play has no score.
            q = q[~np.isnan(q).all(axis=1)]
            rows[name] = [np.nanmean(q), (np.nanmax(q, axis=1) >= ALPHA).mean()]
    except (ConvergenceError, EvidenceError):
        return unjudged(ASSUMED, sentence, hint=True)
    columns = ["mean q(t)", f"handed over at {ALPHA}"]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("where both succeed, thresholds")
    lowest, highest = sorted(table["mean q(t)"].iloc[[0, 2]])
    sentence += (
        f" Of the first: were the thresholds of AB = 11 at the last step, or ten times as far, q(t) would be "
        f"{highest:.2f} or {lowest:.2f} on average, and is {table['mean q(t)'].iloc[1]:.2f}."
    )
    return CheckResult(ASSUMED, None, table, sentence, hint=True)


def check_calibration(
    tree: xr.DataTree, episodes: Episodes, *, replicates: int = REPLICATES, seed: int = 0
) -> CheckResult:
    """Check by simulation that posteriors of data like these are as wide as they should be.

    Each replicate takes a draw of the posterior as the truth, draws outcomes and windows of one step for the same tasks
    from it, and samples the posterior of both together, the data and what was drawn. If computation and model agree,
    the rank of that truth among the new draws is uniform (posterior simulation-based calibration; Säilynoja and others,
    2025). It passes if no parameter has a p below 1% over their number in a test of Kolmogorov and Smirnov. What the
    model lacks, it does not see; it sees a sampler, a prior or bounds that do not fit these data.

    Parameters
    ----------
    tree
        A posterior with marks of the timing "post_action" and without `noise`.
    episodes
        What it was fitted on.
    replicates
        How many posteriors are sampled, of twice as many episodes each; a bar shows how far it is.
    seed
        Decides all draws.
    """
    replicates, spec = validate.whole("replicates", replicates, 10, MOST_REPLICATES), spec_of(tree)
    require_same_data(tree, episodes)
    if spec.noise is not None or spec.timing != "post_action":
        expected = "a posterior of the timing 'post_action' and without noise"
        raise InvalidDataError(expected, field="posterior to simulate from", value=spec)
    posterior = by_parameter(group_of(tree, "posterior"))
    truths = {name: flat_draws(values) for name, values in posterior.items() if "_offset[" not in name}
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(next(iter(truths.values()))), replicates)
    ranks: dict[str, list[float]] = {name: [] for name in truths}
    with bars() as progress:
        task = progress.add_task("simulating and sampling", total=replicates)
        for number, m in enumerate(chosen):
            joined = _joined(episodes, _redrawn(tree, episodes, int(m), rng))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TacitWarning)
                again = sample_posterior(
                    joined, prior_of(tree), spec=replace(spec, zero_mass="drop_window"), seed=number, progress=False,
                    **LENGTHS,
                )  # fmt: skip
            for name, values in by_parameter(group_of(again, "posterior")).items():
                if name in ranks:
                    draws = flat_draws(values)
                    some = draws[np.linspace(0, len(draws) - 1, RANKED).astype(int)]
                    ranks[name].append(float((some < truths[name][m]).sum() + rng.random()) / (RANKED + 1))
            progress.advance(task)
    p = {name: float(stats.kstest(places, "uniform").pvalue) for name, places in ranks.items()}
    table = pd.DataFrame({"mean rank": {name: np.mean(places) for name, places in ranks.items()}, "p": p})
    worst, least = min(p, key=p.__getitem__), LEVEL / len(p)
    passed = p[worst] >= least
    sentence = (
        f"Among {replicates} posteriors of these and simulated data, ranks of the truth "
        f"{'look' if passed else 'do not look'} uniform: the least of {len(p)} p-values is {p[worst]:.2g} ({worst}; "
        f"limit {least:.2g})."
    )
    advice = "" if passed else f"Bands that depend on {worst} are not as wide as they should be: sample longer chains."
    drawn = lazily(_draw_ranks, {name: np.array(places) for name, places in ranks.items()})
    table = table.rename_axis("parameter")
    return CheckResult(CALIBRATION, passed, table, sentence, advice, drawn, p_value=min(1.0, p[worst] * len(p)))


def _redrawn(tree: xr.DataTree, episodes: Episodes, m: int, rng: np.random.Generator) -> xr.Dataset:
    """Draw outcomes and windows of one step for the same tasks from one draw of the posterior."""
    fitted, dataset, n_steps = as_draws(tree), episodes.dataset, episodes.n_steps
    features, diagnostics = fitted.columns_of(episodes)
    draws, x = fitted.draws.take(slice(m, m + 1)), fitted.standardize(features.values)
    strong = rng.random(len(x)) < draws.incidence(x)[:, 0]
    reached = probability_crossed(draws, x, np.nan_to_num(diagnostics.values)) >= rng.random((len(x), 1))
    step = np.where(reached.any(axis=1), reached.argmax(axis=1), n_steps)
    window = ("episode", np.where(strong & (step < n_steps), step, np.nan))
    return dataset.assign(
        strong_success=("episode", strong),
        cheap_success=("episode", np.where(strong, step >= n_steps, dataset["cheap_success"].values)),
        window_start=window,
        window_end=window,
    )


def _joined(episodes: Episodes, drawn: xr.Dataset) -> Episodes:
    both = xr.concat([episodes.dataset, drawn], "episode", data_vars="minimal")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        return Episodes(both.assign_coords(episode=np.arange(both.sizes["episode"])))


def _draw_ranks(ranks: dict[str, np.ndarray]) -> Figure:
    """Draw how ranks depart from uniform, with what speaks against it marked."""
    named = {f"parameter {at}": ("sample", places) for at, places in enumerate(ranks.values())}
    tree = xr.DataTree.from_dict({"prior_sbc": xr.Dataset(named)})
    size = {"figsize": (page_width(), 0.5 + 1.7 * -(-len(ranks) // 4)), "figsize_units": "inches"}
    how: dict[str, Any] = {"sample_dims": ["sample"], "backend": "matplotlib", "col_wrap": 4, "figure_kwargs": size}
    shown = arviz_plots.plot_ecdf_pit(tree, **how)
    for variable, name in zip(named, ranks, strict=True):
        shown.viz["plot"][variable].item().set_title(name, parse_math=False)
    figure: Figure = shown.viz["figure"].item()
    return figure
