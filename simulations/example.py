"""The example set that comes with the wheel: 1,200 agent-like episodes from the model itself, so the truth is known.

Run `python -m simulations.example` to write it again; a test checks that the file is what this script makes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from scipy import special

from bayes_tacit import Episodes
from bayes_tacit.model.design import Standardization
from simulations.teacher import mark_windows

SEED = 20260
N_EPISODES = 1200
DIAGNOSTICS = ("repeat", "uncertainty", "stalled", "invalid")
FEATURES = ("entities", "subgoals", "needs_tool")
TASK_TYPES = ("clean", "cook", "cool", "find", "place")

TRUTH: dict[str, float | list[float]] = {
    "w": [0.35, 0.30, 0.23, 0.12],
    "gamma0": 0.9,
    "gamma": [-0.5, -0.4, 0.3],
    "beta0": 0.9,
    "beta": [-0.15, 0.25, 0.1],
    "s": 0.5,
}
"""What generated the example, on standardized features."""


def simulate_example(seed: int = SEED, n: int = N_EPISODES) -> Episodes:
    """Draw tasks, Cheap rollouts that may drift off track, thresholds, outcomes, and teacher windows.

    The windows are single checkpoints or ranges that hold the crossing; one in ten is missing.
    """
    rng = np.random.default_rng(seed)
    features = _features(rng, n)
    n_steps = rng.integers(8, 31, size=n)
    diagnostics = _diagnostics(rng, n, int(n_steps.max()))
    x = Standardization.of(features).apply(features)

    strong = rng.random(n) < special.expit(TRUTH["gamma0"] + x @ np.array(TRUTH["gamma"]))
    kappa = np.exp(TRUTH["beta0"] + x @ np.array(TRUTH["beta"]) + TRUTH["s"] * rng.normal(size=n))
    risk = np.cumsum(diagnostics @ np.array(TRUTH["w"]), axis=1)
    crossing = (risk < kappa[:, None]).sum(axis=1)
    crossed = crossing < n_steps
    cheap = np.where(strong, ~crossed, rng.random(n) < 0.3)

    start, end = mark_windows(rng, crossing, n_steps, fineness=0.6)
    marked = strong & crossed & (rng.random(n) < 0.9)
    ids = np.array([f"task-{number:04d}" for number in range(n)])
    tasks = pd.DataFrame({"episode": ids, "cheap_success": cheap, "strong_success": strong})
    tasks["window_start"] = np.where(marked, start, np.nan)
    tasks["window_end"] = np.where(marked, end, np.nan)
    tasks[list(FEATURES)] = features
    tasks["task_type"] = rng.choice(TASK_TYPES, size=n)
    episode, step = np.nonzero(np.arange(diagnostics.shape[1]) < n_steps[:, None])
    steps = pd.DataFrame(diagnostics[episode, step], columns=list(DIAGNOSTICS))
    steps.insert(0, "episode", ids[episode])
    steps.insert(1, "step", step)
    return Episodes.from_frames(tasks, steps, features=list(FEATURES))


def _features(rng: np.random.Generator, n: int) -> np.ndarray:
    entities = rng.poisson(12, size=n) + 1
    subgoals = rng.integers(1, 6, size=n)
    needs_tool = rng.random(n) < 0.4
    return np.column_stack([entities, subgoals, needs_tool]).astype(float)


def _diagnostics(rng: np.random.Generator, n: int, horizon: int) -> np.ndarray:
    """Draw four signals that are more frequent once a rollout is off track, from which it may return."""
    off_track = np.zeros((n, horizon), dtype=bool)
    state = np.zeros(n, dtype=bool)
    for step in range(horizon):
        state = rng.random(n) < np.where(state, 0.9, 0.1)
        off_track[:, step] = state
    signals = rng.random((3, n, horizon))
    repeat = signals[0] < np.where(off_track, 0.45, 0.06)
    stalled = signals[1] < np.where(off_track, 0.50, 0.15)
    invalid = signals[2] < np.where(off_track, 0.20, 0.05)
    uncertainty = np.where(off_track, rng.beta(3, 4, (n, horizon)), rng.beta(2, 9, (n, horizon))).round(3)
    return np.stack([repeat, uncertainty, stalled, invalid], axis=-1).astype(float)


if __name__ == "__main__":
    import bayes_tacit

    simulate_example().write(Path(bayes_tacit.__file__).parent / "example.nc")
