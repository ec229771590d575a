"""The random numbers of a set of tasks, all drawn up front, and the seeds they come from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayes_tacit import validate
from bayes_tacit.errors import InvalidDataError

STREAM = 0x6D656368
"""Keeps these streams apart from those that other studies make of the same seed."""

SPLITS = ("train", "development", "test")


@dataclass(frozen=True, eq=False)
class Draws:
    """What chance decides on each task, whatever the parameters and the policy are."""

    # difficulty, resistance: (task,), the hidden traits z and v, standard normal.
    difficulty: np.ndarray
    resistance: np.ndarray
    feature_noise: np.ndarray  # (task, 2), what blurs x1 and x2, standard normal
    # threshold_noise, task_noise: (task,), standard normal: of the teacher's threshold, and of the persistent part of
    # the risks.
    threshold_noise: np.ndarray
    task_noise: np.ndarray
    # act, move: (task, step), uniform: whether the action is correct, and where the state moves.
    act: np.ndarray
    move: np.ndarray
    step_noise: np.ndarray  # (task, step), standard normal: of the risk of one step

    def __len__(self) -> int:
        return len(self.difficulty)


def draw(n: int, steps: int, seed: int | np.random.SeedSequence) -> Draws:
    """Draw everything for n tasks of so many steps.

    Examples
    --------
    >>> draw(2, 10, seed=1).act.shape
    (2, 10)
    """
    n = validate.whole("n", n, 1)
    rng = np.random.default_rng(_sequence(seed))
    by_task = rng.standard_normal((6, n))
    return Draws(
        difficulty=by_task[0],
        resistance=by_task[1],
        feature_noise=by_task[2:4].T,
        threshold_noise=by_task[4],
        task_noise=by_task[5],
        act=rng.random((n, steps)),
        move=rng.random((n, steps)),
        step_noise=rng.standard_normal((n, steps)),
    )


def replicate_seeds(seed: int, replicate: int) -> dict[str, np.random.SeedSequence]:
    """Return the independent streams of the train, development and test tasks of one replicate.

    Examples
    --------
    >>> replicate_seeds(1, 7)["test"].spawn_key
    (1835361128, 7, 2)
    """
    seed, replicate = validate.whole("seed", seed, 0), validate.whole("replicate", replicate, 0)
    return {
        split: np.random.SeedSequence(seed, spawn_key=(STREAM, replicate, position))
        for position, split in enumerate(SPLITS)
    }


def _sequence(seed: int | np.random.SeedSequence) -> np.random.SeedSequence:
    if isinstance(seed, np.random.SeedSequence):
        return seed
    if isinstance(seed, np.random.Generator):
        raise InvalidDataError("a whole number >= 0 or a numpy.random.SeedSequence", field="seed", value=seed)
    return np.random.SeedSequence(validate.whole("seed", seed, 0), spawn_key=(STREAM,))
