"""Weaker teachers than an oracle: what their marks cost in the error of q and in decisions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayes_tacit import Episodes, MapFit, fit_map
from bayes_tacit.agents.marks import mark_unproductive, with_marks
from bayes_tacit.errors import TacitWarning
from bayes_tacit.policies import TacitSwitch
from models.mechanism import FULL
from simulations.mechanism import calibration
from simulations.mechanism.world import SIZES
from simulations.model_based import TRUTH, quietly, simulate
from simulations.studies.contest import ALARM, CAP, NEARLY, contest, draw_worlds
from simulations.studies.few_outcomes import SLOPE
from simulations.studies.recovery import held_out_error
from simulations.studies.strata import HIDDEN, MARKS, remarked, unmarked
from simulations.studies.study import Row, Setting, Study
from simulations.studies.tables import fill, markdown_table, mean_and_half_width, with_half_width

N, N_TEST = 4000, 2000
LATE = 2
ESTIMATES, DECISIONS = "estimates", "decisions"


def rule(steps: int) -> Callable[[Episodes, np.random.Generator], Episodes]:
    """Return the teacher who waits for so many signs in a row: signals above the median of all."""

    def marked(episodes: Episodes, rng: np.random.Generator) -> Episodes:  # noqa: ARG001
        median = float(np.nanmedian(episodes.dataset["diagnostics"].values))
        found = mark_unproductive(episodes, steps, diagnostics=episodes.diagnostic_names, least=median)
        return with_marks(episodes, found, "one_step")

    return marked


def late(episodes: Episodes, rng: np.random.Generator) -> Episodes:  # noqa: ARG001
    """Move every mark two steps on, to the last step at most."""
    return remarked(episodes, np.minimum(episodes.dataset["window_start"].values + LATE, episodes.n_steps - 1))


def anywhere(episodes: Episodes, rng: np.random.Generator) -> Episodes:
    """Mark every AB = 01 episode with a window between two steps at random."""
    two = np.sort(rng.integers(0, episodes.n_steps[:, None], size=(len(episodes), 2)), axis=1)
    ends = np.where((episodes.outcomes == "01")[:, None], two, np.nan).T
    return quietly(episodes.dataset.assign({name: ("episode", end) for name, end in zip(HIDDEN, ends, strict=True)}))


TEACHERS: dict[str, Callable[[Episodes, np.random.Generator], Episodes]] = {
    "oracle": lambda episodes, _: episodes,
    f"oracle, {LATE} steps late": late,
    "rule after 2 signs": rule(2),
    "rule after 3 signs": rule(3),
    "a window at random": anywhere,
    "none": unmarked,
}
MODELS: dict[str, dict[str, Any]] = {
    "the paper's": {"unmarked": "outcome"},
    "unmarked as due": {"unmarked": "due", "zero_mass": "drop_window"},
    "late or wrong marks learned": {"unmarked": "due", "zero_mass": "drop_window", "noise": MARKS},
}
FITS = [(teacher, model) for teacher in TEACHERS for model in MODELS if teacher != "none" or model == "unmarked as due"]
"""Without a mark there is nothing to learn of marks, and the paper's likelihood has no threshold."""


def replicate(setting: Setting, number: int, seeds: np.random.SeedSequence) -> list[Row]:
    """Let every teacher mark one sample, fit every model, and judge all on the same clean tasks."""
    tasks, marking = seeds.spawn(2)
    with warnings.catch_warnings():
        # That marks are missing, or rates mean something else, is what is studied.
        warnings.simplefilter("ignore", TacitWarning)
        if setting.name == ESTIMATES:
            training, test = (np.random.default_rng(stream) for stream in tasks.spawn(2))
            episodes, held_out = simulate(TRUTH, N, training), simulate(TRUTH, N_TEST, test)
            fits = _fits(episodes, marking, number, 1e-3)
            return [{**row, "q_rmse": held_out_error(fit, held_out)} for row, fit in fits]
        worlds = draw_worlds(calibration().mechanism, tasks)
        fits = _fits(worlds["train"].episodes, marking, number, FULL.ridge)
        policies = [
            replace(TacitSwitch(name=str(at)), estimator=lambda _, fit=fit: fit)  # type: ignore[misc]
            for at, (_, fit) in enumerate(fits)
        ]
        outcomes = contest([*policies, ALARM], worlds, CAP).outcomes
        rows = [row for row, _ in fits] + [{"teacher": "", "model": ALARM.name}]
        points = [found.point() for found in outcomes.values()]
        at_cap = [point["success"] + SLOPE / 100 * (CAP - point["cost"]) for point in points]
        return [{**row, **point, "at_cap": success} for row, point, success in zip(rows, points, at_cap, strict=True)]


def _fits(episodes: Episodes, marking: np.random.SeedSequence, number: int, ridge: float) -> list[tuple[Row, MapFit]]:
    taught = {name: teach(episodes, np.random.default_rng(marking)) for name, teach in TEACHERS.items()}
    found: list[tuple[Row, MapFit]] = []
    for teacher, model in FITS:
        fit = fit_map(taught[teacher], ridge=ridge, weights=FULL.weights, restarts=2, seed=number, **MODELS[model])
        row: Row = {"teacher": teacher, "model": model}
        row["marked"] = float(taught[teacher].has_window[episodes.outcomes == "01"].mean())
        row |= {f"rate_{rate}": value for rate, (value, _) in fit.rates.items()}
        found.append((row, fit))
    return found


def summarize(table: pd.DataFrame, folder: Path) -> str:  # noqa: ARG001
    """Put teachers below and models beside each other."""
    measured: dict[str, list[list[str]]] = {}
    for setting, measure, scale, digits in ((ESTIMATES, "q_rmse", 1, 4), (DECISIONS, "at_cap", 100, 2)):
        rows = table[table["setting"] == setting]
        wide = scale * rows.pivot_table(index="replicate", columns=["teacher", "model"], values=measure)
        oracle = wide["oracle", next(iter(MODELS))]
        measured[setting] = []
        for teacher in TEACHERS:
            shown = [f"{rows.loc[rows['teacher'] == teacher, 'marked'].mean():.0%}"]
            for model in MODELS:
                if (teacher, model) in FITS:
                    values = wide[teacher, model] - (0 if setting == ESTIMATES else oracle)
                    shown.append(with_half_width(*mean_and_half_width(values), digits=digits))
                else:
                    shown.append("")
            measured[setting].append([teacher, *shown])
        if setting == DECISIONS:
            plain, alarm = (mean_and_half_width(each) for each in (oracle, wide["", ALARM.name] - oracle))
    heads = ["teacher", "AB = 01 marked", *MODELS]
    return fill(
        "teachers",
        estimates=markdown_table(heads, measured[ESTIMATES]),
        decisions=markdown_table(heads, measured[DECISIONS]),
        oracle=with_half_width(*plain, digits=2),
        alarm=with_half_width(*alarm, digits=2),
    )


STUDY = Study(
    name="teachers",
    title="Teachers that are no oracle",
    description="Late marks, marks by a rule, at random and none: the error of q, and success at one cost.",
    settings=[Setting(ESTIMATES), Setting(DECISIONS)],
    parameters={
        "tasks": [N, N_TEST, dict(SIZES)],
        "late": LATE,
        "cap": [CAP, SLOPE],
        "fits": FITS,
        "noise": MARKS.to_record(),
        "truth": TRUTH.as_record(),
    },
    replicate=replicate,
    summarize=summarize,
    replicates=20,
    seed=20261225,
    cheapest=ESTIMATES,
    agreement=NEARLY,
)
