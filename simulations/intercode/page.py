"""The page on InterCode's logs: cells with their uncertainty, tables, a figure, the words between them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayes_tacit.review.style import policy_style
from simulations.studies.tables import figure_file, fill, legend_beside, markdown_table

TACIT, NO_MARKS, FORGETTING = "TACIT-Switch", "TACIT-Switch, no marks", "TACIT-Switch, memory and clock"
RECOMMENDED = "recommended"
"""What is recommended under each budget, from training and development tasks."""

CHOSEN = "best on development"
"""For each budget, whichever policy has the most success on the development tasks."""


def as_text(which: np.ndarray) -> str:
    """Write true and false by task as hexadecimal digits.

    Examples
    --------
    >>> as_text(np.array([True, False, True])), from_text("a0", 3)
    ('a0', array([ True, False,  True]))
    """
    return np.packbits(which.astype(bool)).tobytes().hex()


def from_text(text: str, n: int) -> np.ndarray:
    """Read n bits back."""
    return np.unpackbits(np.frombuffer(bytes.fromhex(text), dtype=np.uint8), count=n).astype(bool)


RESAMPLES = 2000
Key = tuple[str, float]
"""A policy and a budget."""


@dataclass(frozen=True, eq=False)
class Tally:
    """How often each task was tested and solved, over all splits of a setting."""

    keys: tuple[Key, ...]  # Policies with budgets
    # solved, tested: (key, task).
    solved: np.ndarray
    tested: np.ndarray
    weights: np.ndarray  # (resample, task), how often each task is drawn

    @classmethod
    def of(cls, rows: pd.DataFrame, n_tasks: int, seed: int = 0) -> Tally:
        """Count over the rows of one setting, or of some of its replicates."""
        tests = {
            int(row["replicate"]): np.flatnonzero(from_text(str(row["tested"]), n_tasks))
            for row in rows[rows["kind"] == "split"].to_dict("records")
        }
        curves = rows[rows["kind"] == "curve"]
        keys = tuple(dict.fromkeys(zip(curves["policy"], curves["share"], strict=True)))
        place = {key: at for at, key in enumerate(keys)}
        solved, tested = (np.zeros((len(keys), n_tasks)) for _ in range(2))
        for row in curves.to_dict("records"):
            at, tasks = place[str(row["policy"]), float(row["share"])], tests[int(row["replicate"])]
            solved[at, tasks] += from_text(str(row["solved"]), len(tasks))
            tested[at, tasks] += 1
        rng = np.random.default_rng(seed)
        weights = rng.multinomial(n_tasks, np.full(n_tasks, 1 / n_tasks), size=RESAMPLES).astype(float)
        return cls(keys, solved, tested, weights)

    def has(self, key: Key) -> bool:
        """Return whether a policy was evaluated under a budget."""
        return key in self.keys

    def success(self, key: Key) -> float:
        """Return the share of tests that were solved."""
        at = self.keys.index(key)
        return float(self.solved[at].sum() / self.tested[at].sum())

    def interval(self, key: Key, minus: Key | None = None) -> tuple[float, float]:
        """Return the central 95% of the resampled success, or of its difference from another on the same tasks."""
        drawn = self._drawn(key) - (0 if minus is None else self._drawn(minus))
        low, high = np.quantile(drawn, [0.025, 0.975])
        return float(low), float(high)

    def _drawn(self, key: Key) -> np.ndarray:
        at = self.keys.index(key)
        return np.asarray((self.weights @ self.solved[at]) / (self.weights @ self.tested[at]))


CHEAP, STRONG = "Pure Cheap", "Pure Strong"


def differences(tally: Tally, ours: str, others: Sequence[str], shares: Sequence[float]) -> str:
    """Return a table of differences from others, paired by task."""
    rows = []
    for other in others:
        cells = []
        for share in shares:
            if not (tally.has((ours, share)) and tally.has((other, share))):
                cells.append("")
                continue
            difference = tally.success((ours, share)) - tally.success((other, share))
            cells.append(points(difference, *tally.interval((ours, share), (other, share))))
        rows.append([other, *cells])
    return markdown_table(["over", *(f"{share:.0%}" for share in shares)], rows)


def means(rows: pd.DataFrame, names: Sequence[str], shares: Sequence[float]) -> str:
    """Return mean success under each budget, with the standard deviation among splits."""
    found = rows.groupby(["policy", "share"])["success"].agg(["mean", "std"]).to_dict("index")
    cells = {key: f"{100 * one['mean']:.1f} ({100 * one['std']:.1f})" for key, one in found.items()}
    asked = [name for name in names if any((name, share) in cells for share in shares)]
    body = [[name, *(cells.get((name, share), "") for share in shares)] for name in asked]
    return markdown_table(["policy", *(f"{share:.0%}" for share in shares)], body)


def curves(table: pd.DataFrame, setting: str) -> pd.DataFrame:
    """Return the rows of a setting that say what policies gave."""
    return table[(table["setting"] == setting) & (table["kind"] == "curve")]


def points(difference: float, low: float, high: float) -> str:
    """Write a difference in points with its interval."""
    return f"{100 * difference:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"


def price(table: pd.DataFrame, names: Sequence[str], setting: str) -> str:
    """Show another price of a Strong turn."""
    rows = curves(table, setting)
    return means(rows, names, sorted(rows.loc[rows["policy"].isin(names), "share"].unique()))


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
    return markdown_table(head, body)


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
    return markdown_table(head, cells)


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
    return markdown_table(["without", *policies], rows)


def calibration(table: pd.DataFrame, when: str) -> str:
    """Compare q with how often only Strong succeeds, at the end of Cheap's rollout or after the third turn."""
    rows = table[table["kind"] == "calibration"]
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
    return markdown_table(
        ["q", f"{TACIT}: mean q / share where only Strong succeeds (tasks a split)", "without marks"], cells
    )


def estimates(table: pd.DataFrame) -> str:
    """Compare estimates on a few splits."""
    rows = curves(table, "estimates")
    rows = rows[rows["policy"] != CHOSEN]
    return means(rows, list(dict.fromkeys(rows["policy"])), sorted(rows["share"].unique()))


CURVES = "curves.png"


def plot_curves(table: pd.DataFrame, tally: Tally, names: list[str], path: Path) -> None:
    """Draw each policy's success on test tasks against its cost there, as shares, with 95% intervals by task."""
    rows = table[(table["setting"] == "random") & (table["kind"] == "curve")]
    cost = rows.groupby(["policy", "share"])["of_strong"].mean()
    with figure_file(path, size=(9.0, 5.2)) as (_, axes):
        (ax,) = axes.flat
        for name in names:
            keys = sorted((key for key in tally.keys if key[0] == name), key=lambda key: key[1])
            style = policy_style(name)
            success = [100 * tally.success(key) for key in keys]
            ends = [[100 * end for end in tally.interval(key)] for key in keys]
            below = [value - low for value, (low, _) in zip(success, ends, strict=True)]
            above = [high - value for value, (_, high) in zip(success, ends, strict=True)]
            ax.errorbar(
                [100 * cost[key] for key in keys],
                success,
                yerr=[below, above],
                color=style.color,
                marker=style.marker,
                linestyle="none" if len(keys) == 1 else "-",
                linewidth=1.4,
                markersize=5,
                capsize=2,
                elinewidth=0.5,
                label=name,
            )
        ax.set_xlabel("mean cost on test tasks, % of Pure Strong's")
        ax.set_ylabel("success on test tasks, %")
        legend_beside(ax)


HEADLINE = (0.4, 0.5, 0.6)
DRAWN = ("Task Router", "Prefix router", "Cascade", "Count", "Landmark", TACIT, "Tuned switch", RECOMMENDED)


def summarize(table: pd.DataFrame, folder: Path) -> str:
    """Write the figure, and give the page."""
    facts = json.loads(table.loc[table["kind"] == "facts", "facts"].iloc[0])
    rows = table[table["setting"] == "random"]
    tally = Tally.of(rows, int(facts["tasks"]))
    names = list(dict.fromkeys(name for name, _ in tally.keys))
    single = [name for name in names if name not in (CHEAP, STRONG, CHOSEN, RECOMMENDED)]
    shares = sorted({share for name, share in tally.keys if name in single})
    plot_curves(table, tally, [*(name for name in DRAWN if name in names), CHEAP, STRONG], folder / CURVES)
    named = [*single, RECOMMENDED]
    new = curves(table, "database")
    return fill(
        "intercode",
        headline=_success(tally, named, HEADLINE, head="success at a share of Pure Strong's cost, %"),
        success=_success(tally, [*named, CHOSEN], shares),
        costs=_costs(table, named, shares),
        gains=differences(tally, TACIT, [name for name in single if name != TACIT], shares),
        recommended=_recommended(rows, int(facts["tasks"]), single, shares),
        databases="" if new.empty else means(new, named, shares),
        price_3=price(table, named, "price 3"),
        price_30=price(table, named, "price 30"),
        sizes=sizes(table),
        weights=weights(table),
        ablation=ablation(facts, table),
        marks=differences(tally, NO_MARKS, [TACIT], shares),
        calibrated=calibration(table, "end"),
        calibrated_third=calibration(table, "third"),
        estimates=estimates(table),
    )


def _success(tally: Tally, names: Sequence[str], shares: Sequence[float], head: str = "policy") -> str:
    rows = [[name, *(_cell(tally, (name, share)) for share in shares)] for name in names]
    return markdown_table([head, *(f"{share:.0%}" for share in shares)], rows)


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
    rows = []
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
    head = ["budget", "best single policy", "recommended minus that", f"{CHOSEN} minus that"]
    head += ["expected minus what came, points", "recommended most often, of the splits"]
    return markdown_table(head, rows)
