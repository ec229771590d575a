"""Simulation-based calibration of what goes beyond the paper's model: families, formula terms and groups."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy import special

from bayes_tacit import Episodes, WeaklyInformativePrior, handoff_score, sample_posterior
from bayes_tacit.errors import TacitWarning
from bayes_tacit.model.design import Standardization, design_matrix, design_of
from bayes_tacit.model.evidence import typical_log_threshold
from bayes_tacit.model.families import family_named
from simulations.model_based import quietly
from simulations.studies.sbc import RANKED_DRAWS, flat_posterior, plot_ranks, rank_table
from simulations.studies.study import Row, Setting, Study
from simulations.studies.tables import markdown_table
from simulations.teacher import mark_windows

N_EPISODES, HORIZON, GROUPS = 120, 12, 8
CHAINS, DRAWS, TUNE = 2, 300, 300
POINTS = ((0, 2), (40, 5), (80, 9))
"""Episode and step at which q is ranked, as `handoff_score` gives it."""
FORMULA = "bs(x1, df=4) + C(kind) + x1:x2"


@cache
def tasks(seed: int) -> Episodes:
    """Return the tasks and Cheap rollouts that all replicates share; outcomes are placeholders."""
    rng = np.random.default_rng(seed)
    n_steps = rng.integers(7, HORIZON + 1, size=N_EPISODES)
    dataset = xr.Dataset(
        {
            "features": (("episode", "feature"), rng.normal(size=(N_EPISODES, 2))),
            "diagnostics": (("episode", "step", "diagnostic"), rng.gamma(0.6, 0.5, size=(N_EPISODES, HORIZON, 2))),
            "n_steps": ("episode", n_steps),
            "cheap_success": ("episode", np.ones(N_EPISODES, dtype=bool)),
            "strong_success": ("episode", np.ones(N_EPISODES, dtype=bool)),
            "window_start": ("episode", np.full(N_EPISODES, np.nan)),
            "window_end": ("episode", np.full(N_EPISODES, np.nan)),
            "kind": ("episode", rng.choice(["a", "b", "c"], N_EPISODES)),
            "group": ("episode", rng.integers(0, GROUPS, N_EPISODES)),
        },
        coords={
            "episode": np.arange(N_EPISODES),
            "step": np.arange(HORIZON),
            "feature": ["x1", "x2"],
            "diagnostic": ["u1", "u2"],
        },
    )
    return quietly(dataset)


def standardized(episodes: Episodes, formula: str | None) -> np.ndarray:
    """Return the features that the model sees."""
    raw = episodes.dataset["features"].values
    if formula is not None:
        raw = design_matrix(design_of(formula, episodes), episodes)
    return Standardization.of(raw).apply(raw)


def draw_truth(rng: np.random.Generator, episodes: Episodes, columns: int, *, groups: bool) -> dict[str, np.ndarray]:
    """Draw from `WeaklyInformativePrior()`, with NumPy alone."""
    prior = WeaklyInformativePrior()
    truth = {
        "gamma0": rng.normal(0, prior.incidence_intercept),
        "gamma": rng.normal(0, prior.incidence_slope, columns),
        "beta0": rng.normal(typical_log_threshold(episodes), prior.location_intercept),
        "beta": rng.normal(0, prior.location_slope, columns),
        "s": prior.scale_median * np.exp(prior.scale_spread * rng.normal()),
        "w": rng.dirichlet(np.full(2, prior.concentration)),
    }
    if groups:
        truth["gamma_spread"] = abs(rng.normal(0, prior.incidence_spread))
        truth["beta_spread"] = abs(rng.normal(0, prior.location_spread))
        truth |= {f"{name}_offset": rng.normal(size=GROUPS) for name in ("gamma", "beta")}
    return {name: np.asarray(value) for name, value in truth.items()}


def linear(truth: dict[str, np.ndarray], x: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the logit of pi and the location of each task."""
    logit, location = (truth[f"{name}0"] + x @ truth[name] for name in ("gamma", "beta"))
    if "gamma_spread" in truth:
        logit = logit + truth["gamma_spread"] * truth["gamma_offset"][group]
        location = location + truth["beta_spread"] * truth["beta_offset"][group]
    return logit, location


def simulate(
    episodes: Episodes, truth: dict[str, np.ndarray], x: np.ndarray, family: str, rng: np.random.Generator
) -> Episodes:
    """Draw outcomes and windows of the tasks."""
    dataset = episodes.dataset
    n, n_steps = len(episodes), episodes.n_steps
    logit, location = linear(truth, x, dataset["group"].values)
    strong = rng.random(n) < special.expit(logit)
    kappa = np.exp(location + truth["s"] * family_named(family).draw(rng, (n,)))
    risk = np.cumsum(np.nan_to_num(dataset["diagnostics"].values) @ truth["w"], axis=1)
    crossing = np.minimum((risk < kappa[:, None]).sum(axis=1), n_steps)
    crossed = crossing < n_steps
    start, end = mark_windows(rng, crossing, n_steps, fineness=0.6)
    marked = strong & crossed
    return quietly(
        dataset.assign(
            cheap_success=("episode", np.where(strong, ~crossed, rng.random(n) < 0.3)),
            strong_success=("episode", strong),
            window_start=("episode", np.where(marked, start, np.nan)),
            window_end=("episode", np.where(marked, end, np.nan)),
        )
    )


def replicate(setting: Setting, number: int, seeds: np.random.SeedSequence) -> list[Row]:
    """Sample one posterior and rank the truth in it."""
    seed = int(np.asarray(seeds.entropy))
    family, formula, grouped = (setting.values[name] for name in ("family", "formula", "groups"))
    rng = np.random.default_rng([seed, number, len(setting.name), ord(setting.name[0])])
    episodes = tasks(seed)
    x = standardized(episodes, formula)
    truth = draw_truth(rng, episodes, x.shape[1], groups=grouped)
    drawn = simulate(episodes, truth, x, family, rng)
    settings: dict[str, Any] = {"features": formula, "groups": "group" if grouped else None, "family": family}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        tree = sample_posterior(
            drawn,
            draws=DRAWS,
            tune=TUNE,
            chains=CHAINS,
            seed=number,
            predictive_draws=4,
            target_accept=0.95 if grouped else 0.9,
            progress=False,
            **settings,
        )
    flat = flat_posterior(tree)
    thin = np.linspace(0, CHAINS * DRAWS - 1, RANKED_DRAWS).astype(int)
    row: dict[str, Any] = {"divergences": int(tree["sample_stats"]["diverging"].sum())}
    for name, values in flat.items():
        for position, rank in enumerate(np.atleast_1d((values[thin] < truth[name]).sum(axis=0))):
            row[f"{name}[{position}]" if values.ndim > 1 else name] = int(rank)
    q = handoff_score(tree, drawn).stack(sample=("chain", "draw")).transpose("episode", "step", "sample").values  # noqa: PD013
    logit, location = linear(truth, x, drawn.dataset["group"].values)
    risk = np.cumsum(np.nan_to_num(drawn.dataset["diagnostics"].values) @ truth["w"], axis=1)
    for episode, step in POINTS:
        at = min(step, int(drawn.n_steps[episode]) - 1)
        z = (np.log(risk[episode, at]) - location[episode]) / truth["s"]
        true_q = special.expit(logit[episode]) * family_named(family).cdf(np.array([z]))[0]
        row[f"q({episode}, {step})"] = int((q[episode, at, thin] < true_q).sum())
    return [row]


def summarize(table: pd.DataFrame, folder: Path) -> str:
    """Test the ranks of every part for uniformity."""
    parts, smallest, tested_in_all = [], [], 0
    for name, rows in table.groupby("setting", sort=False):
        shown = rows.dropna(axis=1, how="all").drop(columns=["setting", "replicate"])
        tested = rank_table(shown)
        smallest.append((float(tested["chi-square p"].min()), str(name), str(tested["chi-square p"].idxmin())))
        tested_in_all += len(tested)
        plot_ranks(shown[list(tested.index)].astype(int), RANKED_DRAWS, folder / f"ranks-{name}.png")
        worst = tested.sort_values("chi-square p").head(4)
        cells = [[str(quantity), f"{row.iloc[0]:.3f}", f"{row.iloc[1]:.3f}"] for quantity, row in worst.iterrows()]
        parts += [
            f"## {name}",
            f"{len(rows)} data sets, {len(tested)} quantities; divergences in {(rows['divergences'] > 0).mean():.0%} "
            "of the data sets. The four quantities that are furthest from uniform:",
            markdown_table(["quantity", "mean rank (0.5 if uniform)", "chi-square p of uniformity"], cells),
            f"![Ranks](ranks-{name}.png)",
        ]
    p, part, quantity = min(smallest)
    return "\n\n".join(
        [
            "**Reading.** If the posterior is right, each line of a figure stays inside its grey band in 95% of such "
            "studies.",
            f"Smallest of {tested_in_all} p-values: {p:.5f} ({quantity} of {part}); a uniform truth gives one below "
            f"{0.05 / tested_in_all:.5f} in 5% of such studies.",
            f"Every data set has {N_EPISODES} episodes and parameters from `WeaklyInformativePrior()`; {CHAINS} chains "
            f"of {DRAWS} draws. The formula is `{FORMULA}`, and there are {GROUPS} groups. q is that of "
            "`handoff_score`, at three checkpoints.",
            *parts,
        ]
    )


def _setting(name: str, family: str = "lognormal", formula: str | None = None, *, groups: bool = False) -> Setting:
    return Setting(name, {"family": family, "formula": formula, "groups": groups})


STUDY = Study(
    name="sbc_extensions",
    title="Simulation-based calibration beyond the paper's model",
    description="Whether posteriors are as wide as they should be with other families, formula terms and groups.",
    settings=[
        _setting("weibull", "weibull"),
        _setting("loggamma", "loggamma"),
        _setting("formula", formula=FORMULA),
        _setting("groups", groups=True),
    ],
    parameters={"episodes": N_EPISODES, "horizon": HORIZON, "chains": CHAINS, "draws": DRAWS, "tune": TUNE},
    replicate=replicate,
    summarize=summarize,
    replicates=100,
    seed=20261118,
    agreement=(0.1, 12.0),
)
