"""Checks of values that come from outside, one kind of value a function.

Each returns the value in the type it is used in, or raises an `InvalidDataError` that names the field.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from bayes_tacit.errors import InvalidDataError

SIMPLEX_TOLERANCE = 1e-9


def record(value: object, keys: Sequence[str], field: str = "") -> dict[str, object]:
    """Check that it is an object with exactly these keys; without a field, that of a whole document."""
    if not isinstance(value, Mapping):
        raise InvalidDataError(f"an object with the keys {', '.join(keys)}", field=field or "it", value=value)
    prefix = f"{field}." if field else ""
    for key in keys:
        if key not in value:
            raise InvalidDataError(f"the key {prefix}{key}, which is missing")
    for key in value:
        if key not in keys:
            raise InvalidDataError(
                f"one of {', '.join(keys)}", field=f"a key of {field}" if field else "a key", value=key
            )
    return dict(value)


def number(value: object, field: str, expected: str = "a finite number") -> float:
    """Check that it is a finite number, and not a truth value."""
    if type(value) not in (int, float) and not isinstance(value, np.integer | np.floating):
        raise InvalidDataError(expected, field=field, value=value)
    try:
        result = float(value)  # type: ignore[arg-type]
    except OverflowError:
        result = math.inf
    if not math.isfinite(result):
        raise InvalidDataError(expected, field=field, value=value)
    return result


def text(value: object, field: str) -> str:
    """Check that it is a string."""
    if not isinstance(value, str):
        raise InvalidDataError("a string", field=field, value=value)
    return value


def flag(value: object, field: str) -> bool:
    """Check that it is a truth value."""
    if not isinstance(value, bool):
        raise InvalidDataError("true or false", field=field, value=value)
    return value


def count(value: object, field: str, expected: str = "a whole number >= 0") -> int:
    """Check that it is a whole number, zero or more."""
    if type(value) is not int or value < 0:
        raise InvalidDataError(expected, field=field, value=value)
    return value


def episode_id(value: object) -> str | int | None:
    """Check that it can name an episode; None for an episode without a name."""
    if value is not None and type(value) not in (str, int):
        raise InvalidDataError("a string or a whole number", field="episode", value=value)
    return value  # type: ignore[return-value]


def choice(value: object, options: Sequence[str], field: str) -> str:
    """Check that it is one of the options."""
    if not isinstance(value, str) or value not in options:
        raise InvalidDataError(f"one of {', '.join(options)}", field=field, value=value)
    return value


def names(value: object, field: str) -> tuple[str, ...]:
    """Check that it is a list of different, non-empty strings."""
    if not isinstance(value, (list, tuple)):
        raise InvalidDataError("a list of names", field=field, value=value)
    for position, name in enumerate(value):
        if not isinstance(name, str) or not name:
            raise InvalidDataError("a non-empty string", field=f"{field}[{position}]", value=name)
        if name in value[:position]:
            raise InvalidDataError("names that differ", field=f"{field}[{position}]", value=name)
    return tuple(value)


def alpha(value: object) -> float:
    """Check a decision threshold."""
    expected = "a number above 0 and at most 1"
    result = number(value, "alpha", expected)
    if not 0 < result <= 1:
        raise InvalidDataError(expected, field="alpha", value=value)
    return result


def rule(value: object) -> str | float:
    """Check a decision rule."""
    expected = "'mean' or a number between 0 and 1 (a quantile)"
    if value == "mean" and isinstance(value, str):
        return value
    result = number(value, "rule", expected)
    if not 0 < result < 1:
        raise InvalidDataError(expected, field="rule", value=value)
    return result


def numbers(value: object, shape: tuple[int, ...], field: str) -> np.ndarray:
    """Check that it is a list of so many numbers, or of so many lists of so many numbers."""
    rows = _list(
        value, shape[0], field, "a list of {} numbers" if len(shape) == 1 else "a list of {} lists, one a draw"
    )
    if len(shape) == 2:
        for position, row in enumerate(rows):
            _list(row, shape[1], f"{field}[{position}]", "a list of {} numbers")
    flat = rows if len(shape) == 1 else [given for row in rows for given in row]  # type: ignore[attr-defined]
    if not set(map(type, flat)) <= {int, float}:
        wrong = next(position for position, given in enumerate(flat) if type(given) not in (int, float))
        raise InvalidDataError("a number", field=_item(field, np.unravel_index(wrong, shape)), value=flat[wrong])
    try:
        return np.array(flat, dtype=float).reshape(shape)
    except OverflowError:
        raise InvalidDataError("finite numbers", field=field, value=value) from None


def _list(value: object, length: int, field: str, expected: str) -> list[object]:
    if not isinstance(value, list) or len(value) != length:
        raise InvalidDataError(expected.format(length), field=field, value=value)
    return value


def _item(field: str, index: Sequence[np.intp]) -> str:
    return field + "".join(f"[{position}]" for position in index)


def finite(array: np.ndarray, shape: tuple[int, ...], field: str) -> None:
    """Check the shape, and that every number is finite."""
    if array.shape != shape:
        raise InvalidDataError(f"the shape {shape}", field=f"shape of {field}", value=array.shape)
    _each(np.isfinite(array), array, field, "a finite number")


def positive(array: np.ndarray, field: str) -> None:
    """Check that every number is above zero."""
    _each(array > 0, array, field, "a number above 0")


def simplex(rows: np.ndarray, field: str) -> None:
    """Check that each row is nonnegative and sums to one."""
    _each(rows >= 0, rows, field, "a number >= 0")
    sums = rows.sum(axis=1)
    _each(np.abs(sums - 1) <= SIMPLEX_TOLERANCE, sums, f"sum of {field}", f"1 within {SIMPLEX_TOLERANCE:g}")


def _each(right: np.ndarray, array: np.ndarray, field: str, expected: str) -> None:
    if not right.all():
        wrong = tuple(np.argwhere(~right)[0])
        raise InvalidDataError(expected, field=_item(field, wrong), value=float(array[wrong]))
