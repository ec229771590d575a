"""Success-cost curves of all policies at all caps, beside nearly the best that any permanent handoff could do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from bayes_tacit.data.costs import AVERAGES
from bayes_tacit.policies import success_cost_curve
from bayes_tacit.review.style import policy_style
from simulations.mechanism import calibration
from simulations.mechanism.exact import optimal_reference
from simulations.mechanism.world import SIZES
from simulations.studies.contest import (
    ABLATIONS,
    ADDED,
    ALL,
    BASELINES,
    BEYOND,
    CAP,
    NEARLY,
    TACIT,
    contest,
    draw_worlds,
    names_of,
)
from simulations.studies.study import Row, Setting, Study
from simulations.studies.tables import figure_file, fill, markdown_table, mean_and_half_width, with_half_width

CAPS = tuple(float(cap) for cap in range(10, 28))
BEST = "best possible"
REFERENCE_CAPS = (10.0, 12.0, 14.0, 16.0, 18.0, 20.0, 24.0)
INDUCTION_TASKS = 100_000
LEARNED = (*names_of((*BASELINES, *BEYOND, *ABLATIONS)), TACIT.name, *names_of(ADDED))


def replicate(setting: Setting, number: int, seeds: np.random.SeedSequence) -> list[Row]:  # noqa: ARG001
    """Choose every policy's setting at every cap; or, in the other setting, solve for the best possible."""
    mechanism = calibration().mechanism
    if setting.name == BEST:
        seed = int(seeds.generate_state(1)[0])
        n = INDUCTION_TASKS
        found = optimal_reference(mechanism, REFERENCE_CAPS, n_train=n, n_test=n, seed=seed)
        return [{"policy": BEST, **{str(key): value for key, value in row.items()}} for row in found.to_dict("records")]
    worlds = draw_worlds(mechanism, seeds)
    result = contest((*ALL, *ABLATIONS, *ADDED), worlds)
    curves = success_cost_curve(
        {name: result.fitted[name] for name in LEARNED}, worlds["development"], worlds["test"], CAPS
    )
    pure: list[Row] = [
        {"policy": name, "cap": np.inf, **result.outcomes[name].point()} for name in ("Pure Cheap", "Pure Strong")
    ]
    found = curves[["policy", "cap", *AVERAGES]].dropna()
    return [*({str(key): value for key, value in row.items()} for row in found.to_dict("records")), *pure]


def summarize(table: pd.DataFrame, folder: Path) -> str:
    """Show the curves, and every policy's distance from the best possible."""
    _plot(table, folder / "curves.png")
    rows = [[f"{cap:g}", *(_cell(table, name, cap) for name in (*LEARNED, BEST))] for cap in CAPS]
    return fill("curves", success=markdown_table(["cap", *LEARNED, BEST], rows))


def _cell(table: pd.DataFrame, policy: str, cap: float) -> str:
    values = 100 * table[(table["policy"] == policy) & np.isclose(table["cap"], cap)]["success"]
    return with_half_width(*mean_and_half_width(values), digits=2) if len(values) else ""


def _plot(table: pd.DataFrame, path: Path) -> None:
    means = table.groupby(["policy", "cap"])[["success", "cost"]].mean()
    with figure_file(path, size=(8.2, 4.6)) as (figure, axes):
        ax = axes[0, 0]
        for name in (BEST, *LEARNED):
            color, marker = policy_style(name)
            curve = means.loc[name]
            line = {"linestyle": "--", "linewidth": 1.4} if name == BEST else {"linewidth": 1.5}
            ax.plot(
                curve["cost"], 100 * curve["success"], color=color, marker=marker, markersize=4.5, label=name, **line
            )
        for name, offset, align in (("Pure Cheap", (8, -4), "left"), ("Pure Strong", (0, 9), "center")):
            color, marker = policy_style(name)
            cost, success = means.loc[name][["cost", "success"]].to_numpy()[0]
            ax.plot([cost], [100 * success], marker, color=color, markersize=9)
            ax.annotate(name, (cost, 100 * success), xytext=offset, textcoords="offset points", ha=align)
        ax.axvline(CAP, color="#777777", linewidth=1, linestyle=":")
        ax.set(
            xlabel="mean cost of a test task (a Cheap step costs 1, a Strong step 3)", ylabel="success on test tasks, %"
        )
        figure.legend(loc="outside right center")


STUDY = Study(
    name="curves",
    title="Success-cost curves and the best possible",
    description="Success against cost at every cap for all policies, and their distance from the best possible.",
    settings=[Setting("policies"), Setting(BEST, share=0.05)],
    parameters={
        "mechanism": calibration().mechanism.to_dict(),
        "sizes": dict(SIZES),
        "caps": CAPS,
        "reference_caps": REFERENCE_CAPS,
        "induction_tasks": INDUCTION_TASKS,
        "policies": names_of((*ALL, *ABLATIONS, *ADDED)),
    },
    replicate=replicate,
    summarize=summarize,
    replicates=20,
    seed=20261206,
    agreement=NEARLY,
)
