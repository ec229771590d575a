"""Random mechanisms: where TACIT-Switch wins and loses when the pure rates are held and all else is drawn."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from bayes_tacit.policies import World
from bayes_tacit.review.style import policy_style
from simulations.mechanism.calibrate import diagnostics
from simulations.mechanism.random_mechanisms import random_mechanism
from simulations.mechanism.world import SIZES
from simulations.studies.contest import (
    ALARM,
    ALL,
    ANALOGUES,
    BASELINES,
    BEFORE,
    BEYOND,
    CAP,
    NEARLY,
    OURS,
    RECOMMENDED,
    TACIT,
    by_policy,
    contest,
    draw_worlds,
    names_of,
    policy_rows,
    recommended_row,
)
from simulations.studies.study import Row, Setting, Study
from simulations.studies.tables import figure_file, fill, markdown_table

PAPERS_BASELINES = names_of(BASELINES)
OTHERS = names_of((*BASELINES, *BEYOND))
PREDICTORS = {
    "auc_cumulative_risk": "AUC of cumulative risk for Cheap failure",
    "auc_task_features": "AUC of task features for Cheap failure",
    "auc_latest_risk": "AUC of the latest risk for Cheap failure",
    "ab01_with_candidate": "share of AB = 01 tasks with a marked handoff",
    "success_after_marked_handoff": "success after the marked handoff",
    "rescue_early": "share of AB = 01 tasks won by a handoff at step 2",
    "rescue_late": "share of AB = 01 tasks won by a handoff at step 5",
    "only_cheap": "share of tasks that only Cheap wins",
}
"""What an engineer can measure on training and development data before choosing a policy."""


def summarize(table: pd.DataFrame, folder: Path) -> str:
    """Show the distribution of the margin, and what predicts it."""
    success = by_policy(table)
    margin = success[TACIT.name] - success[OTHERS].max(axis=1)
    over_papers = success[TACIT.name] - success[PAPERS_BASELINES].max(axis=1)
    over_alarm = success[TACIT.name] - success[ALARM.name]
    over_best = success[RECOMMENDED] - success[[*OTHERS, TACIT.name]].max(axis=1)
    known = table.groupby("replicate")[list(PREDICTORS)].first()
    correlations, alarm_correlations = correlated(known, margin), correlated(known, over_alarm)
    with_alarm = {name: (value, p) for name, value, p in alarm_correlations}
    best = success[[*OTHERS, TACIT.name]].idxmax(axis=1).value_counts(normalize=True)
    (strongest, strength, _), (alarm_strongest, alarm_strength, _) = correlations[0], alarm_correlations[0]
    with figure_file(folder / "recommended.png", size=(7.2, 3.4)) as (_, axes):
        _gain_histogram(axes[0, 0], over_best)
    with figure_file(folder / "random.png", 1, 3, size=(10.4, 3.9)) as (_, axes):
        _histogram(axes[0, 0], margin, over_papers)
        _scatter(axes[0, 1], known[strongest], margin, strength, "margin over the best other, points", TACIT.name)
        _scatter(
            axes[0, 2], known[alarm_strongest], over_alarm, alarm_strength, "gain over First Alarm, points", ALARM.name
        )
    return fill(
        "random",
        **_recommended(table, success, over_best),
        best=markdown_table(
            [
                "policy",
                "best in",
                "median success, %",
                "median gain of TACIT-Switch, points (95% interval)",
                "TACIT-Switch wins in",
            ],
            [_policy_row(name, best, success) for name in (*OTHERS, TACIT.name)],
        ),
        predictors=markdown_table(
            [
                "measured on training and development tasks",
                "rank correlation with the margin over the best of the others",
                "p-value (Holm)",
                "with the gain over First Alarm",
                "p-value (Holm)",
            ],
            [
                [
                    PREDICTORS[name],
                    f"{value:+.2f}",
                    f"{p:.2g}",
                    f"{with_alarm[name][0]:+.2f}",
                    f"{with_alarm[name][1]:.2g}",
                ]
                for name, value, p in correlations
            ],
        ),
    )


def _recommended(table: pd.DataFrame, success: pd.DataFrame, over_best: pd.Series) -> dict[str, str]:
    """Say what a recommendation gains over the best of the six, which nobody knows beforehand."""
    made = table[table["policy"] == RECOMMENDED].set_index("replicate")
    named = [
        [
            str(name),
            f"{count / len(made):.0%}",
            _in_the_median(over_best[made.index[made["recommended"] == name]]),
        ]
        for name, count in made["recommended"].value_counts().items()
    ]
    gains = [
        [
            name,
            f"{success[name].mean():.2f}",
            f"{(success[name] - success[TACIT.name]).median():+.2f}",
            f"{(success[name] - success[[*OTHERS, TACIT.name]].max(axis=1)).median():+.2f}",
        ]
        for name in (*OTHERS, TACIT.name, *names_of(OURS), RECOMMENDED)
    ]
    beside = (TACIT.name, ALARM.name, "Step Deferral", RECOMMENDED)
    analogues = [
        [
            name,
            f"{success[name].mean():.2f}",
            *("{:+.2f} ({:+.2f} to {:+.2f})".format(*median_interval(success[name] - success[one])) for one in beside),
        ]
        for name in names_of(ANALOGUES)
    ]
    gained = ["policy", "mean success, %", "minus TACIT-Switch, median", "minus the best of the six, median"]
    head = ["policy", "mean success, %", *(f"minus {other}, median" for other in beside)]
    return {
        "recommended": markdown_table(["recommended", "in", "gain over the best of the six, points"], named),
        "gains": markdown_table(gained, gains),
        "analogues": markdown_table(head, analogues),
    }


def median_interval(values: pd.Series) -> tuple[float, float, float]:
    """Return the median and its bootstrapped 95% interval."""
    resampled = np.random.default_rng(0).choice(values.to_numpy(), (2000, len(values)))
    low, high = np.quantile(np.median(resampled, axis=1), [0.025, 0.975])
    return float(values.median()), float(low), float(high)


def _in_the_median(values: pd.Series) -> str:
    least, most = np.quantile(values, [0.05, 0.95])
    return (
        "{:+.2f} points in the median (95% interval {:+.2f} to {:+.2f}; ".format(*median_interval(values))
        + f"5% to 95% of the mechanisms: {least:+.1f} to {most:+.1f})"
    )


def _policy_row(name: str, best: pd.Series, success: pd.DataFrame) -> list[str]:
    row = [name, f"{best.get(name, 0):.0%}", f"{success[name].median():.1f}"]
    if name == TACIT.name:
        return [*row, "", ""]
    gain = success[TACIT.name] - success[name]
    middle, low, high = median_interval(gain)
    return [*row, f"{middle:+.2f} ({low:+.2f} to {high:+.2f})", f"{(gain > 0).mean():.0%}"]


def correlated(known: pd.DataFrame, margin: pd.Series) -> list[tuple[str, float, float]]:
    """Return name, rank correlation with the margin and adjusted p-value of what is known, the strongest first."""
    found = []
    for name in known:
        result = stats.spearmanr(known[name], margin)
        found.append((str(name), float(result.statistic), float(result.pvalue)))
    return adjusted(sorted(found, key=lambda row: -abs(row[1])))


def adjusted(correlations: list[tuple[str, float, float]]) -> list[tuple[str, float, float]]:
    """Adjust p-values, in the order of rising ones, for their number (Holm's method).

    Examples
    --------
    >>> adjusted([("a", 0.9, 0.01), ("b", 0.5, 0.02), ("c", 0.1, 0.6)])
    [('a', 0.9, 0.03), ('b', 0.5, 0.04), ('c', 0.1, 0.6)]
    """
    out, largest = [], 0.0
    for rank, (name, value, p) in enumerate(correlations):
        largest = max(largest, min(1.0, (len(correlations) - rank) * p))
        out.append((name, value, largest))
    return out


def _histogram(ax: Axes, margin: pd.Series, over_papers: pd.Series) -> None:
    both = np.concatenate([margin, over_papers])
    bins = np.linspace(both.min(), both.max(), 26).tolist()
    label = f"all others (median {margin.median():+.1f})"
    ax.hist(margin, bins=bins, color=policy_style(TACIT.name).color, alpha=0.75, label=label)
    label = f"the paper's baselines (median {over_papers.median():+.1f})"
    ax.hist(over_papers, bins=bins, histtype="step", color="#000000", linewidth=1.3, label=label)
    ax.axvline(0, color="#000000", linewidth=1)
    ax.set(xlabel="TACIT-Switch minus the best of\nthe others, points", ylabel="mechanisms")
    ax.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), fontsize=9)


def _gain_histogram(ax: Axes, gain: pd.Series) -> None:
    label = f"recommended (median {gain.median():+.1f})"
    ax.hist(gain, bins=30, color=policy_style(RECOMMENDED).color, alpha=0.75, label=label)
    ax.axvline(0, color="#000000", linewidth=1)
    ax.set(xlabel="minus the best of the six, known in hindsight, points", ylabel="mechanisms")
    ax.legend(loc="upper right", fontsize=9)


def _scatter(ax: Axes, known: pd.Series, gain: pd.Series, correlation: float, label: str, policy: str) -> None:
    ax.plot(known, gain, "o", color=policy_style(policy).color, alpha=0.5, markersize=4, markeredgewidth=0)
    ax.axhline(0, color="#000000", linewidth=1)
    words = PREDICTORS[str(known.name)]
    for before in (" for ", " with a ", " by a "):
        words = words.replace(before, f"\n{before.strip()} ")
    ax.set(xlabel=words, ylabel=label)
    ax.set_title(f"rank correlation {correlation:+.2f}", fontsize=10)


def replicate(setting: Setting, number: int, seeds: np.random.SeedSequence) -> list[Row]:  # noqa: ARG001
    """Draw a mechanism, compare all policies on it, and measure what might predict the result."""
    drawn, tasks = seeds.spawn(2)
    mechanism = random_mechanism(drawn)
    worlds = draw_worlds(mechanism, tasks)
    measured: Row = {**diagnostics(worlds["train"].episodes, worlds["development"]), **rescues(worlds["development"])}
    measured["risk_noise"], measured["risk_persistence"] = mechanism.risk_noise, mechanism.risk_persistence
    result = contest((*ALL, *OURS, *ANALOGUES), worlds)
    return [row | measured for row in (*policy_rows(result), recommended_row(result, worlds, BEFORE))]


def rescues(world: World) -> dict[str, float]:
    """Return how many AB = 01 tasks are won by a handoff after 2 and after 5 Cheap steps."""
    outcomes = world.episodes.outcomes
    saved = world.counterfactuals.table()[0][outcomes == "01"]
    return {
        "rescue_early": float(saved[:, 2].mean()),
        "rescue_late": float(saved[:, 5].mean()),
        "only_cheap": float((outcomes == "10").mean()),
    }


STUDY = Study(
    name="random",
    title="Random mechanisms",
    description="The comparison over random mechanisms with the pure rates held: where TACIT-Switch wins and loses.",
    settings=[Setting("random")],
    parameters={
        # To four digits, which are the same on every machine.
        "first draw": json.loads(
            json.dumps(random_mechanism(0).to_dict()), parse_float=lambda text: float(f"{float(text):.4g}")
        ),
        "sizes": dict(SIZES),
        "cap": CAP,
        "policies": [*names_of((*ALL, *OURS, *ANALOGUES)), RECOMMENDED],
        "families": names_of(BEFORE),
    },
    replicate=replicate,
    summarize=summarize,
    replicates=200,
    seed=20261205,
    agreement=NEARLY,
)
