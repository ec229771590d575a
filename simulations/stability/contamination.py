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
    "worst": "chosen, and moved, so that together they push the estimate as far as can be, to first order",
}
WRONG_OUTCOMES = "outcomes"
"""Strong's outcomes flipped instead of marks moved."""
AIMED_RATE = 0.1
"""The share of wrong marks at which the worst ones push farthest."""


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
        """Draw it; the worst marks push the gradient along `direction`, all the same way."""
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
        order["worst"] = np.argsort(-harm, kind="stable")[: (harm > 0).sum()]
        return cls(sample, marks, order, rng.permutation(len(sample.strong)))

    def changed(self, kind: str, rate: float) -> np.ndarray:
        """Give who is wrong if a share `rate` of the marks is, or as many as can be; of all tasks for outcomes."""
        if kind == WRONG_OUTCOMES:
            return self.flips[: round(rate * len(self.flips))]
        return self.order[kind][: round(rate * len(self.sample.timed))]

    def mark(self, kind: str, rate: float) -> np.ndarray:
        """Give the marks of which a share is wrong."""
        marked, wrong = self.sample.mark.copy(), self.changed(kind, rate)
        marked[wrong] = self.marks[kind][wrong]
        return marked

    def outcomes(self, rate: float) -> np.ndarray:
        """Give Strong's outcomes of which a share is flipped."""
        strong, wrong = self.sample.strong.copy(), self.changed(WRONG_OUTCOMES, rate)
        strong[wrong] = ~strong[wrong]
        return strong

    def records(self, kind: str, rate: float) -> Records:
        """Give the records of which a share is wrong, in marks or, if the kind is that, in outcomes."""
        if kind == WRONG_OUTCOMES:
            return Records.of(self.sample, self.sample.mark, self.sample.mark, self.outcomes(rate))
        mark = self.mark(kind, rate)
        return Records.of(self.sample, mark, mark)


def possible_marks(sample: Sample, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Give every wrong mark of a kind that there can be: positions of episodes, and for each its mark.

    The worst marks may be any.
    """
    rows = np.repeat(sample.timed, sample.horizon)
    marks = np.tile(np.arange(sample.horizon), len(sample.timed))
    away = np.abs(marks - sample.mark[rows])
    allowed = away == 1 if kind == "neighbour" else away > 0
    if kind == "too late":
        allowed &= marks == sample.horizon - 1
    return rows[allowed], marks[allowed]


def mark_changes(sample: Sample) -> np.ndarray:
    """Give what each mark would change of the gradient of its record, (timed episode, step, parameter)."""
    timed = sample.take(sample.timed)
    clean = gradients(TARGET, Records.of(timed, timed.mark, timed.mark))
    steps = (np.full(len(timed.mark), step) for step in range(sample.horizon))
    return np.stack([gradients(TARGET, Records.of(timed, step, step)) - clean for step in steps], axis=1)


def worst_marks(sample: Sample, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Give the mark of each episode that pushes its gradient farthest along a direction, and by how much.

    The sign counts: marks that push the other way would undo what these do.
    """
    pushes = mark_changes(sample) @ direction
    marks, harm = sample.mark.copy(), np.zeros(len(sample.mark))
    harm[sample.timed] = pushes.max(axis=1)
    marks[sample.timed] = np.where(pushes.max(axis=1) > 0, pushes.argmax(axis=1), sample.mark[sample.timed])
    return marks, harm


def farthest_direction(sample: Sample, frame: np.ndarray, rate: float = AIMED_RATE) -> np.ndarray:
    """Give the direction of `worst_marks` along which a share of wrong marks makes the longest first Newton step.

    In the coordinates of a frame in which the Hessian is the unit matrix that step is the sum of the marks' changes.
    It is tried to push each parameter up and down; from the best of these on, marks are chosen along the step that the
    last ones make, which never makes it shorter.
    """
    changes = mark_changes(sample) @ frame
    count = round(rate * len(changes))

    def step(along: np.ndarray) -> np.ndarray:
        pushes = changes @ (along / np.linalg.norm(along))
        chosen = np.argsort(-pushes.max(axis=1), kind="stable")[:count]
        together: np.ndarray = changes[chosen, pushes.argmax(axis=1)[chosen]].sum(axis=0)
        return together

    found = max((step(sign * row) for row in frame for sign in (-1, 1)), key=lambda moved: float(np.linalg.norm(moved)))
    for _ in range(20):
        found = step(found)
    direction: np.ndarray = frame @ (found / np.linalg.norm(found))
    return direction
