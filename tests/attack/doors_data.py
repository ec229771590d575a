"""Bad data: episodes, what comes of handoffs, fits, routers of every policy, posteriors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from attack import base
from attack.cases import EITHER, REFUSE, Case, Door, Prepare, command, python
from attack.junk import (
    broken_netcdf,
    broken_text,
    broken_zarr,
    case_of,
    cleared,
    dumps,
    foreign,
    no_files,
    repeated_keys,
    replaced,
    same,
    unknown_keys,
    wrong_fields,
)

from bayes_tacit import Counterfactuals, Episodes, MapFit, Router, load_posterior

SCORED = ("score", "fit.json", "few.jsonl", "--out", "out.csv")

EPISODE_FIELDS = {
    ("episode",): "id",
    ("features",): "object",
    ("features", "entities"): "number or flag",
    ("cheap_success",): "flag",
    ("strong_success",): "flag",
    ("diagnostics",): "list",
    ("diagnostics", 0): "object",
    ("diagnostics", 0, "repeat"): "nonnegative or flag",
    ("diagnostics", 0, "uncertainty"): "nonnegative or flag",
}

WINDOWS: tuple[object, ...] = (
    *([0], [0, 1, 2], [1, 0], [-1, 0], [0, 10**6], [0.5, 1], ["0", "1"], [None, 1], [True, False], "0-1", 3, {}, []),
    *([0, 10**30], [-(2**70), 0], [[0], [1]]),
)


def episodes_by_line(home: Path, rng: Random) -> Iterator[Case]:
    """One line of JSON Lines is wrong."""
    folder = base.written(home / "jsonl", "e.jsonl")
    lines = [json.loads(line) for line in (folder / "e.jsonl").read_text().splitlines()]
    at = next(place for place, line in enumerate(lines) if line.get("window"))
    doors = [
        Door("episodes .jsonl", command("summary", "e.jsonl", "--json"), folder, ("e.jsonl",)),
        Door(
            "episodes .jsonl, Python", python(lambda _: repr(Episodes.read("e.jsonl").summary())), folder, ("e.jsonl",)
        ),
    ]

    def write(line: Any) -> bytes:
        return inside(dumps(line))

    def inside(line: bytes) -> bytes:
        return b"".join(line + b"\n" if place == at else dumps(each) + b"\n" for place, each in enumerate(lines))

    def place(_: object) -> tuple[str, ...]:
        return (f"e.jsonl:{at + 1}",)

    text = inside(dumps(lines[at]))
    for number, door in enumerate(doors):
        fields = EPISODE_FIELDS if number == 0 else dict(rng.sample(list(EPISODE_FIELDS.items()), 5))
        yield from wrong_fields(door, "e.jsonl", lines[at], fields, rng, write=write, names=place)
        for window in WINDOWS:
            yield case_of(
                door, "e.jsonl", f"window is {window}", write(lines[at] | {"window": window}), REFUSE, place(0)
            )
        yield from repeated_keys(door, "e.jsonl", lines[at], rng, 12, write=inside)
        yield from broken_text(door, "e.jsonl", text, rng, lines=True)
        yield from no_files(door, "e.jsonl")
        yield from foreign(door, "e.jsonl")
        yield from same(door, "e.jsonl", lines, rng, 6, lines=True)
        for what, changed in {
            "an id twice": lines[at] | {"episode": lines[0]["episode"]},
            "a window on AB = 11": lines[at] | {"cheap_success": True},
            "a feature less": lines[at] | {"features": dict(list(lines[at]["features"].items())[1:])},
            "a feature more": lines[at] | {"features": lines[at]["features"] | {"more": 1}},
            "a diagnostic less": lines[at] | {"diagnostics": [{"repeat": 0}, *lines[at]["diagnostics"][1:]]},
            "no step": lines[at] | {"diagnostics": []},
            "a newer schema": lines[at] | {"schema_version": 2},
            "a schema of true": lines[at] | {"schema_version": True},
            "steps that do not match": lines[at] | {"steps": [{"a": 1}]},
            "a NUL in the id": lines[at] | {"episode": "a\0b"},
            "half a letter in the id": lines[at] | {"episode": "\ud800"},
            "an id of another kind": lines[at] | {"episode": 7},
            "a carried list": lines[at] | {"task_type": [1]},
            "a feature named as a variable": lines[at] | {"features": lines[at]["features"] | {"n_steps": 1}},
        }.items():
            yield case_of(door, "e.jsonl", what, write(changed), REFUSE)
        for value in (1e308, 1e-310, 1e300, -0.0, 5e-324):
            changed = lines[at] | {"diagnostics": [{**step, "repeat": value} for step in lines[at]["diagnostics"]]}
            yield case_of(door, "e.jsonl", f"a diagnostic of {value}", write(changed), EITHER)
        yield case_of(door, "e.jsonl", "escape codes in the id", write(lines[at] | {"episode": "\x1b[31mred"}), EITHER)


FIT_FIELDS = {
    ("format",): "choice",
    ("schema_version",): "count",
    ("written_by",): "text",
    ("diagnostic_names",): "names",
    ("feature_names",): "names",
    ("feature_mean",): "numbers",
    ("feature_mean", 0): "number",
    ("feature_scale",): "numbers",
    ("feature_scale", 1): "positive",
    ("w",): "numbers",
    ("w", 0): "share",
    ("gamma0",): "number",
    ("gamma",): "numbers",
    ("gamma", 0): "number",
    ("beta0",): "number",
    ("beta",): "numbers",
    ("s",): "positive",
    ("standard_errors",): "object",
    ("objective",): "number",
    ("gradient_norm",): "number",
    ("converged",): "flag",
    ("restarts",): "list",
    ("restarts", 0): "object",
    ("restarts", 0, "iterations"): "count",
    ("restarts", 0, "floored"): "count",
    ("floored",): "list",
    ("n_episodes",): "count",
    ("n_timed",): "count",
    ("spec",): "object",
    ("spec", "family"): "choice",
    ("spec", "timing"): "choice",
    ("spec", "memory"): "share",
    ("spec", "clock"): "flag",
    ("spec", "unmarked"): "choice",
    ("ridge",): "nonnegative",
    ("seed",): "count",
    ("data_fingerprint",): "text",
    ("profile",): "list",
}


def fits(home: Path, rng: Random) -> Iterator[Case]:
    """The fit is wrong."""
    folder = base.written(home / "fit", "fit.json", "few.jsonl")
    content = json.loads((folder / "fit.json").read_text())
    text = (folder / "fit.json").read_bytes()
    scored = Door("fit.json", command(*SCORED, out=("out.csv",)), folder, ("fit.json",))
    loaded = Door("fit.json, Python", python(lambda _: repr(MapFit.load("fit.json"))), folder, ("fit.json",))
    for door, per_field in ((scored, 9), (loaded, 4)):
        yield from wrong_fields(door, "fit.json", content, FIT_FIELDS, rng, per_field=per_field)
        yield from repeated_keys(door, "fit.json", content, rng, 25)
        yield from unknown_keys(door, "fit.json", content, rng, 15)
        yield from broken_text(door, "fit.json", text, rng)
        yield from no_files(door, "fit.json")
        yield from foreign(door, "fit.json")
        yield from same(door, "fit.json", content, rng, 6)
    for what, changed in {
        "weights that sum to 2": content | {"w": [2 * weight for weight in content["w"]]},
        "no diagnostic": content | {"w": [], "diagnostic_names": []},
        "names twice": content | {"feature_names": [content["feature_names"][0]] * 3},
        "other features": content | {"feature_names": ["a", "b", "c"]},
        "a newer schema": content | {"schema_version": 99},
        "a fit of an older schema with newer keys": content | {"schema_version": 0},
        "more timed than episodes": content | {"n_timed": content["n_episodes"] + 1},
    }.items():
        yield case_of(scored, "fit.json", what, dumps(changed))
    for name, value in (("gamma0", 1e308), ("beta0", -1e308), ("s", 1e-310), ("s", 1e308), ("beta0", 1e4)):
        yield case_of(scored, "fit.json", f"{name} is {value}", dumps(content | {name: value}), EITHER)


def routers(home: Path, rng: Random, policies: list[str]) -> Iterator[Case]:
    """The router is wrong: one of every policy."""
    for name in policies:
        router: Any = base.routers()[name]
        folder = home / f"router_{name}"
        folder.mkdir(parents=True)
        router.save(folder / "r.json")
        content = json.loads((folder / "r.json").read_text())
        lines = [
            {"episode": "a", "features": dict.fromkeys(router.feature_names, 0.5)},
            *[{"episode": "a", "diagnostics": dict.fromkeys(router.diagnostic_names, 0.3)}] * 3,
            {"episode": "a", "end": True},
        ]
        requests = b"".join(dumps(line) + b"\n" for line in lines)
        door = Door(f"router.json, {name}", command("route", "r.json", stdin=requests), folder, ("r.json",))
        loaded = Door("router.json, Python", python(lambda _: repr(Router.load("r.json"))), folder, ("r.json",))
        yield from _any_field(door, content, rng, 25)
        yield from repeated_keys(door, "r.json", content, rng, 6)
        yield from unknown_keys(door, "r.json", content, rng, 5)
        yield from broken_text(door if rng.random() < 0.5 else loaded, "r.json", dumps(content), rng)
        yield from same(door, "r.json", content, rng, 3)
    yield from no_files(door, "r.json")
    yield from foreign(door, "r.json")


def _any_field(door: Door, content: Any, rng: Random, n: int) -> Iterator[Case]:
    """Change what is anywhere in it: a digest tells."""
    places = [path for path in _leaves(content) if path[0] != "provenance"]
    for path in rng.sample(places, min(n, len(places))):
        value = content
        for part in path:
            value = value[part]
        other: object
        if isinstance(value, bool):
            other = rng.choice([not value, None, int(value), "true"])
        elif isinstance(value, int | float):
            other = rng.choice([value + 1, -value - 1, None, str(value), [value], True, value * 1.0000001 + 1e-9])
        else:
            other = rng.choice([1, [], {}, f"{value} ", "", True])
        shown = ".".join(map(str, path))
        yield case_of(door, "r.json", f"{shown} is {other!r}", dumps(replaced(content, path, other)))


def _leaves(content: Any, path: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else None
    if items is None:
        yield path
        return
    for key, value in items:
        yield from _leaves(value, (*path, key))


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
            yield from broken_netcdf(read, name, rng)
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


POISON = (np.nan, np.inf, -np.inf, -1.0, -1e-300)


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
            yield from broken_netcdf(door, name, rng)
        else:
            yield from broken_zarr(door, name, rng)
        yield from (case for case in no_files(door, name) if suffix == "nc" or case.name.split(" is ")[1] != "a folder")


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
    """Return one number of a variable, within the rollouts, another value."""

    def change(dataset: xr.Dataset) -> xr.Dataset:
        values = dataset[variable].values.astype(float if not isinstance(value, str) else object)
        place = tuple(0 if dim == "step" else rng.randrange(size) for dim, size in dataset[variable].sizes.items())
        values[place] = value
        return dataset.assign({variable: (dataset[variable].dims, values)})

    return change


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
    from bayes_tacit.estimates.posterior_files import digest

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
