"""Episodes as two tables: one row a task, one row a step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayes_tacit.data.layout import (
    COUNTS,
    MISSING,
    OUTCOMES,
    WINDOW,
    Array,
    as_carried,
    as_ids,
    as_list,
    as_numbers,
    blocks,
    carried_variables,
    cheap_played,
    check_name,
    column_values,
    padding,
    plain,
    refuse,
    strong_counts,
)
from bayes_tacit.errors import InvalidDataError

_TASK_COLUMNS = ("episode", *OUTCOMES, *WINDOW, *COUNTS)
_STEP_COLUMNS = ("episode", "step")


def dataset_from_frames(
    tasks: pd.DataFrame,
    steps: pd.DataFrame,
    features: Iterable[str] | None = None,
    diagnostics: Iterable[str] | None = None,
    *,
    advice: str = "name those that are with {role}=[...]",
) -> xr.Dataset:
    """Turn a table of tasks and a table of their steps into one dataset; see `Episodes.from_frames`.

    `advice` is what an error tells to do about a column that is no feature, or diagnostic, and no number either.
    """
    counted = isinstance(tasks, pd.DataFrame) and set(COUNTS) & set(tasks.columns)
    outcomes = ("cheap_success", *COUNTS) if counted else OUTCOMES
    for frame, table, required in ((tasks, "tasks", ("episode", *outcomes)), (steps, "steps", _STEP_COLUMNS)):
        _check_columns(frame, table, required)
    feature_names, task_carried = _roles(tasks, "tasks", _TASK_COLUMNS, features, "features")
    diagnostic_names, step_carried = _roles(steps, "steps", _STEP_COLUMNS, diagnostics, "diagnostics")
    _check_carried_once(task_carried, step_carried)

    ids = as_ids(column_values(tasks["episode"]), "tasks['episode']")
    rows, numbers = _locate(ids, steps, without=tasks["cheap_success"].isna().to_numpy())
    feature_values = [_numeric(tasks, name, ids, None, None, "features", advice) for name in feature_names]
    diagnostic_values = [_numeric(steps, name, ids, rows, numbers, "diagnostics", advice) for name in diagnostic_names]
    own = [name for name in (*OUTCOMES, *WINDOW, *COUNTS) if name in tasks]
    return dataset_from_columns(
        ids,
        rows,
        numbers,
        features=(feature_names, np.column_stack(feature_values or [np.empty((len(ids), 0))])),
        diagnostics=(diagnostic_names, diagnostic_values),
        by_task={name: column_values(tasks[name]) for name in own},
        task_carried={name: column_values(tasks[name]) for name in task_carried},
        step_carried={name: column_values(steps[name]) for name in step_carried},
    )


def dataset_from_tasks(tasks: pd.DataFrame, features: list[str]) -> xr.Dataset:
    """Turn a table of tasks that the library wrote into a dataset that lacks the steps."""
    ids = as_ids(column_values(tasks["episode"]), "tasks['episode']")
    values = [_numeric(tasks, name, ids, None, None, "features", "") for name in features]
    by_task = {name: ("episode", column_values(tasks[name])) for name in (*OUTCOMES, *WINDOW, *COUNTS) if name in tasks}
    carried = [str(name) for name in tasks if name not in (*_TASK_COLUMNS, *features)]
    return xr.Dataset(
        {
            "features": (("episode", "feature"), np.column_stack(values or [np.empty((len(ids), 0))])),
            **by_task,
            **{name: ("episode", as_carried(column_values(tasks[name]), name)) for name in carried},
        },
        coords={"episode": ids, "feature": np.array(features, dtype=object)},
    )


def dataset_from_columns(
    ids: Array,
    rows: Array,
    numbers: Array,
    *,
    features: tuple[list[str], Array],
    diagnostics: tuple[list[str], Sequence[Array]],
    by_task: Mapping[str, Array],
    task_carried: Mapping[str, Array],
    step_carried: Mapping[str, Array],
) -> xr.Dataset:
    """Put columns by task and columns by step into one dataset.

    Parameters
    ----------
    ids
        Ids of the tasks.
    rows, numbers
        Position of its task among `ids`, and number within its rollout, for every step.
    features, diagnostics
        Names, and float64 values: an array with one row a task, and an array of all steps for each diagnostic.
    by_task
        Outcomes and windows, and Strong's counts; windows may be left out.
    task_carried, step_carried
        Columns to be carried along, of any dtype.
    """
    _check_carried_once(task_carried, step_carried)
    n_steps = np.bincount(rows, minlength=len(ids))

    horizon = int(n_steps.max())
    place = rows * horizon + numbers

    def grid(values: Array) -> Array:
        out = np.full(len(ids) * horizon, padding(values.dtype), dtype=values.dtype)
        out[place] = values
        return out.reshape(len(ids), horizon)

    by_step = np.full((len(ids) * horizon, len(diagnostics[0])), np.nan)
    for column, values in enumerate(diagnostics[1]):
        by_step[place, column] = values

    no_window = dict.fromkeys(WINDOW, np.full(len(ids), np.nan))
    return xr.Dataset(
        {
            "features": (("episode", "feature"), features[1]),
            "diagnostics": (("episode", "step", "diagnostic"), by_step.reshape(len(ids), horizon, -1)),
            "n_steps": ("episode", n_steps),
            **{name: ("episode", values) for name, values in {**no_window, **by_task}.items()},
            **{name: ("episode", as_carried(values, name)) for name, values in task_carried.items()},
            **{name: (("episode", "step"), grid(as_carried(values, name))) for name, values in step_carried.items()},
        },
        coords={
            "episode": ids,
            "feature": np.array(features[0], dtype=object),
            "diagnostic": np.array(diagnostics[0], dtype=object),
        },
    )


def frames_from_dataset(dataset: xr.Dataset) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Turn episodes in the layout of `bayes_tacit.data.layout` into a table of tasks and a table of steps."""
    check_tabular(dataset, "a pair of tables")
    return task_frame(dataset), pd.concat(step_frames(dataset), ignore_index=True)


def task_frame(dataset: xr.Dataset) -> pd.DataFrame:
    """Return one row for each episode: id, outcomes, window, features, carried variables."""
    names = [name for name in carried_variables(dataset) if dataset[name].dims == ("episode",)]
    columns: dict[str, Any] = {"episode": dataset["episode"].values}
    _, trials = strong_counts(dataset)
    for name, known in zip(OUTCOMES, (cheap_played(dataset), trials > 0), strict=True):
        columns[name] = dataset[name].values if known.all() else np.where(known, dataset[name].values, np.nan)
    if (trials > 1).any():
        columns |= {name: dataset[name].values for name in COUNTS}
    columns |= {name: pd.array(dataset[name].values, dtype="Int64") for name in WINDOW}
    columns |= dict(zip(dataset["feature"].values, dataset["features"].values.T, strict=True))
    return pd.DataFrame(columns | {name: dataset[name].values for name in names})


def step_frames(dataset: xr.Dataset) -> Iterator[pd.DataFrame]:
    """Yield one row for each step, for one block of episodes after the other."""
    names = [name for name in carried_variables(dataset) if dataset[name].dims == ("episode", "step")]
    for block in blocks(dataset):
        part = dataset.isel(episode=block)
        lengths = part["n_steps"].values
        inside = np.arange(part.sizes["step"]) < lengths[:, None]
        columns: dict[str, Any] = {"episode": np.repeat(part["episode"].values, lengths), "step": inside.nonzero()[1]}
        columns |= dict(zip(part["diagnostic"].values, part["diagnostics"].values[inside].T, strict=True))
        yield pd.DataFrame(columns | {name: part[name].values[inside] for name in names})


def check_tabular(dataset: xr.Dataset, holder: str) -> None:
    """Refuse variables that rows of tasks and rows of steps cannot hold."""
    for name in carried_variables(dataset):
        if dataset[name].dims not in {("episode",), ("episode", "step")}:
            raise InvalidDataError(
                f"dims ('episode',) or ('episode', 'step'), which is what {holder} can hold; drop the variable, or "
                "write .nc or .zarr",
                field=f"dims of {name}",
                value=dataset[name].dims,
            )


def _check_columns(frame: pd.DataFrame, table: str, required: tuple[str, ...]) -> None:
    if not isinstance(frame, pd.DataFrame):
        raise InvalidDataError("a pandas.DataFrame", field=table, value=frame)
    repeated = frame.columns[frame.columns.duplicated()]
    if len(repeated):
        raise InvalidDataError("column names that do not repeat", field=f"column of {table}", value=repeated[0])
    for name in required:
        if name not in frame.columns:
            expected = f"a column of that name; the columns are {frame.columns.tolist()}"
            raise InvalidDataError(expected, field=f"{table}[{name!r}]", value=MISSING)
    if frame.empty:
        raise InvalidDataError("at least one row", field=table, value=[])


def _roles(
    frame: pd.DataFrame, table: str, own: tuple[str, ...], asked: Iterable[str] | None, role: str
) -> tuple[list[str], list[str]]:
    """Return which columns are features (or diagnostics), and which are carried along."""
    others = [check_name(name, f"column of {table}") for name in frame.columns if name not in own]
    if asked is None:
        return others, []
    names = as_list(asked, role, "a list of column names")
    for name in names:
        if name not in others:
            raise InvalidDataError(f"names among the other columns of {table}: {others}", field=role, value=name)
    if len(set(names)) < len(names):
        raise InvalidDataError("names that do not repeat", field=role, value=names)
    return names, [name for name in others if name not in names]


def _check_carried_once(by_task: Iterable[str], by_step: Iterable[str]) -> None:
    both = sorted(set(by_task) & set(by_step))
    if both:
        raise InvalidDataError("columns carried along to be in one table only", field="column", value=both[0])


def _numeric(
    frame: pd.DataFrame, name: str, ids: Array, rows: Array | None, numbers: Array | None, role: str, advice: str
) -> Array:
    def at(row: int) -> dict[str, Any]:
        where = None if numbers is None else f"step {numbers[row]}"
        task = row if rows is None else rows[row]
        return {"episode": plain(ids[task]), "field": f"{role}[{name!r}]", "where": where}

    expected = f"a number; if this column is none of the {role}, {advice.format(role=role)}"
    return as_numbers(column_values(frame[name]), at, expected)


def _locate(ids: Array, steps: pd.DataFrame, without: Array) -> tuple[Array, Array]:
    """Return the row of its task, and the step number, for every row of steps; refuse gaps and repeats.

    Tasks `without` a Cheap outcome need no steps.
    """
    step_ids = as_ids(column_values(steps["episode"]), "steps['episode']")
    index = pd.Index(ids)
    refuse(index.duplicated(), "ids that do not repeat", "tasks['episode']", ids, ids)
    rows = index.get_indexer(pd.Index(step_ids))
    if (rows < 0).any():
        expected = "an episode of the tasks table"
        if ids.dtype != step_ids.dtype:
            kinds = ["text" if array.dtype.kind == "O" else "whole numbers" for array in (ids, step_ids)]
            expected += f", whose ids are {kinds[0]}; those of the steps are {kinds[1]}"
        refuse(rows < 0, expected, "steps['episode']", step_ids, step_ids)

    expected = "a whole number counted from 0"
    values = column_values(steps["step"])
    numbers = as_numbers(values, lambda row: {"episode": plain(step_ids[row]), "field": "step"}, expected)
    whole = (numbers >= 0) & (numbers == np.floor(numbers)) & np.isfinite(numbers)
    refuse(~whole, expected, "step", step_ids, steps["step"].array)
    counts = np.bincount(rows, minlength=len(ids))
    refuse((counts == 0) & ~without, "at least one row in the steps table", "n_steps", ids, 0)
    in_order = (rows[1:] >= rows[:-1]).all() and (numbers[1:] > numbers[:-1])[rows[1:] == rows[:-1]].all()
    order = slice(None) if in_order else np.lexsort((numbers, rows))
    counted = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    off = np.flatnonzero(numbers[order] != counted)
    if off.size:
        row, due = np.arange(len(rows))[order][off[0]], counted[off[0]]
        trouble = f"step {due} missing" if numbers[row] > due else f"step {int(numbers[row])} repeated"
        raise InvalidDataError(
            "every step from 0 to the last one exactly once",
            episode=plain(step_ids[row]),
            field="step",
            value=int(numbers[row]),
            where=trouble,
        )
    return rows, numbers.astype(np.int64)
