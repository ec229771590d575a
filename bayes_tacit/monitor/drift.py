"""Drift: how far values lie from those of training, as far as seven training quantiles tell."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bayes_tacit.router.ranges import PROBABILITIES

SMALL = 0.1
"""A shift of a tenth of all values, below which nothing is called drift however many there are."""

LEVEL = 0.01
"""How often one log without drift may be said to have some."""

Kind = Literal["feature", "diagnostic"]
Verdict = Literal["alike", "higher", "lower", "both"]


class Counts:
    """Counts of values below, at and between training quantiles: all that is needed, in the same memory for any log.

    Parameters
    ----------
    quantiles
        Of training, one for each of `bayes_tacit.router.ranges.PROBABILITIES`.

    Examples
    --------
    >>> counts = Counts((0, 1, 2, 3, 4, 5, 6))
    >>> for value in (5, 6, 7, 8):
    ...     counts.add(value)
    >>> counts.higher, counts.lower, counts.outside
    (0.75, 0.0, 0.5)
    """

    def __init__(self, quantiles: Sequence[float]) -> None:
        self.quantiles = tuple(float(value) for value in quantiles)
        self.levels = sorted(set(self.quantiles))
        # A level takes two places: below it since the last one, and exactly at it. The last place is above all.
        self._places = [0] * (2 * len(self.levels) + 1)

    def add(self, value: float) -> None:
        """Count one value."""
        level = bisect_left(self.levels, value)
        at = level < len(self.levels) and self.levels[level] == value
        self._places[2 * level + at] += 1

    @property
    def n(self) -> int:
        """How many were counted."""
        return sum(self._places)

    def share(self, level: int, *, included: bool) -> float:
        """Give the share of values up to the level of this number, with or without those at it."""
        return sum(self._places[: 2 * level + 1 + included]) / self.n if self.n else math.nan

    @property
    def higher(self) -> float:
        """By how much of all values they lie higher than in training, at least."""
        return self._apart(higher=True)

    @property
    def lower(self) -> float:
        """By how much of all values they lie lower than in training, at least."""
        return self._apart(higher=False)

    @property
    def outside(self) -> float:
        """The share that is below or above all values of training."""
        return (self._places[0] + self._places[-1]) / self.n if self.n else math.nan

    def _apart(self, *, higher: bool) -> float:
        """Give the largest gap between both distribution functions that the quantiles prove.

        It is at most the one-sided Kolmogorov-Smirnov distance, and needs no training data: in training at least p of
        all values are up to the quantile of p, and at most p are below it.
        """
        gaps = [0.0]
        for level, value in enumerate(self.levels) if self.n else ():
            if higher:
                gaps.append(_largest(self.quantiles, value) - self.share(level, included=True))
            else:
                gaps.append(self.share(level, included=False) - _smallest(self.quantiles, value))
        return max(gaps)


@dataclass(frozen=True)
class Drift:
    """One feature or diagnostic beside its training quantiles.

    Attributes
    ----------
    kind, name
        Which.
    n, sessions
        How many values, of how many sessions.
    training
        Training quantiles.
    shares
        The share of values up to each of them.
    higher, lower
        By how much of all values they lie higher or lower than in training, at least: the gap between the two
        distribution functions that the quantiles prove.
    outside
        The share outside of all that training had.
    limit
        What such a gap has to exceed to be more than chance.
    """

    kind: Kind
    name: str
    n: int
    sessions: int
    training: tuple[float, ...]
    shares: tuple[float, ...]
    higher: float
    lower: float
    outside: float
    limit: float

    @property
    def verdict(self) -> Verdict:
        """Whether values lie where they lay in training."""
        up, down = self.higher > self.limit, self.lower > self.limit
        return "both" if up and down else "higher" if up else "lower" if down else "alike"


def limit_of(sessions: int, names: int) -> float:
    """Give the gap that chance exceeds in at most one of a hundred logs (Dvoretzky, Kiefer, Wolfowitz).

    Steps of one session are alike, so that sessions count and not steps; and of several names any may exceed it.

    Examples
    --------
    >>> round(limit_of(100, 5), 3), limit_of(1_000_000, 5)
    (0.186, 0.1)
    """
    return max(SMALL, math.sqrt(math.log(2 * max(1, names) / LEVEL) / (2 * max(1, sessions))))


def drift_of(kind: Kind, name: str, counts: Counts, sessions: int, names: int) -> Drift:
    """Compare what was counted with training."""
    place = {value: level for level, value in enumerate(counts.levels)}
    return Drift(
        kind,
        name,
        counts.n,
        sessions,
        counts.quantiles,
        tuple(counts.share(place[value], included=True) for value in counts.quantiles),
        counts.higher,
        counts.lower,
        counts.outside,
        limit_of(sessions, names),
    )


def _largest(quantiles: Sequence[float], value: float) -> float:
    return max(p for p, quantile in zip(PROBABILITIES, quantiles, strict=True) if quantile <= value)


def _smallest(quantiles: Sequence[float], value: float) -> float:
    return min(p for p, quantile in zip(PROBABILITIES, quantiles, strict=True) if quantile >= value)
