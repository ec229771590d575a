"""Values cut into bins: the one rule by which episodes and checkpoints are put together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

DECIMALS = 9
"""Standardizing and back moves a value by rounding; what was one value is to stay one."""


def cut(values: np.ndarray, quantiles: np.ndarray, weight: np.ndarray | None = None) -> Iterator[np.ndarray]:
    """Cut values into bins at quantiles of their weights; equal values share a bin, and few of them have one each.

    Parameters
    ----------
    values
        What is cut, of any shape.
    quantiles
        The inner ends of the bins, rising, as parts of all weight.
    weight
        Of the same shape; values without weight are in no bin. By default all count alike.

    Yields
    ------
    numpy.ndarray
        The members of a bin as a mask, by rising values; none is empty.

    Examples
    --------
    >>> [mask.tolist() for mask in cut(np.array([3.0, 1.0, 2.0]), np.array([0.5]))]
    [[False, True, True], [True, False, False]]
    """
    weight = np.ones(np.shape(values)) if weight is None else weight
    known = weight > 0
    rounded = _rounded(values)
    distinct = np.unique(rounded[known])
    ends = distinct
    if len(distinct) > len(quantiles) + 1:
        order = np.argsort(rounded[known], kind="stable")
        share = np.cumsum(weight[known][order])
        inner = rounded[known][order][np.searchsorted(share, quantiles * share[-1])]
        ends = np.unique(np.append(inner, distinct[-1]))
    place = np.searchsorted(ends, rounded, side="left")
    yield from ((place == number) & known for number in range(len(ends)))


def evenly(count: int) -> np.ndarray:
    """Give the inner ends of so many bins of equal weight.

    Examples
    --------
    >>> evenly(4)
    array([0.25, 0.5 , 0.75])
    """
    return np.arange(1, count) / count


def span(inside: np.ndarray) -> str:
    """Name a bin by the values in it.

    Examples
    --------
    >>> span(np.array([0.25, 1.0])), span(np.array([2.0, 2.0]))
    ('0.25 to 1', '2')
    """
    least, most = _rounded(inside).min(), _rounded(inside).max()
    return f"{least:.4g}" if least == most else f"{least:.3g} to {most:.3g}"


def _rounded(values: np.ndarray) -> np.ndarray:
    """Round; adding zero takes the sign from what was rounded to zero."""
    rounded: np.ndarray = np.round(values, DECIMALS) + 0.0
    return rounded
