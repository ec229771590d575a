"""Bad data: episodes, what comes of handoffs, fits, routers of every policy, posteriors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from attack import base
from attack.cases import EITHER, REFUSE, Case, Door, command, python
from attack.junk import (
    broken_netcdf,
    broken_text,
    broken_zarr,
    case_of,
    dumps,
    foreign,
    no_files,
    repeated_keys,
    replaced,
    same,
    unknown_keys,
    wrong_fields,
)

from bayes_tacit import Counterfactuals, Episodes, MapFit, Router

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
        yield from repeated_keys(door, "e.jsonl", lines[at], rng, 12, write=inside)
        yield from broken_text(door, "e.jsonl", text, rng, lines=True)
        yield from no_files(door, "e.jsonl")
        yield from foreign(door, "e.jsonl")
        yield from same(door, "e.jsonl", lines, rng, 6, lines=True)
        for value in (1e308, 1e-310, 1e300, -0.0, 5e-324):
            changed = lines[at] | {"diagnostics": [{**step, "repeat": value} for step in lines[at]["diagnostics"]]}
            yield case_of(door, "e.jsonl", f"a diagnostic of {value}", write(changed), EITHER)


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
        yield from foreign(door, file)
        yield from no_files(door, file)
        for _ in range(8):
            cut = rng.randrange(1, len(content))
            yield case_of(door, file, f"{table} cut after {cut} bytes", content[:cut])
        for _ in range(20):
            place = rng.randrange(len(content))
            changed = content[:place] + rng.randbytes(3) + content[place + 3 :]
            yield case_of(door, file, f"{table} changed at {place}", changed, EITHER)
    yield from no_files(door, "e.parquet")


def tables_of_counterfactuals(home: Path, rng: Random) -> Iterator[Case]:
    """What comes of handoffs, as .csv, .parquet and .nc."""
    for suffix in ("csv", "parquet", "nc"):
        name = f"c.{suffix}"
        folder = base.written(home / f"c{suffix}", name, "fit.json", "few.jsonl")
        words = f"select fit.json few.jsonl --cap 8 --n 5 --counterfactuals {name} --out out.json".split()
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


def episodes_in_arrays(home: Path, rng: Random, suffixes: list[str]) -> Iterator[Case]:
    """Episodes as netCDF or Zarr."""
    for suffix in suffixes:
        name = f"e.{suffix}"
        folder = base.written(home / suffix, name)
        door = Door(f"episodes .{suffix}", command("summary", name, "--json"), folder, (name,))
        if suffix == "nc":
            yield from broken_netcdf(door, name, rng)
        else:
            yield from broken_zarr(door, name, rng)
        yield from (case for case in no_files(door, name) if suffix == "nc" or case.name.split(" is ")[1] != "a folder")


def posteriors(home: Path, rng: Random, suffixes: list[str]) -> Iterator[Case]:
    """A posterior's file is broken; wrong values in one are those of tests/data/test_stores.py."""
    for suffix in suffixes:
        name = f"p.{suffix}"
        folder = base.written(home / f"p{suffix}", name, "few.jsonl")
        words = ("score", name, "few.jsonl", "--out", "out.csv")
        door = Door(f"posterior .{suffix}", command(*words, out=("out.csv",)), folder, (name,))
        if suffix == "nc":
            yield from broken_netcdf(door, name, rng)
        else:
            yield from broken_zarr(door, name, rng)
        yield from (case for case in no_files(door, name) if suffix == "nc" or "folder" not in case.name)
