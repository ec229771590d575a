"""Scenario sensitivity: how success moves with what task features and online risks say, everything else held."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_tacit.review.style import policy_style
from simulations import published
from simulations.mechanism import Mechanism, calibration, with_feature_information, with_risk_noise
from simulations.mechanism.calibrate import diagnostics
from simulations.mechanism.world import SIZES
from simulations.studies.contest import (
    ADDED,
    ALARM,
    BASELINES,
    BEFORE,
    CAP,
    NEARLY,
    OURS_HEADS,
    PAPERS,
    RECOMMENDED_ON,
    TACIT,
    contest,
    draw_worlds,
    names_of,
    our_rows,
    ours_beside,
    policy_rows,
)
from simulations.studies.study import Row, Setting, Study
from simulations.studies.tables import (
    BY_CONSTRUCTION,
    Comparison,
    Tolerance,
    comparison_table,
    figure_file,
    fill,
    markdown_table,
    mean_and_half_width,
    with_half_width,
)

AXES: dict[str, Callable[[Mechanism, float], Mechanism]] = {
    "task features": with_feature_information,
    "online risk": with_risk_noise,
}
AUC = {"task features": "auc_task_features", "online risk": "auc_cumulative_risk"}
PAPERS_AXES = {"task features": "task_features", "online risk": "online_risk"}
BASELINE = "baseline"
COMPARED = names_of((*BASELINES, ALARM, TACIT))
OURS_ON = 20
"""Replicates of each setting in which our own policies are tried."""


def settings() -> list[Setting]:
    """Return the baseline with all replicates, and four more settings on each axis with half as many."""
    found = calibration()
    factors = {"task features": found.feature_factors, "online risk": found.noise_factors}
    others = [
        Setting(f"{axis} x {factor:.4g}", {"axis": axis, "factor": factor}, share=0.5)
        for axis, values in factors.items()
        for factor in values
        if factor != 1
    ]
    return [Setting(BASELINE), *others]


def replicate(setting: Setting, number: int, seeds: np.random.SeedSequence) -> list[Row]:
    """Compare the paper's policies, First Alarm and ours in one setting; the same luck in all settings."""
    mechanism = calibration().mechanism
    if setting.values:
        mechanism = AXES[setting.values["axis"]](mechanism, setting.values["factor"])
    worlds = draw_worlds(mechanism, seeds)
    checks = diagnostics(worlds["train"].episodes, worlds["test"])
    aucs: Row = {name: checks[name] for name in AUC.values()}
    rows = policy_rows(contest((*PAPERS, ALARM), worlds))
    if number < OURS_ON:
        rows += our_rows(worlds, recommended=number in RECOMMENDED_ON)
    return [row | aucs for row in rows]


def summarize(table: pd.DataFrame, folder: Path) -> str:
    """Show success along both axes, and compare the range of TACIT-Switch with the paper's."""
    along = {axis: _along(axis) for axis in AXES}
    _plot(table, along, folder / "sensitivity.png")
    ranges = [
        Comparison(
            f"TACIT-Switch, {end} informative {axis}, %",
            published.SENSITIVITY_SUCCESS_PERCENT_RANGE[PAPERS_AXES[axis]][at],
            _success(table, names[at], TACIT.name),
            basis=BY_CONSTRUCTION,
        )
        for axis, names in along.items()
        for end, at in (("least", 0), ("most", -1))
    ]
    once = list(dict.fromkeys(name for names in along.values() for name in names))
    ours = [[name, *ours_beside(table[table["setting"] == name], TACIT.name, COMPARED)] for name in once]
    return fill(
        "sensitivity",
        ranges=comparison_table(ranges, Tolerance(0.7, "points"), digits=2),
        features=_axis_table(table, "task features", along["task features"]),
        risk=_axis_table(table, "online risk", along["online risk"]),
        ours=markdown_table(["setting", *OURS_HEADS, "recommended minus the best of the five, in hindsight"], ours),
    )


def _over_alarm(table: pd.DataFrame, setting: str) -> pd.Series:
    """Return success of TACIT-Switch minus that of First Alarm, by replicate, in points."""
    ours, theirs = (_cells(table, setting, name).set_index("replicate")["success"] for name in (TACIT.name, ALARM.name))
    return 100 * (ours - theirs)


def _along(axis: str) -> list[str]:
    """Return the names of an axis's settings by rising information, the baseline in its place."""
    found = calibration()
    factors = found.feature_factors if axis == "task features" else found.noise_factors
    return [BASELINE if factor == 1 else f"{axis} x {factor:.4g}" for factor in factors]


def _cells(table: pd.DataFrame, setting: str, policy: str) -> pd.DataFrame:
    return table[(table["setting"] == setting) & (table["policy"] == policy)]


def _success(table: pd.DataFrame, setting: str, policy: str) -> pd.Series:
    return 100 * _cells(table, setting, policy)["success"]


def _axis_table(table: pd.DataFrame, axis: str, names: list[str]) -> str:
    policies = ["Pure Cheap", *COMPARED, "Pure Strong"]
    rows = []
    for name in names:
        auc, _ = mean_and_half_width(_cells(table, name, TACIT.name)[AUC[axis]])
        found = (with_half_width(*mean_and_half_width(_success(table, name, policy)), digits=2) for policy in policies)
        over = with_half_width(*mean_and_half_width(_over_alarm(table, name)), digits=2)
        rows.append([name, f"{auc:.3f}", *found, over])
    return markdown_table([axis, "AUC", *policies, f"{TACIT.name} minus {ALARM.name}"], rows)


def _plot(table: pd.DataFrame, along: dict[str, list[str]], path: Path) -> None:
    titles = {"task features": "AUC of task features for Cheap failure", "online risk": "AUC of cumulative risk"}
    with figure_file(path, 1, 2, size=(8.8, 3.8)) as (figure, axes):
        for ax, (axis, names) in zip(axes.flat, along.items(), strict=True):
            x = [_cells(table, name, TACIT.name)[AUC[axis]].mean() for name in names]
            for policy in COMPARED:
                color, marker = policy_style(policy)
                pairs = [mean_and_half_width(_success(table, name, policy)) for name in names]
                means, halves = [mean for mean, _ in pairs], [half or 0.0 for _, half in pairs]
                ax.errorbar(x, means, yerr=halves, color=color, marker=marker, capsize=2.5, markersize=6, label=policy)
            ax.set_title(f"({'ab'[list(along).index(axis)]}) {axis}")
            ax.set_xlabel(titles[axis])
        axes[0, 0].set_ylabel("success on test tasks, %")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=len(COMPARED))


STUDY = Study(
    name="sensitivity",
    title="Scenario sensitivity",
    description="The paper's policies and First Alarm as features or risks say more or less, five settings an axis.",
    settings=settings(),
    parameters={
        "mechanism": calibration().mechanism.to_dict(),
        "sizes": dict(SIZES),
        "cap": CAP,
        "policies": names_of((*PAPERS, ALARM)),
        "ours": [OURS_ON, *names_of(ADDED)],
        "families": names_of(BEFORE),
        "recommended": list(RECOMMENDED_ON),
    },
    replicate=replicate,
    summarize=summarize,
    replicates=100,
    seed=20261204,
    agreement=NEARLY,
    paired=True,
    cheapest=BASELINE,
)
