"""The paper's theorem by numbers: what wrong teacher intervals do to the estimate, and what the bound says of it."""

from __future__ import annotations

from functools import cache

import numpy as np

from bayes_tacit import Episodes, MapFit, fit_map
from bayes_tacit.errors import ConvergenceError
from simulations.model_based import TRUTH, quietly
from simulations.stability.constants import Population, constants_of, mean_hessian, whitening
from simulations.stability.contamination import WRONG_MARKS, WRONG_OUTCOMES, Contamination
from simulations.stability.design import TARGET, TRUE_W, Sample, draw
from simulations.stability.losses import Records, gradients, scores
from simulations.studies.recovery import raw_parameters
from simulations.studies.stability_page import summarize
from simulations.studies.study import Row, Setting, Study

SIZES = {500: 1.0, 2_000: 1.0, 8_000: 0.5, 32_000: 0.25}
"""Training tasks, and the share of the replicates that such a size gets."""
RATES = (0.02, 0.05, 0.1, 0.2, 0.4)
RADII = {"plain": (0.05, 0.1, 0.2, 0.3), "whitened": (0.05, 0.1, 0.15, 0.2, 0.25)}
POPULATION, POPULATION_SEED = 100_000, 20261210
HELD_OUT = 1_000
CONSTANTS = "constants"


@cache
def population() -> Population:
    """Give what stands for the population in every replicate, in plain coordinates."""
    return Population(draw(POPULATION, np.random.default_rng(POPULATION_SEED)))


@cache
def population_hessian() -> np.ndarray:
    """Give the Hessian of the population's objective at the target."""
    return population().hessian()


@cache
def frames() -> dict[str, np.ndarray]:
    """Give the coordinates: the parameters themselves, and those in which the population's Hessian is the unit."""
    return {"plain": np.eye(len(TARGET)), "whitened": whitening(population_hessian())}


@cache
def weakest() -> np.ndarray:
    """Give the direction in which the population says least, which the worst marks aim at."""
    direction: np.ndarray = np.linalg.eigh(population_hessian())[1][:, 0]
    return direction


def replicate(setting: Setting, number: int, seeds: np.random.SeedSequence) -> list[Row]:
    """Compute all constants, or fit one sample clean and in every contaminated form."""
    if setting.name == CONSTANTS:
        return constants(np.random.default_rng(seeds))
    rng, held_out = (np.random.default_rng(stream) for stream in seeds.spawn(2))
    contamination = Contamination.draw(draw(setting.values["n"], rng), weakest(), rng)
    sample, test = contamination.sample, draw(HELD_OUT, held_out)
    clean = Records.of(sample, sample.mark, sample.mark)
    rows = [measure("clean", 0.0, sample.episodes(), clean, test, number)]
    for rate in RATES:
        for kind in WRONG_MARKS:
            mark = contamination.mark(kind, rate)
            records = Records.of(sample, mark, mark)
            rows.append(measure(kind, rate, sample.episodes(mark), records, test, number))
            rows[-1]["share"] = len(contamination.wrong(kind, rate)) / len(mark)
        strong = contamination.outcomes(rate)
        records = Records.of(sample, sample.mark, sample.mark, strong)
        rows.append(measure(WRONG_OUTCOMES, rate, with_outcomes(sample, strong), records, test, number))
    return rows


def constants(rng: np.random.Generator) -> list[Row]:
    """Give every constant, by coordinates and radius."""
    sample = population().sample
    contamination = Contamination.draw(sample, weakest(), rng)
    rows: list[Row] = []
    for coordinates, frame in frames().items():
        seen = Population(sample, frame)
        rows.append(
            {"coordinates": coordinates, "radius": 0.0, "constant": "sigma", "kind": "", "value": seen.spread()}
        )
        rows += [
            {"coordinates": coordinates, "radius": radius, "constant": name, "kind": kind, "value": value}
            for radius in RADII[coordinates]
            for name, kind, value in constants_of(seen, contamination, radius)
        ]
    return rows


def measure(kind: str, rate: float, training: Episodes, records: Records, test: Sample, seed: int) -> Row:
    """Fit, and give the left side of both inequalities, and what the proof passes on its way to the right side.

    These are the gradient of the contaminated objective at the target, its size as a first step towards the estimate,
    and how far the empirical Hessian there is from the population's.
    """
    row: Row = {"kind": kind, "rate": rate, "share": 0.0}
    slope = gradients(TARGET, records).mean(axis=0)
    expected = population_hessian()
    deviation = mean_hessian(TARGET, records, np.eye(len(expected))) - expected
    try:
        error = target_of(fit_map(training, ridge=0.0, restarts=1, seed=seed, unmarked="outcome")) - TARGET
    except ConvergenceError:
        error = np.full(len(TARGET), np.nan)
    for name, frame in frames().items():
        row[f"error_{name}"] = float(np.linalg.norm(np.linalg.solve(frame, error)))
        row[f"slope_{name}"] = float(np.linalg.norm(frame.T @ slope))
        row[f"step_{name}"] = float(np.linalg.norm(np.linalg.solve(frame, np.linalg.solve(expected, slope))))
        row[f"deviation_{name}"] = float(np.abs(np.linalg.eigvalsh(frame.T @ deviation @ frame)).max())
    design = np.column_stack([np.ones(len(test.x)), test.x])
    change = scores(TARGET + error, design, test.totals) - scores(TARGET, design, test.totals)
    return {**row, "q_max": float(np.abs(change).max()), "q_rmse": float(np.sqrt((change**2).mean()))}


def target_of(fit: MapFit) -> np.ndarray:
    """Give a fit as a point of the theorem's coordinates."""
    raw = raw_parameters(fit)
    gamma, beta = ([raw[f"{name}{j}"] for j in range(4)] for name in ("gamma", "beta"))
    return np.array([*gamma, np.log(fit.w[0] / fit.w[1]), *beta, np.log(fit.s)])


def with_outcomes(sample: Sample, strong: np.ndarray) -> Episodes:
    """Give the episodes with other outcomes of Strong: those it now fails have no mark."""
    dataset = sample.episodes().dataset
    windows = {name: np.where(strong, dataset[name].values, np.nan) for name in ("window_start", "window_end")}
    changed = {name: ("episode", values) for name, values in {"strong_success": strong, **windows}.items()}
    return quietly(dataset.assign(changed))


STUDY = Study(
    name="stability",
    title="The theorem on noisy teacher intervals, by numbers",
    description=(
        "Both sides of the paper's Theorem 1 under five kinds of contamination: how far the estimate and q move, every "
        "constant of the bound, how it scales, how tight it is, and where it applies."
    ),
    settings=[
        *(Setting(f"n={n}", {"n": n}, share) for n, share in SIZES.items()),
        Setting(CONSTANTS, share=0.025),
    ],
    parameters={
        "truth": TRUTH.as_record(),
        "w": TRUE_W,
        "rates": RATES,
        "radii": RADII,
        "population": [POPULATION, POPULATION_SEED],
        "held_out": HELD_OUT,
    },
    replicate=replicate,
    summarize=summarize,
    replicates=40,
    seed=20261211,
)
