"""Missing marks: what is left of the bands on q(t) when AB = 01 episodes have no window, under either reading of them.

Data sets are those of simulation-based calibration: parameters from the prior, episodes from the model, so that the
true q is known and bands that read the data rightly cover as often as they say. Marks are removed at random, or
depending on when the crossing was, which neither reading allows for.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd

from bayes_tacit import Episodes
from bayes_tacit.errors import TacitWarning
from bayes_tacit.estimates.posterior import sample_posterior
from bayes_tacit.model.evidence import Unmarked
from simulations.model_based import quietly
from simulations.studies.figures import figure_file, legend_beside, plot_means
from simulations.studies.sbc_design import HORIZON, N_EPISODES, design_of, draws_of, flat_posterior, parameters_of
from simulations.studies.study import Row, Setting, Study
from simulations.studies.tables import markdown_table, mean_and_half_width

PROBABILITY = 0.9
CHAINS, DRAWS, TUNE = 2, 400, 400
READINGS = {"outcome": "its outcome alone (the paper)", "due": "due by the end"}
AT_RANDOM = {"none": 0.0, "25%": 0.25, "50%": 0.5, "75%": 0.75, "all": 1.0}
NOT_AT_RANDOM = {
    "the later, the likelier": (0.1, 0.8),
    "the earlier, the likelier": (0.9, -0.8),
}
"""Probability that a mark is missing: the first number, plus the second times the window's place in the rollout."""


def replicate(setting: Setting, number: int, seeds: np.random.SeedSequence) -> list[Row]:
    """Remove marks from one data set, and see how much of q the bands of both readings hold.

    The tasks are the same in all replicates, so the streams come from the study's seed and the replicate's number.
    """
    seed = int(np.asarray(seeds.entropy))
    design = design_of(seed)
    truth = {name: values[number] for name, values in parameters_of(seed, 0).items()}
    rng = np.random.default_rng([seed, number])
    episodes, missing = without_marks(design.simulate(truth, rng), setting, rng)
    true_q = design.true_scores(truth)
    rows: list[Row] = []
    for reading in READINGS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TacitWarning)
            tree = sample_posterior(
                episodes,
                unmarked=cast("Unmarked", reading),
                chains=CHAINS,
                draws=DRAWS,
                tune=TUNE,
                cores=1,
                seed=number,
                predictive_draws=1,
                progress=False,
            )
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


def without_marks(episodes: Episodes, setting: Setting, rng: np.random.Generator) -> tuple[Episodes, float]:
    """Remove marks with the setting's probability; give the episodes, and the share of marks that went."""
    dataset = episodes.dataset.copy()
    level, slope = setting.values["missing"]
    mark = dataset["window_start"].values
    gone = rng.random(len(mark)) < level + slope * np.nan_to_num(mark) / (HORIZON - 1)
    dataset = dataset.assign({name: dataset[name].where(~gone) for name in ("window_start", "window_end")})
    marked = np.isfinite(mark)
    return quietly(dataset), float(gone[marked].mean()) if marked.any() else level


def summarize(table: pd.DataFrame, folder: Path) -> str:
    """Give coverage, bias and width of the bands by what is missing."""
    _plot(table, folder / "coverage.png")
    worst = {
        reading: min(
            mean_and_half_width(_of(table, name, reading)["covered"])[0] for name in AT_RANDOM if name != "none"
        )
        for reading in READINGS
    }
    kept = worst["due"] > PROBABILITY - 0.04
    return "\n\n".join(
        [
            f"**Reading.** With marks that are missing at random, {PROBABILITY:.0%} bands on q(t) cover the truth at "
            f"worst {worst['due']:.0%} of the time if an AB = 01 episode without a window is read as due by the end of "
            f"its rollout, and {worst['outcome']:.0%} if it counts for its outcome alone, as in the paper. "
            + (
                'So "due" is the default of the library; what reproduces the paper says "outcome".'
                if kept
                else 'So "due" is no safe default.'
            )
            + " Where the chance of a mark depends on when the crossing was, neither reading is right: "
            + "; ".join(_not_at_random(table, name) for name in NOT_AT_RANDOM)
            + ".",
            _table(table, list(AT_RANDOM), "marks missing at random"),
            _table(table, list(NOT_AT_RANDOM), "missing not at random"),
            "![Coverage against the share of missing marks](coverage.png)",
            "The paper's reading takes every AB = 11 episode as a threshold above its risk, and forgets that the "
            "threshold of an unmarked AB = 01 episode was below: q comes out too low, the more so the more marks are "
            "missing. Read as due, both sides count.",
            "These are averages over the prior, over which bands that read the data rightly cover as often as they "
            "say. At one truth they may cover less where the data say little: without any mark the thresholds are "
            "known only from how the outcomes go with the final risk, and if that hardly differs between rollouts the "
            "prior decides.",
            f"{len(_of(table, 'none', 'due'))} data sets of {N_EPISODES} episodes for each row, the same in all rows, "
            f"with parameters from `WeaklyInformativePrior()`; posteriors of {CHAINS} chains of {DRAWS} draws. "
            f"Half-widths are of 95% intervals over data sets. Divergences: {int(table['divergences'].sum())} draws in "
            f"{len(table)} posteriors.",
        ]
    )


def _not_at_random(table: pd.DataFrame, name: str) -> str:
    shares = {reading: mean_and_half_width(_of(table, name, reading)["covered"])[0] for reading in READINGS}
    return f"{name}, {shares['due']:.0%} (due) and {shares['outcome']:.0%} (outcome)"


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
    with figure_file(path, size=(6.8, 3.8)) as (_, axes):
        ax = axes[0, 0]
        for style, (reading, label) in enumerate(READINGS.items()):
            shares = [_of(table, name, reading)["covered"] for name in AT_RANDOM]
            plot_means(ax, AT_RANDOM.values(), shares, label=label, style=style)
        ax.axhline(PROBABILITY, color="#777777", linestyle="--", linewidth=1.2, label=f"nominal {PROBABILITY:.0%}")
        ax.set(xlabel="share of marks missing at random", ylabel="share of q(t) in its band", ylim=(0, 1))
        ax.set_title("How often 90% bands on q(t) hold the truth")
        legend_beside(ax, title="AB = 01 without a window is")


STUDY = Study(
    name="unmarked",
    title="Episodes without a mark",
    description="Whether bands on q(t) still cover when marks are missing, by how AB = 01 without one is read.",
    settings=[
        *(Setting(name, {"missing": [share, 0.0]}) for name, share in AT_RANDOM.items()),
        *(Setting(name, {"missing": list(law)}) for name, law in NOT_AT_RANDOM.items()),
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
)
