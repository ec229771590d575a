"""What comes of choosing a setting, judged on tasks that it was not chosen on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.policies.base import FittedPolicy, chosen
from bayes_tacit.policies.world import World


@dataclass(frozen=True, eq=False)
class Judged:
    """Success and cost by development task and policy, each under a setting that was chosen without the task.

    Attributes
    ----------
    names
        The policies.
    success, cost
        (policy, task).
    fold
        (task,), the part that each task was held out with.
    """

    names: tuple[str, ...]
    success: np.ndarray
    cost: np.ndarray
    fold: np.ndarray


def cross_validate(
    fitted: Mapping[str, FittedPolicy],
    development: World,
    cap: float,
    *,
    folds: int,
    seed: int,
    told: Callable[[], None] = lambda: None,
) -> Judged:
    """Hold out each part of the tasks in turn, choose every policy's setting on the rest, and look what it gives there.

    Parameters
    ----------
    fitted
        By name.
    development
        The tasks.
    cap
        The budget.
    folds
        How many parts.
    seed
        Decides the parts.
    told
        Called after each choice, for a bar of progress.
    """
    n = len(development)
    fold = np.random.default_rng(seed).permutation(n) % folds
    success, cost = np.empty((2, len(fitted), n))
    for part in range(folds):
        rest, held_out = development.take(np.flatnonzero(fold != part)), development.take(np.flatnonzero(fold == part))
        for row, policy in enumerate(fitted.values()):
            success[row, fold == part], cost[row, fold == part] = _held_out(policy, rest, held_out, cap)
            told()
    return Judged(tuple(fitted), success, cost, fold)


def _held_out(policy: FittedPolicy, rest: World, held_out: World, cap: float) -> tuple[np.ndarray, np.ndarray]:
    try:
        outcomes = policy.outcomes(held_out, chosen(policy, rest, cap).point)
    except InvalidDataError:
        # On these tasks nothing of it is within the cap, though on all it is: then Cheap goes on alone.
        outcomes = held_out.counterfactuals.pure_cheap
    return outcomes.success, outcomes.cost
