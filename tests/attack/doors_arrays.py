"""Bad arrays: episodes as netCDF and Zarr."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import numpy as np
import xarray as xr
from attack import base
from attack.case import Case, Door, Prepare
from attack.putting import cleared, no_files
from attack.stores import broken_netcdf, broken_zarr
from attack.ways import command, python

from bayes_tacit import Episodes

POISON = (np.nan, np.inf, -np.inf, -1.0, -1e-300)


def episodes_in_arrays(home: Path, rng: Random, suffixes: list[str]) -> Iterator[Case]:
    """Episodes as netCDF or Zarr."""
    for suffix in suffixes:
        name = f"e.{suffix}"
        folder = base.written(home / suffix, name)
        door = Door(f"episodes .{suffix}", command("summary", name, "--json"), folder, (name,))
        other = Door(
            f"episodes .{suffix}, Python", python(lambda _, name=name: repr(Episodes.read(name))), folder, (name,)
        )
        for number, (what, change) in enumerate(_datasets(rng)):
            yield Case((door, other)[number % 2], what, renewed(name, change))
        if suffix == "nc":
            yield from broken_netcdf(door, name, rng)
        else:
            yield from broken_zarr(door, name, rng)
        yield from (case for case in no_files(door, name) if suffix == "nc" or case.name.split(" is ")[1] != "a folder")


def _datasets(rng: Random) -> Iterator[tuple[str, Callable[[xr.Dataset], xr.Dataset]]]:
    """Episodes that no file may hold."""
    for variable in ("features", "diagnostics"):
        for value in POISON[: 3 if variable == "features" else 5]:
            for _ in range(2):
                yield f"{variable} is {value}", set_item(variable, value, rng)
    for variable in ("cheap_success", "strong_success"):
        for value in (2.0, -1.0, 0.5, np.nan, np.inf):
            yield f"{variable} is {value}", set_item(variable, value, rng)
    for variable in ("window_start", "window_end"):
        for value in (-1.0, 0.5, 1e6, np.inf, 1e300):
            yield f"{variable} is {value}", set_item(variable, value, rng)
    for value in (0.0, -1.0, 1e6, 1.5, np.nan, np.inf, 1e300):
        yield f"n_steps is {value}", set_item("n_steps", value, rng)
    for variable in ("features", "diagnostics", "n_steps", "cheap_success", "strong_success", "window_end"):
        yield f"no {variable}", lambda dataset, name=variable: dataset.drop_vars(name)
        yield (
            f"{variable} of other dims",
            lambda dataset, name=variable: dataset.assign({name: dataset[name].rename(episode="other")}),
        )
        yield (
            f"{variable} is text",
            lambda dataset, name=variable: dataset.assign(
                {name: (dataset[name].dims, np.full(dataset[name].shape, "x", dtype=object))}
            ),
        )
    for dim in ("episode", "feature", "diagnostic"):
        yield f"no names of {dim}", lambda dataset, dim=dim: dataset.drop_vars(dim)
        yield (
            f"one name of {dim} twice",
            lambda dataset, dim=dim: dataset.assign_coords(
                {dim: np.array([str(dataset[dim].values[0])] * dataset.sizes[dim], dtype=object)}
            ),
        )
        yield (
            f"numbers for names of {dim}",
            lambda dataset, dim=dim: dataset.assign_coords({dim: np.linspace(0.5, 1.5, dataset.sizes[dim])}),
        )
        yield (
            f"none of {dim}",
            lambda dataset, dim=dim: dataset.isel({dim: slice(0)}) if dim != "feature" else dataset.isel(step=slice(0)),
        )
    for version in (99, 0, "1", True, 1.5):
        yield (
            f"schema_version is {version!r}",
            lambda dataset, version=version: (
                dataset.assign_attrs(schema_version=int(version) if version is True else version)
                if version is not True
                else dataset.assign_attrs(schema_version="true")
            ),
        )


def renewed(name: str, change: Callable[[xr.Dataset], xr.Dataset]) -> Prepare:
    """Write another dataset in place of an episodes file, past all that the library checks."""

    def prepare(folder: Path) -> None:
        path = folder / name
        engine = {"engine": "h5netcdf"} if name.endswith(".nc") else {"engine": "zarr", "consolidated": False}
        with xr.open_dataset(path.resolve(), **engine) as found:
            dataset = change(found.load())
        cleared(path)
        dataset = dataset.drop_encoding()
        if name.endswith(".nc"):
            dataset.to_netcdf(path, engine="h5netcdf")
        else:
            dataset.to_zarr(path, consolidated=False)

    return prepare


def set_item(variable: str, value: object, rng: Random) -> Callable[[xr.Dataset], xr.Dataset]:
    """Give one number of a variable, within the rollouts, another value."""

    def change(dataset: xr.Dataset) -> xr.Dataset:
        values = dataset[variable].values.astype(float if not isinstance(value, str) else object)
        place = tuple(0 if dim == "step" else rng.randrange(size) for dim, size in dataset[variable].sizes.items())
        values[place] = value
        return dataset.assign({variable: (dataset[variable].dims, values)})

    return change
