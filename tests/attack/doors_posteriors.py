"""Bad posteriors: attributes and numbers that none has, with the digest that it had and with a new one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import xarray as xr
from attack import base
from attack.case import EITHER, REFUSE, Case, Door, Prepare
from attack.putting import cleared, no_files
from attack.stores import broken_netcdf, broken_zarr
from attack.ways import command, python

from bayes_tacit import load_posterior

ATTRIBUTES: tuple[object, ...] = (None, "x", "", 0, -1, 1.5, np.nan, np.inf, [1, 2], 10**12, "2", "é" * 50)


def posteriors(home: Path, rng: Random, suffixes: list[str]) -> Iterator[Case]:
    """A posterior is wrong, with the digest that it had and with a new one."""
    for suffix in suffixes:
        name = f"p.{suffix}"
        folder = base.written(home / f"p{suffix}", name, "few.jsonl")
        words = ("score", name, "few.jsonl", "--out", "out.csv")
        door = Door(f"posterior .{suffix}", command(*words, out=("out.csv",)), folder, (name,))
        read = Door(
            f"posterior .{suffix}, Python", python(lambda _, name=name: repr(load_posterior(name))), folder, (name,)
        )
        attributes = sorted(map(str, base.posterior().attrs))
        for attribute in attributes:
            for value in rng.sample(ATTRIBUTES, 2):
                if value == 0 and attribute == "clock":
                    continue
                yield Case(
                    rng.choice([door, read]), f"{attribute} is {value!r}", _tree(name, attribute, value, signed=False)
                )
        for attribute in sorted(
            set(attributes) - {"inference_method", "prior", "sampler", "created_at", "data_fingerprint"}
        ):
            for value in rng.sample(ATTRIBUTES, 2):
                whole = attribute in ("draws", "tune", "chains", "seed") and (
                    value == 10**12 or (value == 0 and attribute == "seed")
                )
                whole = whole or (attribute in ("clock", "memory") and value == 0 and attribute == "memory")
                expects = EITHER if whole or (attribute in ("clock", "memory") and value in (None, 0)) else REFUSE
                named = (attribute, "fingerprint", "written by") if attribute != "format" else ()
                yield Case(
                    door,
                    f"{attribute} is {value!r}, signed",
                    _tree(name, attribute, value, signed=True),
                    expects,
                    named,
                )
        for group in ("posterior", "constant_data"):
            for variable in base.posterior()[group].to_dataset().variables:
                for what, value in (
                    ("gone", None),
                    ("NaN", np.nan),
                    ("infinite", np.inf),
                    ("negative", -1.0),
                    ("text", "x"),
                ):
                    numbers = variable not in ("feature", "diagnostic", "chain", "draw")
                    if what in ("gone", "text") or numbers:
                        free = (
                            what == "negative" and variable in ("gamma", "gamma0", "beta", "beta0", "feature_mean")
                        ) or variable in ("chain", "draw")
                        free = free or (group, variable) == ("constant_data", "diagnostic")
                        yield Case(
                            door,
                            f"{group}/{variable} is {what}",
                            _values(name, group, str(variable), value),
                            EITHER if free else REFUSE,
                        )
            yield Case(door, f"no {group}", _values(name, group, "", None))
        if suffix == "nc":
            yield from broken_netcdf(door, name, rng)
        else:
            yield from broken_zarr(door, name, rng)
        yield from (case for case in no_files(door, name) if suffix == "nc" or "folder" not in case.name)


def _save(tree: xr.DataTree, path: Path, *, signed: bool) -> None:
    """Write a tree past all checks, with a digest of its content or the one of before."""
    from bayes_tacit.estimates.posterior.digest import digest

    cleared(path)
    plain = dict(tree.attrs)
    if signed:
        tree.attrs = {
            key: value for key, value in plain.items() if key not in ("fingerprint", "bayes_tacit_every_chunk_written")
        }
        tree.attrs = {**plain, "fingerprint": digest(tree)}
    if path.suffix == ".nc":
        tree.to_netcdf(path, engine="h5netcdf")
    else:
        tree.to_zarr(path, consolidated=False, write_empty_chunks=True)


def _opened(path: Path) -> xr.DataTree:
    engine: dict[str, Any] = (
        {"engine": "h5netcdf"} if path.suffix == ".nc" else {"engine": "zarr", "consolidated": False}
    )
    with xr.open_datatree(path.resolve(), **engine) as found:
        return found.load()


def _tree(name: str, attribute: str, value: object, *, signed: bool) -> Prepare:
    def prepare(folder: Path) -> None:
        tree = _opened(folder / name)
        tree.attrs.pop(attribute, None)
        if value is not None:
            tree.attrs[attribute] = value
        _save(tree, folder / name, signed=signed)

    return prepare


def _values(name: str, group: str, variable: str, value: object) -> Prepare:
    def prepare(folder: Path) -> None:
        tree = _opened(folder / name)
        if not variable:
            del tree[group]
        else:
            dataset = tree[group].to_dataset()
            if value is None:
                dataset = dataset.drop_vars(variable)
            else:
                array = dataset[variable]
                values = array.values.astype(object if isinstance(value, str) else float)
                values.flat[0] = value
                if isinstance(value, str):
                    values = np.array(list(map(str, values.ravel())), dtype=object).reshape(values.shape)
                    if array.dtype.kind in "OU":
                        values.flat[0] = str(values.flat[1])
                dataset = (
                    dataset.assign({variable: (array.dims, values)})
                    if variable in dataset.data_vars
                    else dataset.assign_coords({variable: (array.dims, values)})
                )
            tree[group] = xr.DataTree(dataset)
        _save(tree, folder / name, signed=True)

    return prepare
