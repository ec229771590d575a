"""The page of results, from the table of all splits."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from simulations.intercode import details
from simulations.intercode.cells import CHEAP, STRONG, curves, differences, names_of, points
from simulations.intercode.figure import CURVES, plot_curves
from simulations.intercode.policies import CHOSEN, NO_MARKS, NOT_IN_LOGS, RECOMMENDED, TACIT
from simulations.intercode.uncertainty import Tally
from simulations.studies.tables import markdown_table

HEADLINE = (0.4, 0.5, 0.6)
DRAWN = ("Task Router", "Prefix router", "Cascade", "Count", "Landmark", TACIT, "Tuned switch", RECOMMENDED)
CLOSE = 0.005
"""How far below the best single policy what is recommended may be."""


def summarize(table: pd.DataFrame, folder: Path) -> str:
    """Write the figure, and give the page."""
    facts = json.loads(table.loc[table["kind"] == "facts", "facts"].iloc[0])
    rows = table[table["setting"] == "random"]
    tally = Tally.of(rows, int(facts["tasks"]))
    names = list(dict.fromkeys(name for name, _ in tally.keys))
    single = [name for name in names if name not in (CHEAP, STRONG, CHOSEN, RECOMMENDED)]
    shares = sorted({share for name, share in tally.keys if name in single})
    plot_curves(table, tally, [*(name for name in DRAWN if name in names), CHEAP, STRONG], folder / CURVES)
    parts = [
        _reading(facts, table, tally, single),
        _success(tally, [*single, RECOMMENDED], HEADLINE, head="success at a share of Pure Strong's cost, %"),
        f"![Success against cost]({CURVES})",
        "## The logs",
        _logs(facts, table),
        "## Success under each budget, %",
        _success(tally, [*single, RECOMMENDED, CHOSEN], shares),
        "Budgets are shares of Pure Strong's mean cost on the development tasks, where each policy's setting is "
        "chosen; success is that on test tasks. 95% intervals in brackets are from drawing tasks anew, 2,000 times, "
        "over all splits at once: splits overlap, so the spread among them would say too little. "
        f"`recommend` was asked on {rows.loc[rows['policy'] == RECOMMENDED, 'replicate'].nunique()} of the splits, and "
        "is compared with the others on those alone further down.",
        "## Cost and interventions on test tasks",
        _costs(table, [*single, RECOMMENDED], shares),
        "Mean cost in % of Pure Strong's, and in brackets the % of tasks in which Strong was called at all.",
        f"## {TACIT} minus each, points, paired by task",
        differences(tally, TACIT, [name for name in single if name != TACIT], shares),
        "## What is recommended",
        _recommended(rows, int(facts["tasks"]), single, shares),
        *details.databases(facts, table, [*single, RECOMMENDED], shares),
        "## Other prices",
        details.prices(table, [*single, RECOMMENDED]),
        "## How many training tasks are needed",
        details.sizes(table),
        "## What was learned, and which diagnostics matter",
        details.weights(table),
        details.ablation(facts, table),
        "## Marks by rule, or none",
        details.marks(tally, shares),
        "## Is q(t) calibrated?",
        details.calibration(table),
        "## Point estimate, memory, posterior",
        details.estimates(table),
        "## What logs cannot evaluate",
        f"{NOT_IN_LOGS}: what comes of them is not in paired rollouts. For a handoff that resumes there are bounds, "
        "`bayes-tacit select` without counterfactuals.",
        details.failures(table),
        _where(facts),
    ]
    return "\n\n".join(part for part in parts if part)


def _reading(facts: Mapping[str, Any], table: pd.DataFrame, tally: Tally, single: Sequence[str]) -> str:
    best = _best(tally, single, 0.6)
    low, high = tally.interval((best, 0.6), (STRONG, 1.0))
    gain = tally.success((best, 0.6)) - tally.success((STRONG, 1.0))
    rule = _best(tally, [name for name in single if name not in (TACIT, NO_MARKS)], 0.5)
    ours = tally.success((TACIT, 0.5)) - tally.success((rule, 0.5))
    ends = tally.interval((TACIT, 0.5), (rule, 0.5))
    splits = table.loc[table["setting"] == "random", "replicate"].nunique()
    return (
        f"**Reading.** Alone, Cheap solves {facts['cheap_success']:.1%} of {facts['tasks']:,} tasks and Strong "
        f"{facts['strong_success']:.1%}. Over {splits} random splits, {best} under 60% of Pure Strong's cost solves "
        f"{100 * tally.success((best, 0.6)):.1f}%, {points(gain, low, high)} from Pure Strong. Under 50% {TACIT} minus "
        f"the best of the others ({rule}) is {points(ours, *ends)}. A handoff here restarts the task with Strong, so "
        "every number is exact: nothing was simulated or assumed, but that both models do as they did in the logs."
    )


def _best(tally: Tally, names: Sequence[str], share: float) -> str:
    """Name the policy with the most success under a budget; some have no setting within it."""
    return max((name for name in names if tally.has((name, share))), key=lambda name: tally.success((name, share)))


def _success(tally: Tally, names: Sequence[str], shares: Sequence[float], head: str = "policy") -> str:
    rows = [[name, *(_cell(tally, (name, share)) for share in shares)] for name in names]
    table = markdown_table([head, *(f"{share:.0%}" for share in shares)], rows)
    pure = "; ".join(f"{name} {_cell(tally, (name, 1.0))}" for name in (CHEAP, STRONG))
    return f"{table}\n\nFor comparison: {pure}." if head == "policy" else table


def _cell(tally: Tally, key: tuple[str, float]) -> str:
    if not tally.has(key):
        return ""
    low, high = tally.interval(key)
    return f"{100 * tally.success(key):.1f} ({100 * low:.1f} to {100 * high:.1f})"


def _costs(table: pd.DataFrame, names: Sequence[str], shares: Sequence[float]) -> str:
    rows = curves(table, "random").groupby(["policy", "share"])[["of_strong", "intervention_rate"]].mean()
    known = rows.to_dict("index")
    return markdown_table(
        ["policy", *(f"{share:.0%}" for share in shares)],
        [
            [
                name,
                *(
                    f"{100 * known[name, share]['of_strong']:.0f} ({100 * known[name, share]['intervention_rate']:.0f})"
                    if (name, share) in known
                    else ""
                    for share in shares
                ),
            ]
            for name in names
        ],
    )


def _recommended(table: pd.DataFrame, n_tasks: int, single: Sequence[str], shares: Sequence[float]) -> str:
    picks = table[table["policy"] == RECOMMENDED]
    # Compared on the splits on which something was recommended.
    tally = Tally.of(table[table["replicate"].isin(picks["replicate"])], n_tasks)
    rows, far = [], []
    for share in shares:
        best = max((name for name in single if tally.has((name, share))), key=lambda name: tally.success((name, share)))
        gaps = {name: tally.success((name, share)) - tally.success((best, share)) for name in (RECOMMENDED, CHOSEN)}
        of_share = picks[picks["share"] == share]
        often = ", ".join(f"{name} {count}" for name, count in of_share["choice"].value_counts().head(3).items())
        rows.append(
            [
                f"{share:.0%}",
                best,
                *(points(gap, *tally.interval((name, share), (best, share))) for name, gap in gaps.items()),
                f"{100 * (of_share['expected'] - of_share['success']).mean():+.1f}",
                often,
            ]
        )
        if gaps[RECOMMENDED] < -CLOSE:
            far.append(f"{share:.0%}")
    verdict = (
        f"What is recommended is within {100 * CLOSE:g} points of the best single policy under every budget."
        if not far
        else f"What is recommended is more than {100 * CLOSE:g} points below the best single policy under "
        f"{', '.join(far)}: with {int(0.3 * tally.solved.shape[1])} development tasks most differences are smaller "
        "than their standard error, and then `recommend` names the simplest policy within one."
    )
    words = (
        f"On {picks['replicate'].nunique()} splits `recommend` was asked, which sees training and development tasks "
        f"only. The best single policy is known only afterwards, from the mean over splits. {verdict} What it expects "
        "beforehand is held-out success, and can be compared with what came. The EvoRoute analogue is ours of a system "
        "that the paper names as related; its docstring says what it keeps and drops."
    )
    head = ["budget", "best single policy", "recommended minus that", f"{CHOSEN} minus that"]
    head += ["expected minus what came, points", "recommended most often, of the splits"]
    return f"{words}\n\n{markdown_table(head, rows)}"


def _logs(facts: Mapping[str, Any], table: pd.DataFrame) -> str:
    outcomes = ", ".join(f"{name}: {count}" for name, count in facts["outcomes"].items())
    splits = table.loc[table["setting"] == "random", "replicate"].nunique()
    return (
        f"{facts['tasks']:,} SQL tasks of InterCode (questions of Spider), up to 10 turns each: Cheap is "
        f"`{facts['cheap']}`, Strong is `{facts['strong']}`, as published. Outcomes AB = {outcomes}; Cheap takes "
        f"{facts['cheap_steps']:.1f} turns in the mean, Strong {facts['strong_steps']:.1f}. A Strong turn is priced as "
        f"10 Cheap turns unless said otherwise. Diagnostics are the importer's ({names_of(facts['diagnostics'])}); "
        f"features are counted in the question's words ({names_of(facts['features'])}). Spider's `hardness` comes from "
        f"the reference query, which a router does not see, so it is not used. The rule marked {facts['marked']} "
        f"tasks. {splits} random splits into 40% training, 30% development and 30% test tasks."
    )


def _where(facts: Mapping[str, Any]) -> str:
    return (
        "## Where to get the logs\n\nThey are in the repository princeton-nlp/intercode, folder `data/results/sql` "
        f"(MIT; Spider's questions are CC BY-SA 4.0): `{facts['cheap']}` and `{facts['strong']}`. Put both into one "
        "folder and give it as `--data`; with a table `databases.csv` (columns `task_id`, `database`) there, the split "
        "by database is made too. Other results of InterCode are taken with `--cheap NAME` and `--strong NAME`. "
        "Nothing of the logs is copied into the results but which tasks were solved."
    )
