"""The one layout that episodes have in memory, and how a dataset is brought into it.

| variable                         | dims                          | dtype                                   |
| -------------------------------- | ----------------------------- | --------------------------------------- |
| `features`                       | (episode, feature)            | float64                                 |
| `diagnostics`                    | (episode, step, diagnostic)   | float64, NaN past `n_steps`             |
| `n_steps`                        | (episode)                     | int64                                   |
| `cheap_success`                  | (episode)                     | bool                                    |
| `strong_success`                 | (episode)                     | bool                                    |
| `window_start`, `window_end`     | (episode)                     | float64, NaN where there is no window   |

Most logs have one rollout of each side. Three more variables, all by episode, are there only where some do not:

| variable                              | dtype | what it says                                                         |
| ------------------------------------- | ----- | -------------------------------------------------------------------- |
| `cheap_played`                        | bool  | whether there is a Cheap rollout; without one `n_steps` is 0         |
| `strong_trials`, `strong_successes`   | int64 | Strong's rollouts of the task, 0 where it was not played             |

`cheap_success` is then False where Cheap was not played, and `strong_success` says whether more than half of Strong's
rollouts succeeded. A carried `task` names the task of an episode, where some have several rollouts.

The coordinates are `episode` (ids), `step` (0 to the longest rollout), `feature` and `diagnostic` (names). Any other
variable is carried along. Whatever holds a column (NumPy, pandas nullable, Arrow, Python objects) becomes one of four
plain dtypes, so that a value means the same in every file format:

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

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from bayes_tacit.errors import FileFormatError, InvalidDataError

SCHEMA_VERSION = 1

READER = "reader"
"""Attribute of a dataset: as JSON, what its diagnostics and features from words were read with (`logs.reader`)."""

DIMS = ("episode", "step", "feature", "diagnostic")
OUTCOMES = ("cheap_success", "strong_success")
WINDOW = ("window_start", "window_end")
VARIABLES: dict[str, tuple[str, ...]] = {
    "features": ("episode", "feature"),
    "diagnostics": ("episode", "step", "diagnostic"),
    "n_steps": ("episode",),
    **dict.fromkeys((*OUTCOMES, *WINDOW), ("episode",)),
}
COUNTS = ("strong_successes", "strong_trials")
SIDES = ("cheap_played", *COUNTS)
"""By episode, and only where some side was not played, or Strong more than once."""
RESERVED = frozenset({*DIMS, *VARIABLES, *SIDES, "window", "steps", "schema_version"})
"""Names that a feature, a diagnostic or a carried variable cannot have, because a file format uses them."""

_BLOCK = 8192
_PADDING: dict[str, Any] = {"b": False, "i": 0, "O": "", "M": np.datetime64("NaT", "ns")}

Array = npt.NDArray[Any]


class _Missing:
    """What an error shows in place of a value that is not there."""

    def __repr__(self) -> str:
        return "missing"


MISSING = _Missing()


def conform(dataset: xr.Dataset) -> xr.Dataset:
    """Bring a dataset into the layout of this module, or say what keeps it from that.

    What is known about each episode alone (ids, outcomes, windows, lengths) is loaded. Features, diagnostics and
    carried variables stay lazy where Dask backs them. Steps past `n_steps` are blanked, and steps that no episode
    reaches are cut off, so that two datasets with the same content are equal. No variable in memory shares
    its values with the given dataset, so that a later change of one is no change of the other.

    Raises
    ------
    InvalidDataError
        If a variable is missing, has other dims, or holds what its dtype above cannot.
    FileFormatError
        If the dataset says that it follows a newer version of this layout.
    """
    if not isinstance(dataset, xr.Dataset):
        raise InvalidDataError("an xarray.Dataset", field="dataset", value=dataset)
    check_schema_version(dataset.attrs.get("schema_version", SCHEMA_VERSION))
    dataset = dataset.reset_coords()
    blank = ("episode", np.full(dataset.sizes.get("episode", 0), np.nan))
    if set(COUNTS) <= set(dataset.data_vars) and "strong_success" not in dataset:
        dataset = dataset.assign(strong_success=blank)
    if not set(WINDOW) & set(dataset.variables) and "episode" in dataset.dims:
        dataset = dataset.assign(dict.fromkeys(WINDOW, blank))
    _check_variables(dataset)

    ids = as_ids(dataset["episode"].values)
    _check_ids(ids)
    names = {dim: _names(dataset, dim) for dim in ("feature", "diagnostic")}
    if not names["diagnostic"].size:
        raise InvalidDataError("at least one diagnostic", field="diagnostics", value=[])
    played, n_steps, cheap = _cheap(dataset, ids)
    strong, counts = _strong(dataset, ids)
    neither = "an outcome of Cheap or of Strong: neither side was played"
    refuse(~played & (counts[1] == 0), neither, "outcomes", ids)
    if not played.any():
        expected = "at least one: without a Cheap rollout there are no diagnostics to learn from"
        raise InvalidDataError(expected, field="Cheap rollouts", value=0)
    dataset = dataset.isel(step=slice(int(n_steps.max())))

    core: dict[str, Any] = {
        "features": _floats(dataset, "features", ids, names["feature"]),
        "diagnostics": _floats(dataset, "diagnostics", ids, names["diagnostic"]),
        "n_steps": n_steps,
        "cheap_success": cheap,
        "strong_success": strong,
        **{name: _by_episode(dataset, name, ids, "a whole checkpoint") for name in WINDOW},
    }
    variables = {name: (dims, core[name], dataset[name].attrs) for name, dims in VARIABLES.items()}
    out = xr.Dataset(variables, attrs={**dataset.attrs, "schema_version": SCHEMA_VERSION})
    own = {**VARIABLES, **dict.fromkeys(SIDES)}
    carried = {name: _carried(dataset[name]) for name in dataset.data_vars if name not in own}
    if not played.all():
        carried["cheap_played"] = xr.DataArray(played, dims="episode")
    if (counts[1] != 1).any():
        carried |= {name: xr.DataArray(values, dims="episode") for name, values in zip(COUNTS, counts, strict=True)}
    coords: dict[Any, Array] = {
        dim: as_carried(dataset[dim].values, str(dim)) for dim in dataset.coords if dim not in DIMS
    }
    coords |= {"episode": ids, "step": np.arange(out.sizes["step"]), **names}
    out = blank_past_end(out.assign(carried).assign_coords(coords))
    # Arrays that are still those of the given dataset are copied.
    out = out.assign(
        {
            name: array.copy(data=array.values.copy())
            for name, array in out.data_vars.items()
            if name in dataset and array.chunks is None and np.may_share_memory(array.values, dataset[name].values)
        }
    )
    if "source" in dataset.encoding:
        out.encoding["source"] = dataset.encoding["source"]
    return out


def refuse(
    wrong: Array,
    expected: str | Callable[[int], str],
    field: str,
    ids: Array,
    values: Any = MISSING,  # noqa: ANN401  an array, a function of the position, or one value for all
    along: str = "step",
) -> None:
    """Refuse the first episode at which something is wrong, with its value if they are given as `wrong` is.

    `wrong` is (episode,) or (episode, along); `expected` may depend on the position of the episode.
    """
    if wrong.any():
        at = np.unravel_index(int(wrong.argmax()), wrong.shape)
        row = at if len(at) > 1 else at[0]
        value = values(row) if callable(values) else values[row] if hasattr(values, "shape") else values
        said = expected if isinstance(expected, str) else expected(int(at[0]))
        where = f"{along} {at[1]}" if len(at) > 1 else None
        raise InvalidDataError(said, episode=plain(ids[at[0]]), field=field, value=plain(value), where=where)


def blank_past_end(dataset: xr.Dataset) -> xr.Dataset:
    """Blank every value past the end of its episode."""
    if bool((dataset["n_steps"] == dataset.sizes["step"]).all()):
        return dataset
    inside = xr.DataArray(np.arange(dataset.sizes["step"]), dims="step") < dataset["n_steps"].drop_vars("episode")
    blanked = {
        name: array.where(inside, padding(array.dtype)).transpose(*array.dims)
        for name, array in dataset.data_vars.items()
        if {"episode", "step"} <= set(array.dims)
    }
    return dataset.assign(blanked)


def freeze(dataset: xr.Dataset) -> xr.Dataset:
    """Return the dataset with arrays that NumPy refuses to write into.

    The coordinates are copied. The variables are not: they must not be anyone else's.
    """
    # With a dtype that comes out of a pickle, an index would hand out a new view, which can be written, every time.
    dataset = dataset.assign_coords(
        {name: array.values.astype(array.dtype.str) for name, array in dataset.coords.items()}
    )
    for variable in dataset.variables.values():
        if variable.chunks is None:
            variable.values.flags.writeable = False
    return dataset


def padding(dtype: np.dtype[Any]) -> Any:  # noqa: ANN401  a scalar of that dtype
    """Return what stands past the end of an episode: NaN, 0, False, the empty text or NaT."""
    return _PADDING.get(dtype.kind, np.nan)


def carried_variables(dataset: xr.Dataset) -> list[str]:
    """Return the names of the variables that are kept but not interpreted."""
    return [str(name) for name in dataset.data_vars if name not in VARIABLES and name not in SIDES]


def cheap_played(dataset: xr.Dataset) -> Array:
    """Return whether there is a Cheap rollout, by episode."""
    there: Array = dataset["n_steps"].values > 0
    return there


def without_default_sides(dataset: xr.Dataset) -> xr.Dataset:
    """Drop what says no more than that both sides were played once."""
    ordinary = ["cheap_played"] if cheap_played(dataset).all() else []
    if (strong_counts(dataset)[1] == 1).all():
        ordinary += COUNTS
    return dataset.drop_vars(ordinary, errors="ignore")


def strong_counts(dataset: xr.Dataset) -> tuple[Array, Array]:
    """Return how many of Strong's rollouts succeeded, and how many there are, by episode."""
    if "strong_trials" in dataset:
        return dataset["strong_successes"].values, dataset["strong_trials"].values
    return dataset["strong_success"].values.astype(np.int64), np.ones(dataset.sizes["episode"], dtype=np.int64)


def is_lazy(dataset: xr.Dataset) -> bool:
    """Check whether any variable is backed by Dask."""
    return any(variable.chunks is not None for variable in dataset.variables.values())


def blocks(dataset: xr.Dataset) -> Iterator[slice]:
    """Yield runs of episodes that are small enough to hold: the chunks of Dask, or a fixed number of episodes."""
    n = dataset.sizes["episode"]
    sizes = dataset["diagnostics"].chunksizes.get("episode")
    stops = np.cumsum(sizes).tolist() if sizes else [*range(_BLOCK, n, _BLOCK), n]
    for start, stop in zip([0, *stops[:-1]], stops, strict=True):
        if stop > start:
            yield slice(start, stop)


def check_schema_version(version: object, where: str = "this dataset") -> None:
    """Refuse what was written by a newer version of the library."""
    if not isinstance(version, int | np.integer) or isinstance(version, bool) or version < 1:
        raise InvalidDataError(f"a version from 1 to {SCHEMA_VERSION}", field="schema_version", value=plain(version))
    if version > SCHEMA_VERSION:
        raise FileFormatError(
            f"{where} has schema_version {version}, newer than the {SCHEMA_VERSION} that this version of bayes_tacit "
            "reads; upgrade bayes_tacit to read it"
        )


def check_name(name: object, field: str, *, episode: object = None, where: str | None = None) -> str:
    """Return the name of a feature, a diagnostic or a carried variable, if it can be one."""
    if isinstance(name, str) and name and name not in RESERVED:
        return name
    expected = "a name that is a text of at least one character"
    if isinstance(name, str) and name:
        expected = f"a name other than the reserved {sorted(RESERVED)}"
    raise InvalidDataError(expected, episode=episode, field=field, value=name, where=where)


def _check_variables(dataset: xr.Dataset) -> None:
    for name, dims in VARIABLES.items():
        if name not in dataset.data_vars:
            raise InvalidDataError(f"a variable with dims {dims}", field=name, value=MISSING)
        if set(dataset[name].dims) != set(dims):
            raise InvalidDataError(f"dims {dims}", field=f"dims of {name}", value=dataset[name].dims)
    if not dataset.sizes["episode"]:
        raise InvalidDataError("at least one episode", field="episodes", value=[])
    if "episode" not in dataset.coords:
        raise InvalidDataError("a coordinate with the episodes' ids", field="episode", value=MISSING)
    if "step" in dataset.coords and not np.array_equal(dataset["step"].values, np.arange(dataset.sizes["step"])):
        raise InvalidDataError("0, 1, 2, ... in order", field="step", value=dataset["step"].values.tolist())


def _check_ids(ids: Array) -> None:
    repeated = pd.Index(ids).duplicated()
    if repeated.any():
        first = ids[repeated.argmax()]
        where = "positions {} and {}".format(*np.flatnonzero(ids == first)[:2])
        first = plain(first)
        raise InvalidDataError("ids that do not repeat", episode=first, field="episode", value=first, where=where)


def _names(dataset: xr.Dataset, dim: str) -> Array:
    if not dataset.sizes[dim]:
        return np.empty(0, dtype=object)
    if dim not in dataset.coords:
        raise InvalidDataError(f"a coordinate with the names of the {dim}s", field=dim, value=MISSING)
    values = dataset[dim].values
    for name in values.tolist():
        check_name(name, f"{dim} name")
    names = as_text(values, f"{dim} name")
    repeated = pd.Index(names).duplicated()
    if repeated.any():
        raise InvalidDataError("names that do not repeat", field=f"{dim} name", value=names[repeated.argmax()])
    return names


def _by_episode(dataset: xr.Dataset, name: str, ids: Array, expected: str) -> Array:
    at = lambda position: {"episode": plain(ids[position]), "field": name}  # noqa: E731
    return as_numbers(dataset[name].values, at, expected)


def _missing(values: Array) -> Array:
    if values.dtype.kind in "biuf":
        return np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, dtype=bool)
    return np.array([is_missing(value) for value in values.tolist()], dtype=bool)


def _said(values: Array, known: Array) -> Array:
    """Return which values are true, of those that are known."""
    out = np.zeros(len(values), dtype=bool)
    there = values[known]
    out[known] = there != 0 if there.dtype.kind in "biuf" else [bool(value) for value in there.tolist()]
    return out


def _cheap(dataset: xr.Dataset, ids: Array) -> tuple[Array, Array, Array]:
    """Return which episodes have a Cheap rollout, how long it is, and A: False where there is none.

    They say so, or else it is all but those without outcome and steps.
    """
    outcome, lengths = dataset["cheap_success"].values, dataset["n_steps"].values
    absent = _missing(outcome)
    if "cheap_played" in dataset:
        played = as_flags(dataset["cheap_played"].values, ids, "cheap_played")
    else:
        none = _missing(lengths)
        played = ~(absent & (none | ~_said(lengths, ~none)))
    longest = dataset.sizes["step"]
    expected = f"a whole number from 1 to {longest}, the length of the step dimension"
    n_steps = _by_episode(dataset, "n_steps", ids, expected)
    n_steps = np.where(~played & np.isnan(n_steps), 0.0, n_steps)
    refuse(~played & (n_steps != 0), "0, since Cheap was not played", "n_steps", ids, lengths)
    inside = (n_steps >= 1) & (n_steps <= longest) & (n_steps == np.floor(n_steps))
    refuse(played & ~inside, expected, "n_steps", ids, lengths)
    flags: Array = np.zeros(len(ids), dtype=bool)
    flags[played] = as_flags(outcome[played], ids[played], "cheap_success")
    said = _said(outcome, ~absent & ~played)
    refuse(said, "no outcome, since Cheap was not played", "cheap_success", ids, outcome)
    return played, n_steps.astype(np.int64), flags


def _strong(dataset: xr.Dataset, ids: Array) -> tuple[Array, tuple[Array, Array]]:
    """Return B, and the counts of successes and of trials that it stands for; without an outcome there is no trial."""
    values = dataset["strong_success"].values
    known = ~_missing(values)
    given = [name for name in COUNTS if name in dataset]
    if len(given) == 1:
        expected = "both strong_successes and strong_trials, or neither"
        raise InvalidDataError(expected, field=next(name for name in COUNTS if name not in given), value=MISSING)
    if not given:
        flags = np.zeros(len(ids), dtype=bool)
        flags[known] = as_flags(values[known], ids[known], "strong_success")
        return flags, (flags.astype(np.int64), known.astype(np.int64))
    counts = []
    for name in COUNTS:
        expected = "a whole number >= 0"
        found = _by_episode(dataset, name, ids, expected)
        found = np.where(np.isnan(found), 0.0, found)
        whole = (found >= 0) & (found == np.floor(found)) & (found < 2**31)
        refuse(~whole, expected, name, ids, dataset[name].values)
        counts.append(found.astype(np.int64))
    successes, trials = counts
    most = "at most strong_trials, which is {}"
    refuse(successes > trials, lambda at: most.format(trials[at]), "strong_successes", ids, successes)
    strong: Array = 2 * successes > trials
    said = _said(values, known)
    settled = "{}, or left out, since {} of {} rollouts succeeded"
    refuse(
        known & (said != strong) & (trials > 0),
        lambda at: settled.format(bool(strong[at]), successes[at], trials[at]),
        "strong_success",
        ids,
        values,
    )
    return strong, (successes, trials)


def _floats(dataset: xr.Dataset, variable: str, ids: Array, names: Array) -> Any:  # noqa: ANN401  NumPy or Dask
    array = dataset[variable].transpose(*VARIABLES[variable])
    if array.dtype.kind in "biuf":
        return array.astype(np.float64, copy=False).data

    def at(position: int) -> dict[str, Any]:
        index = np.unravel_index(position, array.shape)
        where = f"step {index[1]}" if array.ndim == 3 else None
        return {"episode": plain(ids[index[0]]), "field": f"{variable}[{names[index[-1]]!r}]", "where": where}

    return as_numbers(array.values, at, "a number")


def _carried(array: xr.DataArray) -> xr.DataArray:
    name = check_name(array.name, "variable name")
    leading = [dim for dim in ("episode", "step") if dim in array.dims]
    array = array.transpose(*leading, ...).drop_vars(list(array.coords))
    if array.chunks is None:
        return array.copy(data=as_carried(array.values, name))
    if array.dtype.kind in "biufM":
        return array.astype(_PLAIN.get(array.dtype.kind, array.dtype), copy=False)
    text: xr.DataArray = xr.apply_ufunc(
        as_text, array, name, dask="parallelized", output_dtypes=[object], keep_attrs=True
    )
    return text


def plain(value: object) -> object:
    """Return a NumPy scalar as the Python value that it holds, and anything missing as `MISSING`.

    A date stays as it is: in Python it would be a number of nanoseconds.
    """
    if value is None or value is pd.NA or value is pd.NaT:
        return MISSING
    if isinstance(value, np.datetime64 | np.timedelta64):
        return MISSING if np.isnat(value) else value
    return value.item() if isinstance(value, np.generic) else value


def is_missing(item: object) -> bool:
    """Check whether a Python value stands for none: None, NaN, NA or NaT."""
    return item is None or item is pd.NA or item is pd.NaT or (isinstance(item, float) and item != item)


def as_list(values: object, field: str, expected: str) -> list[Any]:
    """Return the items of anything that has some, a text excepted."""
    if isinstance(values, Iterable) and not isinstance(values, str | bytes):
        with suppress(TypeError):  # an array without dims is Iterable, but has no items
            return list(values)
    raise InvalidDataError(expected, field=field, value=values)


def column_values(series: pd.Series[Any]) -> Array:
    """Return a pandas column as a NumPy array: nullable dtypes as plain ones, with NaN or None for what is missing."""
    dtype, types = series.dtype, pd.api.types
    if isinstance(dtype, np.dtype) or types.is_datetime64_dtype(dtype):
        return series.to_numpy()
    if not isinstance(dtype, pd.CategoricalDtype) and types.is_any_real_numeric_dtype(dtype):
        if series.hasnans or types.is_float_dtype(dtype):
            return series.to_numpy(dtype=np.float64, na_value=np.nan)
        return series.to_numpy(dtype=np.dtype("uint64" if types.is_unsigned_integer_dtype(dtype) else "int64"))
    if not isinstance(dtype, pd.CategoricalDtype) and types.is_bool_dtype(dtype) and not series.hasnans:
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
    items = []
    for item in values.ravel().tolist():
        if not isinstance(item, str) and not is_missing(item):
            raise InvalidDataError("text", field=field, value=plain(item))
        items.append(str(item) if isinstance(item, str) else "")
    if not _storable("".join(items)):
        offender = next(item for item in items if not _storable(item))
        raise InvalidDataError("text without NUL characters or unpaired surrogates", field=field, value=offender)
    out = np.empty(len(items), dtype=object)
    out[:] = items
    return out.reshape(values.shape)


def as_numbers(values: Array, name: Callable[[int], dict[str, Any]], expected: str) -> Array:
    """Return float64 values, NaN where one is missing; `name` is what an error about a flat position should name."""
    if values.dtype.kind in "biuf":
        return values.astype(np.float64, copy=False)
    if values.dtype.kind not in "OUT":
        raise InvalidDataError(expected, value=plain(values.flat[0]), **name(0))
    out = np.full(values.size, np.nan)
    for position, item in enumerate(values.ravel().tolist()):
        if is_missing(item):
            continue
        try:
            if not isinstance(item, bool | int | float | np.bool_ | np.integer | np.floating):
                raise OverflowError
            out[position] = float(item)
        except OverflowError:
            raise InvalidDataError(expected, value=plain(item), **name(position)) from None
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


_PLAIN: dict[str, type[Any]] = {"b": np.bool_, "i": np.int64, "u": np.int64, "f": np.float64}


def as_carried(values: Array, field: str) -> Array:
    """Return a variable that is kept but not interpreted, in one of the dtypes of the table above."""
    kind = values.dtype.kind
    if kind in "UT":
        return as_text(values, field)
    if kind == "M":
        try:
            return pd.DatetimeIndex(values.ravel()).as_unit("ns").to_numpy().reshape(values.shape)
        except pd.errors.OutOfBoundsDatetime:
            raise InvalidDataError("dates from 1678 to 2261", field=field, value=values.min()) from None
    if kind != "O":
        return _as_int64(values, field) if kind in "iu" else values.astype(_PLAIN.get(kind, values.dtype), copy=False)
    inferred = pd.api.types.infer_dtype(values.ravel(), skipna=True)
    if inferred == "string":
        return as_text(values, field)
    if inferred not in {"boolean", "integer", "floating", "mixed-integer-float", "empty"}:
        items = [item for item in values.ravel().tolist() if not is_missing(item)]
        odd = next((item for item in items if not isinstance(item, str | bool | int | float)), items[0])
        kinds = "numbers, booleans, text, or datetime64 without a time zone"
        raise InvalidDataError(f"values of one kind: {kinds}; these are {inferred}", field=field, value=odd)
    if inferred in {"boolean", "integer"} and not pd.isna(values).any():
        return values.astype(np.bool_) if inferred == "boolean" else _as_int64(values, field)
    return as_numbers(values, lambda _: {"field": field}, "a number that float64 can hold")


def _as_int64(values: Array, field: str) -> Array:
    if values.dtype.kind == "i":
        return values.astype(np.int64, copy=False)
    largest = max(values.ravel().tolist(), key=abs, default=0)
    if not -(2**63) <= largest < 2**63:
        raise InvalidDataError("whole numbers that int64 can hold", field=field, value=largest)
    return values.astype(np.int64)


def _is_whole(item: object) -> bool:
    return isinstance(item, int | np.integer) and not isinstance(item, bool)


def _storable(text: str) -> bool:
    try:
        return "\0" not in text and (text.isascii() or bool(text.encode("utf-8")))
    except UnicodeEncodeError:
        return False
