"""The paper's own optimizer beside ours: where Adam with early stopping ends, and whether decisions differ.

The paper fits by Adam on softmax weights and a softplus scale, with early stopping, and keeps the best of its restarts.
It gives no learning rate and no rule of stopping, so three are tried. The objective is stated here once more, in the
paper's coordinates and independently of `bayes_tacit.estimates`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit, log_expit, log_ndtr, softmax

from bayes_tacit import Episodes, MapFit, handoff_score
from bayes_tacit.errors import TacitWarning
from bayes_tacit.model.evidence import Evidence, collect_evidence
from bayes_tacit.policies import TacitSwitch
from models.alfworld import ALFWORLD
from models.dabench import DABENCH
from models.experiment import UNMARKED, Experiment
from models.mechanism import FULL
from simulations.mechanism import calibrated
from simulations.studies.contest import TACIT, contest, draw_worlds
from simulations.studies.study import Row, Setting, Study
from simulations.studies.tables import fill, markdown_table, mean_and_half_width, with_half_width

RESULTS = Path(__file__).parents[1] / "results"
PLAYED: dict[str, tuple[str, Experiment]] = {
    "ALFWorld, scripted pair": ("alfworld", ALFWORLD),
    "ALFWorld, learned pair": ("alfworld_learned", ALFWORLD),
    "DABench": ("dabench", DABENCH),
}
SIMULATED = "mechanism, n = 100"
SIZES = {"train": 100, "development": 4_000, "test": 20_000}
FLOOR = 1e-12
GRID = tuple(round(0.1 * step, 1) for step in range(1, 10))
"""Thresholds at which decisions are compared: the paper's grid for ALFWorld."""


@dataclass(frozen=True)
class Adam:
    """Adam's settings: it stops when the objective fell by less than `least` over `patience` iterations."""

    rate: float
    patience: int
    least: float
    max_iterations: int = 5_000

    def minimize(
        self, objective: Callable[[np.ndarray], tuple[float, np.ndarray]], start: np.ndarray
    ) -> tuple[np.ndarray, float, int]:
        """Return the best point, the objective there, and the iterations."""
        point, first, second = start.copy(), np.zeros_like(start), np.zeros_like(start)
        best, lowest, mark, since = start.copy(), np.inf, np.inf, 0
        for iteration in range(1, self.max_iterations + 1):
            value, gradient = objective(point)
            if value < lowest:
                best, lowest = point.copy(), value
            if lowest < mark - self.least:
                mark, since = lowest, 0
            since += 1
            if since > self.patience:
                break
            first = 0.9 * first + 0.1 * gradient
            second = 0.999 * second + 0.001 * gradient**2
            step = first / (1 - 0.9**iteration) / (np.sqrt(second / (1 - 0.999**iteration)) + 1e-8)
            point = point - self.rate * step
        return best, lowest, iteration


ADAMS = {
    "rate 0.05, stops at once": Adam(0.05, 10, 1e-3),
    "rate 0.01, stops at once": Adam(0.01, 10, 1e-3),
    "rate 0.05, patient": Adam(0.05, 300, 1e-7),
}
"""By name; the first two stop when ten iterations bring less than 0.001."""


@dataclass(frozen=True)
class PaperTerms:
    """The paper's objective in its coordinates: weight logits, gamma, beta, and s before the softplus."""

    evidence: Evidence
    ridge: float
    fixed: np.ndarray | None

    def split(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """Return w, gamma, beta and s."""
        d, p = self.evidence.before.shape[1], self.evidence.features.shape[1] + 1
        w = softmax(point[:d]) if self.fixed is None else self.fixed
        return w, point[d : d + p], point[d + p : d + 2 * p], float(np.logaddexp(0.0, point[-1]))

    def __call__(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the objective and its gradient."""
        seen = self.evidence
        w, gamma, beta, s = self.split(point)
        design = np.column_stack([np.ones(seen.n), seen.features])
        eta, sign = design @ gamma, np.where(seen.strong_success, 1.0, -1.0)
        log_likelihood = log_expit(sign * eta)
        rows = design[seen.timed]
        above, below, left = seen.bounded_above, seen.bounded_below, seen.n_left
        sums_above, sums_below = (seen.before + seen.within)[above], seen.before[below]
        risk_above, risk_below = sums_above @ w, sums_below @ w
        upper = (np.log(risk_above) - rows[above] @ beta) / s
        lower = (np.log(risk_below) - rows[below] @ beta) / s
        log_mass = np.empty(len(rows))
        log_mass[:left] = log_ndtr(upper[:left])
        log_mass[above][left:] = _log_between(lower[: seen.n_interval], upper[left:])
        log_mass[left + seen.n_interval :] = log_ndtr(-lower[seen.n_interval :])
        log_likelihood[seen.timed] += log_mass
        log_likelihood[seen.zero_mass] = -np.inf
        kept = log_likelihood >= np.log(FLOOR)
        value = -np.where(kept, log_likelihood, np.log(FLOOR)).mean()
        timed = kept[seen.timed]
        rate_above = np.exp(_log_density(upper) - log_mass[above]) * timed[above]
        rate_below = np.exp(_log_density(lower) - log_mass[below]) * timed[below]
        by_w = sums_above.T @ (rate_above / (s * risk_above)) - sums_below.T @ (rate_below / (s * risk_below))
        by_beta = (-rows[above].T @ rate_above + rows[below].T @ rate_below) / s
        by_s = (-upper @ rate_above + lower @ rate_below) / s
        by_gamma = design.T @ (kept * sign * expit(-sign * eta))
        by_logits = w * (by_w - w @ by_w) if self.fixed is None else np.zeros_like(w)
        slope = expit(point[-1])
        gradient = -np.concatenate([by_logits, by_gamma, by_beta, [by_s * slope]]) / seen.n
        d, p = len(w), len(gamma)
        gradient[d + 1 : d + p] += 2 * self.ridge * gamma[1:]
        gradient[d + p + 1 : d + 2 * p] += 2 * self.ridge * beta[1:]
        return float(value + self.ridge * (gamma[1:] @ gamma[1:] + beta[1:] @ beta[1:])), gradient


def _log_density(z: np.ndarray) -> np.ndarray:
    return -0.5 * z**2 - 0.5 * np.log(2 * np.pi)


def _log_between(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Return the log normal mass of intervals, computed in the left tail."""
    flip = lower + upper > 0
    low, high = np.where(flip, -upper, lower), np.where(flip, -lower, upper)
    top = log_ndtr(high)
    with np.errstate(divide="ignore"):
        mass: np.ndarray = top + np.log(-np.expm1(np.minimum(log_ndtr(low) - top, 0.0)))
    return mass


def fit_adam(experiment: Experiment, adam: Adam, episodes: Episodes, seed: int = 0) -> MapFit:
    """Fit as the paper does, best of its restarts, in the shape of our fit so that the same scores come of it."""
    ours = experiment.fit(episodes, seed=seed)
    terms = paper_terms(experiment, episodes)
    d, p = terms.evidence.before.shape[1], terms.evidence.features.shape[1] + 1
    rng = np.random.default_rng(seed)
    starts = [rng.normal(scale=0.5, size=d + 2 * p + 1) for _ in range(experiment.restarts)]
    best, lowest, iterations = min((adam.minimize(terms, start) for start in starts), key=lambda found: found[1])
    w, gamma, beta, s = terms.split(best)
    return replace(
        ours, w=w, gamma0=float(gamma[0]), gamma=gamma[1:], beta0=float(beta[0]), beta=beta[1:], s=s,
        objective=lowest, gradient_norm=float(np.abs(terms(best)[1]).max()), converged=iterations < adam.max_iterations,
    )  # fmt: skip


def paper_terms(experiment: Experiment, episodes: Episodes) -> PaperTerms:
    """State the objective of an experiment on some episodes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        evidence = collect_evidence(
            episodes, timing=experiment.timing, unmarked=UNMARKED, weights=experiment.weights
        ).settle_zero_mass(FLOOR)
    fixed = None if experiment.weights is None else np.array(experiment.weights)
    return PaperTerms(evidence, experiment.ridge, fixed)


def differences(ours: MapFit, theirs: MapFit, episodes: Episodes) -> Row:
    """Return how far the objective, q and decisions are from ours on some episodes."""
    one, other = (handoff_score(fit, episodes).values for fit in (ours, theirs))
    inside = np.isfinite(one)
    moved = [(_first(one, alpha) != _first(other, alpha)).mean() for alpha in GRID]
    return {
        "excess": theirs.objective - ours.objective,
        "gradient": theirs.gradient_norm,
        "q_rms": float(np.sqrt(np.mean((one - other)[inside] ** 2))),
        "moved": float(np.mean(moved)),
    }


def _first(score: np.ndarray, alpha: float) -> np.ndarray:
    reached = np.where(np.isfinite(score), score, -1.0) >= alpha
    return np.where(reached.any(axis=1), reached.argmax(axis=1), -1)


def replicate(setting: Setting, number: int, seeds: np.random.SeedSequence) -> list[Row]:
    """Fit the same episodes by both, with starts of this replicate; on simulated tasks also play what was fitted."""
    success: dict[str, float] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        if setting.name == SIMULATED:
            experiment, worlds = FULL, draw_worlds(calibrated(), seeds, SIZES)
            episodes = worlds["train"].episodes
            fitted = [TacitSwitch(estimator=partial(fit_adam, FULL, adam), name=name) for name, adam in ADAMS.items()]
            outcomes = contest([TACIT, *fitted], worlds).outcomes
            success = {name: 100 * float(one.success.mean()) for name, one in outcomes.items()}
        else:
            folder, experiment = PLAYED[setting.name]
            episodes = Episodes.read(RESULTS / folder / "training.nc")
        ours = experiment.fit(episodes, seed=number)
        rows: list[Row] = []
        for name, adam in ADAMS.items():
            row = {"adam": name, **differences(ours, fit_adam(experiment, adam, episodes, seed=number), episodes)}
            if success:
                row["success"] = success[name] - success[TACIT.name]
            rows.append(row)
    return rows


def summarize(table: pd.DataFrame, folder: Path) -> str:  # noqa: ARG001
    """Show where Adam ends and what becomes of decisions."""
    rows = []
    for (setting, name), some in table.groupby(["setting", "adam"], sort=False):
        cells = [
            with_half_width(*mean_and_half_width(some[column] * scale), digits=digits)
            for column, scale, digits in (("excess", 1, 4), ("q_rms", 1, 3), ("moved", 100, 1))
        ]
        won = some["success"].dropna() if "success" in some else some["excess"][:0]
        cells.append(with_half_width(*mean_and_half_width(won), digits=2) if len(won) else "")
        rows.append([str(setting), str(name), *cells])
    head = ["data", "Adam", "objective above the optimum", "rms difference of q", "other handoff, % of episodes"]
    return fill("optimizer", table=markdown_table([*head, "success minus ours, points"], rows))


STUDY = Study(
    name="optimizer",
    title="The paper's optimizer beside ours",
    description="Where Adam with early stopping ends, and whether decisions differ, at n = 100 and as played.",
    settings=[Setting(SIMULATED), *(Setting(name, share=0.25) for name in PLAYED)],
    parameters={
        "adams": {name: [one.rate, one.patience, one.least, one.max_iterations] for name, one in ADAMS.items()},
        "sizes": SIZES,
        "mechanism": calibrated().to_dict(),
    },
    replicate=replicate,
    summarize=summarize,
    replicates=4,
    seed=20261231,
    cheapest="ALFWorld, scripted pair",
    agreement=(1e-3, 1e-3),
)
