"""Tuned policies with few development tasks: whether what is searched on outcomes is ever worse than what is not."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_tacit.decisions.selection import Choice
from bayes_tacit.errors import InvalidDataError, TacitWarning
from bayes_tacit.policies import FittedPolicy, Policy, World
from bayes_tacit.review.style import policy_style
from simulations.mechanism import calibration
from simulations.mechanism.random_mechanisms import random_mechanism
from simulations.mechanism.world import SIZES
from simulations.studies.contest import CAP, MEMORY, NEARLY, PACED, TACIT, TUNED, draw_worlds, names_of
from simulations.studies.study import Row, Setting, Study
from simulations.studies.tables import figure_file, markdown_table, mean_and_half_width, with_half_width

TASKS = (50, 200, 1_000, 4_000)
POLICIES: tuple[Policy, ...] = (TACIT, MEMORY, PACED, TUNED)
CALIBRATED, RANDOM = "calibrated", "random"

SLOPE = 4.2
"""Points of success that one more unit of cost buys TACIT-Switch from 15 to 17 (see the study of curves)."""


def replicate(setting: Setting, number: int, seeds: np.random.SeedSequence) -> list[Row]:  # noqa: ARG001
    """Fit once, choose on the first so many development tasks, evaluate on all test tasks."""
    drawn, tasks = seeds.spawn(2)
    mechanism = calibration().mechanism if setting.name == CALIBRATED else random_mechanism(drawn)
    worlds = draw_worlds(mechanism, tasks)
    rows: list[Row] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        fitted = {policy.name: policy.fit(worlds["train"].episodes) for policy in POLICIES}
        for n in TASKS:
            development = worlds["development"].take(np.arange(n))
            for name, policy in fitted.items():
                choice = _choice(policy, development)
                point = policy.outcomes(worlds["test"], choice.point).point()
                rows.append({"policy": name, "n": n, "development_success": choice.success, **point})
    return rows


def _choice(policy: FittedPolicy, development: World) -> Choice:
    """Choose under the cap; where few tasks are all dear, at the lowest cost that they allow."""
    try:
        return policy.choose(development, CAP)
    except InvalidDataError:
        return policy.choose(development, float(development.counterfactuals.pure_cheap.cost.mean()))


def summarize(table: pd.DataFrame, folder: Path) -> str:
    """Put the gain over TACIT-Switch beside the number of development tasks."""
    gains = {key: _gains(rows) for key, rows in table.groupby(["setting", "n"], sort=False)}
    _plot(gains, folder / "few-outcomes.png")
    tuned = [gain[TUNED.name] for gain in gains.values()]
    worst = min(mean_and_half_width(gain)[0] for gain in tuned)
    below = sum(mean + (half or 0.0) < 0 for mean, half in map(mean_and_half_width, tuned))
    rows = []
    for (setting, n), gain in gains.items():
        cells = [with_half_width(*mean_and_half_width(gain[name]), digits=2) for name in names_of(POLICIES[1:])]
        lost = f"{(gain[TUNED.name] < 0).mean():.0%}"
        rows.append([str(setting), f"{n:,}", *cells, f"{gain[TUNED.name].quantile(0.05):+.2f}", lost])
    heads = ["mechanism", "development tasks", *names_of(POLICIES[1:]), "5% quantile of Tuned's", "Tuned below in"]
    return "\n\n".join(
        [
            "**Reading.** Tuned searches up to eight numbers on development outcomes. Its mean gain over TACIT-Switch, "
            f"whose threshold alone is chosen there, is at least {worst:+.2f} points at every number of tasks from "
            f"{TASKS[0]} to {TASKS[-1]:,}, and significantly below zero in {below} of {len(tuned)} rows. With few "
            "tasks it changes little: a change of a number must gain more than half of its own standard error.",
            "![Gain by number of development tasks](few-outcomes.png)",
            "Success on test tasks minus that of TACIT-Switch, points, corrected for the difference in cost (with few "
            "tasks a budget is met only roughly, and a point of cost buys the success that the curve of TACIT-Switch "
            "says):",
            markdown_table(heads, rows),
            f"{SIZES['train']:,} training and {SIZES['test']:,} test tasks; cap {CAP:g}.",
        ]
    )


def _gains(rows: pd.DataFrame) -> pd.DataFrame:
    """Return each policy's success minus TACIT-Switch's at the same cost, in points, by replicate."""
    success, cost = (rows.pivot_table(index="replicate", columns="policy", values=name) for name in ("success", "cost"))
    return 100 * success.sub(success[TACIT.name], axis=0) - SLOPE * cost.sub(cost[TACIT.name], axis=0)


def _plot(gains: dict[tuple[object, ...], pd.DataFrame], path: Path) -> None:
    with figure_file(path, 1, 2, size=(9.6, 3.8), share=True) as (_, axes):
        for ax, setting in zip(axes.flat, (CALIBRATED, RANDOM), strict=True):
            for place, name in enumerate(names_of(POLICIES[1:])):
                color, marker = policy_style(name)
                beside = [n * 1.06 ** (place - 1) for n in TASKS]
                pairs = [mean_and_half_width(gains[setting, n][name]) for n in TASKS]
                means, halves = [mean for mean, _ in pairs], [half or 0.0 for _, half in pairs]
                ax.errorbar(beside, means, yerr=halves, color=color, marker=marker, capsize=3, label=name)
            ax.axhline(0, color="#000000", linewidth=1)
            ax.set(xscale="log", xlabel="development tasks", title=f"{setting} mechanism")
            ax.set_xticks(TASKS, [f"{n:,}" for n in TASKS])
            ax.minorticks_off()
        axes[0, 0].set_ylabel("gain over TACIT-Switch, points")
        axes[0, 0].legend(loc="upper left", fontsize=9)


STUDY = Study(
    name="few_outcomes",
    title="Few development outcomes",
    description="Whether numbers that are searched on few development outcomes are worse than none searched.",
    settings=[Setting(CALIBRATED), Setting(RANDOM)],
    parameters={"sizes": dict(SIZES), "tasks": list(TASKS), "cap": CAP, "policies": names_of(POLICIES)},
    replicate=replicate,
    summarize=summarize,
    replicates=40,
    seed=20261210,
    agreement=NEARLY,
)
