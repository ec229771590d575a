"""The search of a few numbers on development outcomes, one after the other, with a guard against chance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from bayes_tacit.policies.tuned.numbers import Numbers

ROUNDS = 4
"""How often every number is gone through at most; the search mostly ends before."""

LEAST_GAIN = 1e-4
"""Mean success below which a gain is none."""

STANDARD_ERRORS = 0.5
"""How many of its own standard errors a gain must be above: few tasks change less of the numbers."""


def search(
    start: Numbers, tried: Mapping[str, Sequence[float]], value: Callable[[Numbers], np.ndarray]
) -> tuple[Numbers, int]:
    """Improve one number at a time until none improves.

    Parameters
    ----------
    start
        Where to begin.
    tried
        Values of each number, in the order of the search; numbers that are not in it stay.
    value
        Gives what comes of some numbers, by task. Gains are judged on the same tasks, so most of the luck cancels.

    Returns
    -------
    tuple
        The numbers that were found, and how many were looked at.

    Examples
    --------
    >>> tasks = np.linspace(0, 1, 50)
    >>> found, looked_at = search({"a": 0.0}, {"a": (0.0, 1.0, 2.0)}, lambda numbers: tasks - (numbers["a"] - 1) ** 2)
    >>> found, looked_at
    ({'a': 1.0}, 5)
    """
    best, best_value, looked_at = dict(start), value(start), 1
    for _ in range(ROUNDS):
        before = best_value
        for name, values in tried.items():
            begin = dict(best)
            for one in values:
                if one == begin[name]:
                    continue
                other = begin | {name: float(one)}
                found = value(other)
                looked_at += 1
                if gains(found, best_value):
                    best, best_value = other, found
        if not gains(best_value, before):
            break
    return best, looked_at


def gains(new: np.ndarray, old: np.ndarray) -> bool:
    """Tell whether tasks fare better by more than chance would easily give."""
    difference = new - old
    mean = float(difference.mean())
    return mean > max(LEAST_GAIN, STANDARD_ERRORS * float(difference.std()) / np.sqrt(len(difference)))
