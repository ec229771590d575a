"""Reading and writing episodes as files, by suffix.

| suffix     | what it is                                       | carried variables                                |
| ---------- | ------------------------------------------------ | ------------------------------------------------ |
| `.jsonl`   | JSON Lines, one episode a line                   | by episode or step: numbers, booleans, text      |
| `.parquet` | a folder of `tasks.parquet` and `steps.parquet`  | by episode or step, also datetimes               |
| `.nc`      | netCDF 4                                         | any dims, also datetimes                         |
| `.zarr`    | Zarr 3, chunked by episode                       | any dims, also datetimes                         |

Everything here works on datasets in the layout of `bayes_tacit.data.episodes.layout`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import xarray as xr

from bayes_tacit.data.episodes.formats import jsonl, netcdf, parquet, zarr
from bayes_tacit.data.episodes.layout import DIMS, is_lazy
from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingDependencyError, MissingFileError, TacitError
from bayes_tacit.files import atomic_path
from bayes_tacit.validate import whole

__all__ = ["as_chunks", "read", "reading", "write"]


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
        raise FileFormatError(
            f"{file} is {_kind(file.is_dir())}; expected {form.name}, which is {_kind(form.is_folder)}"
        )
    if chunks is None:
        return form.read(file)
    if form.read_lazily is None:
        raise InvalidDataError(f"no chunks for {form.name}, only for .nc and .zarr", field="chunks", value=chunks)
    if find_spec("dask") is None:
        raise MissingDependencyError(
            "reading in chunks needs Dask: pip install 'bayes_tacit[scale]', or leave out chunks"
        )
    return form.read_lazily(file, chunks)


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
        raise InvalidDataError(
            error.expected, episode=error.episode, field=error.field, value=error.value, where=where
        ) from error
    except (TacitError, Warning, MemoryError):
        raise
    except Exception as error:
        raise FileFormatError(f"{file} cannot be read as {_format(file).name}; is it cut short? ({error})") from error


@dataclass(frozen=True)
class _Format:
    name: str
    is_folder: bool
    read: Callable[[Path], xr.Dataset]
    write: Callable[[xr.Dataset, Path], None]
    check: Callable[[xr.Dataset], None]
    is_ours: Callable[[Path], bool]
    read_lazily: Callable[[Path, dict[str, int]], xr.Dataset] | None = None


_FORMATS = {
    ".jsonl": _Format("JSON Lines", False, jsonl.read, jsonl.write, jsonl.check, Path.is_file),
    ".parquet": _Format(
        "a Parquet folder of tasks.parquet and steps.parquet",
        True,
        parquet.read,
        parquet.write,
        parquet.check,
        parquet.is_ours,
    ),
    ".nc": _Format("netCDF", False, netcdf.read, netcdf.write, netcdf.check, Path.is_file, netcdf.read_lazily),
    ".zarr": _Format("a Zarr store", True, zarr.read, zarr.write, zarr.check, zarr.is_ours, zarr.read_lazily),
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


def _kind(is_folder: bool) -> str:
    return "a folder" if is_folder else "a file"


def _place(file: Path, error: InvalidDataError) -> str:
    """Return the file, and for JSON Lines the line, unless the error names it already."""
    if str(file) in (error.where or ""):
        return ""
    line = jsonl.line_of(file, error.episode) if file.suffix.lower() == ".jsonl" else None
    return f"in {file}" if line is None else f"{file}:{line}"
