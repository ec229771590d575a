"""Sections of the page: prices, sizes, what was learned, marks, calibration, estimates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from simulations.intercode.cells import CHEAP, curves, differences, means
from simulations.intercode.policies import CHOSEN, FORGETTING, NO_MARKS, TACIT
from simulations.intercode.uncertainty import Tally
from simulations.studies.tables import markdown_table


def databases(
    facts: Mapping[str, Any], table: pd.DataFrame, names: Sequence[str], shares: Sequence[float]
) -> list[str]:
    """Say what happens where no database is in two parts."""
    rows = curves(table, "database")
    if rows.empty:
        return []
    splits = rows["replicate"].nunique()
    return [
        "## When the databases are new",
        means(rows, names, shares),
        f"Success in %, mean over {splits} splits in which no database ({facts['databases']} in all) is in two parts, "
        "and in brackets the standard deviation among them. A router has not seen the schemas that it is tested on.",
    ]


def prices(table: pd.DataFrame, names: Sequence[str]) -> str:
    """Show other prices of a Strong turn."""
    found = []
    for setting in sorted({str(name) for name in table["setting"] if str(name).startswith("price")}):
        rows = curves(table, setting)
        shares = sorted(rows.loc[rows["policy"].isin(names), "share"].unique())
        cheap = rows.loc[rows["policy"] == CHEAP, "of_strong"].mean()
        words = (
            f"A Strong turn at {setting.removeprefix('price ')} Cheap turns ({rows['replicate'].nunique()} splits; "
            f"Pure Cheap costs {cheap:.0%} of Pure Strong, and budgets below what a policy needs are left empty):"
        )
        found += [words, means(rows, names, shares)]
    return "\n\n".join(found)


def sizes(table: pd.DataFrame) -> str:
    """Show success by the number of training tasks."""
    settings = [name for name in dict.fromkeys(table["setting"]) if str(name).endswith("training tasks")]
    rows = pd.concat([curves(table, name) for name in settings])
    rows = rows[(rows["share"] == 0.5) & (rows["policy"] != CHOSEN)]
    names = list(dict.fromkeys(rows["policy"]))
    mean = rows.groupby(["policy", "setting"])["success"].agg(["mean", "count"])
    cells = {key: f"{100 * value['mean']:.1f}" for key, value in mean.to_dict("index").items()}
    body = [[name, *(cells.get((name, setting), "") for setting in settings)] for name in names]
    head = ["success under 50%, by training tasks", *(str(name).split()[0] for name in settings)]
    splits = rows.groupby("setting")["replicate"].nunique().max()
    return (
        markdown_table(head, body)
        + f"\n\nMeans over {splits} splits; the threshold is chosen on the same number of development tasks "
        "throughout. Estimates that do not exist with so few tasks are left out, and counted at the end."
    )


def weights(table: pd.DataFrame) -> str:
    """Show the weights of the diagnostics, with bands."""
    rows = table[(table["kind"] == "learned") & (table["setting"] == "random")]
    posterior = table[(table["kind"] == "learned") & (table["setting"] == "estimates") & table["lower"].notna()]
    bands = posterior.groupby("diagnostic")[["w", "lower", "upper"]].mean().to_dict("index")
    cells = []
    for name in dict.fromkeys(rows["diagnostic"]):
        row = [f"`{name}`"]
        for policy in (TACIT, NO_MARKS):
            found = rows.loc[(rows["diagnostic"] == name) & (rows["policy"] == policy), "w"].to_numpy(float)
            low, middle, high = np.quantile(found, [0.05, 0.5, 0.95])
            row.append(f"{middle:.2f} ({low:.2f} to {high:.2f})")
        band = bands.get(name)
        row.append("" if band is None else f"{band['w']:.2f} ({band['lower']:.2f} to {band['upper']:.2f})")
        cells.append(row)
    head = ["weight w of", f"{TACIT}: median (5% to 95% of splits)", "without marks", "posterior mean (90% band)"]
    return markdown_table(head, cells) + "\n\nWeights are a step's share of risk: a sign that is rare can weigh much."


def ablation(facts: Mapping[str, Any], table: pd.DataFrame) -> str:
    """Show what is lost without each diagnostic."""
    whole = curves(table, "random").set_index(["replicate", "policy", "share"])["success"]
    policies = ("Count", "Landmark", TACIT, NO_MARKS)
    rows = []
    for name in facts["diagnostics"]:
        without = curves(table, f"without {name}").set_index(["replicate", "policy", "share"])["success"]
        lost = (without - whole).dropna().rename("lost").reset_index()
        by_policy = lost[lost["share"] == 0.5].groupby("policy")["lost"]
        mean, spread = by_policy.mean(), by_policy.sem()
        rows.append([f"`{name}`", *(f"{100 * mean[one]:+.1f} ± {196 * spread[one]:.1f}" for one in policies)])
    words = "Success under 50% without a diagnostic minus with all of them, points, paired by split:"
    return f"{words}\n\n{markdown_table(['without', *policies], rows)}"


def marks(tally: Tally, shares: Sequence[float]) -> str:
    """Compare marks by rule with none."""
    return (
        differences(tally, NO_MARKS, [TACIT], shares)
        + "\n\nWithout marks, every task that only Strong solves is read as due by the end of Cheap's rollout "
        '(`unmarked="due"`); with them, the rule marks the first run of turns that were unproductive twice on end.'
    )


def calibration(table: pd.DataFrame) -> str:
    """Compare q with how often only Strong succeeds."""
    rows = table[table["kind"] == "calibration"]
    found = []
    for when, words in (
        ("end", "At the end of Cheap's rollout q is the model's probability that Strong alone succeeds:"),
        (
            "third",
            "After the third turn, of the tasks that go on; here q says how much was due by now, so it may be lower:",
        ),
    ):
        sums = rows[rows["when"] == when].groupby(["policy", "bin"])[["n", "q", "due"]].sum().to_dict("index")
        cells = []
        for which in sorted({int(key[1]) for key in sums}):  # type: ignore[index]
            row = [f"{which / 10:.1f} to {(which + 1) / 10:.1f}"]
            for policy in (TACIT, NO_MARKS):
                if (policy, which) not in sums:
                    row.append("")
                    continue
                n, q, due = (float(sums[policy, which][name]) for name in ("n", "q", "due"))
                row.append(f"{q / n:.2f} / {due / n:.2f} ({n / rows['replicate'].nunique():.0f})")
            cells.append(row)
        head = ["q", f"{TACIT}: mean q / share where only Strong succeeds (tasks a split)", "without marks"]
        found.append(f"{words}\n\n{markdown_table(head, cells)}")
    return "\n\n".join(found)


def estimates(table: pd.DataFrame) -> str:
    """Compare estimates on a few splits."""
    rows = curves(table, "estimates")
    rows = rows[rows["policy"] != CHOSEN]
    names = list(dict.fromkeys(rows["policy"]))
    splits = rows["replicate"].nunique()
    return (
        means(rows, names, sorted(rows["share"].unique()))
        + f"\n\nMeans over {splits} splits only, since sampling takes its time, with the standard deviation among "
        f"them. {FORGETTING}: the memory that the likelihood of the marks prefers."
    )


def failures(table: pd.DataFrame) -> str:
    """Count the fits that could not be made."""
    failed = table[table["kind"] == "failure"]
    if failed.empty:
        return "Every fit could be made."
    counts = failed.groupby(["setting", "policy"], sort=False).size().reset_index(name="fits")
    words = [f"{row.policy}, {row.setting}: {row.fits}" for row in counts.itertuples()]
    return f"Fits that could not be made, and are left out of the means: {'; '.join(words)}."
