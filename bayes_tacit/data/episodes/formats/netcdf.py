"""NetCDF 4, by h5netcdf: the dataset as it is in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import xarray as xr

from bayes_tacit.data.episodes.layout import SCHEMA_VERSION, carried_variables, check_schema_version
from bayes_tacit.data.stores import check_netcdf, write_netcdf
from bayes_tacit.errors import InvalidDataError

COMPRESSION = {"compression": "gzip", "compression_opts": 4, "shuffle": True}


def read(path: Path) -> xr.Dataset:
    """Read everything into memory."""
    with _open(path) as dataset:
        return dataset.load()


def read_lazily(path: Path, chunks: dict[str, int]) -> xr.Dataset:
    """Leave the arrays on disk, for Dask to read in chunks."""
    return _open(path).chunk(chunks)


def write(dataset: xr.Dataset, path: Path) -> None:
    """Write one file, numbers compressed: diagnostics are mostly zeros."""
    compressed = {name: COMPRESSION for name, array in dataset.data_vars.items() if array.dtype.kind in "bif"}
    write_netcdf(storable(dataset), path, encoding=compressed)


def storable(dataset: xr.Dataset) -> xr.Dataset:
    """Return the dataset with lazy text in the dtype that xarray can write without loading all of it."""
    lazy = {name: array for name, array in dataset.data_vars.items() if array.chunks is not None}
    return dataset.assign(
        {name: array.astype(np.dtypes.StringDType()) for name, array in lazy.items() if array.dtype.kind == "O"}
    )


def check(dataset: xr.Dataset) -> None:
    """Refuse carried variables that netCDF or Zarr would not give back as they are."""
    for name in carried_variables(dataset):
        if dataset[name].dtype.kind not in "bifOM":
            expected = "numbers, booleans, text or datetimes, for netCDF and Zarr"
            raise InvalidDataError(expected, field=name, value=dataset[name].dtype)
        if "/" in name or name in (".", "..") or name.startswith("__"):
            expected = "a name without '/' and not starting with '__', for netCDF and Zarr"
            raise InvalidDataError(expected, field="variable name", value=name)


def _open(path: Path) -> xr.Dataset:
    check_netcdf(path)
    dataset = xr.open_dataset(path, engine="h5netcdf", decode_timedelta=False)
    check_schema_version(dataset.attrs.get("schema_version", SCHEMA_VERSION), str(path))
    return dataset
