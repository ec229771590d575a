"""The factors that a column of a design is a product of: a number, a spline of it, or a level.

Each is a small value with the column of the data that it reads, and is written to and read from JSON by its fields.
Only NumPy is imported: a router evaluates them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "identity": lambda x: x,
    "log": np.log,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "exp": np.exp,
}
"""What may be taken of a number, by the name that a formula has for it."""


@dataclass(frozen=True)
class Number:
    """A column, a function of it, or a power of it."""

    kind: ClassVar[str] = "number"
    column: str
    function: str = "identity"
    power: float = 1.0

    def values(self, column: np.ndarray) -> np.ndarray:
        """Evaluate it; what is not defined is NaN."""
        with np.errstate(all="ignore"):
            found: np.ndarray = FUNCTIONS[self.function](column)
            return found if self.power == 1 else found**self.power


@dataclass(frozen=True)
class Level:
    """Whether a column has a level."""

    kind: ClassVar[str] = "level"
    column: str
    level: str

    def values(self, column: np.ndarray) -> np.ndarray:
        """Give ones and zeros."""
        return (column == self.level).astype(float)


@dataclass(frozen=True)
class NewLevel:
    """Whether a column has none of the levels that were known in training."""

    kind: ClassVar[str] = "new level"
    column: str
    levels: tuple[str, ...]

    def values(self, column: np.ndarray) -> np.ndarray:
        """Give ones and zeros."""
        return (~np.isin(column, self.levels)).astype(float)


@dataclass(frozen=True)
class Spline:
    """One function of a B-spline basis; beyond the knots it keeps the value that it has at the nearest one."""

    kind: ClassVar[str] = "spline"
    column: str
    knots: tuple[float, ...]
    degree: int
    index: int

    def values(self, column: np.ndarray) -> np.ndarray:
        """Evaluate it by the recursion of Cox and de Boor."""
        return b_spline(column, np.array(self.knots), self.degree, self.index)


Factor = Number | Level | NewLevel | Spline
KINDS: dict[str, type[Factor]] = {kind.kind: kind for kind in (Number, Level, NewLevel, Spline)}


def b_spline(x: np.ndarray, knots: np.ndarray, degree: int, index: int) -> np.ndarray:
    """Evaluate one function of a B-spline basis over all knots, the repeated ends included.

    Examples
    --------
    >>> b_spline(np.array([0.0, 0.5, 1.0, 9.0]), np.array([0.0, 0.0, 1.0, 1.0]), 1, 1)
    array([0. , 0.5, 1. , 1. ])
    """
    x = np.clip(x, knots[0], knots[-1])
    # The last interval that is not empty contains its upper end, too.
    last = int(np.flatnonzero(knots < knots[-1])[-1])
    inside = [
        (knots[j] <= x) & ((x < knots[j + 1]) | ((j == last) & (x == knots[-1])))
        for j in range(index, index + degree + 1)
    ]
    basis = [each.astype(float) for each in inside]
    for order in range(1, degree + 1):
        basis = [
            _part(x - knots[j], knots[j + order] - knots[j]) * basis[j - index]
            + _part(knots[j + order + 1] - x, knots[j + order + 1] - knots[j + 1]) * basis[j - index + 1]
            for j in range(index, index + degree + 1 - order)
        ]
    return basis[0]


def _part(distance: np.ndarray, width: float) -> np.ndarray:
    return distance / width if width > 0 else np.zeros_like(distance)
