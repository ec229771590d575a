"""What several calibrations to the headline figure alone predict of the rest: ablations, noise, features, checks."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from bayes_tacit.policies import World
from bayes_tacit.review.style import policy_style
from simulations import published
from simulations.mechanism import Mechanism, with_feature_information, with_risk_noise
from simulations.mechanism.calibrate import diagnostics
from simulations.mechanism.held_out import read, recoverable_share
from simulations.mechanism.parameters import OFF_TRACK
from simulations.mechanism.world import SIZES, hidden_states
from simulations.studies.contest import (
    ABLATIONS,
    ALARM,
    BASELINES,
    CAP,
    NEARLY,
    PAPERS,
    TACIT,
    TUNED,
    contest,
    draw_worlds,
    names_of,
    policy_rows,
)
from simulations.studies.study import Row, Setting, Study
from simulations.studies.tables import (
    BY_CONSTRUCTION,
    figure_file,
    fill,
    markdown_table,
    with_half_width,
)

CALIBRATIONS = {f"calibration {one.seed}": one for one in read()}

VARIED = {
    "features say nothing": (with_feature_information, 0.0),
    "features x 1/4": (with_feature_information, 0.25),
    "features x 4": (with_feature_information, 4.0),
    "features x 64": (with_feature_information, 64.0),
    "noise x 8": (with_risk_noise, 8.0),
    "noise x 2": (with_risk_noise, 2.0),
    "noise x 1/2": (with_risk_noise, 0.5),
    "no noise": (with_risk_noise, 0.0),
}
"""Settings of the two axes, fixed before anything was run. The paper does not state its own."""

AXES = {
    "task features": ("features say nothing", "features x 1/4", "", "features x 4", "features x 64"),
    "online risk": ("noise x 8", "noise x 2", "", "noise x 1/2", "no noise"),
}
"""Names of the settings by rising information; the empty one is the baseline."""

PUBLISHED_AXES = {"task features": "task_features", "online risk": "online_risk"}

CONTEST = (*PAPERS, *ABLATIONS, ALARM, TUNED)
COMPARED = names_of((*BASELINES, TACIT))
FITTED = {
    "Pure Cheap": "pure_cheap",
    "Pure Strong": "pure_strong",
    "Task Router": "task_router",
    "Step Deferral": "step_deferral",
    "Prefix router": "prefix_router",
    TACIT.name: "tacit_switch",
}


def replicate(setting: Setting, number: int, seeds: np.random.SeedSequence) -> list[Row]:  # noqa: ARG001
    """Compare the policies under one calibration, along both axes, and compute the paper's checks."""
    mechanism = CALIBRATIONS[setting.name].mechanism
    worlds = _worlds(mechanism, seeds)
    result = contest(CONTEST, worlds)
    rows = [{"varied": "", **row} for row in policy_rows(result)]
    checks = diagnostics(worlds["train"].episodes, worlds["test"])
    states = hidden_states(worlds["test"])
    checks |= {
        "recoverable_marks": recoverable_share(worlds["test"]),
        "off_track": float((states == OFF_TRACK).sum() / (states >= 0).sum()),
    }
    rows += [{"varied": "", "check": name, "value": value} for name, value in checks.items()]
    for name, (vary, factor) in VARIED.items():
        varied = contest((*BASELINES, TACIT), _worlds(vary(mechanism, factor), seeds))
        rows += [{"varied": name, **row} for row in policy_rows(varied)]
    return rows


def _worlds(mechanism: Mechanism, seeds: np.random.SeedSequence) -> dict[str, World]:
    """Draw tasks from the seeds as they came: `spawn` counts, and settings are to meet the same luck."""
    return draw_worlds(mechanism, np.random.SeedSequence(seeds.entropy, spawn_key=seeds.spawn_key))


class Figures:
    """The replicates of all calibrations as tables (calibration, replicate; policy), in percent."""

    def __init__(self, table: pd.DataFrame) -> None:
        rows = table.dropna(subset=["policy"]).assign(success=100 * table["success"])
        index = ["setting", "replicate"]
        self.success = {
            str(varied): some.pivot_table(index=index, columns="policy", values="success")
            for varied, some in rows.groupby("varied")
        }
        checks = table.dropna(subset=["check"])
        self.checks = checks.pivot_table(index=index, columns="check", values="value")

    @property
    def calibrations(self) -> list[str]:
        """Their names."""
        return list(dict.fromkeys(self.checks.index.get_level_values("setting")))


def spread(values: pd.Series) -> dict[str, float]:
    """Return the mean over calibrations, its Monte Carlo half-width, and how calibrations differ.

    The half-width is that of a 95% interval of the mean with the calibrations as they are, from the variance between
    replicates of one calibration, pooled; the range and the standard deviation are of the calibrations' means.
    """
    by_one = values.groupby(level="setting")
    means = by_one.mean()
    free = len(values) - len(means)
    variance = float(((values - by_one.transform("mean")) ** 2).sum()) / free
    return {
        "mean": float(means.mean()),
        "half": float(stats.t.ppf(0.975, free) * np.sqrt(variance / len(values))),
        "sd": float(means.std(ddof=1)),
        "least": float(means.min()),
        "most": float(means.max()),
    }


def _cells(values: pd.Series, paper: float | None, basis: str, digits: int = 2) -> list[str]:
    found = spread(values)
    inside = paper is not None and found["least"] <= paper <= found["most"]
    where = "" if paper is None else "inside" if inside else f"outside, by {_beyond(found, paper):.{digits}f}"
    return [
        "not in the paper" if paper is None else f"{paper:.{digits}f}",
        with_half_width(found["mean"], found["half"], digits),
        f"{found['sd']:.{digits}f}",
        f"{found['least']:.{digits}f} to {found['most']:.{digits}f}",
        basis if basis else where,
    ]


def _beyond(found: Mapping[str, float], paper: float) -> float:
    return max(found["least"] - paper, paper - found["most"])


HEAD = ["", "paper", "mean ± Monte Carlo", "sd of calibrations", "their range", "the paper's figure"]


def summarize(table: pd.DataFrame, folder: Path) -> str:
    """Put what was fitted, what is predicted, and how far calibrations differ, beside the paper's figures."""
    figures = Figures(table)
    base, checks = figures.success[""], figures.checks
    gains = {name: base[TACIT.name] - base[name] for name in base}
    _plot(figures, folder / "calibrations.png")
    fitted = [
        [f"{name}, %", *_cells(base[name], published.MECHANISM_SUCCESS_PERCENT[key], BY_CONSTRUCTION)]
        for name, key in FITTED.items()
    ] + [
        [
            f"{TACIT.name} over {name}, points",
            *_cells(gains[name], published.MECHANISM_GAIN_POINTS[FITTED[name]], BY_CONSTRUCTION),
        ]
        for name in names_of(BASELINES)
    ]
    predicted = [
        [label, *_cells(values, paper, "", digits)]
        for label, values, paper, digits in _predictions(base, gains, checks)
    ]
    return fill(
        "calibrations",
        fitted=markdown_table(HEAD, fitted),
        predicted=markdown_table(HEAD, predicted),
        features=_axis(figures, "task features"),
        risk=_axis(figures, "online risk"),
        calibrations=_calibrations(figures),
    )


def _predictions(
    base: pd.DataFrame, gains: Mapping[Hashable, pd.Series], checks: pd.DataFrame
) -> list[tuple[str, pd.Series, float | None, int]]:
    """Return label, values by calibration and replicate, the paper's figure and decimal places."""
    ablation = published.ABLATION_SUCCESS_PERCENT
    over = published.ABLATION_GAIN_POINTS
    auc = published.MECHANISM_AUC_OF_CHEAP_FAILURE
    return [
        ("x-only, %", base["x-only"], ablation["x_only"][0], 2),
        ("risk-only, %", base["risk-only"], ablation["risk_only"][0], 2),
        ("full over x-only, points", gains["x-only"], over["x_only"][0], 2),
        ("full over risk-only, points", gains["risk-only"], over["risk_only"][0], 2),
        *(
            (f"AUC for Cheap failure, {name.replace('_', ' ')}", checks[f"auc_{name}"], paper, 3)
            for name, paper in auc.items()
        ),
        (
            "AB = 01 tasks with a marked handoff, %",
            100 * checks["ab01_with_candidate"],
            published.MECHANISM_CANDIDATE_PERCENT,
            2,
        ),
        (
            "success after the marked handoff, %",
            100 * checks["success_after_marked_handoff"],
            published.MECHANISM_SUCCESS_AFTER_MARK_PERCENT,
            2,
        ),
        *((f"{TACIT.name} over {name}, points", gains[name], None, 2) for name in (ALARM.name, TUNED.name)),
    ]


def _axis(figures: Figures, axis: str) -> str:
    names = AXES[axis]
    found = [figures.success[name][TACIT.name] for name in names]
    rows = [
        [
            name or "baseline",
            *(f"{values.xs(one, level='setting').mean():.2f}" for one in figures.calibrations),
            with_half_width(spread(values)["mean"], spread(values)["half"], 2),
            f"{spread(_over_best(figures.success[name]))['least']:+.2f} to "
            f"{spread(_over_best(figures.success[name]))['most']:+.2f}",
        ]
        for name, values in zip(names, found, strict=True)
    ]
    head = [axis, *figures.calibrations, "mean ± Monte Carlo", "over the best baseline, range"]
    return markdown_table(head, rows)


def _over_best(success: pd.DataFrame) -> pd.Series:
    return success[TACIT.name] - success[names_of(BASELINES)].max(axis=1)


def _calibrations(figures: Figures) -> str:
    checks = figures.checks.groupby(level="setting").mean()
    rows = []
    for name in figures.calibrations:
        one: Any = CALIBRATIONS[name]
        of = one.mechanism
        rows.append(
            [
                name,
                f"{one.distance:.2f}",
                f"{float(checks['recoverable_marks'][name]):.0%}",
                f"{float(checks['off_track'][name]):.0%}",
                f"{of.cheap_moves[2][2]:.2f}",
                f"{of.strong_moves[2][2]:.2f}",
                f"{of.risk_mean[1]:.2f}",
                f"{of.risk_noise:.2f}",
                f"{of.risk_persistence:.2f}",
            ]
        )
    head = [
        "",
        "largest distance of the six, points",
        "marks in recoverable",
        "Cheap's steps that end off track",
        "Cheap stays off track",
        "Strong stays off track",
        "risk in recoverable",
        "noise",
        "its persistent share",
    ]
    return markdown_table(head, rows)


def _plot(figures: Figures, path: Path) -> None:
    with figure_file(path, 1, 2, size=(9.6, 4.0)) as (figure, axes):
        for ax, (axis, names) in zip(axes.flat, AXES.items(), strict=True):
            at = np.arange(len(names))
            for policy in COMPARED:
                color, marker = policy_style(policy)
                means = np.array(
                    [figures.success[name][policy].groupby(level="setting").mean().to_numpy() for name in names]
                )
                ax.plot(at, means, color=color, alpha=0.35, linewidth=1)
                ax.plot(at, means.mean(axis=1), color=color, marker=marker, linewidth=2, label=policy)
            least, most = published.SENSITIVITY_SUCCESS_PERCENT_RANGE[PUBLISHED_AXES[axis]]
            ax.axhspan(least, most, color="#999999", alpha=0.15, linewidth=0)
            ax.set_xticks(at, [name.removeprefix("features ").removeprefix("noise ") or "baseline" for name in names])
            ax.set_title(axis)
        axes[0, 0].set_ylabel("success on test tasks, %")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="outside upper center", ncols=4, title="band: the paper's range of TACIT-Switch"
        )


STUDY = Study(
    name="calibrations",
    title="What the headline figure leaves open",
    description="Several mechanisms calibrated to the paper's six headline numbers alone, and what each predicts.",
    settings=[Setting(name) for name in CALIBRATIONS],
    parameters={
        "mechanisms": [one.mechanism.to_dict() for one in CALIBRATIONS.values()],
        "varied": {name: [vary.__name__, factor] for name, (vary, factor) in VARIED.items()},
        "sizes": dict(SIZES),
        "cap": CAP,
        "policies": names_of(CONTEST),
    },
    replicate=replicate,
    summarize=summarize,
    replicates=3,
    seed=20261230,
    agreement=NEARLY,
    paired=True,
)
