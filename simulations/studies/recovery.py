"""Recovery: how close the estimate comes to the truth when the model is right, and how its error falls with n."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_tacit import Episodes, MapFit, handoff_score
from bayes_tacit.errors import ConvergenceError
from models.recovery import RECOVERY
from simulations import published
from simulations.model_based import TRUTH, Truth, simulate, true_scores, with_proportions
from simulations.studies.study import Row, Setting, Study
from simulations.studies.tables import (
    BY_CONSTRUCTION,
    COLOURS,
    MARKERS,
    Comparison,
    Tolerance,
    comparison_table,
    figure_file,
    fill,
    legend_beside,
    markdown_table,
    mean_and_half_width,
    with_half_width,
)

SIZES = (500, 2000, 8000)
HELD_OUT = 10_000
OUTCOMES = ("00", "01", "10", "11")
FEATURES = (1, 2, 3, 5, 8)
"""Numbers of features with which the study is repeated: the paper does not state its own, and 3 are ours."""

BY_FEATURES = (500, 8000)
"""Sample sizes of these repetitions: those for which the paper gives a number."""

CHOSEN = "3 features, chosen by us"
TRUE_PARAMETERS = {
    "gamma0": TRUTH.gamma0,
    **{f"gamma{j + 1}": value for j, value in enumerate(TRUTH.gamma)},
    "beta0": TRUTH.beta0,
    **{f"beta{j + 1}": value for j, value in enumerate(TRUTH.beta)},
    "s": TRUTH.s,
}


def truth_with(p: int) -> Truth:
    """Return a truth with p features: effects of equal size, lengths of gamma and beta and outcome shares as ours."""
    lengths = (float(np.linalg.norm(effects)) for effects in (TRUTH.gamma, TRUTH.beta))
    gamma, beta = (tuple(length / np.sqrt(p) * (-1.0) ** np.arange(p)) for length in lengths)
    return with_proportions(replace(TRUTH, gamma=gamma, beta=beta), published.RECOVERY_OUTCOMES)


def replicate(setting: Setting, number: int, seeds: np.random.SeedSequence) -> list[Row]:
    """Fit one sample and measure the error of its parameters and, on fresh tasks, of q."""
    training, held_out = (np.random.default_rng(stream) for stream in seeds.spawn(2))
    if "p" in setting.values:
        truth = truth_with(setting.values["p"])
        names = tuple(f"x{j + 1}" for j in range(setting.values["p"]))
        fit = replace(RECOVERY, features=names).fit(simulate(truth, setting.values["n"], training), seed=number)
        q_rmse = held_out_error(fit, simulate(truth, HELD_OUT, held_out), truth)
        return [{"converged": fit.converged, "q_rmse": q_rmse}]
    episodes = simulate(TRUTH, setting.values["n"], training)
    outcomes = episodes.outcomes
    shares = {f"share_{ab}": float((outcomes == ab).mean()) for ab in OUTCOMES}
    try:
        fit = RECOVERY.fit(episodes, seed=number)
    except ConvergenceError:
        errors = {f"error_{name}": float("nan") for name in TRUE_PARAMETERS}
        return [{"converged": False, "q_rmse": float("nan"), **errors, **shares}]
    errors = {f"error_{name}": value - TRUE_PARAMETERS[name] for name, value in raw_parameters(fit).items()}
    q_rmse = held_out_error(fit, simulate(TRUTH, HELD_OUT, held_out))
    return [{"converged": fit.converged, "q_rmse": q_rmse, **errors, **shares}]


def raw_parameters(fit: MapFit) -> dict[str, float]:
    """Return a fit's parameters for features as they are, by the names of `TRUE_PARAMETERS`.

    The fit is on z = (x - mean) / scale, so a slope is divided by the scale, and the intercept takes up the mean.
    """
    values: dict[str, float] = {}
    for name, intercept, slopes in (("gamma", fit.gamma0, fit.gamma), ("beta", fit.beta0, fit.beta)):
        raw = slopes / fit.feature_scale
        values[f"{name}0"] = float(intercept - raw @ fit.feature_mean)
        values |= {f"{name}{j + 1}": float(slope) for j, slope in enumerate(raw)}
    return values | {"s": fit.s}


def held_out_error(fit: MapFit, episodes: Episodes, truth: Truth = TRUTH) -> float:
    """Return the root mean square error of q over all tasks and steps."""
    return float(np.sqrt(((handoff_score(fit, episodes).values - true_scores(truth, episodes)) ** 2).mean()))


def summarize(table: pd.DataFrame, folder: Path) -> str:
    """Put errors beside the paper's, and show how they fall with n."""
    by_size = {n: table[table["setting"] == f"n={n}"] for n in SIZES}
    main = pd.concat(list(by_size.values()))
    rmse = pd.DataFrame({n: parameter_rmse(rows) for n, rows in by_size.items()})
    _plot(by_size, rmse, folder / "recovery.png")
    ratios = rmse.iloc[:, :-1].to_numpy() / rmse.iloc[:, 1:].to_numpy()
    return fill(
        "recovery",
        q_error=comparison_table(
            [
                Comparison(f"held-out q RMSE, n = {n:,}", mean, by_size[n]["q_rmse"].dropna(), half, CHOSEN)
                for n, (mean, half) in published.RECOVERY_Q_RMSE.items()
            ],
            Tolerance(0.1, relative=True),
            digits=4,
        ),
        by_features=_by_features(table),
        outcomes=comparison_table(
            [
                Comparison(f"AB = {ab}", published.RECOVERY_OUTCOMES[ab], main[f"share_{ab}"], basis=BY_CONSTRUCTION)
                for ab in OUTCOMES
            ],
            Tolerance(0.007),
            digits=4,
        ),
        parameters=markdown_table(
            ["RMSE of", *(f"n = {n:,}" for n in SIZES), *(f"{a:,} to {b:,}" for a, b in pairwise(SIZES))],
            [
                [f"`{name}`", *(f"{value:.4f}" for value in row), *(f"÷ {ratio:.2f}" for ratio in ratio_row)]
                for (name, row), ratio_row in zip(rmse.iterrows(), ratios, strict=True)
            ],
        ),
    )


def _by_features(table: pd.DataFrame) -> str:
    """Show the error of q by the number of features beside the paper's, of which the number is not known."""
    rows = []
    for p in FEATURES:
        cells = []
        for n in BY_FEATURES:
            mean, half = mean_and_half_width(table.loc[table["setting"] == f"n={n}, p={p}", "q_rmse"])
            cells += [with_half_width(mean, half, 4), f"{mean / published.RECOVERY_Q_RMSE[n][0] - 1:+.0%}"]
        rows.append([str(p), *cells])
    head = [
        f"{what}, n = {n:,}" if what == "q RMSE" else what for n in BY_FEATURES for what in ("q RMSE", "from paper")
    ]
    return markdown_table(["features", *head], rows)


def parameter_rmse(rows: pd.DataFrame) -> pd.Series:
    """Return the root mean square error of each parameter over replicates."""
    errors = rows[[f"error_{name}" for name in TRUE_PARAMETERS]].dropna()
    return np.sqrt((errors**2).mean()).rename(lambda column: column.removeprefix("error_"))


def _plot(by_size: dict[int, pd.DataFrame], rmse: pd.DataFrame, path: Path) -> None:
    q_rmse = [mean_and_half_width(rows["q_rmse"].dropna())[0] for rows in by_size.values()]
    with figure_file(path, size=(6.8, 4.2)) as (_, axes):
        ax = axes[0, 0]
        colours = dict(zip(("gamma", "beta", "s"), COLOURS, strict=False))
        for name, row in rmse.iterrows():
            group = str(name).rstrip("0123456789")
            position = int(str(name).removeprefix(group) or 0)
            ax.plot(SIZES, row, color=colours[group], marker=MARKERS[position], label=_symbol(str(name)), linewidth=1.3)
        ax.plot(
            SIZES, q_rmse, color="#000000", marker="*", markersize=9, linewidth=2.2, label="held-out $q(t \\mid x)$"
        )
        guide = 0.75 * q_rmse[0] * np.sqrt(SIZES[0] / np.array(SIZES))
        ax.plot(SIZES, guide, color="#777777", linestyle="--", linewidth=1.2, label="slope of $n^{-1/2}$")
        ax.set(xscale="log", yscale="log", xlabel="training episodes n", ylabel="root mean square error")
        ax.set_title("Error of each parameter and of q, against sample size")
        ax.set_xticks(SIZES, [f"{n:,}" for n in SIZES])
        ax.set_xticks([], minor=True)
        ticks = [0.003, 0.005, 0.01, 0.02, 0.05, 0.1]
        ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.set_yticks([], minor=True)
        legend_beside(ax)


def _symbol(name: str) -> str:
    return "$s$" if name == "s" else f"$\\{name[:-1]}_{name[-1]}$"


STUDY = Study(
    name="recovery",
    title="Model recovery under correct specification",
    description="How close the estimate comes to the truth when the model is right, at 500, 2,000 and 8,000 episodes.",
    settings=[
        *(Setting(f"n={n}", {"n": n}) for n in SIZES),
        *(Setting(f"n={n}, p={p}", {"n": n, "p": p}, share=0.1) for n in BY_FEATURES for p in FEATURES),
    ],
    parameters={"truth": TRUTH.as_record(), "held_out": HELD_OUT, "restarts": RECOVERY.restarts},
    replicate=replicate,
    summarize=summarize,
    replicates=500,
    seed=20261201,
    cheapest="n=500",
)
