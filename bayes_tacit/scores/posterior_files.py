"""A posterior as a netCDF file or a Zarr store: written whole, checked when read, with a digest of its content."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bayes_tacit import validate
from bayes_tacit.data.formats import check_netcdf, check_zarr, write_netcdf
from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError
from bayes_tacit.estimates.completion import FORMAT, SCHEMA_VERSION, completed
from bayes_tacit.files import as_path, atomic_path, is_store, parse_json
from bayes_tacit.model.spec import ModelSpec
from bayes_tacit.scores.fitted import of_tree

FINGERPRINT = "fingerprint"
COMPLETE = "bayes_tacit_every_chunk_written"
BY_EPISODE = ("log_likelihood", "posterior_predictive", "prior_predictive", "replicates")
GROUPS = ("posterior", "sample_stats", "constant_data", "observed_data")


def save_posterior(tree: xr.DataTree, path: str | os.PathLike[str]) -> None:
    """Write a posterior to a file whose suffix says how: .nc or .zarr.

    A trace that `pymc.sample` made of `build_model(...)` is brought into the form of `sample_posterior` first. The
    file appears under its name only once it is complete. It carries a digest of all that is in it.
    """
    target = as_path(path)
    check_target(target)
    tree = completed(tree)
    _refuse_foreign(tree, "this DataTree")
    plain = tree.map_over_datasets(_without_objects)
    plain.attrs = {name: value for name, value in tree.attrs.items() if name not in (FINGERPRINT, COMPLETE)}
    plain.attrs |= {FINGERPRINT: digest(plain)}
    with atomic_path(target) as temporary:
        if target.suffix == ".nc":
            write_netcdf(plain, temporary, encoding=_packed(plain))
        else:
            plain.attrs |= {COMPLETE: 1}
            plain.to_zarr(temporary, consolidated=False, write_empty_chunks=True)


def load_posterior(path: str | os.PathLike[str], *, finite: bool = True) -> xr.DataTree:
    """Read a posterior that `save_posterior` wrote into memory.

    Parameters
    ----------
    path
        The file, .nc or .zarr.
    finite
        Whether draws must be finite numbers within bounds, as scores need them. `report`, which says what is wrong with
        draws, takes any.

    Raises
    ------
    FileFormatError
        If it is not what `save_posterior` wrote, was changed since, is cut short or from a newer version: with the
        file, the field, its value and what was expected.
    """
    source = as_path(path)
    refuse_unknown_suffix(source)
    if not source.exists():
        raise MissingFileError(f"{source}: no such file; expected a posterior written by save_posterior")
    try:
        (check_netcdf if source.suffix == ".nc" else check_zarr)(source)
        if source.suffix == ".nc":
            with xr.open_datatree(source, engine="h5netcdf") as opened:
                tree = opened.load()
        else:
            with xr.open_datatree(source, engine="zarr", consolidated=False) as opened:
                tree = opened.load()
            if tree.attrs.pop(COMPLETE, 0):
                _refuse_missing_chunks(source)
    except FileFormatError:
        raise
    except Exception as error:
        raise FileFormatError(
            f"{source}: cannot be read as {'netCDF' if source.suffix == '.nc' else 'Zarr'} ({error}); expected a "
            "posterior written by save_posterior"
        ) from error
    _refuse_foreign(tree, str(source))
    given = tree.attrs.pop(FINGERPRINT, None)
    _check_contents(tree, str(source), finite=finite)
    if given != digest(tree):
        raise FileFormatError(
            f"{source}: {FINGERPRINT} is {given!r}; expected the digest of its content: it was changed after it was "
            "saved (to change it, save what you changed by save_posterior)"
        )
    return tree


def check_target(path: Path) -> None:
    """Raise unless a posterior may be written there, before it is sampled."""
    refuse_unknown_suffix(path)
    if path.is_dir() and not _is_ours(path):
        raise FileFormatError(f"{path} exists and is not a posterior in Zarr; it is left as it is")


def refuse_unknown_suffix(path: Path) -> None:
    """Raise unless the name says netCDF or Zarr."""
    if path.suffix not in (".nc", ".zarr"):
        raise FileFormatError(f"{path}: suffix is {path.suffix!r}; expected .nc or .zarr")


def _packed(tree: xr.DataTree) -> dict[str, dict[str, dict[str, object]]]:
    """Return how the arrays by episode and draw are packed, which are nearly all of the bytes."""
    how: dict[str, object] = {"zlib": True, "complevel": 4, "shuffle": True}
    return {
        f"/{group}": {str(name): how for name, array in tree[group].data_vars.items() if array.ndim > 2}
        for group in BY_EPISODE
        if group in tree.children
    }


def _refuse_foreign(tree: xr.DataTree, name: str) -> None:
    given = tree.attrs.get("format")
    if not isinstance(given, str) or given != FORMAT:
        raise FileFormatError(f"{name}: format is {tree.attrs.get('format')!r}; expected {FORMAT!r}")
    version = tree.attrs.get("schema_version")
    if isinstance(version, bool) or not isinstance(version, int | np.integer) or version < 1:
        raise FileFormatError(f"{name}: schema_version is {version!r}; expected a whole number from 1")
    if version > SCHEMA_VERSION:
        raise FileFormatError(
            f"{name}: schema_version is {version}; expected {SCHEMA_VERSION}: it was written by a newer bayes_tacit"
        )
    missing = [group for group in GROUPS if group not in tree.children]
    if missing:
        raise FileFormatError(f"{name}: groups {', '.join(missing)} are missing; expected {', '.join(GROUPS)}")


def _is_ours(folder: Path) -> bool:
    """Return whether a folder is empty or a posterior in Zarr, and so may be replaced."""
    if not is_store(folder):
        return False
    if not any(folder.iterdir()):
        return True
    try:
        content = parse_json((folder / "zarr.json").read_bytes(), str(folder), "a Zarr store")
        return bool(content["attributes"]["format"] == FORMAT)
    except (OSError, FileFormatError, LookupError, TypeError):
        return False


def _refuse_missing_chunks(source: Path) -> None:
    """Raise if a part of an array is not there, which would read as zeros."""
    import zarr

    for group_name, group in zarr.open_group(source, mode="r").groups():
        for name, array in group.arrays():
            if array.nchunks_initialized < array.nchunks:
                absent = f"{array.nchunks - array.nchunks_initialized} of the {array.nchunks} chunks"
                raise FileFormatError(f"{source} is cut short: {absent} of {group_name}/{name} are missing")


def _without_objects(dataset: xr.Dataset) -> xr.Dataset:
    """Return text coordinates a fixed width, which every format can hold."""
    text = {name: array for name, array in dataset.coords.items() if array.dtype.kind == "O"}
    return dataset.assign_coords(
        {name: (array.dims, np.array(list(map(str, array.values)))) for name, array in text.items()}
    )


# What a file must hold before anything is computed from it: what scores are computed from. There may be more groups,
# more attributes, and more variables.

REQUIRED = ("family", "timing", "draws", "chains", "sampler", "prior", "created_at", "data_fingerprint")
"""Attributes that every posterior has."""


def _check_contents(tree: xr.DataTree, name: str, *, finite: bool) -> None:
    """Raise unless attributes and parameters are those of a posterior; any draws pass if `finite` is false."""
    try:
        _check_attributes(tree.attrs)
        of_tree(tree if finite else _with_harmless_draws(tree))
    except InvalidDataError as wrong:
        raise FileFormatError(f"{name}: {wrong}") from None


def _with_harmless_draws(tree: xr.DataTree) -> xr.DataTree:
    """Return the tree with ones for draws, and equal weights."""
    posterior = tree["posterior"].to_dataset()
    ones = posterior.map(lambda array: xr.ones_like(array, dtype=float) if array.dtype.kind in "fiub" else array)
    out = tree.copy()
    if "w" in ones and ones["w"].dtype.kind == "f":
        ones = ones.assign(w=ones["w"] / ones.sizes.get("diagnostic", 1))
    out["posterior"] = ones
    return out


def _check_attributes(attrs: Mapping[Any, Any]) -> None:
    for name in REQUIRED:
        if name not in attrs:
            raise InvalidDataError("an attribute that every posterior has", field=name)
    if ModelSpec.of_attrs(attrs).memory == "profile":
        raise InvalidDataError("a number from 0 to 1, or 'learned'", field="memory", value="profile")
    for name in ("sampler", "prior", "created_at", "data_fingerprint"):
        validate.text(name, attrs[name])
    for name, least in (("draws", 1), ("chains", 1), ("tune", 1), ("seed", 0)):
        if name in attrs:
            validate.whole(name, attrs[name], least)
    if "target_accept" in attrs:
        validate.probability("target_accept", attrs["target_accept"])
    if "interrupted" in attrs and validate.whole("interrupted", attrs["interrupted"], 0) > 1:
        raise InvalidDataError("0 or 1", field="interrupted", value=attrs["interrupted"])


def digest(tree: xr.DataTree) -> str:
    """Return a digest of attributes and arrays as they come out of a file, whichever format that has.

    Names, dims and numbers count; how a number is packed, and the order of variables, do not.
    """
    attrs = {str(name): _plain(value) for name, value in tree.attrs.items()}
    found = hashlib.sha256(json.dumps(attrs, sort_keys=True).encode())
    for path in sorted(tree.children):
        dataset = tree[path].to_dataset()
        for name in sorted(map(str, dataset.variables)):
            variable = dataset[name].variable
            values, kind = _bytes(variable.values)
            found.update(json.dumps([path, name, variable.dims, variable.shape, kind]).encode())
            found.update(values)
    return found.hexdigest()


def _plain(value: object) -> Any:  # noqa: ANN401
    """Return an attribute as JSON has it; formats differ in what they make of a list of one."""
    plain = np.asarray(value).tolist()
    return plain[0] if isinstance(plain, list) and len(plain) == 1 else plain


def _bytes(values: np.ndarray) -> tuple[memoryview | bytes, str]:
    """Return an array as bytes, and what they are: text, or numbers with the smaller byte first and one kind of NaN."""
    if values.dtype.kind in "OUST":
        return json.dumps(list(map(str, values.ravel().tolist()))).encode(), "text"
    plain = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("<"), copy=False))
    if plain.dtype.kind == "f" and np.isnan(plain).any():
        plain = np.where(np.isnan(plain), np.array(np.nan, plain.dtype), plain)
    return plain.tobytes(), plain.dtype.str
