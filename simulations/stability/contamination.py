"""Wrong teacher intervals, in ways that the theorem allows, and wrong outcomes, of which it does not speak.

Who is wrong first is drawn once, so that a higher rate adds to a lower one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from simulations.stability.design import TARGET, Sample
from simulations.stability.losses import Records, gradients

WRONG_MARKS = {
    "neighbour": "moved to a neighbouring step",
    "anywhere": "moved to any other step",
    "too late": "moved to the last step",
    "worst": "chosen, and moved, so as to do the most harm",
}
WRONG_OUTCOMES = "outcomes"
"""Strong's outcomes flipped instead of marks moved."""


@dataclass(frozen=True, eq=False)
class Contamination:
    """Who is wrong, and how.

    Attributes
    ----------
    sample
        The clean tasks.
    marks
        By kind, the wrong mark of every episode; where it equals the clean one, there is no wrong one.
    order
        By kind, positions of the episodes with a wrong mark, in the order in which they become wrong.
    flips
        Positions of all episodes, in the order in which outcomes are flipped.
    """

    sample: Sample
    marks: Mapping[str, np.ndarray]
    order: Mapping[str, np.ndarray]
    flips: np.ndarray

    @classmethod
    def draw(cls, sample: Sample, direction: np.ndarray, rng: np.random.Generator) -> Contamination:
        """Draw it; the worst marks push the estimate along `direction`."""
        timed = rng.permutation(sample.timed)
        last = sample.horizon - 1
        neighbour, anywhere, late = (sample.mark.copy() for _ in range(3))
        later = rng.random(len(timed)) < 0.5
        at = sample.mark[timed]
        neighbour[timed] = at + np.where((later | (at == 0)) & (at != last), 1, -1)
        other = rng.integers(0, last, len(timed))
        anywhere[timed] = other + (other >= at)
        late[timed] = last
        worst, harm = worst_marks(sample, direction)
        marks = {"neighbour": neighbour, "anywhere": anywhere, "too late": late, "worst": worst}
        order = {kind: timed[marks[kind][timed] != at] for kind in marks}
        order["worst"] = np.argsort(-harm, kind="stable")[: len(timed)]
        return cls(sample, marks, order, rng.permutation(len(sample.strong)))

    def wrong(self, kind: str, rate: float) -> np.ndarray:
        """Give who has a wrong mark if a share `rate` of the marks is wrong, or as many as can be."""
        return self.order[kind][: round(rate * len(self.sample.timed))]

    def mark(self, kind: str, rate: float) -> np.ndarray:
        """Give the marks of which a share is wrong."""
        marked, wrong = self.sample.mark.copy(), self.wrong(kind, rate)
        marked[wrong] = self.marks[kind][wrong]
        return marked

    def outcomes(self, rate: float) -> np.ndarray:
        """Give Strong's outcomes of which a share is flipped."""
        strong, wrong = self.sample.strong.copy(), self.flips[: round(rate * len(self.flips))]
        strong[wrong] = ~strong[wrong]
        return strong


def worst_marks(sample: Sample, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Give the mark of each episode that changes its gradient most along a direction, and by how much."""
    timed = sample.timed
    clean = Records.of(sample, sample.mark, sample.mark).take(timed)
    there = gradients(TARGET, clean) @ direction
    best, mark = np.zeros(len(timed)), sample.mark[timed].copy()
    for step in range(sample.horizon):
        moved = np.full(len(sample.mark), step)
        change = np.abs(gradients(TARGET, Records.of(sample, moved, moved).take(timed)) @ direction - there)
        better = change > best
        best[better], mark[better] = change[better], step
    marks, harm = sample.mark.copy(), np.zeros(len(sample.mark))
    marks[timed], harm[timed] = mark, best
    return marks, harm
