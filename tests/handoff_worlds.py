"""Small worlds in which the outcome of every handoff is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from simulate import quietly

from bayes_tacit import Counterfactuals, Episodes, StepCost
from bayes_tacit.data.frames import dataset_from_frames

COST = StepCost(cheap=1, strong=3)
BUDGET = 9


@dataclass(frozen=True)
class World:
    scores: np.ndarray
    episodes: Episodes
    counterfactuals: Counterfactuals


def random_world(seed: int, n: int = 30, *, obedient: bool = False, middle: str = "random") -> World:
    """Draw episodes with any outcome at any handoff.

    An obedient world keeps to every assumption of `bayes_tacit.decisions.bounds`. `middle` says what comes of handoffs
    between two actions: random, or the "worst" or "best" that a log cannot exclude.
    """
    rng = np.random.default_rng(seed)
    horizon = 6
    n_steps = rng.integers(1, horizon + 1, n)
    inside = np.arange(horizon) < n_steps[:, None]
    cheap = rng.random(n) < 0.5
    success = (rng.random((n, horizon)) < 0.5).astype(float)
    strong = success[:, 0] == 1
    steps = np.arange(horizon)
    calls = rng.integers(1, BUDGET - steps + 1, (n, horizon)).astype(float)
    start = rng.integers(0, n_steps)
    end = rng.integers(start, n_steps)
    marked = ~cheap & strong & (rng.random(n) < 0.8)
    if obedient:
        recoverable = (marked[:, None] & (steps <= end[:, None] + 1)) | (cheap & strong)[:, None]
        success = np.where(recoverable, 1.0, np.where((~cheap & ~strong)[:, None], 0.0, success))
        calls = np.minimum(calls, calls[:, :1])
    if middle != "random":
        success[:, 1:] = middle == "best"
        calls[:, 1:] = 1 if middle == "best" else BUDGET - steps[1:]
    scores = np.sort(rng.choice(np.linspace(0, 1, 12), (n, horizon)), axis=1)
    tasks = pd.DataFrame(
        {
            "episode": [f"task-{i}" for i in range(n)],
            "cheap_success": cheap,
            "strong_success": strong,
            "window_start": np.where(marked, start, np.nan),
            "window_end": np.where(marked, end, np.nan),
            "strong_steps": calls[:, 0].astype(int),
        }
    )
    row, step = np.nonzero(inside)
    table = pd.DataFrame({"episode": tasks["episode"].to_numpy()[row], "step": step, "u": 1.0})
    return World(
        scores=np.where(inside, scores, np.nan),
        episodes=quietly(dataset_from_frames(tasks, table, [], None)),
        counterfactuals=Counterfactuals.from_calls(
            tasks["episode"].to_numpy(),
            success=np.where(inside, success, np.nan),
            strong_calls=np.where(inside, calls, np.nan),
            never_success=cheap,
            cost=COST,
        ),
    )
