"""Random mechanisms: where TACIT-Switch wins and loses when the pure rates are held and all else is drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import KFold, cross_val_predict

from bayes_tacit.plots.policies import policy_style
from bayes_tacit.policies import World
from simulations.mechanism.diagnostics import diagnostics
from simulations.mechanism.random_mechanisms import CHEAP_RATE, STRONG_RATE, random_mechanism
from simulations.mechanism.world import SIZES
from simulations.studies.contest import ALL, CAP, NEARLY, TACIT, contest, draw_worlds, policy_rows
from simulations.studies.figures import figure_file
from simulations.studies.study import Row, Setting, Study
from simulations.studies.tables import markdown_table

BASELINES = ("Task Router", "Step Deferral", "Prefix router", "Cascade")
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


def replicate(setting: Setting, number: int, seeds: np.random.SeedSequence) -> list[Row]:  # noqa: ARG001
    """Draw a mechanism, compare all policies on it, and measure what might predict the result."""
    drawn, tasks = seeds.spawn(2)
    mechanism = random_mechanism(drawn)
    worlds = draw_worlds(mechanism, tasks)
    measured: Row = {**diagnostics(worlds["train"].episodes, worlds["development"]), **rescues(worlds["development"])}
    measured["risk_noise"], measured["risk_persistence"] = mechanism.risk_noise, mechanism.risk_persistence
    return [row | measured for row in policy_rows(contest(ALL, worlds))]


def rescues(world: World) -> dict[str, float]:
    """Tell how many AB = 01 tasks are won by a handoff after 2 and after 5 Cheap steps."""
    outcomes = world.episodes.outcomes
    saved = world.counterfactuals.table()[0][outcomes == "01"]
    return {
        "rescue_early": float(saved[:, 2].mean()),
        "rescue_late": float(saved[:, 5].mean()),
        "only_cheap": float((outcomes == "10").mean()),
    }


def summarize(table: pd.DataFrame, folder: Path) -> str:
    """Show the distribution of the margin, and what predicts it."""
    success = 100 * table.pivot_table(index="replicate", columns="policy", values="success")
    margin = success[TACIT.name] - success[list(BASELINES)].max(axis=1)
    known = table.groupby("replicate")[list(PREDICTORS)].first()
    correlations = []
    for name in PREDICTORS:
        found = stats.spearmanr(known[name], margin)
        correlations.append((name, float(found.statistic), float(found.pvalue)))
    correlations = adjusted(sorted(correlations, key=lambda row: -abs(row[1])))
    predicted = predict(known, margin)
    explained = 1 - ((margin - predicted) ** 2).sum() / ((margin - margin.mean()) ** 2).sum()
    right = float(((predicted > 0) == (margin > 0)).mean())
    best = success[[*BASELINES, TACIT.name]].idxmax(axis=1).value_counts(normalize=True)
    low, middle, high = np.quantile(margin, [0.05, 0.5, 0.95])
    resampled = np.random.default_rng(0).choice(margin.to_numpy(), (2000, len(margin)))
    median = np.quantile(np.median(resampled, axis=1), [0.025, 0.975])
    share = float(best.get(TACIT.name, 0))
    share_half = 1.96 * np.sqrt(share * (1 - share) / len(margin))
    strongest = correlations[0][0]
    _plot(margin, known, correlations, folder / "random.png")
    return "\n\n".join(
        [
            f"**Reading.** Over {len(margin)} random mechanisms with the same pure rates, TACIT-Switch minus the best "
            f"baseline is {middle:+.1f} points in the median (95% interval of the median {median[0]:+.1f} to "
            f"{median[1]:+.1f}; 5% to 95% of the mechanisms: {low:+.1f} to {high:+.1f}); it is the best policy in "
            f"{best.get(TACIT.name, 0):.0%} of them (± {share_half:.0%}). The margin is most associated with the "
            f"{PREDICTORS[strongest]} (rank correlation {correlations[0][1]:+.2f}): where late handoffs still rescue "
            f"the "
            "task, waiting for evidence pays. Compare on data of your own.",
            "![Margin over random mechanisms](random.png)",
            "## Which policy is best",
            markdown_table(
                [
                    "policy",
                    "best in",
                    "median success, %",
                    "median gain of TACIT-Switch, points",
                    "TACIT-Switch wins in",
                ],
                [
                    [
                        name,
                        f"{best.get(name, 0):.0%}",
                        f"{success[name].median():.1f}",
                        "" if name == TACIT.name else f"{(success[TACIT.name] - success[name]).median():+.1f}",
                        "" if name == TACIT.name else f"{(success[TACIT.name] > success[name]).mean():.0%}",
                    ]
                    for name in (*BASELINES, TACIT.name)
                ],
            ),
            "## What predicts the margin over the best baseline",
            markdown_table(
                ["measured on training and development tasks", "rank correlation with the margin", "p-value (Holm)"],
                [[PREDICTORS[name], f"{value:+.2f}", f"{p:.2g}"] for name, value, p in correlations],
            ),
            f"All of them together (a random forest, ten-fold cross-validated) explain {explained:.0%} of the "
            f"variance of "
            f"the margin, and tell in {right:.0%} of the mechanisms whether TACIT-Switch is above the best baseline "
            f"(always saying the more frequent answer is right in "
            f"{max((margin > 0).mean(), (margin <= 0).mean()):.0%}).",
            f"Pure rates held at {CHEAP_RATE:.1%} and {STRONG_RATE:.1%}, cap {CAP:g}, sizes of the main comparison, "
            f"one "
            "replicate a mechanism. The distributions of the parameters are in the docstring of "
            "`simulations.mechanism.random_mechanisms.random_mechanism`; other distributions would give other shares.",
        ]
    )


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


def predict(known: pd.DataFrame, margin: pd.Series) -> np.ndarray:
    """Predict each margin from the other mechanisms."""
    folds = KFold(min(10, len(margin)), shuffle=True, random_state=0)
    forest = RandomForestRegressor(300, min_samples_leaf=5, random_state=0)
    return cross_val_predict(forest, known.to_numpy(), margin.to_numpy(), cv=folds)


def _plot(margin: pd.Series, known: pd.DataFrame, correlations: list[tuple[str, float, float]], path: Path) -> None:
    color = policy_style(TACIT.name).color
    with figure_file(path, 1, 3, size=(10.4, 3.6)) as (_, axes):
        histogram, *scatters = axes.flat
        histogram.hist(margin, bins=25, color=color, alpha=0.75)
        histogram.axvline(0, color="#000000", linewidth=1)
        histogram.axvline(margin.median(), color="#D55E00", linestyle="--", label=f"median {margin.median():+.1f}")
        histogram.set_xlabel("TACIT-Switch minus best baseline, points")
        histogram.set_ylabel("mechanisms")
        histogram.legend()
        for ax, (name, value, _) in zip(scatters, correlations, strict=False):
            ax.plot(known[name], margin, "o", color=color, alpha=0.5, markersize=4, markeredgewidth=0)
            ax.axhline(0, color="#000000", linewidth=1)
            ax.set_xlabel(
                PREDICTORS[name]
                .replace(" for ", "\nfor ")
                .replace(" with a ", "\nwith a ")
                .replace(" by a ", "\nby a ")
            )
            ax.set_title(f"rank correlation {value:+.2f}", fontsize=10)
        scatters[0].set_ylabel("margin, points")


STUDY = Study(
    name="random",
    title="Random mechanisms",
    description="The comparison over random mechanisms with the pure rates held: where TACIT-Switch wins and loses.",
    settings=[Setting("random")],
    parameters={"first draw": random_mechanism(0).to_dict(), "sizes": dict(SIZES), "cap": CAP},
    replicate=replicate,
    summarize=summarize,
    replicates=200,
    seed=20261205,
    agreement=NEARLY,
)
