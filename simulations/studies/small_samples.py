"""Small training sets: the posterior's rules against the point estimate, and what its bands cover."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayes_tacit import Episodes, MapFit, TacitError, credible_band, fit_map, handoff_score, judge, sample_posterior
from bayes_tacit.errors import TacitWarning
from bayes_tacit.policies import Policy, PosteriorTacitSwitch, TacitSwitch
from models.mechanism import FULL
from models.recovery import RECOVERY
from simulations.mechanism import calibration
from simulations.mechanism.world import SIZES
from simulations.model_based import TRUTH, true_scores
from simulations.model_based import simulate as simulate_model
from simulations.studies.contest import (
    ADDED,
    BEFORE,
    CAP,
    OURS_HEADS,
    RECOMMENDED_ON,
    contest,
    draw_worlds,
    names_of,
    our_rows,
    ours_beside,
    policy_rows,
)
from simulations.studies.study import Row, Setting, Study
from simulations.studies.tables import (
    figure_file,
    fill,
    markdown_table,
    mean_and_half_width,
    plot_means,
    with_half_width,
)

TRAINING_SIZES = (100, 200, 500, 1000)
RULES: tuple[str | float, ...] = ("mean", 0.1, 0.9)
SAMPLING: dict[str, Any] = {"draws": 500, "tune": 500, "chains": 2, "progress": False}
ROUTER_DRAWS = 200
"""Draws that each rule keeps; what a rule needs is a mean or a quantile, not a smooth density."""

RIDGE = 0.01
COVERED = (0.5, 0.9)
N_HELD_OUT = 500
OURS_ON = 8
"""Replicates of each size in which our own policies are tried."""
MAP, PENALIZED = "maximum likelihood", f"penalized, ridge {RIDGE:g}"


def replicate(setting: Setting, number: int, seeds: np.random.SeedSequence) -> list[Row]:
    """Compare the rules on mechanism tasks, and the bands with the truth on tasks of the model itself."""
    n = int(setting.values["n"])
    tasks, model, held_out = seeds.spawn(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        return [*decisions(n, tasks, number), coverage(n, model, held_out, number)]


def decisions(n: int, seeds: np.random.SeedSequence, number: int) -> list[Row]:
    """Fit on n tasks, choose alpha on development tasks under the cap, evaluate the frozen alpha."""
    worlds = draw_worlds(calibration().mechanism, seeds, {**SIZES, "train": n})
    tree = sample_posterior(worlds["train"].episodes, seed=number, unmarked="outcome", **SAMPLING)
    policies: list[Policy] = [
        *(TacitSwitch(estimator=estimator, name=name) for name, estimator in ((MAP, FULL.fit), (PENALIZED, penalized))),
        *(PosteriorTacitSwitch(rule, tree, draws=ROUTER_DRAWS, name=rule_name(rule)) for rule in RULES),
    ]
    rows: list[Row] = []
    for policy in policies:
        try:
            rows += policy_rows(contest([policy], worlds))
        except TacitError as error:
            # Too few marks for a point estimate: that happens with small samples, and is counted.
            rows.append({"policy": policy.name, "failure": str(error)})
    return rows + (our_rows(worlds, recommended=number in RECOMMENDED_ON) if number < OURS_ON else [])


def penalized(episodes: Episodes) -> MapFit:
    """Fit with a small penalty, as one would with few episodes."""
    return fit_map(episodes, ridge=RIDGE, restarts=1, weights=[1.0], unmarked="outcome")


def coverage(n: int, training: np.random.SeedSequence, held_out: np.random.SeedSequence, number: int) -> Row:
    """Fit n tasks that follow the model, and see how often bands on q of new tasks hold the true q."""
    episodes = simulate_model(TRUTH, n, np.random.default_rng(training))
    test = simulate_model(TRUTH, N_HELD_OUT, np.random.default_rng(held_out))
    tree = sample_posterior(episodes, seed=number, unmarked="outcome", **SAMPLING)
    truth = true_scores(TRUTH, test)
    row: Row = {"passed": judge(tree).passed}
    for level in COVERED:
        band = credible_band(tree, test, probability=level)
        row[f"covered_{level:g}"] = float(((band["lower"] <= truth) & (truth <= band["upper"])).mean())
        row[f"width_{level:g}"] = float((band["upper"] - band["lower"]).mean())
    row["posterior_rmse"] = _rmse(band["mean"].values, truth)
    row["map_rmse"] = _rmse(handoff_score(RECOVERY.fit(episodes), test).values, truth)
    return row


def rule_name(rule: str | float) -> str:
    """Say which score a posterior rule compares with alpha."""
    return "posterior mean" if rule == "mean" else f"posterior {float(rule):g} quantile"


def summarize(table: pd.DataFrame, folder: Path) -> str:
    """Show success at the frozen alpha, and coverage, by training size."""
    names = [MAP, PENALIZED, *map(rule_name, RULES)]
    wide = {n: _by_policy(table, n) for n in TRAINING_SIZES}
    _plot(table, wide, names, folder / "small_samples.png")
    covered = table.dropna(subset=["passed"]).groupby("setting", sort=False)

    def by_size(head: list[str], cells: Callable[[int], list[str]]) -> str:
        return markdown_table(["training episodes", *head], [[f"{n:,}", *cells(n)] for n in TRAINING_SIZES])

    def bands(n: int) -> list[str]:
        rows = covered.get_group(str(n))
        return [
            *(with_half_width(*mean_and_half_width(100 * rows[f"covered_{level:g}"]), digits=1) for level in COVERED),
            f"{rows['width_0.9'].mean():.3f}",
            f"{rows['posterior_rmse'].mean():.4f}",
            f"{rows['map_rmse'].mean():.4f}",
            f"{int(rows['passed'].astype(bool).sum())} of {len(rows)}",
        ]

    banded = ["50% bands cover, %", "90% bands cover, %", "mean width of 90% bands", "RMSE of the posterior mean"]
    return fill(
        "small_samples",
        success=by_size(
            names,
            lambda n: [with_half_width(*mean_and_half_width(wide[n][name].dropna()), digits=2) for name in names],
        ),
        difference=by_size(names[1:], lambda n: [_difference(wide[n], name) for name in names[1:]]),
        cost=by_size(names, lambda n: [f"{_by_policy(table, n, 'cost', 1)[name].mean():.2f}" for name in names]),
        bands=by_size([*banded, "RMSE of maximum likelihood", "sampler's verdict passed"], bands),
        ours=by_size(list(OURS_HEADS), lambda n: ours_beside(table[table["setting"] == str(n)], PENALIZED)),
    )


def _by_policy(table: pd.DataFrame, n: int, measure: str = "success", scale: float = 100.0) -> pd.DataFrame:
    rows = table[(table["setting"] == str(n)) & table["policy"].notna()]
    return scale * rows.pivot_table(index="replicate", columns="policy", values=measure)


def _difference(success: pd.DataFrame, name: str) -> str:
    return with_half_width(*mean_and_half_width((success[name] - success[MAP]).dropna()), digits=2)


def _rmse(scores: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(np.nanmean((scores - truth) ** 2)))


def _plot(table: pd.DataFrame, wide: dict[int, pd.DataFrame], names: list[str], path: Path) -> None:
    sizes = list(TRAINING_SIZES)
    with figure_file(path, 1, 2, size=(9.4, 3.8)) as (_, axes):
        left, right = axes.flat
        for style, name in enumerate(names):
            apart = 1.03 ** (style - 2)
            plot_means(
                left, [n * apart for n in sizes], [wide[n][name].dropna() for n in sizes], label=name, style=style
            )
        left.set_ylabel("success on test tasks, %")
        left.legend(fontsize=8)
        rows = table.dropna(subset=["passed"])
        for style, level in enumerate(COVERED):
            values = [100 * rows[rows["setting"] == str(n)][f"covered_{level:g}"] for n in sizes]
            plot_means(right, sizes, values, label=f"{level:.0%} bands", style=style)
            right.axhline(100 * level, color="#777777", linewidth=1, linestyle=":")
        right.set_ylim(0, 100)
        right.set_ylabel("checkpoints whose true q is covered, %")
        right.legend(loc="lower right")
        for ax in (left, right):
            ax.set_xscale("log")
            ax.set_xticks(sizes, [f"{n:,}" for n in sizes])
            ax.set_xticks([], minor=True)
            ax.set_xlabel("training episodes")


STUDY = Study(
    name="small_samples",
    title="Few training episodes",
    description="Posterior rules against point estimates at 100 to 1,000 training episodes, and coverage of the bands.",
    settings=[Setting(str(n), {"n": n}) for n in TRAINING_SIZES],
    parameters={
        "mechanism": calibration().mechanism.to_dict(),
        "truth": TRUTH.as_record(),
        "sizes": dict(SIZES),
        "cap": CAP,
        "rules": RULES,
        "sampling": SAMPLING,
        "router_draws": ROUTER_DRAWS,
        "ridge": RIDGE,
        "ours": [OURS_ON, *names_of(ADDED)],
        "families": names_of(BEFORE),
        "recommended": list(RECOMMENDED_ON),
    },
    replicate=replicate,
    summarize=summarize,
    replicates=20,
    seed=20261207,
    agreement=(0.02, 0.02),
)
