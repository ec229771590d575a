"""Checks of what a user passes as a setting, with one wording for all."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral, Real

from bayes_tacit.errors import InvalidDataError


def whole(name: str, value: object, least: int) -> int:
    """Return a whole number of at least `least`.

    Examples
    --------
    >>> whole("restarts", 2.5, 1)
    Traceback (most recent call last):
        ...
    bayes_tacit.errors.InvalidDataError: restarts is 2.5; expected a whole number >= 1
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise InvalidDataError(f"a whole number >= {least}", field=name, value=value)
    return int(value)


def number(
    name: str,
    value: object,
    expected: str = "a finite number",
    *,
    least: float = -math.inf,
    above: float = -math.inf,
    most: float = math.inf,
    below: float = math.inf,
) -> float:
    """Return a finite number within bounds, which `expected` puts into words.

    Examples
    --------
    >>> number("ridge", 0.01, "a finite number >= 0", least=0)
    0.01
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidDataError(expected, field=name, value=value)
    try:
        given = float(value)
    except OverflowError:
        given = math.inf
    if not math.isfinite(given) or not (least <= given <= most and above < given < below):
        raise InvalidDataError(expected, field=name, value=value)
    return given


def choice[T: str](name: str, value: T, options: Iterable[T]) -> T:
    """Return one of several words.

    Examples
    --------
    >>> choice("timing", "proposal", ("post_action", "proposal"))
    'proposal'
    """
    known = tuple(options)
    if not isinstance(value, str) or value not in known:
        raise InvalidDataError(" or ".join(map(repr, known)), field=name, value=value)
    return value
