"""NetCDF and Zarr at the door: written whole, and read only if all that they hold is in them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import xarray as xr

from bayes_tacit.errors import FileFormatError
from bayes_tacit.files import parse_json

CODECS = {
    *("bytes", "blosc", "zstd", "gzip", "crc32c", "transpose", "vlen-utf8", "vlen-bytes", "sharding_indexed"),
    *("zlib", "bz2", "lzma", "lz4", "shuffle", "delta", "bitround", "adler32", "crc32"),
}
"""How arrays may be packed. Others may run code that is in the file, as `pickle` does."""


def write_netcdf(data: xr.Dataset | xr.DataTree, path: Path, **settings: Any) -> None:  # noqa: ANN401
    """Write netCDF to a new file.

    HDF5 crashes the program where it cannot write all of a file, so what is in memory is made there first. Arrays that
    are still on disk (Dask) are written as they are read.
    """
    datasets = data.to_dict().values() if isinstance(data, xr.DataTree) else [data]
    if any(array.chunks is not None for each in datasets for array in each.variables.values()):
        data.to_netcdf(path, engine="h5netcdf", **settings)
        return
    content = data.to_netcdf(None, engine="h5netcdf", **settings)
    with path.open("wb") as file:
        file.write(content)


def check_netcdf(path: Path) -> None:
    """Refuse a file whose numbers are in other files: it could be any file of this machine.

    Raises
    ------
    FileFormatError
        With the file and the variable; also if it is a pipe or no HDF5 file.
    """
    import h5py

    if not path.is_file():
        raise FileFormatError(f"{path} is a folder, pipe or device; expected netCDF")

    def look(name: str, group: h5py.Group) -> None:
        for inner in group:
            full = f"{name}/{inner}".lstrip("/")
            link = group.get(inner, getlink=True)
            if not isinstance(link, h5py.HardLink):
                raise FileFormatError(f"{path}: {full!r} is a link; expected a file that holds all of its variables")
            each = group[inner]
            if isinstance(each, h5py.Group):
                look(full, each)
            elif isinstance(each, h5py.Dataset) and (each.external or each.is_virtual):
                raise FileFormatError(
                    f"{path}: {full!r} is stored in another file; expected a file that holds all of its variables"
                )

    try:
        with h5py.File(path, "r") as file:
            look("", file)
    except FileFormatError:
        raise
    except Exception as error:
        raise FileFormatError(f"{path} cannot be read as netCDF; is it cut short? ({error})") from error


def check_zarr(path: Path) -> None:
    """Refuse what is no folder, links to other files, and arrays packed in a way that is not known to be harmless.

    Raises
    ------
    FileFormatError
        With the file in the store.
    """
    if not path.is_dir():
        raise FileFormatError(f"{path} is a file, pipe or device; expected a Zarr store")
    for folder, folders, files in os.walk(path):
        for name in (*folders, *files):
            if Path(folder, name).is_symlink():
                raise FileFormatError(
                    f"{Path(folder, name)} is a link; expected a Zarr store that holds all of its files"
                )
        for name in {"zarr.json", ".zarray", ".zmetadata"} & set(files):
            file = Path(folder, name)
            if not file.is_file():
                raise FileFormatError(f"{file} is not a file; expected a Zarr store")
            content = _metadata(file)
            for codec in _codecs(content):
                if codec not in CODECS:
                    raise FileFormatError(f"{file}: an array is packed by {codec!r}; expected one of {sorted(CODECS)}")


def _metadata(file: Path) -> Any:  # noqa: ANN401
    text = file.read_bytes()
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return parse_json(text, str(file), "a Zarr store")


def _codecs(content: object) -> Iterator[str]:
    """Give the names of codecs, filters and compressors, wherever they are in the metadata."""
    if isinstance(content, list):
        for each in content:
            yield from _codecs(each)
    if not isinstance(content, dict):
        return
    for key, value in content.items():
        if key in ("codecs", "index_codecs", "filters", "compressor"):
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, dict):
                    yield str(each.get("name", each.get("id"))).removeprefix("numcodecs.")
        if key != "attributes":
            yield from _codecs(value)
