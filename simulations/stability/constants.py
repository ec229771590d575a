r"""The constants of the theorem, from a large clean sample in the place of the population.

All depend on the coordinates, and all but sigma on the radius r of the ball. A supremum over the ball is taken over
points on spheres inside it, so it may be too small; the curvature mu, on which everything hangs, is also searched for
by descent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy import special

from simulations.stability.contamination import WRONG_MARKS, Contamination
from simulations.stability.design import TARGET, Sample
from simulations.stability.losses import SIZE, Records, gradients, hessians, score_gradients

BLOCK = 10_000
TILTS = np.concatenate([-np.geomspace(0.01, 10, 25), np.geomspace(0.01, 10, 25)])
"""Where the moment generating function of a score is looked at."""


@dataclass(frozen=True, eq=False)
class Population:
    """A large sample, and coordinates phi: theta = target + frame phi.

    Attributes
    ----------
    sample
        The clean tasks.
    frame
        One column a coordinate; the unit matrix for the plain parameters.
    seed
        Of the directions that are tried.
    """

    sample: Sample
    frame: np.ndarray = field(default_factory=lambda: np.eye(SIZE))
    seed: int = 0

    @cached_property
    def records(self) -> Records:
        """The clean records."""
        return Records.of(self.sample, self.sample.mark, self.sample.mark)

    def hessian(self, shift: np.ndarray | None = None, count: int | None = None) -> np.ndarray:
        """Give the Hessian of the clean population's objective at a shift from the target, from `count` records."""
        return mean_hessian(self.point(shift), self.records, self.frame, count)

    def point(self, shift: np.ndarray | None = None) -> np.ndarray:
        """Give theta at a shift from the target."""
        return TARGET if shift is None else TARGET + self.frame @ shift

    def curvature(self, radius: float) -> float:
        """Give mu: the smallest eigenvalue of the population's Hessian in the ball, found by descent on a sphere."""
        shifts = list(self.shifts(radius))
        rough = [_smallest(self.hessian(shift, 2_000)) for shift in shifts]
        ends = [self._descend(shifts[at], radius) for at in np.argsort(rough)[:2]]
        return min(_smallest(self.hessian(shift, 40_000)) for shift in [None, *ends])

    def _descend(self, shift: np.ndarray, radius: float, steps: int = 15) -> np.ndarray:
        best, length = _smallest(self.hessian(shift, 2_000)), radius / 2
        for _ in range(steps):
            nudges = 0.02 * radius * np.eye(SIZE)
            slope = np.array([_smallest(self.hessian(shift + nudge, 2_000)) - best for nudge in nudges])
            moved = shift - length * slope / max(float(np.linalg.norm(slope)), 1e-300)
            moved *= min(1.0, radius / float(np.linalg.norm(moved)))
            value = _smallest(self.hessian(moved, 2_000))
            if value < best:
                shift, best = moved, value
            else:
                length /= 2
        return shift

    def spread(self) -> float:
        """Give sigma: the least that bounds the moment generating function of the score along every direction tried."""
        slopes = gradients(TARGET, self.records) @ self.frame
        slopes -= slopes.mean(axis=0)
        axes = np.linalg.eigh(slopes.T @ slopes)[1].T
        directions = [*axes, *np.eye(SIZE), *_directions(np.random.default_rng(self.seed), 100)]
        found = max(directions, key=lambda v: _sub_gaussian(slopes @ v))
        rng = np.random.default_rng(self.seed)
        best = _sub_gaussian(slopes @ found)
        for width in np.geomspace(0.5, 0.01, 60):
            tried = found + width * rng.normal(size=SIZE)
            tried /= np.linalg.norm(tried)
            value = _sub_gaussian(slopes @ tried)
            if value > best:
                found, best = tried, value
        return best

    def influences(self, contamination: Contamination, kind: str, radius: float) -> tuple[float, float]:
        """Give G_T and H_T: the most that a wrong mark changes a record's gradient and, in the ball, its Hessian."""
        rows = contamination.order[kind]
        marks = contamination.marks[kind]
        clean, wrong = self.records.take(rows), Records.of(self.sample, marks, marks).take(rows)
        change = (gradients(TARGET, wrong) - gradients(TARGET, clean)) @ self.frame
        norms = np.linalg.norm(change, axis=1)
        some = np.argsort(-norms)[:4_000]
        largest = 0.0
        for shift in [None, *self.shifts(radius, random=10)]:
            point = self.point(shift)
            difference = hessians(point, wrong.take(some)) - hessians(point, clean.take(some))
            largest = max(largest, float(np.abs(np.linalg.eigvalsh(self.frame.T @ difference @ self.frame)).max()))
        return float(norms.max()), largest

    def score_slope(self, radius: float, tasks: int = 2_000) -> float:
        """Give L_q: the largest gradient of q over tasks, steps and the ball."""
        design, totals = self.records.design[:tasks], self.sample.totals[:tasks]
        points = (self.point(shift) for shift in [None, *self.shifts(radius, random=10)])
        return max(
            float(np.linalg.norm(score_gradients(point, design, totals) @ self.frame, axis=2).max()) for point in points
        )

    def shifts(self, radius: float, random: int = 30) -> Iterator[np.ndarray]:
        """Give shifts in the ball: along the axes of the target's Hessian, both ways, and at random."""
        axes = np.linalg.eigh(self.hessian(count=40_000))[1].T
        yield from (sign * radius * axis for axis in axes for sign in (-1, 1))
        yield from (radius * v for v in _directions(np.random.default_rng(self.seed), random))


def mean_hessian(point: np.ndarray, records: Records, frame: np.ndarray, count: int | None = None) -> np.ndarray:
    """Give the mean Hessian of the first so many records in the coordinates of a frame, in bounded memory."""
    rows = np.arange(len(records.strong) if count is None else min(count, len(records.strong)))
    total = np.zeros((SIZE, SIZE))
    for start in range(0, len(rows), BLOCK):
        total += hessians(point, records.take(rows[start : start + BLOCK])).sum(axis=0)
    mean: np.ndarray = frame.T @ (total / len(rows)) @ frame
    return mean


def whitening(hessian: np.ndarray) -> np.ndarray:
    """Give the frame in which a Hessian is the unit matrix."""
    frame: np.ndarray = np.linalg.inv(np.linalg.cholesky(hessian)).T
    return frame


def radius_bound(sigma: float, influence: float, n: float, share: float, delta: float) -> float:
    """Give a_n(delta) of the theorem.

    Examples
    --------
    >>> round(radius_bound(sigma=1.0, influence=5.0, n=10_000, share=0.01, delta=0.05), 4)
    0.178
    """
    return float(2 * sigma * np.sqrt(2 * (SIZE * np.log(5) + np.log(4 / delta)) / n) + influence * share)


def constants_of(
    population: Population, contamination: Contamination, radius: float
) -> Iterator[tuple[str, str, float]]:
    """Give every constant that depends on the radius: its name, the kind of wrong marks it speaks of, and its value."""
    yield "mu", "", population.curvature(radius)
    yield "L_q", "", population.score_slope(radius)
    for kind in WRONG_MARKS:
        influence, curvature = population.influences(contamination, kind, radius)
        yield "G_T", kind, influence
        yield "H_T", kind, curvature


def _sub_gaussian(values: np.ndarray) -> float:
    """Give the least sigma with log E exp(t v) <= sigma^2 t^2 / 2 at all tilts t."""
    growth = [(special.logsumexp(tilt * values) - np.log(len(values))) / tilt**2 for tilt in TILTS]
    return float(np.sqrt(2 * max(growth)))


def _directions(rng: np.random.Generator, count: int) -> np.ndarray:
    drawn = rng.normal(size=(count, SIZE))
    unit: np.ndarray = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return unit


def _smallest(matrix: np.ndarray) -> float:
    return float(np.linalg.eigvalsh(matrix)[0])
