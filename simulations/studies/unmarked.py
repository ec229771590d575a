"""Missing marks: what is left of the bands on q(t) when AB = 01 episodes have no window, under either reading of them.

There are two designs. In the first, data sets are those of simulation-based calibration: parameters from the prior,
episodes from the model, so that bands that read the data rightly cover as often as they say. In the second, one stated
truth is behind all data sets (`unmarked_truths`), and the data alone must bring the bands to it. Marks are removed at
random, or depending on when the crossing was, which neither reading allows for.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
import xarray as xr
from scipy import special

from bayes_tacit import Episodes
from bayes_tacit.errors import TacitWarning
from bayes_tacit.estimates.posterior import sample_posterior
from bayes_tacit.model.spec import Unmarked
from simulations.model_based import quietly
from simulations.studies.sbc import (
    DIAGNOSTICS,
    FEATURES,
    HORIZON,
    N_EPISODES,
    Design,
    design_of,
    draws_of,
    flat_posterior,
    parameters_of,
)
from simulations.studies.study import Row, Setting, Study
from simulations.studies.tables import figure_file, legend_beside, markdown_table, mean_and_half_width, plot_means

TRUTH_EPISODES = 300
TRUTH = {
    "w": np.array([0.5, 0.3, 0.2]),
    "gamma0": np.array(0.4),
    "gamma": np.array([0.5, -0.4]),
    "beta0": np.array(1.0),
    "beta": np.array([0.2, -0.3]),
    "s": np.array(0.5),
}
PACE = 0.6
"""Standard deviation, between tasks that differ, of the log of the factor on all risks of a rollout."""


def tasks_that_differ(rng: np.random.Generator) -> Design:
    """Draw tasks as in calibration, in some of which the agent errs more than in others."""
    diagnostics = rng.gamma(0.6, 0.5, size=(TRUTH_EPISODES, HORIZON, len(DIAGNOSTICS)))
    return Design(
        features=rng.normal(size=(TRUTH_EPISODES, len(FEATURES))),
        n_steps=rng.integers(8, HORIZON + 1, size=TRUTH_EPISODES),
        diagnostics=diagnostics * np.exp(PACE * rng.normal(size=(TRUTH_EPISODES, 1, 1))),
    )


def tasks_alike(rng: np.random.Generator) -> Design:
    """Draw rollouts of one length whose risks come in small even parts, so that the final ones are nearly the same."""
    return Design(
        features=rng.normal(size=(TRUTH_EPISODES, len(FEATURES))),
        n_steps=np.full(TRUTH_EPISODES, HORIZON),
        diagnostics=rng.gamma(6.0, 0.033, size=(TRUTH_EPISODES, HORIZON, len(DIAGNOSTICS))),
    )


TASKS = {"differ": tasks_that_differ, "alike": tasks_alike}


def final_risks(kind: str, data_sets: int = 20) -> tuple[float, float]:
    """Return the sd of the log of the final risk between tasks, and the share that crosses where Strong succeeds."""
    found = []
    for number in range(data_sets):
        design = TASKS[kind](np.random.default_rng(number))
        reached = np.cumsum(design.diagnostics @ TRUTH["w"], axis=1)[np.arange(TRUTH_EPISODES), design.n_steps - 1]
        pi = special.expit(TRUTH["gamma0"] + design.x @ TRUTH["gamma"])
        crossed = special.ndtr((np.log(reached) - TRUTH["beta0"] - design.x @ TRUTH["beta"]) / TRUTH["s"])
        found.append((np.log(reached).std(), (pi * crossed).sum() / pi.sum()))
    spread, share = np.mean(found, axis=0)
    return float(spread), float(share)


PROBABILITY = 0.9
LEAST = 0.8
"""Coverage at the stated truth, with half of the marks missing, below which a reading is no safe default."""
CHAINS, DRAWS, TUNE = 2, 400, 400
READINGS = {"outcome": "its outcome alone (the paper)", "due": "due by the end"}
AT_RANDOM = {"none": 0.0, "25%": 0.25, "50%": 0.5, "75%": 0.75, "all": 1.0}
NOT_AT_RANDOM = {"the later, the likelier": (0.1, 0.8), "the earlier, the likelier": (0.9, -0.8)}
"""Probability that a mark is missing: the first number, plus the second times the window's place in the rollout."""

AT_THE_TRUTH = {"differ": ("none", "50%", "all"), "alike": ("50%", "all")}


def at_the_truth(tasks: str, missing: str) -> str:
    """Name the setting of a share of missing marks at the stated truth."""
    return f"stated truth, tasks {tasks}, {missing}"


def replicate(setting: Setting, number: int, seeds: np.random.SeedSequence) -> list[Row]:
    """Remove marks from one data set, and see how much of q the bands of both readings hold.

    Truths from the prior have the same tasks in all replicates, so the streams come from the study's seed and the
    replicate's number; at the stated truth the tasks are drawn anew each time.
    """
    seed = int(np.asarray(seeds.entropy))
    rng = np.random.default_rng([seed, number])
    if "tasks" in setting.values:
        design, truth = TASKS[setting.values["tasks"]](rng), TRUTH
    else:
        design, truth = design_of(seed), {name: each[number] for name, each in parameters_of(seed, 0).items()}
    episodes, missing = without_marks(design.simulate(truth, rng), setting, rng)
    true_q = design.true_scores(truth)
    rows: list[Row] = []
    for reading in READINGS:
        if rows and missing == 0:
            # Every mark is there, so there is nothing to read in two ways.
            rows.append({**rows[0], "reading": reading})
            continue
        tree = _sample(episodes, cast("Unmarked", reading), number)
        q = design.scores(draws_of(flat_posterior(tree)))
        lower, upper = np.quantile(q, [(1 - PROBABILITY) / 2, (1 + PROBABILITY) / 2], axis=-1)
        rows.append(
            {
                "reading": reading,
                "missing": missing,
                "covered": float(((lower <= true_q) & (true_q <= upper)).mean()),
                "bias": float((q.mean(axis=-1) - true_q).mean()),
                "width": float((upper - lower).mean()),
                "divergences": int(tree["sample_stats"]["diverging"].sum()),
            }
        )
    return rows


def _sample(episodes: Episodes, reading: Unmarked, seed: int) -> xr.DataTree:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        return sample_posterior(
            episodes,
            unmarked=reading,
            chains=CHAINS,
            draws=DRAWS,
            tune=TUNE,
            cores=1,
            seed=seed,
            predictive_draws=1,
            progress=False,
        )


def without_marks(episodes: Episodes, setting: Setting, rng: np.random.Generator) -> tuple[Episodes, float]:
    """Remove marks with the setting's probability; return the episodes, and the share of marks that went."""
    dataset = episodes.dataset.copy()
    level, slope = setting.values["missing"]
    mark = dataset["window_start"].values
    gone = rng.random(len(mark)) < level + slope * np.nan_to_num(mark) / (HORIZON - 1)
    dataset = dataset.assign({name: dataset[name].where(~gone) for name in ("window_start", "window_end")})
    marked = np.isfinite(mark)
    return quietly(dataset), float(gone[marked].mean()) if marked.any() else level


def summarize(table: pd.DataFrame, folder: Path) -> str:
    """Return coverage, bias and width of the bands by what is missing, over the prior and at the stated truth."""
    _plot(table, folder / "coverage.png")
    return "\n\n".join(
        [
            _reading(table),
            "## Truths from the prior",
            "Each data set has parameters of its own from `WeaklyInformativePrior()`, so bands that read the data "
            "rightly cover as often as they say by construction: this design tells a wrong reading from a right one, "
            f"not how much data a right one needs. {len(_of(table, 'none', 'due'))} data sets of {N_EPISODES} episodes "
            "for each row, the same in all rows.",
            _table(table, list(AT_RANDOM), "marks missing at random"),
            _table(table, list(NOT_AT_RANDOM), "missing not at random"),
            "## A stated truth",
            _design_of_the_truth(table),
            _table(
                table,
                [at_the_truth(tasks, name) for tasks, shares in AT_THE_TRUTH.items() for name in shares],
                "marks missing at random",
            ),
            "![Coverage against the share of missing marks](coverage.png)",
            "The paper's reading takes every AB = 11 episode as a threshold above its risk, and forgets that the "
            "threshold of an unmarked AB = 01 episode was below: q comes out too low, the more so the more marks are "
            "missing. Read as due, both sides count.",
            f"Posteriors of {CHAINS} chains of {DRAWS} draws. Half-widths are of 95% intervals over data sets. Without "
            f"missing marks both readings are the same. Divergences: {int(table['divergences'].sum())} draws in "
            f"{len(table)} posteriors.",
        ]
    )


def _reading(table: pd.DataFrame) -> str:
    over = {
        reading: min(_covered(table, name, reading) for name in AT_RANDOM if name != "none") for reading in READINGS
    }
    half, none = ({tasks: at_the_truth(tasks, name) for tasks in AT_THE_TRUTH} for name in ("50%", "all"))
    safe = over["due"] > PROBABILITY - 0.04 and min(_covered(table, name, "due") for name in half.values()) > LEAST

    def both(name: str) -> str:
        return f"{_covered(table, name, 'due'):.0%} (due) and {_covered(table, name, 'outcome'):.0%} (outcome)"

    return (
        "**Reading.** If an AB = 01 episode without a window is read as due by the end of its rollout, "
        f"{PROBABILITY:.0%} bands on q(t) cover the truth at worst {over['due']:.0%} of the time over truths from the "
        "prior; if it counts for its outcome alone, as in the paper, "
        f"{over['outcome']:.0%}. At one stated truth with half of the marks "
        f"missing it is {both(half['differ'])} where tasks differ in their final risk, and {both(half['alike'])} where "
        f"they are alike; without a single mark, {both(none['differ'])}, and {both(none['alike'])}. "
        + (
            'So "due" is the default of the library; what reproduces the paper says "outcome". '
            if safe
            else 'So "due" is no safe default. '
        )
        + "Where the chance of a mark depends on when the crossing was, neither reading is right: "
        + "; ".join(f"{name}, {both(name)}" for name in NOT_AT_RANDOM)
        + "."
    )


def _design_of_the_truth(table: pd.DataFrame) -> str:
    (differ, due), (alike, also_due) = final_risks("differ"), final_risks("alike")
    truth = ", ".join(f"{name} = {_numbers(value)}" for name, value in TRUTH.items())
    data_sets = len(_of(table, at_the_truth("differ", "all"), "due"))
    return (
        f"One truth for all data sets: {truth}. Tasks are drawn anew for each of {data_sets} data sets of "
        f"{TRUTH_EPISODES} episodes. Here the prior does not vouch for coverage, the data must. Without marks a "
        "threshold is only known to be below or above the final risk of its rollout, so much depends on how those "
        f"vary. Where tasks differ, the log of the final risk has a standard deviation of {differ:.2f} between tasks, "
        f"and {due:.0%} of the tasks that Strong solves are due; where they are alike, {alike:.2f} and {also_due:.0%}. "
        "How it was settled: one data set of each kind was looked at first, and the scale of the tasks that "
        "are alike was "
        "then changed, so that about as many are due as where tasks differ; 40 data sets were planned and 30 run, and "
        "tasks alike with no mark missing were left out, both for time."
    )


def _numbers(value: np.ndarray) -> str:
    listed = ", ".join(f"{number:g}" for number in np.atleast_1d(value))
    return f"({listed})" if value.ndim else listed


def _covered(table: pd.DataFrame, name: str, reading: str) -> float:
    return float(_of(table, name, reading)["covered"].mean())


def _of(table: pd.DataFrame, name: str, reading: str) -> pd.DataFrame:
    return table[(table["setting"] == name) & (table["reading"] == reading)]


def _table(table: pd.DataFrame, names: list[str], head: str) -> str:
    columns = [head, "share that is missing"]
    columns += [f"{label}: {what}" for what in ("covered", "mean error of q") for label in READINGS.values()]
    rows = []
    for name in names:
        row = [name, f"{_of(table, name, 'due')['missing'].mean():.0%}"]
        for column, form in (("covered", ".1%"), ("bias", "+.3f")):
            for reading in READINGS:
                mean, half = mean_and_half_width(_of(table, name, reading)[column])
                row.append(f"{mean:{form}}" + ("" if half is None else f" ± {half:{form.lstrip('+')}}"))
        rows.append(row)
    return markdown_table(columns, rows)


def _plot(table: pd.DataFrame, path: Path) -> None:
    panels = {
        "truths from the prior": {name: name for name in AT_RANDOM},
        **{
            f"a stated truth, tasks {tasks}": {name: at_the_truth(tasks, name) for name in shares}
            for tasks, shares in AT_THE_TRUTH.items()
        },
    }
    with figure_file(path, 1, len(panels), size=(10.5, 3.6), share=True) as (figure, axes):
        for ax, (title, names) in zip(axes[0], panels.items(), strict=True):
            for style, (reading, label) in enumerate(READINGS.items()):
                shares = [_of(table, name, reading)["covered"] for name in names.values()]
                plot_means(ax, [AT_RANDOM[name] for name in names], shares, label=label, style=style)
            nominal = f"nominal {PROBABILITY:.0%}"
            ax.axhline(PROBABILITY, color="#777777", linestyle="--", linewidth=1.2, label=nominal)
            ax.set(xlim=(-0.05, 1.05), ylim=(0, 1))
            ax.set_title(title)
        figure.supxlabel("share of marks missing at random")
        axes[0, 0].set_ylabel("share of q(t) in its 90% band")
        legend_beside(axes[0, -1], title="AB = 01 without a window is")


STUDY = Study(
    name="unmarked",
    title="Episodes without a mark",
    description="Whether bands on q(t) still cover when marks are missing, by how AB = 01 without one is read.",
    settings=[
        *(Setting(name, {"missing": [share, 0.0]}) for name, share in AT_RANDOM.items()),
        *(Setting(name, {"missing": list(law)}) for name, law in NOT_AT_RANDOM.items()),
        *(
            Setting(at_the_truth(tasks, name), {"missing": [AT_RANDOM[name], 0.0], "tasks": tasks}, share=0.6)
            for tasks, shares in AT_THE_TRUTH.items()
            for name in shares
        ),
    ],
    parameters={
        "episodes": N_EPISODES,
        "horizon": HORIZON,
        "probability": PROBABILITY,
        "chains": CHAINS,
        "draws": DRAWS,
        "tune": TUNE,
    },
    replicate=replicate,
    summarize=summarize,
    replicates=50,
    seed=20261118,
    paired=True,
    agreement=(0.1, 0.1),
    unsteady=("divergences",),
)
