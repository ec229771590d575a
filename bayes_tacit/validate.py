"""Checks of values that come from outside, one kind of value a function, with one wording for all.

Each takes the value's name and the value, and returns it in the type it is used in, or raises an `InvalidDataError`
that names it. Settings come first, then values out of JSON, then arrays.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from bayes_tacit.errors import InvalidDataError

SIMPLEX_TOLERANCE = 1e-6
"""How far weights may sum from 1: what rounding to 32 bits does to them passes."""


def whole(name: str, value: object, least: int, most: int = 2**63 - 1) -> int:
    """Return a whole number of at least `least`, and at most `most`: what 64 bits hold, or what can ever end."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise InvalidDataError(f"a whole number >= {least}", field=name, value=value)
    if int(value) > most:
        raise InvalidDataError(f"a whole number from {least} to {most:,}", field=name, value=value)
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
    """Return a finite number within bounds, which `expected` puts into words."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidDataError(expected, field=name, value=value)
    try:
        given = float(value)
    except OverflowError:
        given = math.inf
    if not math.isfinite(given) or not (least <= given <= most and above < given < below):
        raise InvalidDataError(expected, field=name, value=value)
    return given


def probability(name: str, value: object) -> float:
    """Return a number between 0 and 1, neither of them included."""
    return number(name, value, "a number between 0 and 1", above=0, below=1)


def threshold(name: str, value: object) -> float:
    """Return a decision threshold: above 0 (the score before anything happened) and at most 1."""
    return number(name, value, "a number above 0 and at most 1", above=0, most=1)


def rule(name: str, value: object) -> str | float:
    """Return how draws become one score: "mean", or the probability of a quantile."""
    if isinstance(value, str) and value == "mean":
        return value
    return number(name, value, "'mean' or a number between 0 and 1 (a quantile)", above=0, below=1)


def choice[T: str](name: str, value: object, options: Iterable[T]) -> T:
    """Return one of several words."""
    known = tuple(options)
    for option in known:
        if isinstance(value, str) and value == option:
            return option
    raise InvalidDataError(" or ".join(map(repr, known)), field=name, value=value)


def text(name: str, value: object) -> str:
    """Return a string."""
    if not isinstance(value, str):
        raise InvalidDataError("a string", field=name, value=value)
    return value


def flag(name: str, value: object) -> bool:
    """Return a truth value."""
    if not isinstance(value, bool):
        raise InvalidDataError("true or false", field=name, value=value)
    return value


def episode_id(name: str, value: object) -> str | int:
    """Return the id of an episode: a string or a whole number."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InvalidDataError("a string or a whole number", field=name, value=value)
    return value


def names(name: str, value: object) -> tuple[str, ...]:
    """Return a list of different, non-empty strings."""
    if not isinstance(value, (list, tuple)):
        raise InvalidDataError("a list of names", field=name, value=value)
    for position, each in enumerate(value):
        if not isinstance(each, str) or not each:
            raise InvalidDataError("a non-empty string", field=f"{name}[{position}]", value=each)
        if each in value[:position]:
            raise InvalidDataError("names that differ", field=f"{name}[{position}]", value=each)
    return tuple(value)


def imported(name: str, value: object, of: str = "module:name of an object that can be imported") -> Any:  # noqa: ANN401
    """Return the object that `module:name` stands for; a module is looked for in the working directory, too.

    Examples
    --------
    >>> imported("--signal", "math:sqrt")(9)
    3.0
    """
    module, colon, path = value.partition(":") if isinstance(value, str) else ("", "", "")
    if not (colon and all(part.isidentifier() for part in (*module.split("."), *path.split(".")))):
        raise InvalidDataError(of, field=name, value=value)
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    try:
        found: Any = importlib.import_module(module)
    except ImportError as error:
        raise InvalidDataError(
            f"module:object of a module that can be imported ({error})", field=name, value=value
        ) from None
    for part in path.split("."):
        if not hasattr(found, part):
            raise InvalidDataError(f"an object that {module} has", field=name, value=value)
        found = getattr(found, part)
    return found


def record(name: str, value: object, keys: Sequence[str]) -> dict[str, object]:
    """Return an object with exactly these keys; a whole document has the name ""."""
    if not isinstance(value, Mapping):
        raise InvalidDataError(f"an object with the keys {', '.join(keys)}", field=name or "it", value=value)
    prefix = f"{name}." if name else ""
    for key in keys:
        if key not in value:
            raise InvalidDataError(f"the key {prefix}{key}, which is missing")
    for key in value:
        if key not in keys:
            raise InvalidDataError(
                f"one of {', '.join(keys)}", field=f"a key of {name}" if name else "a key", value=key
            )
    return dict(value)


def numbers(name: str, value: object, shape: tuple[int, ...]) -> np.ndarray:
    """Return a list of numbers, or of lists of numbers, as an array of this shape.

    Examples
    --------
    >>> numbers("w", [[0.5, 0.5], [1, 0]], (2, 2))
    array([[0.5, 0.5],
           [1. , 0. ]])
    """
    rows = _list(name, value, shape[0], "a list of {} numbers" if len(shape) == 1 else "a list of {} lists, one a draw")
    if len(shape) == 2:
        for position, row in enumerate(rows):
            _list(f"{name}[{position}]", row, shape[1], "a list of {} numbers")
    flat = rows if len(shape) == 1 else [given for row in rows for given in row]  # type: ignore[attr-defined]
    if not set(map(type, flat)) <= {int, float}:
        wrong = next(position for position, given in enumerate(flat) if type(given) not in (int, float))
        raise InvalidDataError("a number", field=_item(name, np.unravel_index(wrong, shape)), value=flat[wrong])
    try:
        return np.array(flat, dtype=float).reshape(shape)
    except OverflowError:
        raise InvalidDataError("finite numbers", field=name, value=value) from None


def _list(name: str, value: object, length: int, expected: str) -> list[object]:
    if not isinstance(value, list) or len(value) != length:
        raise InvalidDataError(expected.format(length), field=name, value=value)
    return value


def finite(name: str, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return an array of this shape in which every number is finite."""
    if array.shape != shape:
        raise InvalidDataError(f"the shape {shape}", field=f"shape of {name}", value=array.shape)
    return _each(name, array, np.isfinite(array), "a finite number")


def positive(name: str, array: np.ndarray) -> np.ndarray:
    """Return an array in which every number is above zero."""
    return _each(name, array, array > 0, "a number above 0")


def simplex(name: str, rows: np.ndarray) -> np.ndarray:
    """Return rows that are nonnegative and sum to one.

    Examples
    --------
    >>> simplex("w", np.array([[0.5, 0.5], [0.5, 0.4]]))
    Traceback (most recent call last):
        ...
    bayes_tacit.errors.InvalidDataError: sum of w[1] is 0.9; expected 1 within 1e-06
    """
    _each(name, rows, rows >= 0, "a number >= 0")
    sums = rows.sum(axis=1)
    _each(f"sum of {name}", sums, sums_to_one(sums), f"1 within {SIMPLEX_TOLERANCE:g}")
    return rows


def sums_to_one(sums: np.ndarray | float) -> np.ndarray:
    """Check which sums of weights are 1 but for rounding."""
    return np.abs(np.asarray(sums) - 1) <= SIMPLEX_TOLERANCE


def _each(name: str, array: np.ndarray, right: np.ndarray, expected: str) -> np.ndarray:
    if not right.all():
        wrong = tuple(np.argwhere(~right)[0])
        raise InvalidDataError(expected, field=_item(name, wrong), value=float(array[wrong]))
    return array


def _item(name: str, index: Sequence[np.intp]) -> str:
    return name + "".join(f"[{position}]" for position in index)
