"""A posterior as a netCDF file or a Zarr store: written whole, checked when read, with a digest of its content."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import xarray as xr

from bayes_tacit.data.formats import check_netcdf, check_zarr, write_netcdf
from bayes_tacit.data.timing import TIMINGS
from bayes_tacit.errors import FileFormatError, MissingFileError
from bayes_tacit.estimates.completion import FORMAT, SCHEMA_VERSION, completed
from bayes_tacit.files import as_path, atomic_path, is_store, parse_json
from bayes_tacit.model.families import FAMILIES
from bayes_tacit.model.memory import CLOCK, LEARNED
from bayes_tacit.model.spec import Unmarked, ZeroMass
from bayes_tacit.validate import SIMPLEX_TOLERANCE, sums_to_one

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
    check_contents(tree, str(source), finite=finite)
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
    """Give text coordinates a fixed width, which every format can hold."""
    text = {name: array for name, array in dataset.coords.items() if array.dtype.kind == "O"}
    return dataset.assign_coords(
        {name: (array.dims, np.array(list(map(str, array.values)))) for name, array in text.items()}
    )


# What a file must hold before anything is computed from it, as two tables: attributes and variables. What the tables do
# not name may be there, too: more groups, more attributes, and more variables, if they are numbers.


@dataclass(frozen=True)
class Attribute:
    """An attribute of the file: what it must be, in words and as a test, and whether every file has it."""

    expected: str
    holds: Callable[[object], bool]
    required: bool = True


@dataclass(frozen=True)
class Variable:
    """An array of numbers: its dims, whose order is free, and what its numbers must be."""

    dims: tuple[str, ...]
    expected: str = "finite numbers"
    holds: Callable[[np.ndarray], np.ndarray] = np.isfinite
    required: bool = True


def _whole(least: int) -> Attribute:
    return Attribute(
        f"a whole number >= {least}",
        lambda value: isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= least,
    )


def _one_of(options: Callable[[], tuple[str, ...]], *, required: bool = True) -> Attribute:
    words = " or ".join(map(repr, options()))
    return Attribute(words, lambda value: isinstance(value, str) and value in options(), required)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


_TEXT = Attribute("text", lambda value: isinstance(value, str))
_FLAG = Attribute("0 or 1", lambda value: _is_number(value) and value in (0, 1), required=False)

ATTRIBUTES: Mapping[str, Attribute] = {
    "family": _one_of(lambda: tuple(FAMILIES)),
    "timing": _one_of(lambda: TIMINGS),
    "unmarked": _one_of(lambda: get_args(Unmarked), required=False),
    "zero_mass": _one_of(lambda: get_args(ZeroMass), required=False),
    **dict.fromkeys(("weights", "design", "groups"), replace(_TEXT, required=False)),
    "memory": Attribute(
        f"a number from 0 to 1, or {LEARNED!r}",
        lambda value: value == LEARNED if isinstance(value, str) else _is_number(value) and 0 <= value <= 1,  # type: ignore[operator]
        required=False,
    ),
    "clock": _FLAG,
    "interrupted": _FLAG,
    "draws": _whole(1),
    "tune": replace(_whole(1), required=False),
    "chains": _whole(1),
    "seed": replace(_whole(0), required=False),
    "target_accept": Attribute(
        "a number between 0 and 1",
        lambda value: _is_number(value) and 0 < value < 1,  # type: ignore[operator]
        required=False,
    ),
    **dict.fromkeys(("sampler", "prior", "created_at", "data_fingerprint"), _TEXT),
}

_SAMPLE = ("chain", "draw")

POSTERIOR: Mapping[str, Variable] = {
    "gamma0": Variable(_SAMPLE),
    "beta0": Variable(_SAMPLE),
    "s": Variable(_SAMPLE, "finite numbers > 0", lambda values: np.isfinite(values) & (values > 0)),
    "w": Variable(
        (*_SAMPLE, "diagnostic"),
        "numbers from 0 to 1",
        lambda values: (values >= 0) & (values <= 1 + SIMPLEX_TOLERANCE),
        required=False,
    ),
    "gamma": Variable((*_SAMPLE, "feature"), required=False),
    "beta": Variable((*_SAMPLE, "feature"), required=False),
    "rho": Variable(_SAMPLE, "numbers from 0 to 1", lambda values: (values >= 0) & (values <= 1), required=False),
}
CONSTANTS: Mapping[str, Variable] = {
    "feature_mean": Variable(("feature",), required=False),
    "feature_scale": Variable(
        ("feature",), "finite numbers > 0", lambda values: np.isfinite(values) & (values > 0), required=False
    ),
    "w": Variable(("diagnostic",), "numbers from 0 to 1", POSTERIOR["w"].holds, required=False),
}


def check_contents(tree: xr.DataTree, name: str, *, finite: bool = True) -> None:
    """Check attributes, the standardization, and that parameters are numbers over chains and draws.

    Parameters
    ----------
    tree
        What a file holds.
    name
        The name of the file, for messages.
    finite
        Whether draws must be finite and within bounds.

    Raises
    ------
    FileFormatError
        With the name of the file, the field, its value and what was expected.
    """
    try:
        _check_attributes(tree.attrs)
        posterior, constant = tree["posterior"].to_dataset(), tree["constant_data"].to_dataset()
        _check_variables("posterior", posterior, POSTERIOR, values=finite)
        _check_variables("constant_data", constant, CONSTANTS, values=True)
        _check_agreement(posterior, constant, tree.attrs, values=finite)
    except _WrongError as wrong:
        raise FileFormatError(f"{name}: {wrong}") from None


class _WrongError(Exception):
    def __init__(self, field: str, value: object, expected: str) -> None:
        super().__init__(f"{field} is {repr(value)[:80]}; expected {expected}")


MAY_BE_EMPTY = ("feature", "timed")
"""What a model may have none of: features, and episodes with a mark."""


def _check_attributes(attrs: Mapping[Hashable, object]) -> None:
    for name, attribute in ATTRIBUTES.items():
        given = attrs.get(name)
        if given is None and not attribute.required and name not in attrs:
            continue
        if not attribute.holds(given):
            raise _WrongError(name, given, attribute.expected)


def _check_variables(group: str, dataset: xr.Dataset, table: Mapping[str, Variable], *, values: bool) -> None:
    if any(size == 0 and dimension not in MAY_BE_EMPTY for dimension, size in dataset.sizes.items()):
        raise _WrongError(f"sizes of {group}", dict(dataset.sizes), "at least one of each")
    for name, variable in table.items():
        if name not in dataset.data_vars and variable.required:
            expected = f"{name!r} over {' and '.join(variable.dims)} among them"
            raise _WrongError(f"variables of {group}", list(dataset.data_vars), expected)
    for key, array in dataset.data_vars.items():
        field = str(key) if group == "constant_data" else f"{group}[{str(key)!r}]"
        known = table.get(str(key))
        if array.dtype.kind not in "fiub" and (group == "posterior" or known is not None):
            raise _WrongError(field, array.dtype, "numbers")
        if known is None:
            continue
        if set(array.dims) != set(known.dims):
            raise _WrongError(f"dims of {field}", array.dims, str(known.dims))
        fine = known.holds(array.values.astype(float, copy=False)) if values else np.True_
        if not fine.all():
            raise _WrongError(field, array.values[~fine].ravel()[0].item(), known.expected)


def _check_agreement(
    posterior: xr.Dataset, constant: xr.Dataset, attrs: Mapping[Hashable, object], *, values: bool
) -> None:
    """Check what concerns several variables: names, weights, and what belongs together."""
    if attrs.get("memory") == LEARNED and "rho" not in posterior:
        raise _WrongError("variables of posterior", list(posterior.data_vars), "'rho' over chain and draw among them")
    if ("feature_mean" in constant) != ("feature_scale" in constant):
        raise _WrongError("variables of constant_data", list(constant.data_vars), "feature_mean with feature_scale")
    features = _names(constant, "feature") if "feature_mean" in constant else []
    if features:
        for slopes in ("gamma", "beta"):
            if slopes not in posterior:
                raise _WrongError("variables of posterior", list(posterior.data_vars), f"{slopes!r} among them")
        if sorted(_names(posterior, "feature")) != sorted(features):
            raise _WrongError("features of posterior", _names(posterior, "feature"), f"{features}, as in constant_data")
    holder = posterior if "w" in posterior else constant
    if "w" not in holder:
        raise _WrongError("variables of posterior", list(posterior.data_vars), "'w' there or in constant_data")
    diagnostics = _names(holder, "diagnostic")
    if attrs.get("clock", 0) and diagnostics[-1] != CLOCK:
        raise _WrongError("diagnostics", diagnostics, f"{CLOCK!r} last among them")
    sums = holder["w"].sum("diagnostic").values
    if (values or holder is constant) and not np.all(sums_to_one(sums)):
        wrong = float(np.ravel(sums)[~np.ravel(sums_to_one(sums))][0])
        raise _WrongError("sum of w", wrong, f"1 within {SIMPLEX_TOLERANCE:g}")


def _names(dataset: xr.Dataset, dim: str) -> list[str]:
    given = dataset[dim].values.tolist() if dim in dataset.coords else None
    named = given is not None and all(isinstance(name, str) and name for name in given)
    if given is None or not named or len(set(given)) < len(given):
        raise _WrongError(f"coordinate {dim!r}", given, f"the names of the {dim}s, which differ")
    return given


def digest(tree: xr.DataTree) -> str:
    """Digest attributes and arrays as they come out of a file, whichever format that has.

    Parameters
    ----------
    tree
        A posterior, without the attributes that only its file has.

    Returns
    -------
    str
        64 hexadecimal digits. Names, dims and numbers count; how a number is packed, and the order of variables, do
        not.

    Examples
    --------
    >>> tree = xr.DataTree.from_dict({"posterior": xr.Dataset({"s": ("draw", [0.5, 0.6])})})
    >>> before = digest(tree)
    >>> tree.attrs["seed"] = 1
    >>> digest(tree) == before
    False
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
