"""Find parameters that give the paper's figures for the mechanism study: `python -m simulations.mechanism.calibrate`.

The paper does not publish its parameters. The search starts from the better of two sets that a pilot found, and goes on
in rounds. In a round, the parameters are perturbed at random many times, a ridge regression of the figures on the
perturbations gives their slopes, and of several damped Gauss-Newton steps toward the paper the best is taken, if it is
an improvement. All candidates meet the same tasks. Every measurement is kept as it comes, so that a stopped search goes
on where it was. At the end the figures are measured on tasks that played no part in the search.

The seeds here are for calibration only; the studies must not use them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import Progress, TimeRemainingColumn
from rich.table import Table

from bayes_tacit import validate
from simulations.mechanism.parameters import CALIBRATED_FILE, Calibration, Mechanism
from simulations.mechanism.targets import PAPER, TOLERANCE, measure
from simulations.mechanism.vector import Ends, from_vector, to_vector

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
    console = Console()
    kept = given.out.with_suffix(f".search-{given.seed}.jsonl")
    measured = Measurements(kept)
    total = REPLICATES * len(STARTS) + given.rounds * (given.perturbations + REPLICATES * len(DAMPINGS)) + given.checks
    with Progress(*Progress.get_default_columns(), TimeRemainingColumn(), console=console) as progress:
        task = progress.add_task("measurements", total=total)
        measured.advance = lambda: progress.advance(task)
        found = search(measured, given.seed, given.rounds, given.perturbations)
        checked = measured.mean(found, CHECK_SEED, given.checks)
    command = (
        f"python -m simulations.mechanism.calibrate --seed {given.seed} --rounds {given.rounds} "
        f"--perturbations {given.perturbations} --checks {given.checks}"
    )
    calibration_of(found, checked, command, given.seed, given.checks).write(given.out)
    kept.unlink()
    console.print(table_of(checked))


class Measurements:
    """The figures of parameter vectors, each measured once and kept in a file."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.advance: Callable[[], object] = lambda: None
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        self.known: dict[str, list[float]] = {line["key"]: line["figures"] for line in lines}

    def one(self, vector: np.ndarray, seed: int, replicate: int) -> np.ndarray:
        """Measure one replicate."""
        key = hashlib.sha256(vector.tobytes() + f"{seed} {replicate}".encode()).hexdigest()[:24]
        if key not in self.known:
            figures = measure(*from_vector(vector), seed, replicate)
            self.known[key] = [figures[name] for name in _NAMES]
            with self.file.open("a") as file:
                file.write(json.dumps({"key": key, "figures": self.known[key]}) + "\n")
        self.advance()
        return np.array(self.known[key])

    def mean(self, vector: np.ndarray, seed: int, replicates: int) -> np.ndarray:
        """Average over replicates."""
        return np.mean([self.one(vector, seed, replicate) for replicate in range(replicates)], axis=0)


def score(figures: np.ndarray) -> float:
    """Give the root mean square distance from the paper, in units of the tolerance."""
    return math.sqrt(float(np.mean(((figures - _PAPER) / _TOLERANCE) ** 2)))


def search(measured: Measurements, seed: int, rounds: int, perturbations: int) -> np.ndarray:
    """Give the best vector that is found."""
    rng = np.random.default_rng(validate.whole("seed", seed, 0))
    starts = [to_vector(*start) for start in STARTS]
    figures = [measured.mean(start, seed, REPLICATES) for start in starts]
    best, here = min(zip(starts, figures, strict=True), key=lambda pair: score(pair[1]))
    for spread in SPREADS[:rounds]:
        slopes = _slopes(measured, best, seed, spread * rng.normal(size=(perturbations, len(best))), spread)
        candidates = [best + _step(slopes, here, damping) for damping in DAMPINGS]
        measurements = [measured.mean(candidate, seed, REPLICATES) for candidate in candidates]
        tried = zip([best, *candidates], [here, *measurements], strict=True)
        best, here = min(tried, key=lambda pair: score(pair[1]))
    return best


def _slopes(measured: Measurements, at: np.ndarray, seed: int, moves: np.ndarray, spread: float) -> np.ndarray:
    """Regress the figures, in units of the tolerance, on perturbations: (figure, parameter)."""
    base = measured.one(at, seed, 0)
    changes = np.array([measured.one(at + move, seed, 0) - base for move in moves]) / _TOLERANCE
    unit = moves / spread
    return np.linalg.solve(unit.T @ unit + _RIDGE * np.eye(len(at)), unit.T @ changes).T / spread


def _step(slopes: np.ndarray, here: np.ndarray, damping: float) -> np.ndarray:
    """Give the damped step toward the paper."""
    missing = (_PAPER - here) / _TOLERANCE
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


def table_of(figures: np.ndarray) -> Table:
    """Show paper, ours and the difference."""
    table = Table("figure", "paper", "ours", "difference", title="on tasks that played no part in the search")
    for name, paper, ours in zip(_NAMES, _PAPER, figures, strict=True):
        digits = 3 if name.startswith("auc") else 2
        table.add_row(name, f"{paper:.{digits}f}", f"{ours:.{digits}f}", f"{ours - paper:+.{digits}f}")
    return table


if __name__ == "__main__":
    main()
