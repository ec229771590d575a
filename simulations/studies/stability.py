"""The paper's theorem by numbers: what wrong teacher intervals do to the estimate, and what the bound says of it."""

from __future__ import annotations

from functools import cache

import numpy as np

from bayes_tacit import Episodes, MapFit, fit_map
from bayes_tacit.errors import ConvergenceError
from simulations.model_based import TRUTH, quietly
from simulations.stability.constants import (
    POPULATION,
    SEARCH,
    Exchange,
    LargeSample,
    Population,
    constants_of,
    mean_hessian,
    whitening,
)
from simulations.stability.contamination import (
    AIMED_RATE,
    TARGET,
    TRUE_W,
    WRONG_MARKS,
    WRONG_OUTCOMES,
    Contamination,
    Records,
    Sample,
    draw,
    farthest_direction,
    gradients,
    scores,
)
from simulations.studies.recovery import raw_parameters
from simulations.studies.stability_tables import summarize
from simulations.studies.study import Row, Setting, Study

SIZES = {500: 1.0, 2_000: 1.0, 8_000: 0.5, 32_000: 0.25}
"""Training tasks, and the share of the replicates that such a size gets."""
RATES = (0.02, 0.05, 0.1, 0.2, 0.4)
RADII = {"plain": (0.05, 0.1, 0.2, 0.3), "whitened": (0.05, 0.1, 0.125, 0.15, 0.2, 0.25)}
POPULATION_SEED = 20261210
HELD_OUT = 1_000
CONSTANTS = "constants"
LARGE, LARGE_SIZE = "large", 8_000_000
"""A sample for which the theorem's conditions hold."""
LARGE_RATES = {**dict.fromkeys(WRONG_MARKS, (0.0002,)), WRONG_OUTCOMES: (0.02, 0.1, 0.4)}


@cache
def population() -> Population:
    """Return what stands for the population in every replicate, in plain coordinates."""
    return Population(draw(POPULATION, np.random.default_rng(POPULATION_SEED)))


@cache
def population_hessian() -> np.ndarray:
    """Return the Hessian of the population's objective at the target."""
    return population().hessian()


@cache
def frames() -> dict[str, np.ndarray]:
    """Return the coordinates: the parameters themselves, and those in which the population's Hessian is the unit."""
    return {"plain": np.eye(len(TARGET)), "whitened": whitening(population_hessian())}


@cache
def farthest() -> np.ndarray:
    """Return the direction along which wrong marks push the estimate farthest."""
    return farthest_direction(population().sample, frames()["whitened"])


def replicate(setting: Setting, number: int, seeds: np.random.SeedSequence) -> list[Row]:
    """Compute all constants, or fit one sample clean and in every contaminated form."""
    if setting.name == CONSTANTS:
        return constants()
    if setting.name == LARGE:
        return large(setting.values["n"], seeds)
    rng, held_out = (np.random.default_rng(stream) for stream in seeds.spawn(2))
    contamination = Contamination.draw(draw(setting.values["n"], rng), farthest(), rng)
    sample, test = contamination.sample, draw(HELD_OUT, held_out)
    clean = Records.of(sample, sample.mark, sample.mark)
    estimate = fitted(sample.episodes(), number)
    before = gradients(TARGET, clean).mean(axis=0)
    rows = [{"kind": "clean", "rate": 0.0, "share": 0.0, **left_sides(estimate, test), **on_the_way(clean, before)}]
    for rate in RATES:
        for kind in (*WRONG_MARKS, WRONG_OUTCOMES):
            records = contamination.records(kind, rate)
            if kind == WRONG_OUTCOMES:
                episodes, share = with_outcomes(sample, contamination.outcomes(rate)), 0.0
            else:
                episodes = sample.episodes(contamination.mark(kind, rate))
                share = len(contamination.changed(kind, rate)) / len(sample.mark)
            error = fitted(episodes, number)
            row: Row = {"kind": kind, "rate": rate, "share": share, **lengths("moved", error - estimate)}
            rows.append({**row, **left_sides(error, test), **on_the_way(records, before)})
    return rows


def constants() -> list[Row]:
    """Return every constant, by coordinates and radius; radius 0 for those that do not depend on it."""
    sample = population().sample
    rows: list[Row] = []

    def add(coordinates: str, radius: float, name: str, kind: str, value: float) -> None:
        rows.append({"coordinates": coordinates, "radius": radius, "constant": name, "kind": kind, "value": value})

    for coordinates, frame in frames().items():
        seen = Population(sample, frame)
        add(coordinates, 0.0, "timed", "", len(sample.timed) / len(sample.mark))
        add(coordinates, 0.0, "sigma", "", seen.spread())
        for radius in RADII[coordinates]:
            for name, kind, value in constants_of(seen, radius):
                add(coordinates, radius, name, kind, value)
    return rows


def large(n: int, seeds: np.random.SeedSequence) -> list[Row]:
    """Fit a sample for which the theorem's conditions hold, clean, with few wrong marks, and with wrong outcomes."""
    tasks, held_out = seeds.spawn(2)
    sample, test = LargeSample.draw(n, LARGE_RATES, farthest(), tasks), draw(HELD_OUT, np.random.default_rng(held_out))
    rows: list[Row] = []
    for (kind, rate), exchange in {("clean", 0.0): Exchange([], []), **sample.exchanges}.items():
        share = 0.0 if kind == WRONG_OUTCOMES else exchange.count / sample.size
        error = sample.fit(exchange) - TARGET
        rows.append({"kind": kind, "rate": rate, "share": share, "size": n, **left_sides(error, test)})
    return rows


def fitted(training: Episodes, seed: int) -> np.ndarray:
    """Return how far the fit is from the target, in plain coordinates; NaN if there is none."""
    try:
        return target_of(fit_map(training, ridge=0.0, restarts=1, seed=seed, unmarked="outcome")) - TARGET
    except ConvergenceError:
        return np.full(len(TARGET), np.nan)


def left_sides(error: np.ndarray, test: Sample) -> Row:
    """Return the left side of both inequalities."""
    design = np.column_stack([np.ones(len(test.x)), test.x])
    change = scores(TARGET + error, design, test.totals) - scores(TARGET, design, test.totals)
    q = {"q_max": float(np.abs(change).max()), "q_rmse": float(np.sqrt((change**2).mean()))}
    return {**lengths("error", error), **q}


def on_the_way(records: Records, before: np.ndarray) -> Row:
    """Return what the proof passes on its way to the right side.

    These are the gradient of the contaminated objective at the target, what contamination changed of it (`before` is
    the clean one), its size as a first step towards the estimate, and how far the Hessian there is from the
    population's.
    """
    slope = gradients(TARGET, records).mean(axis=0)
    expected = population_hessian()
    deviation = mean_hessian(TARGET, records, np.eye(len(expected))) - expected
    row = lengths("step", np.linalg.solve(expected, slope))
    for name, frame in frames().items():
        row[f"slope_{name}"] = float(np.linalg.norm(frame.T @ slope))
        row[f"pull_{name}"] = float(np.linalg.norm(frame.T @ (slope - before)))
        row[f"deviation_{name}"] = float(np.abs(np.linalg.eigvalsh(frame.T @ deviation @ frame)).max())
    return row


def lengths(what: str, shift: np.ndarray) -> Row:
    """Return the length of a shift of the parameters in all coordinates."""
    return {f"{what}_{name}": float(np.linalg.norm(np.linalg.solve(frame, shift))) for name, frame in frames().items()}


def target_of(fit: MapFit) -> np.ndarray:
    """Return a fit as a point of the theorem's coordinates."""
    raw = raw_parameters(fit)
    gamma, beta = ([raw[f"{name}{j}"] for j in range(4)] for name in ("gamma", "beta"))
    return np.array([*gamma, np.log(fit.w[0] / fit.w[1]), *beta, np.log(fit.s)])


def with_outcomes(sample: Sample, strong: np.ndarray) -> Episodes:
    """Return the episodes with other outcomes of Strong: those it now fails have no mark."""
    dataset = sample.episodes().dataset
    windows = {name: np.where(strong, dataset[name].values, np.nan) for name in ("window_start", "window_end")}
    changed = {name: ("episode", values) for name, values in {"strong_success": strong, **windows}.items()}
    return quietly(dataset.assign(changed))


STUDY = Study(
    name="stability",
    title="The theorem on noisy teacher intervals, by numbers",
    description=(
        "Both sides of the paper's Theorem 1 under five kinds of contamination: how far the estimate and q move, every "
        "constant of the bound, how it scales, how tight it is, where it applies, and where it fails."
    ),
    settings=[
        *(Setting(f"n={n}", {"n": n}, share) for n, share in SIZES.items()),
        Setting(CONSTANTS, share=0.025),
        Setting(LARGE, {"n": LARGE_SIZE}, share=0.025),
    ],
    parameters={
        "truth": TRUTH.as_record(),
        "w": TRUE_W,
        "rates": RATES,
        "radii": RADII,
        "population": [POPULATION, POPULATION_SEED],
        "held_out": HELD_OUT,
        "aimed": AIMED_RATE,
        "search": SEARCH,
        "large": LARGE_RATES,
    },
    replicate=replicate,
    summarize=summarize,
    replicates=40,
    seed=20261211,
)
