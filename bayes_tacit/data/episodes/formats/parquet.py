"""Parquet: a folder with one row a task in `tasks.parquet` and one row a step in `steps.parquet`.

The schema metadata of `tasks.parquet` says the schema version and which columns are features and diagnostics. Tables
without it, written by another tool, are read as `Episodes.from_frames` would take them.
"""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import xarray as xr

from bayes_tacit.data.episodes.frames import check_tabular, dataset_from_frames, step_frames, task_frame
from bayes_tacit.data.episodes.layout import SCHEMA_VERSION, carried_variables, check_schema_version
from bayes_tacit.errors import FileFormatError, InvalidDataError
from bayes_tacit.files import regular_file

_KEY = b"bayes_tacit"
_TASKS, _STEPS = "tasks.parquet", "steps.parquet"
_ADVICE = "read the tables with pandas and name those that are with Episodes.from_frames(tasks, steps, {role}=[...])"
_TYPES = {"b": pa.bool_(), "i": pa.int64(), "f": pa.float64(), "O": pa.string(), "M": pa.timestamp("ns")}


def read(path: Path) -> xr.Dataset:
    """Read both tables."""
    for name in (_TASKS, _STEPS):
        if not (path / name).exists():
            raise FileFormatError(f"{path} has no {name}; expected a folder of {_TASKS} and {_STEPS}")
        regular_file(path / name, f"a folder of {_TASKS} and {_STEPS}")
    tables = {name: pq.read_table(path / name) for name in (_TASKS, _STEPS)}
    tasks, steps = (tables[name].to_pandas() for name in (_TASKS, _STEPS))
    metadata = (tables[_TASKS].schema.metadata or {}).get(_KEY)
    if metadata is None:
        return dataset_from_frames(tasks, steps, advice=_ADVICE)
    ours: dict[str, Any] = json.loads(metadata)
    check_schema_version(ours.get("schema_version"), str(path))
    return dataset_from_frames(tasks, steps, ours["features"], ours["diagnostics"], advice=_ADVICE)


def write(dataset: xr.Dataset, path: Path) -> None:
    """Write both tables into a new folder; the steps block by block."""
    path.mkdir()
    ours = {
        "schema_version": SCHEMA_VERSION,
        "features": dataset["feature"].values.tolist(),
        "diagnostics": dataset["diagnostic"].values.tolist(),
    }
    metadata = {_KEY: json.dumps(ours)}
    pq.write_table(_table(task_frame(dataset)).replace_schema_metadata(metadata), path / _TASKS)
    tables = (_table(frame).replace_schema_metadata(metadata) for frame in step_frames(dataset))
    first = next(tables)
    with pq.ParquetWriter(path / _STEPS, first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table)


def check(dataset: xr.Dataset) -> None:
    """Refuse carried variables that a column cannot hold."""
    check_tabular(dataset, "Parquet")
    for name in carried_variables(dataset):
        if dataset[name].dtype.kind not in _TYPES:
            expected = "numbers, booleans, text or datetimes, for Parquet"
            raise InvalidDataError(expected, field=name, value=dataset[name].dtype)


def is_ours(path: Path) -> bool:
    """Tell whether a folder holds the two tables and nothing else, or nothing at all."""
    return path.is_dir() and {entry.name for entry in path.iterdir()} in ({_TASKS, _STEPS}, set())


def _table(frame: pd.DataFrame) -> pa.Table:
    return pa.table({name: _column(frame[name].array) for name in frame.columns})


def _column(values: Any) -> pa.Array:  # noqa: ANN401  a pandas array
    if isinstance(values.dtype, pd.Int64Dtype):
        return pa.array(values, type=pa.int64())
    plain = np.asarray(values)
    return pa.array(plain, type=_TYPES[plain.dtype.kind], from_pandas=False)
