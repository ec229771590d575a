"""Zarr 3: the dataset as it is in memory, in chunks of episodes.

A chunk that is not on disk reads as if it were filled with zeros, which is how a store that was cut short could pass
for a whole one. So every chunk is written, also those that hold nothing else, and reading counts them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import xarray as xr
import zarr

from bayes_tacit.data.episodes.formats.netcdf import check as check
from bayes_tacit.data.episodes.formats.netcdf import storable
from bayes_tacit.data.episodes.layout import SCHEMA_VERSION, check_schema_version
from bayes_tacit.data.stores import check_zarr
from bayes_tacit.errors import FileFormatError
from bayes_tacit.files import is_store

_EPISODES_PER_CHUNK = 1000
_COMPLETE = "bayes_tacit_every_chunk_written"


def read(path: Path) -> xr.Dataset:
    """Read everything into memory."""
    with _open(path) as dataset:
        return dataset.load()


def read_lazily(path: Path, chunks: dict[str, int]) -> xr.Dataset:
    """Leave the arrays on disk, for Dask to read in chunks."""
    return _open(path).chunk(chunks)


def write(dataset: xr.Dataset, path: Path) -> None:
    """Write a store with chunks of the same number of episodes, whatever chunks the dataset has."""
    per_chunk = min(_EPISODES_PER_CHUNK, dataset.sizes["episode"])
    chunks = {dim: per_chunk if dim == "episode" else max(1, size) for dim, size in dataset.sizes.items()}
    encoding: dict[Any, dict[str, Any]] = {
        name: {"chunks": tuple(chunks[dim] for dim in variable.dims)}
        for name, variable in dataset.variables.items()
        if variable.ndim
    }
    lazy = [name for name, array in dataset.data_vars.items() if array.chunks is not None]
    even = {name: dataset[name].chunk({dim: chunks[dim] for dim in dataset[name].dims}) for name in lazy}
    storable(dataset.assign(even)).assign_attrs({_COMPLETE: True}).to_zarr(
        path, mode="w-", zarr_format=3, consolidated=False, encoding=encoding, write_empty_chunks=True
    )


def is_ours(path: Path) -> bool:
    """Tell whether a folder is a Zarr store with episodes in it, or empty."""
    entries = {entry.name for entry in path.iterdir()} if path.is_dir() else {""}
    return not entries or (is_store(path) and {"diagnostics", "n_steps"} <= entries)


def _open(path: Path) -> xr.Dataset:
    check_zarr(path)
    dataset: xr.Dataset = xr.open_zarr(path, chunks=None, consolidated=False, decode_timedelta=False)
    check_schema_version(dataset.attrs.get("schema_version", SCHEMA_VERSION), str(path))
    if dataset.attrs.pop(_COMPLETE, False):
        for name, array in zarr.open_group(path, mode="r").arrays():
            if array.nchunks_initialized < array.nchunks:
                absent = f"{array.nchunks - array.nchunks_initialized} of the {array.nchunks} chunks of {name!r}"
                raise FileFormatError(f"{path} is cut short: {absent} are missing")
    return dataset
