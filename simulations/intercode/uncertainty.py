"""How sure averages over many splits of the same tasks are: tasks are drawn anew, not splits, which overlap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from simulations.intercode.bits import from_text

RESAMPLES = 2000
Key = tuple[str, float]
"""A policy and a budget."""


@dataclass(frozen=True, eq=False)
class Tally:
    """How often each task was tested and solved, over all splits of a setting.

    Attributes
    ----------
    keys
        Policies with budgets.
    solved, tested
        (key, task).
    weights
        (resample, task), how often each task is drawn.
    """

    keys: tuple[Key, ...]
    solved: np.ndarray
    tested: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, rows: pd.DataFrame, n_tasks: int, seed: int = 0) -> Tally:
        """Count over the rows of one setting, or of some of its replicates."""
        tests = {
            int(row["replicate"]): np.flatnonzero(from_text(str(row["tested"]), n_tasks))
            for row in rows[rows["kind"] == "split"].to_dict("records")
        }
        curves = rows[rows["kind"] == "curve"]
        keys = tuple(dict.fromkeys(zip(curves["policy"], curves["share"], strict=True)))
        place = {key: at for at, key in enumerate(keys)}
        solved, tested = (np.zeros((len(keys), n_tasks)) for _ in range(2))
        for row in curves.to_dict("records"):
            at, tasks = place[str(row["policy"]), float(row["share"])], tests[int(row["replicate"])]
            solved[at, tasks] += from_text(str(row["solved"]), len(tasks))
            tested[at, tasks] += 1
        rng = np.random.default_rng(seed)
        weights = rng.multinomial(n_tasks, np.full(n_tasks, 1 / n_tasks), size=RESAMPLES).astype(float)
        return cls(keys, solved, tested, weights)

    def has(self, key: Key) -> bool:
        """Tell whether a policy was evaluated under a budget."""
        return key in self.keys

    def success(self, key: Key) -> float:
        """Give the share of tests that were solved."""
        at = self.keys.index(key)
        return float(self.solved[at].sum() / self.tested[at].sum())

    def interval(self, key: Key, minus: Key | None = None) -> tuple[float, float]:
        """Give the central 95% of the resampled success, or of its difference from another on the same tasks."""
        drawn = self._drawn(key) - (0 if minus is None else self._drawn(minus))
        low, high = np.quantile(drawn, [0.025, 0.975])
        return float(low), float(high)

    def _drawn(self, key: Key) -> np.ndarray:
        at = self.keys.index(key)
        drawn: np.ndarray = (self.weights @ self.solved[at]) / (self.weights @ self.tested[at])
        return drawn
