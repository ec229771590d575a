"""Reading and writing counterfactuals as files, by suffix: `.csv` and `.parquet` as a table, `.nc` as the dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from bayes_tacit.data.counterfactuals.layout import BY_EPISODE, BY_HANDOFF, KIND, OPTIONAL
from bayes_tacit.data.handoffs import DEFAULT_HANDOFF
from bayes_tacit.data.stores import check_netcdf, write_netcdf
from bayes_tacit.errors import FileFormatError
from bayes_tacit.files import as_path, atomic_path, regular_file


def to_frame(dataset: xr.Dataset) -> pd.DataFrame:
    """Give one row for each episode and handoff, and one whose handoff is missing for the Cheap rollout."""
    ids = dataset["episode"].values
    episode, handoff = np.nonzero(~np.isnan(dataset["success"].values))
    names = [*BY_HANDOFF, *(name for name in OPTIONAL if name in dataset)]
    never = dict(zip(("success", "cost", "cheap_calls"), BY_EPISODE, strict=True))
    columns = {}
    for name in names:
        of_cheap = dataset[never[name]].values if name in never else np.zeros(len(ids))
        columns[name] = np.concatenate([dataset[name].values[episode, handoff], of_cheap])
    position = np.concatenate([episode, np.arange(len(ids))])
    step = pd.array(np.concatenate([handoff, np.full(len(ids), -1)]), dtype="Int64")
    step[len(handoff) :] = pd.NA
    table = pd.DataFrame({"episode": ids[position], "handoff": step, **columns})
    if dataset.attrs["handoff"] != DEFAULT_HANDOFF:
        table[KIND] = dataset.attrs["handoff"]
    return table.iloc[np.argsort(position, kind="stable")].reset_index(drop=True)


def write(dataset: xr.Dataset, path: object) -> None:
    """Write a file whole, or leave what was there."""
    file = as_path(path)
    form = _form(file)
    with atomic_path(file) as temporary:
        form.write(dataset, temporary)


def read(path: object) -> pd.DataFrame | xr.Dataset:
    """Read a table or a dataset that is yet to be validated."""
    file = as_path(path)
    form = _form(file)
    regular_file(file, f"counterfactuals, {', '.join(FORMS)}")
    try:
        return form.read(file)
    except Exception as error:
        first = str(error).strip().partition("\n")[0]
        raise FileFormatError(f"{file}: cannot be read as {form.name} ({first})") from error


@dataclass(frozen=True)
class Form:
    """How a kind of file is read and written."""

    name: str
    read: Callable[[Path], pd.DataFrame | xr.Dataset]
    write: Callable[[xr.Dataset, Path], None]


def _form(file: Path) -> Form:
    if file.suffix not in FORMS:
        raise FileFormatError(f"{file}: suffix is {file.suffix!r}; expected {', '.join(FORMS)}")
    return FORMS[file.suffix]


def _read_dataset(file: Path) -> xr.Dataset:
    check_netcdf(file)
    with xr.open_dataset(file, engine="h5netcdf") as dataset:
        return dataset.load()


FORMS: Mapping[str, Form] = {
    ".csv": Form(
        "comma-separated values",
        lambda file: pd.read_csv(file, float_precision="round_trip"),
        lambda dataset, file: to_frame(dataset).to_csv(file, index=False),
    ),
    ".parquet": Form("Parquet", pd.read_parquet, lambda dataset, file: to_frame(dataset).to_parquet(file, index=False)),
    ".nc": Form("netCDF", _read_dataset, write_netcdf),
}
