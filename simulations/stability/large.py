"""One sample so large that the theorem applies, fitted clean and contaminated without more memory than it needs.

Tasks are drawn in blocks, and kept as records. What contamination changes is kept beside: the changed records, and what
they were. The objective is a sum over records, so it is that of the clean ones with these put in the others' place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bayes_tacit.errors import ConvergenceError
from simulations.stability.constants import BLOCK, mean_hessian
from simulations.stability.contamination import Contamination
from simulations.stability.design import TARGET, draw
from simulations.stability.losses import SIZE, Records, gradients

DRAWN = 100_000
"""Tasks of a block."""
CURVED = 200_000
"""About so many records serve for the Hessian of a Newton step."""


@dataclass(frozen=True, eq=False)
class Exchange:
    """Records that contamination puts in the place of clean ones; none of both where nothing is changed."""

    old: Sequence[Records]
    new: Sequence[Records]

    @property
    def count(self) -> int:
        """How many are changed."""
        return sum(len(records.strong) for records in self.new)


@dataclass(frozen=True, eq=False)
class LargeSample:
    """Clean records in blocks, and by kind and rate what contamination changes."""

    clean: Sequence[Records]
    exchanges: Mapping[tuple[str, float], Exchange]

    @classmethod
    def draw(
        cls, n: int, rates: Mapping[str, Sequence[float]], direction: np.ndarray, seeds: np.random.SeedSequence
    ) -> LargeSample:
        """Draw n tasks, contaminated in every way named at its rates; `direction` is that of the worst marks."""
        clean: list[Records] = []
        changed: dict[tuple[str, float], tuple[list[Records], list[Records]]] = {
            (kind, rate): ([], []) for kind in rates for rate in rates[kind]
        }
        sizes = [min(DRAWN, n - start) for start in range(0, n, DRAWN)]
        for size, stream in zip(sizes, seeds.spawn(len(sizes)), strict=True):
            rng = np.random.default_rng(stream)
            contamination = Contamination.draw(draw(size, rng), direction, rng)
            clean.append(contamination.records("neighbour", 0.0))
            for (kind, rate), (old, new) in changed.items():
                rows = contamination.changed(kind, rate)
                old.append(clean[-1].take(rows))
                new.append(contamination.records(kind, rate).take(rows))
        return cls(clean, {key: Exchange(*pair) for key, pair in changed.items()})

    @property
    def size(self) -> int:
        """How many tasks there are."""
        return sum(len(records.strong) for records in self.clean)

    def slope(self, point: np.ndarray, exchange: Exchange) -> np.ndarray:
        """Give the gradient of the objective."""
        total = np.zeros(SIZE)
        for sign, blocks in ((1, self.clean), (-1, exchange.old), (1, exchange.new)):
            for records in blocks:
                total += sign * _summed(point, records)
        slope: np.ndarray = total / self.size
        return slope

    def fit(self, exchange: Exchange, precision: float = 1e-7, steps: int = 30) -> np.ndarray:
        """Find the stationary point that Newton's method comes to from the target.

        The gradient is that of all records and decides where it ends; a thinned Hessian costs only a few steps more.
        """
        point = TARGET
        for _ in range(steps):
            step = np.linalg.solve(self._hessian(point, exchange), self.slope(point, exchange))
            point = point - step
            if np.linalg.norm(step) < precision:
                return point
        raise ConvergenceError(f"Newton's method was not within {precision:g} of a stationary point in {steps} steps")

    def _hessian(self, point: np.ndarray, exchange: Exchange) -> np.ndarray:
        total, stride = np.zeros((SIZE, SIZE)), max(1, self.size // CURVED)
        for sign, blocks in ((1, self.clean), (-1, exchange.old), (1, exchange.new)):
            for records in blocks:
                thin = records.take(np.arange(0, len(records.strong), stride))
                if len(thin.strong):
                    total += sign * len(records.strong) * mean_hessian(point, thin, np.eye(SIZE))
        hessian: np.ndarray = total / self.size
        return hessian


def _summed(point: np.ndarray, records: Records) -> np.ndarray:
    count = len(records.strong)
    total = np.zeros(SIZE)
    for start in range(0, count, BLOCK):
        total += gradients(point, records.take(np.arange(start, min(start + BLOCK, count)))).sum(axis=0)
    return total
