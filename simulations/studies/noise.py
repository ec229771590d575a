"""Matched noise: what wrong marks and wrong Strong outcomes in the training data do to the estimate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_tacit import Episodes
from models.recovery import MATCHED_NOISE
from simulations import published
from simulations.model_based import TRUTH, quietly, simulate
from simulations.studies.recovery import CHOSEN, TRUE_PARAMETERS, held_out_error, raw_parameters
from simulations.studies.study import Row, Setting, Study
from simulations.studies.tables import (
    Comparison,
    Tolerance,
    comparison_table,
    figure_file,
    fill,
    markdown_table,
    mean_and_half_width,
    plot_means,
    with_half_width,
)


@dataclass(frozen=True, eq=False)
class Corruption:
    """Who is corrupted first, drawn once, so that a higher rate adds to a lower one and all conditions are paired."""

    # mark_order, outcome_order: A number by episode; those with the lowest are corrupted first.
    mark_order: np.ndarray
    outcome_order: np.ndarray
    later: np.ndarray  # By episode, whether a moved mark goes to the following step

    @classmethod
    def draw(cls, n: int, rng: np.random.Generator) -> Corruption:
        """Draw it for n episodes."""
        return cls(rng.random(n), rng.random(n), rng.random(n) < 0.5)

    def move_marks(self, episodes: Episodes, rate: float) -> Episodes:
        """Move a share of the one-step marks to the step before or after; at an end of the rollout, to the only one."""
        dataset = episodes.dataset
        start, end = dataset["window_start"].values, dataset["window_end"].values
        movable = np.flatnonzero((start == end) & (episodes.n_steps > 1))
        chosen = _lowest(movable, self.mark_order, rate)
        last = episodes.n_steps[chosen] - 1
        later = (self.later[chosen] | (start[chosen] == 0)) & (start[chosen] != last)
        moved = start.copy()
        moved[chosen] += np.where(later, 1, -1)
        ends = end.copy()
        ends[chosen] = moved[chosen]
        return quietly(dataset.assign(window_start=("episode", moved), window_end=("episode", ends)))

    def flip_outcomes(self, episodes: Episodes, rate: float) -> Episodes:
        """Flip a share of the Strong outcomes.

        A success that becomes a failure loses its mark. A failure that becomes a success is AB = 01 without a mark, or
        AB = 11, whose threshold then counts as beyond the horizon.
        """
        dataset = episodes.dataset
        chosen = _lowest(np.arange(len(episodes)), self.outcome_order, rate)
        strong = dataset["strong_success"].values.copy()
        strong[chosen] = ~strong[chosen]
        start, end = (np.where(strong, dataset[name].values, np.nan) for name in ("window_start", "window_end"))
        return quietly(
            dataset.assign(
                strong_success=("episode", strong), window_start=("episode", start), window_end=("episode", end)
            )
        )


def _lowest(positions: np.ndarray, order: np.ndarray, rate: float) -> np.ndarray:
    """Return the share of the positions that comes first."""
    return positions[np.argsort(order[positions])[: round(rate * len(positions))]]


N_TRAIN = N_TEST = 4000
RATES = (0.05, 0.10, 0.15, 0.20)
CONDITIONS = ("interval", "strong outcome", "joint")
MEASURES = {
    "gamma_error": "incidence parameters",
    "beta_error": "threshold location parameters",
    "s_error": "threshold scale",
    "q_rmse": "held-out $q(t \\mid x)$",
}


def replicate(setting: Setting, number: int, seeds: np.random.SeedSequence) -> list[Row]:  # noqa: ARG001
    """Fit one sample clean and in every corrupted form, and judge all fits on the same clean tasks."""
    training, noise, held_out = (np.random.default_rng(stream) for stream in seeds.spawn(3))
    episodes = simulate(TRUTH, N_TRAIN, training)
    test = simulate(TRUTH, N_TEST, held_out)
    corruption = Corruption.draw(N_TRAIN, noise)
    rows = [measure("clean", 0.0, episodes, test, number)]
    for rate in RATES:
        moved = corruption.move_marks(episodes, rate)
        for condition, corrupted in (
            ("interval", moved),
            ("strong outcome", corruption.flip_outcomes(episodes, rate)),
            ("joint", corruption.flip_outcomes(moved, rate)),
        ):
            rows.append(measure(condition, rate, corrupted, test, number))
    return rows


def measure(condition: str, rate: float, training: Episodes, test: Episodes, number: int) -> Row:
    """Fit, and give root mean square errors: of the groups of parameters, and of q on the test tasks."""
    fit = MATCHED_NOISE.fit(training, seed=number)
    errors = {name: value - TRUE_PARAMETERS[name] for name, value in raw_parameters(fit).items()}

    def size(group: str) -> float:
        return float(np.sqrt(np.mean([value**2 for name, value in errors.items() if name.startswith(group)])))

    return {
        "condition": condition,
        "rate": rate,
        "gamma_error": size("gamma"),
        "beta_error": size("beta"),
        "s_error": abs(errors["s"]),
        "q_rmse": held_out_error(fit, test),
    }


def summarize(table: pd.DataFrame, folder: Path) -> str:
    """Put the errors of q beside the paper's, and show all errors against the rate."""
    _plot(table, folder / "noise.png")
    compared = [
        Comparison(
            f"q RMSE, {condition}{f', {rate:.0%}' if rate else ''}", mean, cell(table, condition, rate), half, CHOSEN
        )
        for (condition, rate), (mean, half) in published.NOISE_Q_RMSE.items()
    ]
    clean = np.asarray(cell(table, "clean", 0.0))

    def increase(condition: str, rate: float) -> str:
        more = np.asarray(cell(table, condition, rate)) - clean
        return with_half_width(*mean_and_half_width(more), digits=4)

    return fill(
        "noise",
        compared=comparison_table(compared, Tolerance(0.1, relative=True), digits=4),
        increases=markdown_table(
            ["q RMSE minus that of the clean fit", *(f"{rate:.0%}" for rate in RATES)],
            [[condition, *(increase(condition, rate) for rate in RATES)] for condition in CONDITIONS],
        ),
    )


def cell(table: pd.DataFrame, condition: str, rate: float, measure: str = "q_rmse") -> pd.Series:
    """Return one measure of one condition, by replicate."""
    rows = table[(table["condition"] == condition) & np.isclose(table["rate"], rate)]
    return rows.set_index("replicate")[measure]


def _plot(table: pd.DataFrame, path: Path) -> None:
    with figure_file(path, 2, 2, size=(7.6, 5.8)) as (figure, axes):
        for ax, (measure, title) in zip(axes.flat, MEASURES.items(), strict=True):
            for style, condition in enumerate(CONDITIONS):
                means = [cell(table, "clean", 0.0, measure), *(cell(table, condition, rate, measure) for rate in RATES)]
                apart = 0.25 * (style - 1)
                at = [apart + 100 * rate for rate in (0.0, *RATES)]
                plot_means(ax, at, means, label=condition, style=style)
            ax.set_title(title)
            ax.set_ylim(bottom=0)
            ax.set_xticks([0, *(100 * rate for rate in RATES)])
        figure.supxlabel("corrupted, % (joint: of marks and of Strong outcomes)", fontsize=10)
        figure.supylabel("root mean square error", fontsize=10)
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=3)


STUDY = Study(
    name="noise",
    title="Noisy supervision",
    description="What moved marks and flipped Strong outcomes, at rates up to 20%, do to a fit judged on clean tasks.",
    settings=[Setting("matched")],
    parameters={
        "truth": TRUTH.as_record(),
        "n_train": N_TRAIN,
        "n_test": N_TEST,
        "rates": RATES,
        "restarts": MATCHED_NOISE.restarts,
    },
    replicate=replicate,
    summarize=summarize,
    replicates=100,
    seed=20261202,
)
