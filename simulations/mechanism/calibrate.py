"""Finding the mechanism's parameters that meet the paper's published numbers."""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pandas as pd
from rich.console import Console
from scipy.special import expit, logit, softmax
from scipy.stats import rankdata
from sklearn.linear_model import LogisticRegression

from bayes_tacit import Episodes, validate
from bayes_tacit.data.timing import NEVER, handoff_steps
from bayes_tacit.errors import InvalidDataError, TacitWarning
from bayes_tacit.policies import Policy, PrefixRouter, StepDeferral, TacitSwitch, TaskRouter, World, compare
from models.mechanism import FULL, RISK_ONLY, X_ONLY, without_features, without_risk_values
from simulations import published
from simulations.mechanism.exact import success_probability
from simulations.mechanism.parameters import (
    CALIBRATED_FILE,
    Calibration,
    Mechanism,
    Triple,
    with_feature_information,
    with_risk_noise,
)
from simulations.mechanism.world import RISK, simulate_replicate


def diagnostics(training: Episodes, test: World) -> dict[str, float]:
    """Compute all checks.

    Returns
    -------
    dict
        - `auc_cumulative_risk`, `auc_task_features`, `auc_latest_risk`: how well the summed risk of the whole Cheap
          rollout, the features, and the risk of its last step tell failed Cheap rollouts from successful ones;
        - `ab01_with_candidate`: the share of the AB = 01 tasks in which the teacher found a handoff;
        - `success_after_marked_handoff`: how often handing off right after the marked step succeeds.
    """
    failed = ~test.episodes.dataset["cheap_success"].values
    risk = test.episodes.dataset["diagnostics"].sel(diagnostic=RISK).values
    last = risk[np.arange(len(risk)), test.episodes.n_steps - 1]
    return {
        "auc_cumulative_risk": auc(np.nansum(risk, axis=1), failed),
        "auc_task_features": auc(failure_scores(training, test.episodes), failed),
        "auc_latest_risk": auc(last, failed),
        **marks(test),
    }


def auc(scores: np.ndarray, positive: np.ndarray) -> float:
    """Return the probability that a positive case scores higher than a negative one, ties counting one half.

    Examples
    --------
    >>> auc(np.array([1.0, 2.0, 3.0, 3.0]), np.array([False, True, False, True]))
    0.625
    """
    n_positive = int(positive.sum())
    n_negative = len(positive) - n_positive
    if not n_positive or not n_negative:
        raise InvalidDataError("cases of both kinds", field="number of positive cases", value=n_positive)
    ranks = float(rankdata(scores)[positive].sum())
    return (ranks - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative)


def failure_scores(training: Episodes, test: Episodes) -> np.ndarray:
    """Score tasks by a logistic regression of Cheap's failure on task features."""
    x, failed = training.dataset["features"].values, ~training.dataset["cheap_success"].values
    fit = LogisticRegression().fit(x, failed)
    return fit.decision_function(test.dataset["features"].values)


def marks(world: World) -> dict[str, float]:
    """Return how many AB = 01 tasks have a mark, and how many succeed when Strong takes over right after it."""
    marked = world.episodes.has_window
    crossings = np.where(marked, world.episodes.dataset["window_end"].values, NEVER)
    after = world.counterfactuals.outcomes_at(handoff_steps(crossings, "post_action")).success
    return {
        "ab01_with_candidate": float(marked.sum() / (world.episodes.outcomes == "01").sum()),
        "success_after_marked_handoff": float(after[marked].mean()),
    }


_PLAIN = ("difficulty_on_cheap", "difficulty_on_drift", "difficulty_on_strong", "resistance_on_strong")
_THRESHOLD = ("threshold_center", "threshold_difficulty")
_LOGITS = ("x1_correlation", "x2_correlation", "risk_persistence")
_LOGS = ("threshold_spread", "risk_of_error", "risk_noise")
_SMALLEST = 1e-4


@dataclass(frozen=True)
class Ends:
    """The settings at both ends of the two sensitivity axes, as factors for the functions that vary them."""

    least_feature: float
    most_feature: float
    most_noise: float
    least_noise: float


def to_vector(mechanism: Mechanism, ends: Ends) -> np.ndarray:
    """Return logits of probabilities, log ratios of moves, logs of what is positive, the rest as it is.

    The risk off track is left out: it sets the unit of risk.
    """
    return np.concatenate(
        [
            logit(mechanism.cheap_correct),
            logit(mechanism.strong_correct),
            *(_ratios(row) for row in (*mechanism.cheap_moves, *mechanism.strong_moves)),
            [getattr(mechanism, name) for name in (*_PLAIN, *_THRESHOLD)],
            logit([max(getattr(mechanism, name), _SMALLEST) for name in _LOGITS]),
            np.log([max(getattr(mechanism, name), _SMALLEST) for name in _LOGS]),
            np.log(mechanism.risk_mean[:2]),
            np.log([ends.least_feature, ends.most_feature, ends.most_noise, ends.least_noise]),
        ]
    )


def from_vector(vector: np.ndarray) -> tuple[Mechanism, Ends]:
    """Return the mechanism and the ends that a vector stands for."""
    rest = iter(vector.tolist())

    def take(n: int) -> np.ndarray:
        return np.array([next(rest) for _ in range(n)])

    cheap_correct, strong_correct = _triple(expit(take(3))), _triple(expit(take(3)))
    rows = [_triple(softmax(np.append(take(2), 0.0))) for _ in range(6)]
    plain = dict(zip((*_PLAIN, *_THRESHOLD), take(6).tolist(), strict=True))
    shares = dict(zip(_LOGITS, expit(take(3)).tolist(), strict=True))
    positive = dict(zip(_LOGS, np.exp(take(3)).tolist(), strict=True))
    on_track, recoverable = np.exp(take(2)).tolist()
    mechanism = Mechanism(
        cheap_correct=cheap_correct,
        strong_correct=strong_correct,
        cheap_moves=(rows[0], rows[1], rows[2]),
        strong_moves=(rows[3], rows[4], rows[5]),
        risk_mean=(on_track, recoverable, 1.0),
        **plain,
        **shares,
        **positive,
    )
    return mechanism, Ends(*np.exp(take(4)).tolist())


def _ratios(row: Triple) -> np.ndarray:
    safe = np.maximum(row, _SMALLEST)
    return np.log(safe[:2] / safe[2])


def _triple(values: np.ndarray) -> Triple:
    first, second, third = (float(value) for value in values)
    return first, second, third


CAP = 16.0
"""The development cap."""

TACIT = TacitSwitch(estimator=FULL.fit)
COMPARED = (
    TaskRouter(),
    StepDeferral(RISK),
    PrefixRouter(),
    TACIT,
    TacitSwitch(estimator=X_ONLY.fit, view=without_risk_values, name="x-only"),
    TacitSwitch(estimator=RISK_ONLY.fit, view=without_features, name="risk-only"),
)
"""The learned policies of the paper and its two ablations."""

PAPER = MappingProxyType(
    {
        "Pure Cheap": published.MECHANISM_SUCCESS_PERCENT["pure_cheap"],
        "Pure Strong": published.MECHANISM_SUCCESS_PERCENT["pure_strong"],
        "Task Router": published.MECHANISM_SUCCESS_PERCENT["task_router"],
        "Step Deferral": published.MECHANISM_SUCCESS_PERCENT["step_deferral"],
        "Prefix router": published.MECHANISM_SUCCESS_PERCENT["prefix_router"],
        "TACIT-Switch": published.MECHANISM_SUCCESS_PERCENT["tacit_switch"],
        "x-only": published.ABLATION_SUCCESS_PERCENT["x_only"][0],
        "risk-only": published.ABLATION_SUCCESS_PERCENT["risk_only"][0],
        **{f"auc_{name}": auc for name, auc in published.MECHANISM_AUC_OF_CHEAP_FAILURE.items()},
        "ab01_with_candidate": published.MECHANISM_CANDIDATE_PERCENT,
        "success_after_marked_handoff": published.MECHANISM_SUCCESS_AFTER_MARK_PERCENT,
        "least feature information": published.SENSITIVITY_SUCCESS_PERCENT_RANGE["task_features"][0],
        "most feature information": published.SENSITIVITY_SUCCESS_PERCENT_RANGE["task_features"][1],
        "most risk noise": published.SENSITIVITY_SUCCESS_PERCENT_RANGE["online_risk"][0],
        "least risk noise": published.SENSITIVITY_SUCCESS_PERCENT_RANGE["online_risk"][1],
    }
)
"""Success in percent, by policy and for TACIT-Switch at the ends of the sensitivity axes; AUCs; the teacher's marks."""

TOLERANCE = MappingProxyType({name: 0.01 if name.startswith("auc") else 0.7 for name in PAPER})
"""How near is near enough: 0.7 points, 0.01 for an AUC."""


def measure(mechanism: Mechanism, ends: Ends, seed: int, replicate: int) -> dict[str, float]:
    """Measure the figures of `PAPER` on one replicate; the pure rates are exact."""
    worlds = simulate_replicate(mechanism, seed, replicate)
    success = success_on_test(COMPARED, worlds)
    checks = diagnostics(worlds["train"].episodes, worlds["test"])
    found = {
        "Pure Cheap": 100 * success_probability(mechanism, "cheap"),
        "Pure Strong": 100 * success_probability(mechanism, "strong"),
        **success,
        **{name: value if name.startswith("auc") else 100 * value for name, value in checks.items()},
    }
    axes: dict[str, tuple[Callable[[Mechanism, float], Mechanism], float]] = {
        "least feature information": (with_feature_information, ends.least_feature),
        "most feature information": (with_feature_information, ends.most_feature),
        "most risk noise": (with_risk_noise, ends.most_noise),
        "least risk noise": (with_risk_noise, ends.least_noise),
    }
    for name, (varied, factor) in axes.items():
        varied_worlds = simulate_replicate(varied(mechanism, factor), seed, replicate)
        found[name] = success_on_test([TACIT], varied_worlds)[TACIT.name]
    return {name: found[name] for name in PAPER}


def success_on_test(policies: Iterable[Policy], worlds: Mapping[str, World]) -> dict[str, float]:
    """Return the success of policies on test tasks, in percent, by name."""
    with warnings.catch_warnings():
        # That some marks are missing, or have no risk in them, is part of the study.
        warnings.simplefilter("ignore", TacitWarning)
        found = compare(policies, worlds["train"].episodes, worlds["development"], worlds["test"], CAP)
    return {name: 100 * float(outcomes.success.mean()) for name, outcomes in found.outcomes.items()}


PILOT_SEED = 7_010_001
CHECK_SEED = 7_010_002

HEADLINE = Mechanism(
    cheap_correct=(0.908, 0.778, 0.350),
    strong_correct=(0.935, 0.926, 0.904),
    cheap_moves=((0.597, 0.237, 0.166), (0.034, 0.954, 0.012), (0.002, 0.016, 0.982)),
    strong_moves=((0.883, 0.069, 0.048), (0.255, 0.740, 0.005), (0.106, 0.253, 0.641)),
    difficulty_on_cheap=1.65,
    difficulty_on_drift=0.137,
    difficulty_on_strong=0.20,
    resistance_on_strong=1.278,
    x1_correlation=0.26,
    x2_correlation=0.946,
    threshold_center=-0.775,
    threshold_difficulty=-0.795,
    threshold_spread=0.914,
    risk_mean=(0.009, 0.033, 1.0),
    risk_of_error=0.019,
    risk_noise=0.158,
    risk_persistence=0.0,
)
"""A pilot's set that is near the headline table, but not near the range over risk noise."""

PERSISTENT = Mechanism(
    cheap_correct=(0.900, 0.892, 0.532),
    strong_correct=(0.907, 0.906, 0.903),
    cheap_moves=((0.687, 0.082, 0.231), (0.337, 0.658, 0.005), (0.001, 0.007, 0.992)),
    strong_moves=((0.833, 0.044, 0.123), (0.686, 0.313, 0.001), (0.007, 0.016, 0.977)),
    difficulty_on_cheap=0.687,
    difficulty_on_drift=0.571,
    difficulty_on_strong=0.087,
    resistance_on_strong=0.858,
    x1_correlation=0.29,
    x2_correlation=0.708,
    threshold_center=0.063,
    threshold_difficulty=0.376,
    threshold_spread=0.041,
    risk_mean=(0.007, 0.047, 1.0),
    risk_of_error=0.008,
    risk_noise=0.609,
    risk_persistence=0.801,
)
"""A pilot's set with noise that persists over a task, which opens that range."""

STARTS = (
    (HEADLINE, Ends(least_feature=0.05, most_feature=4.0, most_noise=5.0, least_noise=0.05)),
    (PERSISTENT, Ends(least_feature=0.1, most_feature=4.0, most_noise=4.0, least_noise=0.1)),
)
SPREADS = (0.15, 0.1, 0.1)
"""Standard deviation of the perturbations, by round."""

DAMPINGS = (1.0, 4.0, 16.0)
REPLICATES = 4
"""Replicates that decide between candidates; slopes come from the first alone."""

_RIDGE = 3.0

_NAMES = list(PAPER)
_PAPER = np.array([PAPER[name] for name in _NAMES])
_TOLERANCE = np.array([TOLERANCE[name] for name in _NAMES])


def main() -> None:
    """Search, check on other tasks, write the parameters, and print how near they are."""
    parser = argparse.ArgumentParser(description="Calibrate the mechanism simulator against the paper's figures.")
    parser.add_argument("--seed", type=int, default=PILOT_SEED)
    parser.add_argument("--rounds", type=int, default=len(SPREADS), choices=range(len(SPREADS) + 1))
    parser.add_argument("--perturbations", type=int, default=48)
    parser.add_argument("--checks", type=int, default=16, help="replicates of the final check")
    parser.add_argument("--out", type=Path, default=CALIBRATED_FILE)
    given = parser.parse_args()
    found = search(given.seed, given.rounds, given.perturbations)
    checked = mean_figures(found, CHECK_SEED, given.checks)
    command = (
        f"python -m simulations.mechanism.calibrate --seed {given.seed} --rounds {given.rounds} "
        f"--perturbations {given.perturbations} --checks {given.checks}"
    )
    calibration_of(found, checked, command, given.seed, given.checks).write(given.out)
    shown = pd.DataFrame({"paper": _PAPER, "ours": checked}, index=_NAMES).round(2)
    Console().print(f"on tasks that played no part in the search:\n{shown}")


def figures_of(vector: np.ndarray, seed: int, replicate: int) -> np.ndarray:
    """Return the figures of a parameter vector on one replicate."""
    found = measure(*from_vector(vector), seed, replicate)
    return np.array([found[name] for name in _NAMES])


def mean_figures(vector: np.ndarray, seed: int, replicates: int) -> np.ndarray:
    """Average over replicates."""
    return np.mean([figures_of(vector, seed, replicate) for replicate in range(replicates)], axis=0)


def score(figures: np.ndarray) -> float:
    """Return the root mean square distance from the paper, in units of the tolerance."""
    return math.sqrt(float(np.mean(((figures - _PAPER) / _TOLERANCE) ** 2)))


def search(seed: int, rounds: int, perturbations: int) -> np.ndarray:
    """Return the best vector that is found."""
    rng = np.random.default_rng(validate.whole("seed", seed, 0))
    starts = [to_vector(*start) for start in STARTS]
    figures = [mean_figures(start, seed, REPLICATES) for start in starts]
    best, here = min(zip(starts, figures, strict=True), key=lambda pair: score(pair[1]))
    for spread in SPREADS[:rounds]:
        moves = spread * rng.normal(size=(perturbations, len(best)))
        slopes = slopes_at(best, lambda vector: figures_of(vector, seed, 0) / _TOLERANCE, moves, spread)
        missing = (_PAPER - here) / _TOLERANCE
        candidates = [best + damped_step(slopes, missing, damping) for damping in DAMPINGS]
        measurements = [mean_figures(candidate, seed, REPLICATES) for candidate in candidates]
        tried = zip([best, *candidates], [here, *measurements], strict=True)
        best, here = min(tried, key=lambda pair: score(pair[1]))
    return best


def slopes_at(
    at: np.ndarray, figures: Callable[[np.ndarray], np.ndarray], moves: np.ndarray, spread: float
) -> np.ndarray:
    """Regress the figures, in units of the tolerance, on perturbations: (figure, parameter)."""
    base = figures(at)
    changes = np.array([figures(at + move) - base for move in moves])
    unit = moves / spread
    return np.linalg.solve(unit.T @ unit + _RIDGE * np.eye(len(at)), unit.T @ changes).T / spread


def damped_step(slopes: np.ndarray, missing: np.ndarray, damping: float) -> np.ndarray:
    """Return the damped step that makes up for what is missing, in units of the tolerance."""
    return slopes.T @ np.linalg.solve(slopes @ slopes.T + damping * np.eye(len(missing)), missing)


def calibration_of(found: np.ndarray, checked: np.ndarray, command: str, seed: int, checks: int) -> Calibration:
    """Put the result together, with settings at even ratios between the baseline and the ends of each axis."""
    mechanism, ends = from_vector(found)

    def axis(first: float, last: float) -> tuple[float, ...]:
        return tuple(round(factor, 4) for factor in (first, math.sqrt(first), 1.0, math.sqrt(last), last))

    return Calibration(
        mechanism=mechanism,
        feature_factors=axis(ends.least_feature, ends.most_feature),
        noise_factors=axis(ends.most_noise, ends.least_noise),
        provenance={
            "command": command,
            "version": version("bayes_tacit"),
            "search_seed": seed,
            "check_seed": CHECK_SEED,
            "check_replicates": checks,
            "check_score": round(score(checked), 4),
            "check_figures": {name: round(float(value), 4) for name, value in zip(_NAMES, checked, strict=True)},
            "ends": asdict(ends),
        },
    )


if __name__ == "__main__":
    main()
