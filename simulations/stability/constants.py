"""The constants of the stability bound, the bound itself, and large samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd
from scipy import special

from bayes_tacit.errors import ConvergenceError
from simulations.stability.contamination import (
    SIZE,
    TARGET,
    WRONG_MARKS,
    Contamination,
    Records,
    Sample,
    draw,
    gradients,
    hessians,
    possible_marks,
    score_gradients,
)


def net_factor(delta: float) -> float:
    """Return by how much a net over all directions and a union bound over it multiply sigma, at n = 1."""
    return float(2 * np.sqrt(2 * (SIZE * np.log(5) + np.log(4 / delta))))


def radius_bound(sigma: float, influence: float, n: float, share: float, delta: float) -> float:
    """Return a_n(delta) of the theorem; `share` is rho_T, of all records.

    Examples
    --------
    >>> round(radius_bound(sigma=1.0, influence=5.0, n=10_000, share=0.01, delta=0.05), 4)
    0.178
    """
    return float(sigma * net_factor(delta) / np.sqrt(n) + influence * share)


@dataclass(frozen=True)
class Constants:
    """The constants in one kind of coordinates, at one radius."""

    coordinates: str  # Which
    # radius, mu, sigma, slope: r, mu, sigma and L_q.
    radius: float
    mu: float
    sigma: float
    slope: float
    # influence, curvature: G_T and H_T, by kind of wrong marks.
    influence: dict[str, float]
    curvature: dict[str, float]
    timed: float  # The share of records that have a mark
    delta: float  # One minus the probability with which the theorem holds

    @classmethod
    def of(cls, rows: pd.DataFrame, coordinates: str, delta: float) -> Constants:
        """Read them from a study's table, and choose the radius: the largest mu r."""
        own = rows[rows["coordinates"] == coordinates]
        mu = own[own["constant"] == "mu"].set_index("radius")["value"]
        radius = float(mu.index[int(np.argmax(mu * mu.index))])
        at = own[own["radius"].isin([0.0, radius])]

        def one(name: str) -> float:
            return float(at.loc[at["constant"] == name, "value"].iloc[0])

        def by_kind(name: str) -> dict[str, float]:
            return dict(at[at["constant"] == name].set_index("kind")["value"])

        return cls(
            coordinates,
            radius,
            one("mu"),
            one("sigma"),
            one("L_q"),
            by_kind("G_T"),
            by_kind("H_T"),
            one("timed"),
            delta,
        )

    @property
    def limit(self) -> float:
        """What a_n has to be below."""
        return self.mu * self.radius / 2

    @property
    def tasks_needed(self) -> float:
        """How many tasks without a wrong mark make a_n as small as that."""
        return self.tasks_below(self.radius)

    def tasks_below(self, error: float) -> float:
        """Return from how many tasks without a wrong mark on the bound is below an error."""
        return (self.bound("", 1.0, 0.0) / error) ** 2

    def wrong_allowed(self, kind: str) -> float:
        """Return the share of the marks, not of the records, up to which the conditions hold with endless tasks."""
        records = min(self.limit / self.influence[kind], self.mu / 4 / self.curvature[kind])
        return records / self.timed

    def bound(self, kind: str, n: float, share: float) -> float:
        """Return the right side of the inequality for the parameters, whether its conditions hold or not."""
        return 2 * radius_bound(self.sigma, self.influence.get(kind, 0.0), n, share, self.delta) / self.mu

    def holds(self, kind: str, n: float, share: float) -> bool:
        """Return whether a_n < mu r / 2, that is, the bound is below r, and H_T rho_T <= mu / 4."""
        return bool(self.bound(kind, n, share) < self.radius and self.curvature.get(kind, 0.0) * share <= self.mu / 4)


POPULATION = 100_000
"""Tasks of the sample that stands for the population."""
BLOCK = 10_000
SEARCH = {"rough": 2_000, "starts": 20, "records": 10_000, "screened": 2_000, "climbs": 20}
"""How mu is searched for: records to rank the starts with, starts, records to descend with before all are used; and
what is largest in the ball: how many of the largest at the target are looked at elsewhere, how many of these climbed
from."""
TILTS = np.geomspace(0.01, 10, 60)
"""Where the moment generating function of a score is looked at, in both directions."""
STEPS = 40
"""The most steps of a search."""
PARTS = (1.0, 0.5, 0.2, 0.05, 0.01)
"""Of the way to where a linear approximation is extreme: the first that gains is gone."""


@dataclass(frozen=True, eq=False)
class Population:
    """A large sample, and coordinates phi: theta = target + frame phi."""

    sample: Sample  # The clean tasks
    # One column a coordinate; the unit matrix for the plain parameters.
    frame: np.ndarray = field(default_factory=lambda: np.eye(SIZE))
    seed: int = 0  # Of the directions that are tried

    @cached_property
    def records(self) -> Records:
        """The clean records."""
        return Records.of(self.sample, self.sample.mark, self.sample.mark)

    @cached_property
    def axes(self) -> np.ndarray:
        """The axes of the Hessian at the target, one a row."""
        return np.asarray(np.linalg.eigh(self.hessian())[1].T)

    def hessian(self, shift: np.ndarray | None = None, count: int | None = None) -> np.ndarray:
        """Return the Hessian of the clean population's objective at a shift from the target, from `count` records."""
        return mean_hessian(self.point(shift), self._first(count), self.frame)

    def point(self, shift: np.ndarray | None = None) -> np.ndarray:
        """Return theta at a shift from the target."""
        return TARGET if shift is None else TARGET + self.frame @ shift

    def shifts(self, radius: float, random: int = 30) -> Iterator[np.ndarray]:
        """Yield shifts of the length of the radius: along the axes, both ways, and at random."""
        yield from (sign * radius * axis for axis in self.axes for sign in (-1, 1))
        yield from (radius * v for v in _directions(np.random.default_rng(self.seed), random))

    def curvature(self, radius: float) -> float:
        """Return mu: the smallest eigenvalue of the population's Hessian in the ball."""
        shifts = list(self.shifts(radius))
        rough = [_smallest(self.hessian(shift, SEARCH["rough"])) for shift in shifts]
        starts = [shifts[at] for at in np.argsort(rough)[: SEARCH["starts"]]]
        ends = [self._descend(shift, radius, SEARCH["records"]) for shift in starts]
        lowest = min(ends, key=lambda shift: _smallest(self.hessian(shift)))
        return min(_smallest(self.hessian(shift)) for shift in (None, self._descend(lowest, radius, None)))

    def spread(self) -> float:
        """Return sigma: the least that bounds the moment generating function of the score along every direction.

        At one tilt its logarithm is convex in the direction, so going to the direction of its slope never lowers it.
        """
        slopes = gradients(TARGET, self.records) @ self.frame
        slopes -= slopes.mean(axis=0)
        best = 0.0
        for start in (*np.eye(SIZE), *-np.eye(SIZE), *_directions(np.random.default_rng(self.seed), 10)):
            for tilt in (0.1, 0.3, 1.0, 3.0):
                along = start
                for _ in range(20):
                    along = _unit(special.softmax(tilt * (slopes @ along)) @ slopes)
                best = max(best, sub_gaussian(slopes @ along))
        return best

    def influences(self, kind: str, radius: float) -> tuple[float, float]:
        """Return G_T and H_T: the most that a wrong mark changes a record's gradient and, in the ball, its Hessian.

        They are maxima over all records and all wrong marks of the kind.
        """
        rows, marks = possible_marks(self.sample, kind)
        moved = self.sample.take(rows)
        clean, wrong = Records.of(moved, moved.mark, moved.mark), Records.of(moved, marks, marks)
        change = (gradients(TARGET, wrong) - gradients(TARGET, clean)) @ self.frame

        def sizes(point: np.ndarray, some: np.ndarray) -> np.ndarray:
            difference = hessians(point, wrong.take(some)) - hessians(point, clean.take(some))
            return np.asarray(np.abs(np.linalg.eigvalsh(self.frame.T @ difference @ self.frame)).max(axis=1))

        return float(np.linalg.norm(change, axis=1).max()), self._largest(sizes, len(rows), radius)

    def score_slope(self, radius: float) -> float:
        """Return L_q: the largest gradient of q over tasks, steps and the ball."""
        design, totals = self.records.design, self.sample.totals

        def sizes(point: np.ndarray, some: np.ndarray) -> np.ndarray:
            slopes = score_gradients(point, design[some], totals[some]) @ self.frame
            return np.asarray(np.linalg.norm(slopes, axis=2).max(axis=1))

        return self._largest(sizes, len(design), radius)

    def _first(self, count: int | None) -> Records:
        return self.records if count is None else self.records.take(np.arange(min(count, len(self.records.strong))))

    def _descend(self, shift: np.ndarray, radius: float, count: int | None) -> np.ndarray:
        """Go down from a shift to where the smallest eigenvalue of the Hessian is lowest in the ball."""
        records = self._first(count)

        def height(at: np.ndarray) -> float:
            return -_smallest(mean_hessian(self.point(at), records, self.frame))

        def slope(at: np.ndarray) -> np.ndarray:
            along = _lowest(mean_hessian(self.point(at), records, self.frame))[1]
            return np.asarray(-self.frame.T @ _bend(self.point(at), self.frame @ along, records))

        return _climb(height, slope, shift, radius)[0]

    def _largest(self, sizes: Callable[[np.ndarray, np.ndarray], np.ndarray], count: int, radius: float) -> float:
        """Return the largest size over things and the ball; `sizes` gives those of some things at a point."""
        blocks = [np.arange(start, min(start + BLOCK, count)) for start in range(0, count, BLOCK)]
        there = np.concatenate([sizes(TARGET, block) for block in blocks])
        some = np.argsort(-there)[: SEARCH["screened"]]
        shifts = list(self.shifts(radius, random=10))
        found = np.array([sizes(self.point(shift), some) for shift in shifts])
        tops = []
        for row in np.argsort(-found.max(axis=0))[: SEARCH["climbs"]]:

            def height(at: np.ndarray, one: np.ndarray = some[[row]]) -> float:
                return float(sizes(self.point(at), one)[0])

            def slope(at: np.ndarray, height: Callable[[np.ndarray], float] = height) -> np.ndarray:
                return np.array([height(at + nudge) - height(at - nudge) for nudge in 1e-3 * radius * np.eye(SIZE)])

            tops.append(_climb(height, slope, shifts[int(found[:, row].argmax())], radius)[1])
        return max(float(there.max()), *tops)


def mean_hessian(point: np.ndarray, records: Records, frame: np.ndarray) -> np.ndarray:
    """Return the mean Hessian of records in the coordinates of a frame, in bounded memory."""
    count = len(records.strong)
    total = np.zeros((SIZE, SIZE))
    for start in range(0, count, BLOCK):
        total += hessians(point, records.take(np.arange(start, min(start + BLOCK, count)))).sum(axis=0)
    return np.asarray(frame.T @ (total / count) @ frame)


def whitening(hessian: np.ndarray) -> np.ndarray:
    """Return the frame in which a Hessian is the unit matrix."""
    return np.asarray(np.linalg.inv(np.linalg.cholesky(hessian)).T)


def constants_of(population: Population, radius: float) -> Iterator[tuple[str, str, float]]:
    """Yield every constant that depends on the radius: name, kind of wrong marks, and value."""
    yield "mu", "", population.curvature(radius)
    yield "L_q", "", population.score_slope(radius)
    for kind in WRONG_MARKS:
        influence, curvature = population.influences(kind, radius)
        yield "G_T", kind, influence
        yield "H_T", kind, curvature


def sub_gaussian(values: np.ndarray) -> float:
    """Return the least sigma with log E exp(t v) <= sigma^2 t^2 / 2 at all tilts t, for values v of mean zero.

    Examples
    --------
    Two equally likely values, one above and one below zero by the same, have their standard deviation.

    >>> round(sub_gaussian(np.array([-2.0, 2.0])), 3)
    2.0
    """
    ends = values.min(), values.max()
    growth = []
    for tilt in (*-TILTS, *TILTS):
        top = max(tilt * ends[0], tilt * ends[1])
        growth.append((top + np.log(np.exp(tilt * values - top).mean())) / tilt**2)
    return float(np.sqrt(2 * max(growth)))


def _climb(
    height: Callable[[np.ndarray], float], slope: Callable[[np.ndarray], np.ndarray], shift: np.ndarray, radius: float
) -> tuple[np.ndarray, float]:
    """Go up in the ball: towards the point of the sphere that is highest to first order, as far as that gains."""
    value = height(shift)
    for _ in range(STEPS):
        goal = radius * _unit(slope(shift))
        for part in PARTS:
            moved = shift + part * (goal - shift)
            higher = height(moved)
            if higher > value + 1e-5 * abs(value):
                break
        else:
            break
        shift, value = moved, higher
    return shift, value


def _bend(point: np.ndarray, along: np.ndarray, records: Records) -> np.ndarray:
    """Return the gradient of the mean loss's second derivative along a vector, by differences of gradients."""
    means = [gradients(point + nudge * along, records).mean(axis=0) for nudge in (-0.01, 0.0, 0.01)]
    return np.asarray(means[0] - 2 * means[1] + means[2])


def _directions(rng: np.random.Generator, count: int) -> np.ndarray:
    drawn = rng.normal(size=(count, SIZE))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))


def _unit(vector: np.ndarray) -> np.ndarray:
    return np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-300))


def _smallest(matrix: np.ndarray) -> float:
    return _lowest(matrix)[0]


def _lowest(matrix: np.ndarray) -> tuple[float, np.ndarray]:
    values, vectors = np.linalg.eigh(matrix)
    return float(values[0]), vectors[:, 0]


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
        """Return the gradient of the objective."""
        total = np.zeros(SIZE)
        for sign, blocks in ((1, self.clean), (-1, exchange.old), (1, exchange.new)):
            for records in blocks:
                total += sign * _summed(point, records)
        return np.asarray(total / self.size)

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
        return np.asarray(total / self.size)


def _summed(point: np.ndarray, records: Records) -> np.ndarray:
    count = len(records.strong)
    total = np.zeros(SIZE)
    for start in range(0, count, BLOCK):
        total += gradients(point, records.take(np.arange(start, min(start + BLOCK, count)))).sum(axis=0)
    return total
