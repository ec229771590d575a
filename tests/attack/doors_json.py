"""Bad JSON: episodes a line each, fits, routers of every policy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from attack import base
from attack.case import EITHER, REFUSE, Case, Door
from attack.junk import dumps, replaced
from attack.putting import (
    broken_text,
    case_of,
    foreign,
    no_files,
    repeated_keys,
    same,
    unknown_keys,
    wrong_fields,
)
from attack.ways import command, python

from bayes_tacit import Episodes, MapFit, Router

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
            "episodes .jsonl, Python",
            python(lambda _: repr(Episodes.read("e.jsonl").summary())),
            folder,
            ("e.jsonl",),
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
    ("weights_fixed",): "flag",
    ("ridge",): "nonnegative",
    ("family",): "choice",
    ("timing",): "choice",
    ("seed",): "count",
    ("data_fingerprint",): "text",
    ("memory",): "share",
    ("clock",): "flag",
    ("unmarked",): "choice",
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
