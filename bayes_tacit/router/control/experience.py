"""Past episodes in a bounded form, and what those nearest to an episode say: the arithmetic, in plain NumPy."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayes_tacit import validate
from bayes_tacit.errors import InvalidDataError

MOST = 4096
"""Places that an experience can have: a decision looks at all of them."""

AT_ONCE = 1 << 19
"""Distances that are computed at a time, which the processor's cache holds."""

SUMS = ("count", "cheap", "strong", "cost")


@dataclass(frozen=True, eq=False, repr=False)
class Experience:
    """Places where past episodes have been, and what came of them.

    A place stands for moments of past episodes that were alike. Sums, not means, are kept of it, whole numbers and
    multiples of a power of two, so that adding them up gives the same bits in any order.

    Attributes
    ----------
    names
        What is known at a moment, in order.
    mean, scale
        By which each is standardized.
    places
        (place, name), standardized.
    count, cheap, strong, cost
        (place,): how many moments; in how many of them Cheap and Strong went on to succeed; and the sum of what
        Strong would have cost more than Cheap, in units of what Strong costs on average.
    nearest
        How many places are asked.

    Examples
    --------
    >>> sums = [[10, 10, 10], [9, 5, 1], [9, 9, 8], [10, 10, 10]]
    >>> past = Experience(("risk",), (0.5,), (0.5,), np.array([[-1.0], [0.0], [1.0]]), *np.array(sums), nearest=1)
    >>> past.ask(np.array([[0.1], [0.9]]))      # count, Cheap's and Strong's successes, cost
    array([[10.,  9.,  9., 10.],
           [10.,  1.,  8., 10.]])
    """

    names: tuple[str, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    places: np.ndarray
    count: np.ndarray
    cheap: np.ndarray
    strong: np.ndarray
    cost: np.ndarray
    nearest: int

    def __post_init__(self) -> None:
        """Check the numbers."""
        n = len(validate.names("names of an experience", self.names))
        for name in ("mean", "scale"):
            numbers = validate.finite(f"{name} of an experience", np.asarray(getattr(self, name), dtype=float), (n,))
            if name == "scale":
                validate.positive(f"{name} of an experience", numbers)
        places = np.asarray(self.places, dtype=float)
        m = len(places) if places.ndim == 2 else 0
        if not 1 <= m <= MOST:
            raise InvalidDataError(f"from 1 to {MOST:,}", field="number of places of an experience", value=m)
        object.__setattr__(self, "places", validate.finite("places of an experience", places, (m, n)))
        for name in SUMS:
            numbers = validate.finite(f"{name} of an experience", np.asarray(getattr(self, name), dtype=float), (m,))
            object.__setattr__(self, name, numbers)
        validate.positive("count of an experience", self.count)
        for name in ("cheap", "strong"):
            wrong = (getattr(self, name) < 0) | (getattr(self, name) > self.count)
            if wrong.any():
                value = float(getattr(self, name)[wrong.argmax()])
                expected = "a number from 0 to the count of its place"
                raise InvalidDataError(expected, field=f"{name} of an experience", value=value)
        validate.whole("nearest", self.nearest, 1, m)

    def ask(self, columns: np.ndarray) -> np.ndarray:
        """Add up what is known of the nearest places, for moments (moment, name): (moment, 4), in the order of `SUMS`.

        Distances are Euclidean on standardized numbers. Places as far as the last of the nearest are asked too, so the
        answer does not depend on an order among them.
        """
        z = (columns - np.asarray(self.mean)) / np.asarray(self.scale)
        out = np.empty((len(z), len(SUMS)))
        size = max(1, AT_ONCE // len(self.places))
        for start in range(0, len(z), size):
            # One name after the other: a moment's distances have the same bits however many are computed with it.
            far = np.zeros((len(z[start : start + size]), len(self.places)))
            # What is too far to be squared is infinitely far.
            with np.errstate(over="ignore"):
                for column, places in zip(z[start : start + size].T, self._by_name, strict=True):
                    away = column[:, None] - places
                    away *= away
                    far += away
            last = np.partition(far, self.nearest - 1, axis=1)[:, [self.nearest - 1]]
            out[start : start + size] = (far <= last).astype(float) @ self._sums
        return out

    @cached_property
    def _by_name(self) -> np.ndarray:
        return np.ascontiguousarray(self.places.T)

    @cached_property
    def _sums(self) -> np.ndarray:
        return np.stack([getattr(self, name) for name in SUMS], axis=1)

    @cached_property
    def _digest(self) -> str:
        content = (*self.mean, *self.scale, *self.places.ravel(), *self._sums.ravel(), self.nearest)
        return hashlib.sha256(repr((self.names, list(map(float, content)))).encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return self._digest == other._digest if isinstance(other, Experience) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._digest)

    def __repr__(self) -> str:
        return f"<Experience: {len(self.places)} places, {int(self.count.sum())} moments, {self._digest[:16]}>"
