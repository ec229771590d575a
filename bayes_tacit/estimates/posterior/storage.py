"""A posterior as a netCDF file or a Zarr store."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import xarray as xr

from bayes_tacit.errors import FileFormatError, MissingFileError
from bayes_tacit.files import as_path, atomic_path

FORMAT = "bayes_tacit.posterior"
SCHEMA_VERSION = 2
"""In version 1 the prior stood as Python prints it; since 2 it is JSON."""
GROUPS = ("posterior", "sample_stats", "constant_data", "observed_data")


def save_posterior(tree: xr.DataTree, path: str | os.PathLike[str]) -> None:
    """Write a posterior to a file whose suffix says how: .nc or .zarr.

    The file appears under its name only once it is complete.
    """
    target = as_path(path)
    refuse_unknown_suffix(target)
    _refuse_foreign(tree, "this DataTree")
    plain = tree.map_over_datasets(_without_objects)
    plain.attrs = tree.attrs
    with atomic_path(target) as temporary:
        if target.suffix == ".nc":
            plain.to_netcdf(temporary, engine="h5netcdf")
        else:
            plain.to_zarr(temporary, consolidated=False)


def load_posterior(path: str | os.PathLike[str]) -> xr.DataTree:
    """Read a posterior that `save_posterior` wrote, into memory."""
    source = as_path(path)
    refuse_unknown_suffix(source)
    if not source.exists():
        raise MissingFileError(f"{source}: no such file; expected a posterior written by save_posterior")
    try:
        if source.suffix == ".nc":
            with xr.open_datatree(source, engine="h5netcdf") as opened:
                tree = opened.load()
        else:
            with xr.open_datatree(source, engine="zarr", consolidated=False) as opened:
                tree = opened.load()
    except Exception as error:
        raise FileFormatError(
            f"{source}: cannot be read as {'netCDF' if source.suffix == '.nc' else 'Zarr'} ({error}); expected a "
            "posterior written by save_posterior"
        ) from error
    _refuse_foreign(tree, str(source))
    return tree


def refuse_unknown_suffix(path: Path) -> None:
    """Raise unless the name says netCDF or Zarr."""
    if path.suffix not in (".nc", ".zarr"):
        raise FileFormatError(f"{path}: suffix is {path.suffix!r}; expected .nc or .zarr")


def _refuse_foreign(tree: xr.DataTree, name: str) -> None:
    if tree.attrs.get("format") != FORMAT:
        raise FileFormatError(f"{name}: format is {tree.attrs.get('format')!r}; expected {FORMAT!r}")
    if int(tree.attrs["schema_version"]) > SCHEMA_VERSION:
        raise FileFormatError(
            f"{name}: schema_version is {tree.attrs['schema_version']}; expected at most {SCHEMA_VERSION}: it was "
            "written by a newer bayes_tacit"
        )
    missing = [group for group in GROUPS if group not in tree.children]
    if missing:
        raise FileFormatError(f"{name}: groups {', '.join(missing)} are missing; expected {', '.join(GROUPS)}")


def _without_objects(dataset: xr.Dataset) -> xr.Dataset:
    """Give text coordinates a fixed width, which every format can hold."""
    text = {name: array for name, array in dataset.coords.items() if array.dtype.kind == "O"}
    return dataset.assign_coords(
        {name: (array.dims, np.array(list(map(str, array.values)))) for name, array in text.items()}
    )
