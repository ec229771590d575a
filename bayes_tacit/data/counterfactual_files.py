"""Layout and files of counterfactuals: `.csv` and `.parquet` as a table, `.nc` as the dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from bayes_tacit import validate
from bayes_tacit.data.costs import CostModel, cost_of_calls
from bayes_tacit.data.formats import check_netcdf, write_netcdf
from bayes_tacit.data.layout import MISSING, as_ids, plain
from bayes_tacit.data.timing import DEFAULT_HANDOFF, HANDOFFS
from bayes_tacit.errors import FileFormatError, InvalidDataError
from bayes_tacit.files import as_path, atomic_path, regular_file

BY_HANDOFF = ("success", "cost", "cheap_calls", "strong_calls")
OPTIONAL = ("proposal_cost", "played")
BY_EPISODE = ("never_success", "never_cost", "never_calls")
KIND = "kind"
"""The column of a table that says what kind of handoff it is about; a dataset says it in its attribute `handoff`."""


def conform(dataset: xr.Dataset) -> xr.Dataset:
    """Bring a dataset into the layout that `Counterfactuals` describes, or say what keeps it from that."""
    if not isinstance(dataset, xr.Dataset):
        raise InvalidDataError("an xarray.Dataset", field="dataset", value=dataset)
    values = {}
    for name in (*BY_HANDOFF, *BY_EPISODE, *(name for name in OPTIONAL if name in dataset.data_vars)):
        dims = ("episode",) if name in BY_EPISODE else ("episode", "handoff")
        if name not in dataset.data_vars:
            raise InvalidDataError(f"a variable with dims {dims}", field=name, value=MISSING)
        if set(dataset[name].dims) != set(dims):
            raise InvalidDataError(f"dims {dims}", field=f"dims of {name}", value=dataset[name].dims)
        values[name] = as_floats(name, dataset[name].transpose(*dims).values)
    if "episode" not in dataset.coords:
        raise InvalidDataError("a coordinate with the episodes' ids", field="episode", value=MISSING)
    steps = np.arange(dataset.sizes["handoff"])
    if "handoff" in dataset.coords and not np.array_equal(dataset["handoff"].values, steps):
        raise InvalidDataError("0, 1, 2, ... in order", field="handoff", value=dataset["handoff"].values.tolist())
    out = assemble(dataset["episode"].values, values)
    out.attrs["handoff"] = validate.choice("handoff", dataset.attrs.get("handoff", DEFAULT_HANDOFF), HANDOFFS)
    _validate(out)
    out = out.isel(handoff=slice(int(n_steps(out).max()))).copy(deep=True)
    for variable in out.variables.values():
        variable.values.flags.writeable = False
    return out


def assemble(episode: npt.ArrayLike, values: Mapping[str, np.ndarray]) -> xr.Dataset:
    """Put arrays that are in order into a dataset with coordinates."""
    ids = as_ids(np.asarray(episode))
    if ids.ndim != 1 or not ids.size:
        raise InvalidDataError("a list of at least one id", field="episode", value=episode)
    horizon = np.shape(values["success"])[-1] if np.ndim(values["success"]) else 0
    for name, array in values.items():
        shape = (len(ids),) if name in BY_EPISODE else (len(ids), horizon)
        if array.shape != shape:
            raise InvalidDataError(f"{shape}", field=f"shape of {name}", value=array.shape)
    variables = {name: (("episode", "handoff")[: array.ndim], array) for name, array in values.items()}
    return xr.Dataset(variables, coords={"episode": ids, "handoff": np.arange(horizon)})


def with_costs(dataset: xr.Dataset, cost: CostModel) -> xr.Dataset:
    """Put the costs of its calls into a dataset, and those of one more Cheap call as `proposal_cost`."""
    cheap, strong, never = (dataset[name].values for name in ("cheap_calls", "strong_calls", "never_calls"))
    total = cost_of_calls(cost, cheap, strong)
    costs = {"cost": total, "proposal_cost": cost_of_calls(cost, cheap + 1, strong) - total}
    return dataset.assign(
        {
            **{name: (("episode", "handoff"), array) for name, array in costs.items()},
            "never_cost": ("episode", cost_of_calls(cost, never, 0)),
        }
    )


def n_steps(dataset: xr.Dataset) -> np.ndarray:
    """Return the length of each Cheap rollout: how many handoffs can come before its end."""
    return np.count_nonzero(~np.isnan(dataset["success"].values), axis=1)


def lookup_tables(dataset: xr.Dataset) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the values (variable, episode, handoff), without and with a discarded proposal at each handoff.

    Past the end of a rollout, and in an extra last column, the values are those of Pure Cheap. What comes of a handoff
    that nobody played is NaN.
    """
    n, horizon = dataset["success"].shape
    never = np.stack([*(dataset[name].values for name in BY_EPISODE), np.zeros(n)])
    table = np.repeat(never[:, :, None], horizon + 1, axis=2)
    inside = ~np.isnan(dataset["success"].values)
    for row, name in enumerate(BY_HANDOFF):
        table[row, :, :horizon][inside] = dataset[name].values[inside]
    if "played" in dataset:
        # How many calls Cheap has made by then is known all the same.
        unknown = [BY_HANDOFF.index(name) for name in ("success", "cost", "strong_calls")]
        table[unknown, :, :horizon] = np.where(dataset["played"].values == 0, np.nan, table[unknown, :, :horizon])
    if "proposal_cost" not in dataset:
        return _read_only(table), None
    with_proposal = table.copy()
    with_proposal[BY_HANDOFF.index("cost"), :, :horizon][inside] += dataset["proposal_cost"].values[inside]
    with_proposal[BY_HANDOFF.index("cheap_calls"), :, :horizon][inside] += 1
    return _read_only(table), _read_only(with_proposal)


def from_frame(table: pd.DataFrame, *, with_cost: bool) -> xr.Dataset:
    """Turn one row for each episode and handoff into a dataset."""
    if not isinstance(table, pd.DataFrame):
        raise InvalidDataError("a pandas.DataFrame", field="table", value=table)
    columns = [name for name in BY_HANDOFF if with_cost or name != "cost"]
    columns += [name for name in OPTIONAL if name in table.columns and (with_cost or name != "proposal_cost")]
    for name in ("episode", "handoff", *columns):
        if name not in table.columns:
            raise InvalidDataError(f"a column {name!r}", field="columns of the table", value=list(table.columns))
    row, index = pd.factorize(table["episode"], use_na_sentinel=False)
    ids = as_ids(index.to_numpy())
    handoff = as_floats("handoff", table["handoff"])
    never = np.isnan(handoff)
    _check_rows(ids, row, handoff, never)
    shape = (len(ids), int(handoff[~never].max()) + 1)
    values: dict[str, np.ndarray] = {}
    for name in columns:
        given = as_floats(name, table[name])
        values[name] = np.full(shape, np.nan)
        values[name][row[~never], handoff[~never].astype(int)] = given[~never]
        if name in ("success", "cost", "cheap_calls"):
            of_cheap = values[f"never_{'calls' if name == 'cheap_calls' else name}"] = np.full(len(ids), np.nan)
            of_cheap[row[never]] = given[never]
    return assemble(ids, values).assign_attrs(handoff=_kind(table))


def _kind(table: pd.DataFrame) -> object:
    """Return the kind of handoff that a table is about."""
    if KIND not in table.columns:
        return DEFAULT_HANDOFF
    named = table[KIND].unique().tolist()
    if len(named) > 1:
        raise InvalidDataError("one of them in all rows", field=f"column {KIND!r}", value=named)
    return named[0]


def as_floats(name: str, values: npt.ArrayLike | pd.Series[Any]) -> np.ndarray:
    """Return numbers as float64, NaN where one is missing."""
    try:
        if isinstance(values, pd.Series):
            return values.to_numpy(dtype=float, na_value=np.nan)
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        shown = values.tolist() if isinstance(values, pd.Series) else values
        raise InvalidDataError("numbers", field=name, value=shown) from None


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def _check_rows(ids: np.ndarray, row: np.ndarray, handoff: np.ndarray, never: np.ndarray) -> None:
    # A table of every handoff up to the last is what is made of the rows.
    wrong = ~never & ~((handoff >= 0) & (handoff == np.floor(handoff)) & (handoff < len(handoff)))
    if wrong.any():
        at = int(wrong.argmax())
        expected = "a whole number >= 0 and below the number of rows, or missing for the Cheap rollout"
        raise InvalidDataError(expected, episode=plain(ids[row[at]]), field="handoff", value=float(handoff[at]))
    repeated = pd.DataFrame({"row": row, "handoff": handoff}).duplicated().to_numpy()
    if repeated.any():
        at = int(repeated.argmax())
        value = "missing" if never[at] else int(handoff[at])
        raise InvalidDataError("one row each", episode=plain(ids[row[at]]), field="handoff", value=value)
    if never.all():
        raise InvalidDataError("rows with a handoff step", field="handoff", value=MISSING)
    without = np.flatnonzero(np.bincount(row[never], minlength=len(ids)) == 0)
    if without.size:
        first = without[0]
        steps = handoff[row == first].astype(int).tolist()
        expected = "also a row whose handoff is missing, for the Cheap rollout"
        raise InvalidDataError(expected, episode=plain(ids[first]), field="handoff in its rows", value=steps)


def _validate(dataset: xr.Dataset) -> None:
    ids = dataset["episode"].values
    repeated = pd.Index(ids).duplicated()
    if repeated.any():
        first = plain(ids[repeated.argmax()])
        raise InvalidDataError("ids that do not repeat", episode=first, field="episode", value=first)
    inside = np.arange(dataset.sizes["handoff"]) < np.maximum(n_steps(dataset), 1)[:, None]
    for name in dataset.data_vars:
        values = dataset[name].values
        flag = str(name).endswith("success") or name == "played"
        fine = np.isin(values, (0, 1)) if flag else np.isfinite(values) & (values >= 0)
        if name in BY_EPISODE:
            _refuse(~fine, dataset, str(name), "0 or 1" if flag else "a finite number >= 0")
            continue
        expected = f"{'0 or 1' if flag else 'a finite number >= 0'}; only past the Cheap rollout is it NaN"
        _refuse(inside & ~fine, dataset, str(name), expected)
        _refuse(~inside & ~np.isnan(values), dataset, str(name), "NaN, past the end of its Cheap rollout")
    _refuse(
        (dataset["cheap_calls"].values != 0) & (np.arange(dataset.sizes["handoff"]) == 0),
        dataset,
        "cheap_calls",
        "0: a handoff at step 0 is Pure Strong (a discarded proposal is charged when outcomes are looked up)",
    )


def _refuse(wrong: np.ndarray, dataset: xr.Dataset, name: str, expected: str) -> None:
    if not wrong.any():
        return
    at = np.unravel_index(int(wrong.argmax()), wrong.shape)
    raise InvalidDataError(
        expected,
        episode=plain(dataset["episode"].values[at[0]]),
        field=name,
        value=float(dataset[name].values[at]),
        where=f"handoff {at[1]}" if len(at) == 2 else None,
    )


def to_frame(dataset: xr.Dataset) -> pd.DataFrame:
    """Return one row for each episode and handoff, and one whose handoff is missing for the Cheap rollout."""
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


def write_counterfactuals(dataset: xr.Dataset, path: object) -> None:
    """Write a file whole, or leave what was there."""
    file = as_path(path)
    form = _form(file)
    with atomic_path(file) as temporary:
        form.write(dataset, temporary)


def read_counterfactuals(path: object) -> pd.DataFrame | xr.Dataset:
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
