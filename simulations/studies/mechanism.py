"""The mechanism comparison: every policy on the same tasks under one cost cap, and the information ablation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayes_tacit.decisions.selection import choose
from bayes_tacit.policies import Comparison as Contest
from bayes_tacit.policies import World
from bayes_tacit.policies.base import number_in
from bayes_tacit.review.style import policy_style
from simulations import published
from simulations.mechanism import calibration
from simulations.mechanism.calibrate import diagnostics
from simulations.mechanism.parameters import OFF_TRACK
from simulations.mechanism.world import RISK, SIZES, hidden_states
from simulations.studies.contest import (
    ABLATIONS,
    ALARM,
    ALL,
    ANALOGUES,
    BASELINES,
    BEYOND,
    CAP,
    DUE,
    FAMILIES,
    LIKELIHOOD,
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

LASTING = (ALARM.name, TACIT.name, "risk-only")
"""Policies that hand off for good, whose handoffs are put beside the hidden states."""


def of_handoffs(result: Contest, states: np.ndarray, policies: Iterable[str]) -> dict[str, Row]:
    """Measure the handoffs of policies that hand off for good, on the tasks where anything was left to do.

    Returns
    -------
    dict
        By policy: `handoff_off_track`, the share of handoffs that come when the task is off track; `handoff_delay`, how
        many steps after it first was, on average over the handoffs that come after that; `handoff_success`, how often
        the tasks that were handed off are won.
    """
    off = states == OFF_TRACK
    first_off = np.where(off.any(axis=1), off.argmax(axis=1), states.shape[1])
    found: dict[str, Row] = {}
    for name in policies:
        outcomes = result.outcomes[name]
        handed_off = np.flatnonzero(outcomes.strong_calls > 0)
        # Cheap's last step before the handoff, counted from 0.
        last = outcomes.cheap_calls[handed_off].astype(int) - 1
        delay = last - first_off[handed_off]
        found[name] = {
            "handoff_off_track": float(off[handed_off, last].mean()),
            "handoff_delay": float(delay[delay >= 0].mean()),
            "handoff_success": float(outcomes.success[handed_off].mean()),
        }
    return found


def of_alarms(test: World, states: np.ndarray, alpha: float) -> dict[str, float]:
    """Return how well one risk of at least alpha gives the state away."""
    risk = test.episodes.dataset["diagnostics"].sel(diagnostic=RISK).values
    inside = ~np.isnan(risk)
    alarm, off = risk[inside] >= alpha, states[:, : risk.shape[1]][inside] == OFF_TRACK
    return {
        "alarms_off_track": float(off[alarm].mean()),
        "off_track_with_alarm": float(alarm[off].mean()),
        "elsewhere_with_alarm": float(alarm[~off].mean()),
    }


def _handoffs(table: pd.DataFrame) -> str:
    """Show from the hidden states what First Alarm gains and what it gives up."""
    heads = {
        "intervention_rate": "tasks handed off, %",
        "handoff_off_track": "of these off track at the handoff, %",
        "handoff_delay": "steps since the task first was off track",
        "handoff_success": "tasks handed off that are won, %",
    }
    found = [by_policy(table, measure, 1 if measure == "handoff_delay" else 100) for measure in heads]
    return markdown_table(
        ["policy", *heads.values()], [[name, *(_shown(one[name]) for one in found)] for name in LASTING]
    )


def _shown(values: pd.Series) -> str:
    return with_half_width(*mean_and_half_width(values), digits=2)


POINTS = Tolerance(0.7, "points")
PREFIX = "Prefix router"
PAPERS_NAMES = {
    "pure_cheap": "Pure Cheap",
    "pure_strong": "Pure Strong",
    "task_router": "Task Router",
    "step_deferral": "Step Deferral",
    "prefix_router": PREFIX,
    "tacit_switch": TACIT.name,
    "full": TACIT.name,
    "x_only": "x-only",
    "risk_only": "risk-only",
}


def summarize(table: pd.DataFrame, folder: Path) -> str:
    """Put success, gains and checks beside the paper's."""
    success = by_policy(table)
    _plot(success, folder / "mechanism.png")
    checks = table.dropna(subset=["check"]).pivot_table(index="replicate", columns="check", values="value")
    gains = {name: success[TACIT.name] - success[name] for name in success}

    def compared(
        papers: Mapping[str, float | tuple[float, float]], label: str, ours: Mapping[Any, pd.Series] | pd.DataFrame
    ) -> list[Comparison]:
        found = []
        for key, paper in papers.items():
            mean, half = paper if isinstance(paper, tuple) else (paper, None)
            name = label.format(
                PAPERS_NAMES[key] if label != "{}, %" and "full" not in label else key.replace("_", "-")
            )
            found.append(Comparison(name, mean, ours[PAPERS_NAMES[key]], half, BY_CONSTRUCTION))
        return found

    beyond = names_of(BEYOND)
    aucs = [
        Comparison(
            f"AUC for Cheap failure, {name.replace('_', ' ')}", paper, checks[f"auc_{name}"], basis=BY_CONSTRUCTION
        )
        for name, paper in published.MECHANISM_AUC_OF_CHEAP_FAILURE.items()
    ]
    marks = {
        "AB = 01 tasks with a marked handoff, %": ("ab01_with_candidate", published.MECHANISM_CANDIDATE_PERCENT),
        "success after the marked handoff, %": (
            "success_after_marked_handoff",
            published.MECHANISM_SUCCESS_AFTER_MARK_PERCENT,
        ),
    }
    marked = [
        Comparison(label, paper, 100 * checks[name], basis=BY_CONSTRUCTION) for label, (name, paper) in marks.items()
    ]
    ours = [
        [name, *map(_shown, (success[name], success[name] - success[TACIT.name], success[name] - success[ALARM.name]))]
        for name in (*names_of((*OURS, *ANALOGUES)), RECOMMENDED)
    ]
    measures = [
        by_policy(table, *one) for one in (("success",), ("cost", 1.0), ("strong_share",), ("intervention_rate",))
    ]
    every = [[name, *(_shown(one[name]) for one in measures)] for name in success.mean().sort_values().index]
    return fill(
        "mechanism",
        success=comparison_table(
            [
                *compared(published.MECHANISM_SUCCESS_PERCENT, "{}", dict(success.items())),
                *(Comparison(name, None, success[name]) for name in beyond),
            ],
            POINTS,
            digits=2,
        ),
        gains=comparison_table(
            [
                *compared(published.MECHANISM_GAIN_POINTS, "over {}", gains),
                *(Comparison(f"over {name}", None, gains[name]) for name in beyond),
            ],
            POINTS,
            digits=2,
        ),
        recommended=markdown_table(
            ["policy", "success, %", "gain over TACIT-Switch, points", "gain over First Alarm, points"], ours
        ),
        handoffs=_handoffs(table),
        ablation=comparison_table(
            [
                *compared(published.ABLATION_SUCCESS_PERCENT, "{}, %", dict(success.items())),
                *compared(published.ABLATION_GAIN_POINTS, "full over {}, points", gains),
            ],
            POINTS,
            digits=2,
        ),
        aucs=comparison_table(aucs, Tolerance(0.01), digits=3),
        marks=comparison_table(marked, POINTS, digits=2),
        every=markdown_table(
            ["policy", "success, %", "mean cost", "Strong's share of calls, %", "tasks with Strong, %"], every
        ),
    )


def _plot(success: pd.DataFrame, path: Path) -> None:
    panels = {
        "policies under one cap": [*names_of((*BASELINES, *BEYOND, *ANALOGUES, TACIT, LIKELIHOOD)), RECOMMENDED],
        "information ablation": ["x-only", "risk-only", TACIT.name],
    }
    with figure_file(path, 1, 2, size=(9.6, 5.4)) as (_, axes):
        for ax, (title, names) in zip(axes.flat, panels.items(), strict=True):
            for row, name in enumerate(names):
                color, marker = policy_style(name)
                mean, half = mean_and_half_width(success[name])
                jitter = row + np.linspace(-0.22, 0.22, len(success))
                ax.plot(success[name], jitter, ".", color=color, alpha=0.25, markersize=3)
                ax.errorbar([mean], [row], xerr=[half or 0.0], color=color, marker=marker, markersize=7, capsize=3)
                ax.text(mean, row + 0.26, f"{mean:.1f}", ha="center", va="bottom", fontsize=9)
            ax.set_yticks(range(len(names)), ["full" if "ablation" in title and n == TACIT.name else n for n in names])
            ax.set_ylim(-0.6, len(names) - 0.2)
            ax.set_title(title)
            ax.set_xlabel("success on test tasks, %")


def replicate(setting: Setting, number: int, seeds: np.random.SeedSequence) -> list[Row]:  # noqa: ARG001
    """Compare all policies and ablations on one replicate, and compute the paper's checks."""
    worlds = draw_worlds(calibration().mechanism, seeds)
    result = contest((*ALL, *ABLATIONS, *OURS, *ANALOGUES), worlds)
    states = hidden_states(worlds["test"])
    handoffs = of_handoffs(result, states, LASTING)
    checks = diagnostics(worlds["train"].episodes, worlds["test"])
    checks |= of_alarms(worlds["test"], states, number_in(result.choices[ALARM.name].point, "alpha"))
    outcomes = pd.Series(worlds["test"].episodes.outcomes).value_counts(normalize=True)
    shares = {f"share of AB = {name}": float(share) for name, share in sorted(outcomes.items())}
    checked: list[Row] = [{"check": name, "value": value} for name, value in (checks | shares).items()]
    policies = [row | handoffs.get(str(row["policy"]), {}) for row in policy_rows(result)]
    policies.append(recommended_row(result, worlds))
    policies += policy_rows(contest([DUE], worlds))
    return [*policies, *fixed_prefixes(result, worlds["development"], worlds["test"]), *checked]


def fixed_prefixes(result: Contest, development: World, test: World) -> list[Row]:
    """Choose the prefix router's threshold with K fixed at each of its values."""
    fitted = result.fitted[PREFIX]
    points = fitted.operating_points(development)
    rows: list[Row] = []
    for k, some in points.groupby("k"):
        choice = choose(some, result.cap)
        point = fitted.outcomes(test, choice.point).point()
        rows.append({"policy": f"{PREFIX}, K = {k}", "development_cost": choice.cost, **point})
    return rows


STUDY = Study(
    name="mechanism",
    title="Policies under one cost cap",
    description="All policies and the information ablation on the multi-step mechanism simulator, at a cap of 16.",
    settings=[Setting("baseline")],
    parameters={
        "mechanism": calibration().mechanism.to_dict(),
        "sizes": dict(SIZES),
        "cap": CAP,
        "policies": [*names_of((*ALL, *ABLATIONS, *OURS, *ANALOGUES)), RECOMMENDED, DUE.name],
        "families": names_of(FAMILIES),
    },
    replicate=replicate,
    summarize=summarize,
    replicates=100,
    seed=20261203,
    agreement=NEARLY,
)
