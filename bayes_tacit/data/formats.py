"""Reading and writing episodes as files, by suffix.

| suffix     | what it is                                       | carried variables                                |
| ---------- | ------------------------------------------------ | ------------------------------------------------ |
| `.jsonl`   | JSON Lines, one episode a line                   | by episode or step: numbers, booleans, text      |
| `.parquet` | a folder of `tasks.parquet` and `steps.parquet`  | by episode or step, also datetimes               |
| `.nc`      | netCDF 4                                         | any dims, also datetimes                         |
| `.zarr`    | Zarr 3, chunked by episode                       | any dims, also datetimes                         |

Everything here works on datasets in the layout of `bayes_tacit.data.layout`. The metadata of `tasks.parquet` say the
schema version and which columns are features and diagnostics; tables without them, written by another tool, are read
as `Episodes.from_frames` takes them. A chunk that is not in a Zarr store reads as zeros, so every chunk is written and
reading counts them: a store that was cut short does not pass for a whole one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import xarray as xr

from bayes_tacit.data.frames import check_tabular, dataset_from_frames, dataset_from_tasks, step_frames, task_frame
from bayes_tacit.data.jsonl import check_jsonl, line_of, read_jsonl, write_jsonl
from bayes_tacit.data.layout import DIMS, READER, SCHEMA_VERSION, carried_variables, check_schema_version, is_lazy
from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingDependencyError, MissingFileError, TacitError
from bayes_tacit.files import atomic_path, is_store, parse_json, regular_file
from bayes_tacit.validate import whole

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
    """Yield the names of codecs, filters and compressors, wherever they are in the metadata."""
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


COMPRESSION = {"compression": "gzip", "compression_opts": 4, "shuffle": True}


def write_episodes_netcdf(dataset: xr.Dataset, path: Path) -> None:
    """Write one file, numbers compressed: diagnostics are mostly zeros."""
    compressed = {name: COMPRESSION for name, array in dataset.data_vars.items() if array.dtype.kind in "bif"}
    write_netcdf(storable(dataset), path, encoding=compressed)


def storable(dataset: xr.Dataset) -> xr.Dataset:
    """Return the dataset with lazy text in the dtype that xarray can write without loading all of it."""
    lazy = {name: array for name, array in dataset.data_vars.items() if array.chunks is not None}
    return dataset.assign(
        {name: array.astype(np.dtypes.StringDType()) for name, array in lazy.items() if array.dtype.kind == "O"}
    )


def check_labelled(dataset: xr.Dataset) -> None:
    """Refuse carried variables that netCDF or Zarr would not give back as they are."""
    for name in carried_variables(dataset):
        if dataset[name].dtype.kind not in "bifOM":
            expected = "numbers, booleans, text or datetimes, for netCDF and Zarr"
            raise InvalidDataError(expected, field=name, value=dataset[name].dtype)
        if "/" in name or name in (".", "..") or name.startswith("__"):
            expected = "a name without '/' and not starting with '__', for netCDF and Zarr"
            raise InvalidDataError(expected, field="variable name", value=name)


def _open_netcdf(path: Path) -> xr.Dataset:
    check_netcdf(path)
    dataset = xr.open_dataset(path, engine="h5netcdf", decode_timedelta=False)
    check_schema_version(dataset.attrs.get("schema_version", SCHEMA_VERSION), str(path))
    return dataset


_EPISODES_PER_CHUNK = 1000
_COMPLETE = "bayes_tacit_every_chunk_written"


def write_zarr(dataset: xr.Dataset, path: Path) -> None:
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


def is_our_zarr(path: Path) -> bool:
    """Check whether a folder is a Zarr store with episodes in it, or empty."""
    entries = {entry.name for entry in path.iterdir()} if path.is_dir() else {""}
    return not entries or (is_store(path) and {"diagnostics", "n_steps"} <= entries)


def _open_zarr(path: Path) -> xr.Dataset:
    check_zarr(path)
    dataset: xr.Dataset = xr.open_zarr(path, chunks=None, consolidated=False, decode_timedelta=False)
    check_schema_version(dataset.attrs.get("schema_version", SCHEMA_VERSION), str(path))
    if dataset.attrs.pop(_COMPLETE, False):
        import zarr

        for name, array in zarr.open_group(path, mode="r").arrays():
            if array.nchunks_initialized < array.nchunks:
                absent = f"{array.nchunks - array.nchunks_initialized} of the {array.nchunks} chunks of {name!r}"
                raise FileFormatError(f"{path} is cut short: {absent} are missing")
    return dataset


_KEY = b"bayes_tacit"
_TASKS, _STEPS = "tasks.parquet", "steps.parquet"
_ADVICE = "read the tables with pandas and name those that are with Episodes.from_frames(tasks, steps, {role}=[...])"
_TYPES = {"b": pa.bool_(), "i": pa.int64(), "f": pa.float64(), "O": pa.string(), "M": pa.timestamp("ns")}


def read_parquet(path: Path, chunks: dict[str, int] | None) -> xr.Dataset:
    """Read both tables, or with chunks the tasks alone."""
    if chunks is not None:
        return _read_lazy_parquet(path, chunks)
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
    dataset = dataset_from_frames(tasks, steps, ours["features"], ours["diagnostics"], advice=_ADVICE)
    return dataset.assign_attrs({READER: ours[READER]}) if READER in ours else dataset


def _read_lazy_parquet(path: Path, chunks: dict[str, int]) -> xr.Dataset:
    """Read the tasks, and leave their steps on disk, for Dask to read in chunks of episodes.

    The steps must be in the order of the tasks, as `write_parquet` puts them: a chunk is then a run of rows.
    """
    import dask
    import dask.array as da

    tasks = pq.read_table(path / _TASKS)
    metadata, steps = (tasks.schema.metadata or {}).get(_KEY), pq.ParquetFile(path / _STEPS)
    if metadata is None:
        raise FileFormatError(
            f"{path} is read in chunks if Episodes.write made it; read it without chunks and write it"
        )
    ours: dict[str, Any] = json.loads(metadata)
    check_schema_version(ours.get("schema_version"), str(path))
    names: list[str] = ours["diagnostics"]
    if carried := set(steps.schema_arrow.names) - {"episode", "step", *names}:
        expected = "no column that is carried along by step, to read Parquet in chunks; Zarr has them"
        raise InvalidDataError(expected, field="columns of steps", value=sorted(carried))
    first = dataset_from_tasks(tasks.to_pandas(), ours["features"])
    lengths = _lengths(steps, first["episode"].values)
    ends, horizon = np.concatenate([[0], np.cumsum(lengths)]), int(lengths.max())
    grid = dask.delayed(_grid_of_rows)
    size = chunks.get("episode", len(lengths))
    pieces = [slice(at, min(at + size, len(lengths))) for at in range(0, len(lengths), size)]
    blocks = [
        da.from_delayed(
            grid(path / _STEPS, int(ends[part.start]), lengths[part], horizon, names),
            (part.stop - part.start, horizon, len(names)),
            dtype=np.float64,
        )
        for part in pieces
    ]
    return first.assign(
        diagnostics=(("episode", "step", "diagnostic"), da.concatenate(blocks)), n_steps=("episode", lengths)
    ).assign_coords(diagnostic=np.array(names, dtype=object))


def _lengths(steps: pq.ParquetFile, ids: np.ndarray) -> np.ndarray:
    """Count the steps of each task, a batch of rows at a time."""
    lengths, at = np.zeros(len(ids), dtype=np.int64), 0
    for batch in steps.iter_batches(batch_size=1 << 20, columns=["episode"]):
        rows = batch.column(0).to_numpy(zero_copy_only=False)
        starts = np.concatenate([[0], np.flatnonzero(rows[1:] != rows[:-1]) + 1])
        runs = np.diff(np.append(starts, len(rows)))
        while at < len(ids) and ids[at] != rows[0]:
            at += 1
        found = rows[starts]
        # Tasks without a Cheap rollout have no steps, so that the next one may be further down.
        place = at + np.arange(len(found))
        if place[-1] >= len(ids) or (ids[place] != found).any():
            place = pd.Index(ids).get_indexer(pd.Index(found))
            if (place < 0).any() or (np.diff(place) <= 0).any():
                raise FileFormatError("the steps are not in the order of the tasks; read them without chunks")
        lengths[place] += runs
        at = int(place[-1])
    return lengths


def _grid_of_rows(path: Path, first: int, lengths: np.ndarray, horizon: int, names: list[str]) -> np.ndarray:
    """Read the steps of some tasks, from a row on: (task, step, diagnostic)."""
    file, last = pq.ParquetFile(path), first + int(lengths.sum())
    ends = np.cumsum([file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)])
    groups = range(int(np.searchsorted(ends, first, "right")), int(np.searchsorted(ends, last, "left")) + 1)
    out = np.full((len(lengths) * horizon, len(names)), np.nan)
    if last > first:
        table = file.read_row_groups(list(groups), columns=["step", *names])
        begin = int(ends[groups[0]]) - file.metadata.row_group(groups[0]).num_rows
        table = table.slice(first - begin, last - first)
        number = np.arange(last - first) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        if (table["step"].to_numpy() != number).any():
            raise FileFormatError(f"{path}: the steps of a task are not 0, 1, 2, ...")
        place = np.repeat(np.arange(len(lengths)) * horizon, lengths) + number
        for column, name in enumerate(names):
            out[place, column] = table[name].to_numpy()
    return out.reshape(len(lengths), horizon, len(names))


def write_parquet(dataset: xr.Dataset, path: Path) -> None:
    """Write both tables into a new folder; the steps block by block."""
    path.mkdir()
    ours = {
        "schema_version": SCHEMA_VERSION,
        "features": dataset["feature"].values.tolist(),
        "diagnostics": dataset["diagnostic"].values.tolist(),
    } | {name: text for name, text in dataset.attrs.items() if name == READER}
    metadata = {_KEY: json.dumps(ours)}
    pq.write_table(_table(task_frame(dataset)).replace_schema_metadata(metadata), path / _TASKS)
    tables = (_table(frame).replace_schema_metadata(metadata) for frame in step_frames(dataset))
    first = next(tables)
    with pq.ParquetWriter(path / _STEPS, first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table)


def check_parquet(dataset: xr.Dataset) -> None:
    """Refuse carried variables that a column cannot hold."""
    check_tabular(dataset, "Parquet")
    for name in carried_variables(dataset):
        if dataset[name].dtype.kind not in _TYPES:
            expected = "numbers, booleans, text or datetimes, for Parquet"
            raise InvalidDataError(expected, field=name, value=dataset[name].dtype)


def is_our_parquet(path: Path) -> bool:
    """Check whether a folder holds the two tables and nothing else, or nothing at all."""
    return path.is_dir() and {entry.name for entry in path.iterdir()} in ({_TASKS, _STEPS}, set())


def _table(frame: pd.DataFrame) -> pa.Table:
    return pa.table({name: _column(frame[name].array) for name in frame.columns})


def _column(values: Any) -> pa.Array:  # noqa: ANN401  a pandas array
    if isinstance(values.dtype, pd.Int64Dtype):
        return pa.array(values, type=pa.int64())
    plain = np.asarray(values)
    return pa.array(plain, type=_TYPES[plain.dtype.kind], from_pandas=False)


def as_chunks(chunks: object) -> dict[str, int] | None:
    """Return the size of a chunk by dim, or None for no chunks."""
    if chunks is None:
        return None
    if not isinstance(chunks, Mapping) or not set(chunks) <= set(DIMS):
        expected = f"sizes by dim, such as {{'episode': 1000}}, for dims among {list(DIMS)}"
        raise InvalidDataError(expected, field="chunks", value=chunks)
    return {dim: whole(f"chunks[{dim!r}]", size, 1) for dim, size in chunks.items()}


def read(file: Path, chunks: dict[str, int] | None = None) -> xr.Dataset:
    """Read a file or folder into a dataset that is yet to be validated; call it under `reading`."""
    form = _format(file)
    if not file.exists():
        raise MissingFileError(f"{file}: no such file or folder")
    if not file.is_dir() and not file.is_file():
        raise FileFormatError(f"{file} is a pipe or device; expected {form.name}")
    if file.is_dir() != form.is_folder:
        kinds = ("a folder", "a file") if file.is_dir() else ("a file", "a folder")
        raise FileFormatError(f"{file} is {kinds[0]}; expected {form.name}, which is {kinds[1]}")
    if chunks is not None and not form.chunked:
        expected = f"no chunks for {form.name}, only for .parquet, .nc and .zarr"
        raise InvalidDataError(expected, field="chunks", value=chunks)
    if chunks is not None and find_spec("dask") is None:
        raise MissingDependencyError(
            "reading in chunks needs Dask: pip install 'bayes_tacit[scale]', or leave out chunks"
        )
    return form.read(file, chunks)


def write(dataset: xr.Dataset, file: Path) -> None:
    """Write a dataset, in place of whatever the same format has at that path; all of it or nothing."""
    form = _format(file)
    form.check(dataset)
    _check_target(dataset, file, form)
    with atomic_path(file) as temporary:
        try:
            form.write(dataset, temporary)
        except (TacitError, OSError, MemoryError, Warning):
            raise
        except Exception as error:
            raise FileFormatError(f"{file}: {form.name} cannot hold these episodes: {error}") from error


@contextmanager
def reading(file: Path) -> Iterator[None]:
    """Say in which file an error is, and turn what the libraries underneath raise into a `FileFormatError`."""
    try:
        yield
    except InvalidDataError as error:
        where = ", ".join(filter(None, [error.where, _place(file, error)]))
        raise error.at(where) from error
    except (TacitError, Warning, MemoryError):
        raise
    except Exception as error:
        raise FileFormatError(f"{file} cannot be read as {_format(file).name}; is it cut short? ({error})") from error


class _Format(NamedTuple):
    name: str
    is_folder: bool
    read: Callable[[Path, dict[str, int] | None], xr.Dataset]
    write: Callable[[xr.Dataset, Path], None]
    check: Callable[[xr.Dataset], None]
    is_ours: Callable[[Path], bool]
    chunked: bool = True


def _arrays(opener: Callable[[Path], xr.Dataset]) -> Callable[[Path, dict[str, int] | None], xr.Dataset]:
    """Read everything into memory, or leave the arrays on disk, for Dask to read in chunks."""

    def read(path: Path, chunks: dict[str, int] | None) -> xr.Dataset:
        if chunks is not None:
            return opener(path).chunk(chunks)
        with opener(path) as dataset:
            return dataset.load()

    return read


_TABLES = f"a Parquet folder of {_TASKS} and {_STEPS}"
_FORMATS = {
    ".jsonl": _Format(
        "JSON Lines", False, lambda path, _: read_jsonl(path), write_jsonl, check_jsonl, Path.is_file, chunked=False
    ),
    ".parquet": _Format(_TABLES, True, read_parquet, write_parquet, check_parquet, is_our_parquet),
    ".nc": _Format("netCDF", False, _arrays(_open_netcdf), write_episodes_netcdf, check_labelled, Path.is_file),
    ".zarr": _Format("a Zarr store", True, _arrays(_open_zarr), write_zarr, check_labelled, is_our_zarr),
}


def _format(file: Path) -> _Format:
    suffix = file.suffix.lower()
    if suffix not in _FORMATS:
        raise FileFormatError(f"{file} has the suffix {suffix!r}; expected one of {', '.join(_FORMATS)}")
    return _FORMATS[suffix]


def _check_target(dataset: xr.Dataset, file: Path, form: _Format) -> None:
    if file.exists() and not form.is_ours(file):
        raise FileFormatError(f"{file} exists and is not {form.name} of episodes; it is left as it is")
    source = Path(dataset.encoding.get("source", ""))
    if is_lazy(dataset) and file.exists() and source.exists() and file.samefile(source):
        raise FileFormatError(
            f"{file} is where these episodes are still read from; write elsewhere, or load() them first"
        )


def _place(file: Path, error: InvalidDataError) -> str:
    """Return the file, and for JSON Lines the line, unless the error names it already."""
    if str(file) in (error.where or ""):
        return ""
    line = line_of(file, error.episode) if file.suffix.lower() == ".jsonl" else None
    return f"in {file}" if line is None else f"{file}:{line}"
