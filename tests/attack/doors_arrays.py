"""Bad arrays: episodes as Parquet, netCDF and Zarr, posteriors, tables of counterfactuals."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np
import pandas as pd
import xarray as xr
from attack import base
from attack.case import EITHER, REFUSE, Case, Door, Prepare
from attack.junk import FOREIGN
from attack.putting import case_of, cleared, foreign, no_files, put
from attack.ways import command, python

from bayes_tacit import Counterfactuals, Episodes, load_posterior

POISON = (np.nan, np.inf, -np.inf, -1.0, -1e-300)
ATTRIBUTES: tuple[object, ...] = (None, "x", "", 0, -1, 1.5, np.nan, np.inf, [1, 2], 10**12, "2", "é" * 50)


def own(folder: Path, name: str) -> Path:
    """Give the case a copy of its own of a valid file or folder, to change."""
    path = folder / name
    whole = path.resolve()
    path.unlink()
    shutil.copytree(whole, path) if whole.is_dir() else shutil.copy(whole, path)
    return path


def opened(name: str, change: Callable[[h5py.File], object]) -> Prepare:
    """Change a netCDF file in place."""

    def prepare(folder: Path) -> None:
        with h5py.File(own(folder, name), "r+") as file:
            change(file)

    return prepare


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
            yield from _netcdf(door, name, rng)
        else:
            yield from _zarr(door, name, rng)
        yield from (case for case in no_files(door, name) if suffix == "nc" or case.name.split(" is ")[1] != "a folder")


def _netcdf(door: Door, name: str, rng: Random) -> Iterator[Case]:
    """What is wrong with a netCDF file, whatever it holds."""
    content = (door.base / name).read_bytes()
    yield from foreign(door, name)
    for _ in range(12):
        cut = rng.randrange(1, len(content))
        yield case_of(door, name, f"cut after {cut} bytes", content[:cut], EITHER)
    for _ in range(30):
        places = [rng.randrange(len(content)) for _ in range(rng.choice([1, 4, 64]))]
        changed = bytearray(content)
        for place in places:
            changed[place] = rng.randrange(256)
        # No checksum guards them: numbers may be other numbers.
        yield case_of(door, name, f"bytes changed at {places[0]}", bytes(changed), EITHER)
    yield case_of(door, name, "packed by gzip", FOREIGN["a zip"] + content)
    variables = _variables(door.base / name)
    for variable in rng.sample(variables, min(6, len(variables))):
        yield Case(door, f"{variable} is a link", opened(name, lambda file, each=variable: _linked(file, each)))
        yield Case(
            door, f"{variable} is in another file", opened(name, lambda file, each=variable: _external(file, each))
        )


def _variables(path: Path) -> list[str]:
    found: list[str] = []
    with h5py.File(path, "r") as file:
        file.visititems(
            lambda name, each: found.append(name) if isinstance(each, h5py.Dataset) and each.shape else None
        )
    return found


def _linked(file: h5py.File, name: str) -> None:
    file.move(name, f"{name}_moved")
    file[name] = h5py.SoftLink(f"/{name}_moved")


def _external(file: h5py.File, name: str) -> None:
    shape = file[name].shape
    del file[name]
    file.create_dataset(name, shape, "f8", external=[("/etc/passwd", 0, h5py.h5f.UNLIMITED)])


def _zarr(door: Door, name: str, rng: Random) -> Iterator[Case]:
    """What is wrong with a Zarr store, whatever it holds."""
    whole = door.base / name
    files = sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file())
    chunks = [file for file in files if file.name != "zarr.json"]
    described = [file for file in files if file.name == "zarr.json"]

    def remove(file: Path) -> Prepare:
        return lambda folder: (own(folder, name) / file).unlink()

    def rewrite(file: Path, content: bytes) -> Prepare:
        return lambda folder: (own(folder, name) / file).write_bytes(content) and None

    for file in rng.sample(chunks, min(8, len(chunks))):
        yield Case(door, f"{file} is missing", remove(file))
        yield Case(door, f"{file} is cut", rewrite(file, (whole / file).read_bytes()[:-3]))
        yield Case(door, f"{file} is other bytes", rewrite(file, rng.randbytes(40)))
        yield Case(door, f"{file} is a link", lambda folder, file=file: _to_link(own(folder, name) / file))
    for file in described:
        yield Case(door, f"{file} is cut", rewrite(file, (whole / file).read_bytes()[:-5]))
        yield Case(door, f"{file} is nested", rewrite(file, FOREIGN["deep lists"]))
        yield Case(door, f"{file} is empty", rewrite(file, b""))
        content = json.loads((whole / file).read_bytes())
        if "shape" in content:
            for key, value in (
                ("shape", [10**12]),
                ("shape", "x"),
                ("data_type", "object"),
                ("codecs", [{"name": "pickle"}]),
                ("zarr_format", 9),
                ("codecs", "x"),
                ("fill_value", [1]),
            ):
                changed = json.dumps(content | {key: value}).encode()
                yield Case(
                    door, f"{file}: {key} is {value}", rewrite(file, changed), REFUSE if key != "fill_value" else EITHER
                )
        yield Case(door, f"{file} is missing", remove(file), EITHER if len(file.parts) > 1 else REFUSE)


def _to_link(file: Path) -> None:
    file.unlink()
    file.symlink_to("/etc/passwd")


def episodes_in_tables(home: Path, rng: Random) -> Iterator[Case]:
    """Episodes as a folder of two Parquet tables."""
    folder = base.written(home / "parquet", "e.parquet")
    door = Door("episodes .parquet", command("summary", "e.parquet", "--json"), folder, ("e.parquet",))
    for table in ("tasks", "steps"):
        file = f"e.parquet/{table}.parquet"
        content = (folder / file).read_bytes()
        frame = pd.read_parquet(folder / file)
        yield from foreign(door, file)
        yield from no_files(door, file)
        for _ in range(8):
            cut = rng.randrange(1, len(content))
            yield case_of(door, file, f"{table} cut after {cut} bytes", content[:cut])
        for _ in range(20):
            place = rng.randrange(len(content))
            changed = content[:place] + rng.randbytes(3) + content[place + 3 :]
            yield case_of(door, file, f"{table} changed at {place}", changed, EITHER)
        for column in frame.columns:
            for what, altered, expects in _columns(frame, column, rng):
                yield Case(door, f"{table}: {what}", _frame(file, altered), expects, (), f"{table} {what}")
        doubled = pd.concat([frame, frame.iloc[:1]])
        yield Case(door, f"{table}: a row twice", _frame(file, doubled))
        yield Case(door, f"{table}: no rows", _frame(file, frame.iloc[:0]))
        yield Case(
            door,
            f"{table}: rows missing",
            _frame(file, frame.iloc[1:] if table == "tasks" else frame.drop(frame.index[1])),
        )
    yield from no_files(door, "e.parquet")


def _columns(frame: pd.DataFrame, column: str, rng: Random) -> Iterator[tuple[str, pd.DataFrame, str]]:
    carried = column in ("task_type",)
    whole = EITHER if carried or column in ("window_start", "window_end") else REFUSE
    yield f"no {column}", frame.drop(columns=column), EITHER if carried else REFUSE
    yield f"{column} is text", frame.assign(**{column: "x"}), EITHER if carried else REFUSE
    yield (
        f"{column} is missing everywhere",
        frame.assign(**{column: pd.Series([None] * len(frame), dtype=object)}),
        whole,
    )
    yield f"{column} is lists", frame.assign(**{column: [[1]] * len(frame)}), REFUSE
    if carried or column == "episode":
        return
    for value in (np.nan, np.inf, -1.0, 0.5, 1e300):
        changed = frame.copy()
        changed[column] = changed[column].astype(object)
        changed.iloc[rng.randrange(len(frame)), changed.columns.get_loc(column)] = value
        fine = column in ("entities", "subgoals", "needs_tool", "repeat", "uncertainty", "stalled", "invalid")
        allowed = fine and (value in (0.5, 1e300) or (value == -1 and column in ("entities", "subgoals", "needs_tool")))
        half = column.startswith("window") and value != value
        yield (
            f"{column} is {value}",
            changed.assign(**{column: pd.to_numeric(changed[column])}),
            EITHER if allowed or half else REFUSE,
        )


def _frame(file: str, frame: pd.DataFrame) -> Prepare:
    def prepare(folder: Path) -> None:
        frame.to_parquet(cleared(folder / file), index=False)

    return prepare


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
        for attribute in set(attributes) - {"inference_method", "prior", "sampler", "created_at", "data_fingerprint"}:
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
            yield from _netcdf(door, name, rng)
        else:
            yield from _zarr(door, name, rng)
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


def tables_of_counterfactuals(home: Path, rng: Random) -> Iterator[Case]:
    """What comes of handoffs, as .csv, .parquet and .nc."""
    frame = base.counterfactuals().to_frame()
    for suffix in ("csv", "parquet", "nc"):
        name = f"c.{suffix}"
        folder = base.written(home / f"c{suffix}", name, "fit.json", "few.jsonl")
        words = (
            "select",
            "fit.json",
            "few.jsonl",
            "--cap",
            "8",
            "--n",
            "5",
            "--counterfactuals",
            name,
            "--out",
            "out.json",
        )
        chosen = Door(f"counterfactuals .{suffix}", command(*words, out=("out.json",)), folder, (name,))
        read = Door(
            f"counterfactuals .{suffix}, Python",
            python(lambda _, name=name: repr(Counterfactuals.read(name))),
            folder,
            (name,),
        )
        content = (folder / name).read_bytes()
        yield from foreign(read, name)
        yield from no_files(rng.choice([chosen, read]), name)
        if suffix == "nc":
            yield from _netcdf(read, name, rng)
            continue
        for _ in range(6):
            cut = rng.randrange(1, len(content) - 40)
            yield case_of(
                read, name, f"cut after {cut} bytes", content[:cut], REFUSE if suffix == "parquet" else EITHER
            )
        for column in frame.columns:
            for what, altered, expects in _rows(frame, str(column), rng):
                # `select` computes costs from calls where the table has none.
                door = read if what == "no cost" else rng.choice([read, read, read, chosen])
                yield Case(door, what, _table(name, altered), expects, (), what)
        yield Case(read, "a row twice", _table(name, pd.concat([frame, frame.iloc[:1]])))
        yield Case(read, "no rows", _table(name, frame.iloc[:0]))
        yield Case(read, "a row missing", _table(name, frame.drop(frame.index[1])))
        yield Case(chosen, "other episodes", _table(name, frame.assign(episode=frame["episode"] + "x")))
        if suffix == "csv":
            for what, bad in (
                ("UTF-16", content.decode().encode("utf-16")),
                ("a NUL", content.replace(b"task-0001", b"task\0", 1)),
                ("a column twice", content.replace(b"success", b"cost", 1)),
                ("ragged", content + b"a,b,c,d,e,f,g,h,i\n"),
                ("an open quote", content + b'"'),
                ("byte 0xff", content + b"\xff,,,,,\n"),
            ):
                yield case_of(read, name, what, bad)


def _rows(frame: pd.DataFrame, column: str, rng: Random) -> Iterator[tuple[str, pd.DataFrame, str]]:
    yield f"no {column}", frame.drop(columns=column), REFUSE
    if column != "episode":
        yield f"{column} is text", frame.assign(**{column: "x"}), REFUSE
        for value in (np.inf, -1.0, 0.5, 1e300, np.nan):
            changed = frame.astype({column: float})
            changed.iloc[rng.randrange(len(frame) - 1), changed.columns.get_loc(column)] = value
            allowed = column in ("cost", "strong_calls", "cheap_calls") and value in (0.5, 1e300)
            yield f"{column} is {value}", changed, EITHER if allowed else REFUSE


def _table(name: str, frame: pd.DataFrame) -> Prepare:
    def prepare(folder: Path) -> None:
        path = cleared(folder / name)
        frame.to_csv(path, index=False) if name.endswith("csv") else frame.to_parquet(path, index=False)

    return prepare


__all__ = ["episodes_in_arrays", "episodes_in_tables", "posteriors", "put", "tables_of_counterfactuals"]
