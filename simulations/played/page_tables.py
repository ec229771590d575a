"""Tables and figures in words of a page: policies, gains, paired outcomes, budgets, and how long it took."""

from __future__ import annotations

import platform
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from scipy.stats import binomtest

from bayes_tacit.policies.comparison import in_words
from simulations.played.experiment import PARTS, Experiment
from simulations.played.kept_time import seconds_spent
from simulations.studies.tables import markdown_table

PLAIN = (
    *(f"{name} = 0" for name in ("clock", "pace", "cheap", "strong")),
    *(f"{name} = 1" for name in ("incidence", "location", "start_weight", "start_level")),
    "start = inf",
)
"""Numbers of a searched setting that change nothing."""

STAGES = {"rollouts": "paired rollouts", "continuations": "continuations", "played": "policies on the test {}"}


def policies_table(experiment: Experiment) -> str:
    """Give a row for each policy: its setting, and what it does on development and test games."""
    comparison, n = experiment.comparison, len(experiment.pairs["test"])
    rows = []
    for row in comparison.table.to_dict("records"):
        name = str(row["policy"])
        rows.append(
            [
                name,
                "" if name.startswith("Pure") else setting_of(experiment, name),
                f"{100 * row['development_success']:.1f}% at {row['development_cost']:.1f}",
                f"{round(row['success'] * n)}/{n} ({100 * row['success']:.1f}%)",
                f"{row['cost']:.2f}",
                f"{100 * row['strong_share']:.1f}%",
                f"{100 * row['intervention_rate']:.1f}%",
            ]
        )
    head = ["policy", "chosen setting", "development", "successes", "mean cost", "strong share", "interventions"]
    return markdown_table(head, rows)


def setting_of(experiment: Experiment, name: str) -> str:
    """Give the setting that was chosen for a policy, without what is as in the plain one."""
    words = in_words(experiment.comparison.fitted[name], experiment.comparison.choices[name])
    return ", ".join(part for part in words.split(", ") if part not in PLAIN)


def gains_table(experiment: Experiment, policy: str) -> str:
    """Give what a policy gains over each other one."""
    rows = [
        [
            str(row["over"]),
            interval(row, "success_difference", 100, 1),
            interval(row, "cost_difference", 1, 2),
        ]
        for row in experiment.comparison.gains(policy).to_dict("records")
    ]
    return markdown_table(["over", "success, points (95% interval)", "mean cost (95% interval)"], rows)


def interval(row: Mapping[Hashable, Any], name: str, scale: float, digits: int) -> str:
    """Give a difference with its interval."""
    middle, low, high = (f"{scale * row[one]:+.{digits}f}" for one in (name, f"{name}_lower", f"{name}_upper"))
    return f"{middle} ({low} to {high})"


def counts_table(experiment: Experiment, tasks: str) -> str:
    """Give how many tasks of each part had each paired outcome."""
    counts = experiment.counts
    rows = [[part, *(str(counts.loc[outcome, part]) for outcome in counts.index)] for part in PARTS]
    return markdown_table([tasks, *(f"AB = {outcome}" for outcome in counts.index)], rows)


def success_rates(experiment: Experiment, groups: Mapping[str, tuple[str, ...]], wins_or: str) -> str:
    """Say how often each actor succeeds alone, by groups of parts."""
    said = []
    for words, parts in groups.items():
        pairs = [pair for part in parts for pair in experiment.pairs[part]]
        each = []
        for name, wins in (
            ("Cheap", sum(pair.cheap.end.success for pair in pairs)),
            ("Strong", sum(pair.strong.end.success for pair in pairs)),
        ):
            low, high = binomtest(wins, len(pairs)).proportion_ci(method="wilson")
            each.append(f"{name} {wins_or} {wins} of {len(pairs)} ({wins / len(pairs):.1%}, {low:.1%} to {high:.1%})")
        said.append(f"On {words} {' and '.join(each)}")
    return f"{'. '.join(said)}; in brackets 95% intervals by Wilson's method."


def curve_table(curve: pd.DataFrame) -> str:
    """Give success and cost of each policy at each budget."""
    cells = {
        (row["share"], row["policy"]): f"{100 * row['success']:.1f} ({row['cost']:.0f})"
        for row in curve.to_dict("records")
    }
    names, shares = list(curve["policy"].unique()), sorted({share for share, _ in cells})
    rows = [[f"{share:.0%}", *(cells.get((share, name), "") for name in names)] for share in shares]
    return markdown_table(["budget", *names], rows)


def times(kept: Path, tasks: str) -> str:
    """Say how long playing took."""
    rows = [[words.format(tasks), f"{seconds_spent(kept / stage) / 60:.1f}"] for stage, words in STAGES.items()]
    total = sum(seconds_spent(kept / stage) for stage in STAGES)
    table = markdown_table(["what was played", "minutes"], [*rows, ["in all", f"{total / 60:.1f}"]])
    return (
        f"{table}\n\nWall-clock time from file to file as they were last written, pauses left out, on two cores that "
        f"others used as well (Python {platform.python_version()}); what was added to a file later hides how long its "
        "first part took."
    )
