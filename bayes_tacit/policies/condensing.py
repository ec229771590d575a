"""Many past moments as few places: what is kept of an experience that may grow without end."""

from __future__ import annotations

import numpy as np

from bayes_tacit.model.design import Standardization
from bayes_tacit.router.control import Experience

FINEST = 2.0**-20
"""Costs are kept as multiples of it, so that sums of them are exact in any order."""


def condensed(
    names: tuple[str, ...],
    moments: np.ndarray,
    outcomes: np.ndarray,
    extra: np.ndarray,
    limit: int,
    nearest: float,
) -> Experience:
    """Condense moments to at most so many places.

    Parameters
    ----------
    names
        The columns of the moments.
    moments
        (moment, name), raw.
    outcomes
        (2, moment), whether Cheap and whether Strong went on to succeed.
    extra
        (moment,), what Strong would have cost more than Cheap.
    limit
        The most places; with as many as there are moments, each keeps its own.
    nearest
        Share of the places that is asked, at least one.

    Examples
    --------
    >>> moments = np.array([[0.0], [0.2], [5.0], [5.2]])
    >>> past = condensed(("risk",), moments, np.array([[1, 1, 0, 0], [1, 1, 1, 0]]), np.ones(4), limit=2, nearest=0.5)
    >>> past.count, past.cheap, past.strong, past.ask(np.array([[4.0]]))
    (array([2., 2.]), array([2., 0.]), array([2., 1.]), array([[2., 0., 1., 2.]]))
    """
    standardization = Standardization.of(moments)
    z = standardization.apply(moments)
    cells = halved(z, limit)
    cheap, strong = outcomes.astype(float)
    cost = np.rint(extra / FINEST) * FINEST
    mean, scale = (tuple(values.tolist()) for values in (standardization.mean, standardization.scale))
    places = np.array([z[cell].mean(axis=0) for cell in cells])
    count = np.array([len(cell) for cell in cells])
    sums = {
        name: np.array([values[cell].sum() for cell in cells])
        for name, values in (("cheap", cheap), ("strong", strong), ("cost", cost))
    }
    return Experience(names, mean, scale, places, count, **sums, nearest=max(1, round(nearest * len(cells))))


def halved(points: np.ndarray, limit: int) -> list[np.ndarray]:
    """Split points at the median of what varies most among them, again and again, into at most so many parts.

    The largest part is split next, the earliest of equals; so parts differ in size by a factor of about two at most.

    Examples
    --------
    >>> [part.tolist() for part in halved(np.array([[3.0], [1.0], [2.0], [9.0]]), limit=3)]
    [[1], [2], [0, 3]]
    """
    parts = [np.arange(len(points))]
    while len(parts) < limit:
        split = _splits(parts, points, limit - len(parts))
        if len(split) == len(parts):
            break
        parts = split
    return parts


def _splits(parts: list[np.ndarray], points: np.ndarray, at_most: int) -> list[np.ndarray]:
    """Halve so many of the parts, the largest first."""
    largest = sorted(range(len(parts)), key=lambda place: -len(parts[place]))[:at_most]
    chosen = {place for place in largest if len(parts[place]) > 1}
    out = []
    for place, part in enumerate(parts):
        if place not in chosen:
            out.append(part)
            continue
        values = points[part]
        order = np.argsort(values[:, values.var(axis=0).argmax()], kind="stable")
        half = len(part) // 2
        out += [part[order[:half]], part[order[half:]]]
    return out
