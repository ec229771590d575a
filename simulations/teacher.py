"""A teacher whose windows say no more than they should.

A window may be taken as an interval for the threshold only if the way it was chosen does not depend on where inside it
the crossing lies. Here each rollout is cut into ranges beforehand, at random, and the teacher names the range holding
the crossing: classical interval censoring, with inspection times that know nothing of the threshold. (A range drawn
around the crossing would not do: near the start of a rollout it is cut off, and its middle then tells the crossing.)
"""

from __future__ import annotations

import numpy as np


def mark_windows(
    rng: np.random.Generator, crossing: np.ndarray, n_steps: np.ndarray, fineness: float
) -> tuple[np.ndarray, np.ndarray]:
    """Name the range of checkpoints that holds each crossing."""
    steps = np.arange(int(n_steps.max()))
    starts = rng.random((len(crossing), len(steps))) < fineness
    starts[:, 0] = True
    within = np.minimum(crossing, n_steps - 1)[:, None]
    start = np.where(starts & (steps <= within), steps, 0).max(axis=1)
    following = np.where(starts & (steps > within), steps, n_steps[:, None]).min(axis=1)
    return start, np.minimum(following, n_steps) - 1
