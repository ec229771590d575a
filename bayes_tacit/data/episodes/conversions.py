"""From whatever holds a column (NumPy, pandas nullable, Arrow, Python objects) to four plain dtypes.

Everything in `Episodes` is float64, int64, bool or text (Python strings in an object array), so that a value means the
same in every file format:

| given                            | becomes                                              |
| -------------------------------- | ---------------------------------------------------- |
| floats of any width              | float64                                              |
| integers of any width            | int64; with missing values float64, missing is NaN   |
| booleans, pandas `boolean`       | bool; with missing values float64, missing is NaN    |
| text, pandas `string`, category  | text; missing is the empty text                      |
| nothing but missing values       | float64, all NaN                                     |
| datetime64                       | datetime64[ns]                                       |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_tacit.errors import InvalidDataError

Array = npt.NDArray[Any]


class _Missing:
    """What an error shows in place of a value that is not there."""

    def __repr__(self) -> str:
        return "missing"


MISSING = _Missing()


def plain(value: object) -> object:
    """Return a NumPy scalar as the Python value that it holds, and anything missing as `MISSING`.

    A date stays as it is: in Python it would be a number of nanoseconds.
    """
    if value is None or value is pd.NA or value is pd.NaT:
        return MISSING
    if isinstance(value, np.datetime64 | np.timedelta64):
        return MISSING if np.isnat(value) else value
    return value.item() if isinstance(value, np.generic) else value


def as_list(values: object, field: str, expected: str) -> list[Any]:
    """Return the items of anything that has some, a text excepted."""
    if isinstance(values, Iterable) and not isinstance(values, str | bytes):
        with suppress(TypeError):  # an array without dims is Iterable, but has no items
            return list(values)
    raise InvalidDataError(expected, field=field, value=values)


def column_values(series: pd.Series[Any]) -> Array:
    """Return a pandas column as a NumPy array: nullable dtypes as plain ones, with NaN or None for what is missing."""
    dtype = series.dtype
    if isinstance(dtype, np.dtype):
        return series.to_numpy()
    if not isinstance(dtype, pd.CategoricalDtype) and pd.api.types.is_any_real_numeric_dtype(dtype):
        if series.hasnans or pd.api.types.is_float_dtype(dtype):
            return series.to_numpy(dtype=np.float64, na_value=np.nan)
        return series.to_numpy(dtype=np.dtype("uint64" if pd.api.types.is_unsigned_integer_dtype(dtype) else "int64"))
    if pd.api.types.is_datetime64_dtype(dtype):
        return series.to_numpy()
    if not isinstance(dtype, pd.CategoricalDtype) and pd.api.types.is_bool_dtype(dtype) and not series.hasnans:
        return series.to_numpy(dtype=np.bool_)
    return series.to_numpy(dtype=object)


def as_ids(values: Array, field: str = "episode") -> Array:
    """Return episode ids as int64 or text, refusing anything else."""
    expected = "ids that are all text or all whole numbers"
    if values.dtype.kind in "iu":
        return _as_int64(values, field)
    if values.dtype.kind not in "UTO":
        raise InvalidDataError(expected, field=field, value=plain(values.flat[0]) if values.size else values)
    items = values.tolist()
    whole = bool(items) and _is_whole(items[0])
    for position, item in enumerate(items):
        if not (_is_whole(item) if whole else isinstance(item, str)):
            raise InvalidDataError(expected, field=field, value=plain(item), where=f"position {position}")
    return _as_int64(values, field) if whole else as_text(values, field)


def as_text(values: Array, field: str) -> Array:
    """Return text as an object array of Python strings; what is missing becomes the empty text.

    NUL characters and unpaired surrogates are refused: no file format would give them back.
    """
    items = [str(item) if isinstance(item, str) else _no_text(item, field) for item in values.ravel().tolist()]
    if not _storable("".join(items)):
        offender = next(item for item in items if not _storable(item))
        raise InvalidDataError("text without NUL characters or unpaired surrogates", field=field, value=offender)
    out = np.empty(len(items), dtype=object)
    out[:] = items
    return out.reshape(values.shape)


def as_numbers(values: Array, name: Callable[[int], dict[str, Any]], expected: str) -> Array:
    """Return float64 values, NaN where one is missing; `name` tells what an error about a flat position should name."""
    if values.dtype.kind in "biuf":
        return values.astype(np.float64, copy=False)
    if values.dtype.kind not in "OUT":
        raise InvalidDataError(expected, value=plain(values.flat[0]), **name(0))
    flat = values.ravel().tolist()
    out = np.empty(len(flat))
    for position, item in enumerate(flat):
        if _is_missing(item):
            out[position] = np.nan
        elif isinstance(item, bool | int | float | np.bool_ | np.integer | np.floating):
            try:
                out[position] = float(item)
            except OverflowError:
                raise InvalidDataError(expected, value=item, **name(position)) from None
        else:
            raise InvalidDataError(expected, value=plain(item), **name(position))
    return out.reshape(values.shape)


def as_flags(values: Array, ids: Sequence[object] | Array, field: str) -> Array:
    """Return outcomes as bool, accepting 0 and 1 of any dtype and nothing else."""
    if values.dtype.kind == "b":
        return values.astype(np.bool_, copy=False)
    expected = "0 or 1 (False or True)"
    numbers = as_numbers(values, lambda position: {"episode": plain(ids[position]), "field": field}, expected)
    wrong = np.flatnonzero((numbers != 0) & (numbers != 1))
    if wrong.size:
        position = wrong[0]
        value = MISSING if np.isnan(numbers[position]) else plain(values[position])
        raise InvalidDataError(expected, episode=plain(ids[position]), field=field, value=value)
    flags: Array = numbers == 1
    return flags


def as_carried(values: Array, field: str) -> Array:
    """Return a variable that is kept but not interpreted, in one of the dtypes of the table above."""
    kind = values.dtype.kind
    if kind in "biuf":
        return {"b": _as_bool, "f": _as_float64}.get(kind, _as_int64)(values, field)
    if kind in "UT":
        return as_text(values, field)
    if kind == "M":
        return _as_datetime64(values, field)
    if kind != "O":
        return values
    inferred = pd.api.types.infer_dtype(values.ravel(), skipna=True)
    if inferred == "string":
        return as_text(values, field)
    if inferred not in {"boolean", "integer", "floating", "mixed-integer-float", "empty"}:
        items = [item for item in values.ravel().tolist() if not _is_missing(item)]
        odd = next((item for item in items if not isinstance(item, str | bool | int | float)), items[0])
        kinds = "numbers, booleans, text, or datetime64 without a time zone"
        raise InvalidDataError(f"values of one kind: {kinds}; these are {inferred}", field=field, value=odd)
    if inferred in {"boolean", "integer"} and not pd.isna(values).any():
        return (_as_bool if inferred == "boolean" else _as_int64)(values, field)
    return as_numbers(values, lambda _: {"field": field}, "a number that float64 can hold")


def _as_bool(values: Array, field: str) -> Array:  # noqa: ARG001  same signature as its siblings
    return values.astype(np.bool_, copy=False)


def _as_float64(values: Array, field: str) -> Array:  # noqa: ARG001  same signature as its siblings
    return values.astype(np.float64, copy=False)


def _as_int64(values: Array, field: str) -> Array:
    if values.dtype.kind == "i":
        return values.astype(np.int64, copy=False)
    largest = max(values.ravel().tolist(), key=abs, default=0)
    if not -(2**63) <= largest < 2**63:
        raise InvalidDataError("whole numbers that int64 can hold", field=field, value=largest)
    return values.astype(np.int64)


def _as_datetime64(values: Array, field: str) -> Array:
    try:
        return pd.DatetimeIndex(values.ravel()).as_unit("ns").to_numpy().reshape(values.shape)
    except pd.errors.OutOfBoundsDatetime:
        raise InvalidDataError("dates from 1678 to 2261", field=field, value=values.min()) from None


def _is_whole(item: object) -> bool:
    return isinstance(item, int | np.integer) and not isinstance(item, bool)


def _is_missing(item: object) -> bool:
    return item is None or item is pd.NA or item is pd.NaT or (isinstance(item, float) and item != item)


def _no_text(item: object, field: str) -> str:
    if _is_missing(item):
        return ""
    raise InvalidDataError("text", field=field, value=plain(item))


def _storable(text: str) -> bool:
    if text.isascii():
        return "\0" not in text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return "\0" not in text
