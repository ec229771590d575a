"""Bad lines: requests to `route`, decision logs, snapshots."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from attack.case import EITHER, REFUSE, SAME, Case, Door, Ended
from attack.junk import FOREIGN, WRONG, Raw, dumps, replaced, rewritten
from attack.putting import (
    case_of,
    foreign,
    no_files,
    repeated_keys,
    unknown_keys,
    wrong_fields,
)
from attack.ways import python
from routers import random_router

from bayes_tacit.cli.route import answer
from bayes_tacit.router import DecisionLog, replay

BEGIN = {"episode": "a", "features": {"x0": 1, "x1": 0.5}}
STEP = {"episode": "a", "diagnostics": {"u0": 0.5, "u1": 0, "u2": 1}}


def requests(home: Path, rng: Random) -> Iterator[Case]:
    """A line to `route` is wrong: it is answered by an error, and the next one as if it had not been."""
    home.mkdir(exist_ok=True)
    folder = home / "route"
    folder.mkdir()
    (folder / "line").write_bytes(dumps(STEP))
    router = random_router(draws=3)

    def ask(given: bytes) -> list[dict[str, Any]]:
        out = io.StringIO()
        answer(router, io.BufferedReader(io.BytesIO(given)), out)
        return [json.loads(reply) for reply in out.getvalue().splitlines()]

    begin, step = dumps(BEGIN) + b"\n", dumps(STEP) + b"\n"
    after = ask(begin + step)

    def run(where: Path) -> Ended:
        line = (where / "line").read_bytes()
        replies = ask(begin + line + b"\n" + step)
        if "error" not in replies[1]:
            return Ended("accepted", "", replies[1])
        if replies[1]["line"] != 2 or replies[-1] != after[1]:
            return Ended("crashed", f"after it: {replies[1:]}")
        return Ended("refused", replies[1]["error"])

    door = Door("lines to route", run, folder)
    for content, fields in (
        (STEP, {("episode",): "id", ("diagnostics",): "object", ("diagnostics", "u0"): "nonnegative or flag"}),
        (
            {"episode": "b", "features": BEGIN["features"]},
            {("features",): "object", ("features", "x1"): "number or flag"},
        ),
        ({"episode": "a", "end": True}, {("episode",): "id", ("end",): "flag"}),
    ):
        for path, kind in fields.items():
            for value in WRONG[kind]:
                if kind == "object" and isinstance(value, list) and not isinstance(value, Raw):
                    continue
                yield case_of(door, "line", f"{path[-1]} is {str(value)[:20]!r}", dumps(replaced(content, path, value)))
        yield from repeated_keys(door, "line", content, rng, 8)
        yield from unknown_keys(door, "line", content, rng, 6)
        for _ in range(6):
            yield case_of(door, "line", f"cut {_}", dumps(content)[: rng.randrange(1, len(dumps(content)) - 1)])
    for what, line in {
        "two things": dumps(STEP | {"end": True}),
        "features and diagnostics": dumps(STEP | BEGIN),
        "nothing": dumps({"episode": "a"}),
        "not begun": dumps(STEP | {"episode": "z"}),
        "begun again": dumps(BEGIN),
        "end of none": dumps({"episode": "z", "end": True}),
        "end: no": b'{"episode": "a", "end": "no"}',
        "end: 1": b'{"episode": "a", "end": 1}',
        "end: false": b'{"episode": "a", "end": false}',
        "a number too few": dumps(STEP | {"diagnostics": [1, 2]}),
        "a byte order mark": b"\xef\xbb\xbf" + dumps(STEP),
        "UTF-16": dumps(STEP).decode().encode("utf-16").replace(b"\n", b""),
        "latin-1": '{"episode": "é"}'.encode("latin-1"),
        "too long": b'{"episode": "' + b"a" * 2**20 + b'"}',
        "two objects": dumps(STEP) + dumps(STEP),
        "an episode that is a number": dumps(STEP | {"episode": 1}),
        "an episode that differs in case": dumps(STEP | {"episode": "A"}),
    }.items():
        yield case_of(door, "line", what, line)
    for what, content in FOREIGN.items():
        if content.strip() and b"\n" not in content:
            yield case_of(door, "line", what, content)
    for number in range(5):
        yield case_of(door, "line", f"written otherwise {number}", rewritten(STEP, rng), SAME)


def with_line(lines: list[Any], at: int, line: bytes) -> bytes:
    """Write lines, one of which is given as it stands."""
    return b"".join((line if place == at else dumps(each)) + b"\n" for place, each in enumerate(lines))


def decision_logs(home: Path, rng: Random) -> Iterator[Case]:
    """A decision log is wrong: replaying finds it, and nothing is appended to what is none."""
    folder = home / "log"
    folder.mkdir(parents=True)
    router = random_router(draws=3)
    with DecisionLog(folder / "d.jsonl") as log:
        state = router.start([1, 0.5], episode="a", log=log)
        for _ in range(3):
            state.observe([0.5, 0, 1])
        state = router.restore(state.snapshot(), log=log)
        state.observe([0.5, 0, 1])
        state.finish()
    content = (folder / "d.jsonl").read_bytes()
    lines = [json.loads(line) for line in content.splitlines()]

    def replayed(_: Path) -> object:
        found = replay("d.jsonl", router)
        # A value that is not what the router computes is found: that is what a replay is for.
        return "agrees" if found.agrees else "found"

    door = Door("decision log, replay", python(replayed), folder, ("d.jsonl",))

    def write(at: int):
        def whole(line: Any) -> bytes:
            return b"".join(dumps(line if place == at else each) + b"\n" for place, each in enumerate(lines))

        return whole

    start = {
        ("event",): "choice",
        ("episode",): "id",
        ("router",): "text",
        ("features",): "object",
        ("shadow",): "flag",
    }
    start |= {
        ("features", "x0"): "number or flag",
        ("schema_version",): "count",
        ("alpha",): "numbers",
        ("rule",): "choice",
    }
    seen = {("event",): "choice", ("diagnostics",): "object", ("diagnostics", "u1"): "nonnegative or flag"}
    restored = {("snapshot",): "object", ("snapshot", "router"): "text", ("snapshot", "features"): "numbers"}
    for at, fields in ((0, start), (1, seen), (4, restored)):
        for case in wrong_fields(
            door,
            "d.jsonl",
            lines[at],
            fields,
            rng,
            write=write(at),
            names=lambda _, at=at: (f"line {at + 1}", f"line {at + 2}", "router"),
        ):
            yield case
        yield from unknown_keys(door, "d.jsonl", lines[at], rng, 4, below=lambda path: path == (), write=write(at))
        yield from repeated_keys(door, "d.jsonl", lines[at], rng, 6, write=partial(with_line, lines, at))
    yield from no_files(door, "d.jsonl")
    yield from foreign(
        door,
        "d.jsonl",
        frozenset(
            {
                "nothing",
                "one NUL",
                "escape codes",
                "5,000 digits",
                "a byte order mark alone",
                "deep lists",
                "deep objects",
                "deep and closed",
                "a zip",
                "a program",
                "NaN",
            }
        ),
    )
    for _ in range(8):
        cut = rng.randrange(1, len(content))
        yield case_of(door, "d.jsonl", f"cut after {cut}", content[:cut], EITHER)

    def opened(where: Path) -> object:
        before = (
            (where / "d.jsonl").read_bytes()
            if (where / "d.jsonl").is_file() and "zero" not in str((where / "d.jsonl").resolve())
            else b""
        )
        try:
            DecisionLog("d.jsonl").close()
        finally:
            if (where / "d.jsonl").is_file() and before:
                now = (where / "d.jsonl").read_bytes()
                assert before.startswith(now), "it was changed"
                assert now == before or before[len(now) :].startswith(b'{"event": "'[: len(before) - len(now)]), (
                    "it was cut"
                )
        return "opened"

    appended = Door("decision log, append", python(opened), folder, ("d.jsonl",))
    yield from foreign(appended, "d.jsonl", frozenset({"nothing"}))
    for case in no_files(appended, "d.jsonl"):
        if case.name.split(" is ")[1] in ("a folder", "a pipe"):
            yield case
    for _ in range(10):
        yield case_of(appended, "d.jsonl", f"random {_}", rng.randbytes(rng.randrange(1, 3000)))


def snapshots(home: Path, rng: Random) -> Iterator[Case]:
    """A snapshot of an episode is wrong."""
    folder = home / "snapshot"
    folder.mkdir(parents=True)
    router = random_router(draws=3)
    state = router.start([1, 0.5], episode="a")
    state.observe([0.5, 0, 1])
    content = json.loads(json.dumps(state.snapshot()))
    (folder / "s.json").write_bytes(dumps(content))

    def restored(where: Path) -> object:
        given = json.loads((where / "s.json").read_bytes())
        return [router.restore(given).observe([0.5, 0, 1])._asdict()]

    door = Door("snapshot, Python", python(restored), folder)
    kinds = {bool: "flag", int: "count", float: "number", str: "id", list: "list", dict: "object"}
    for key, value in content.items():
        for wrong in WRONG[kinds.get(type(value), "object")]:
            if isinstance(wrong, Raw) or (value is None and wrong is None) or (key == "shadow" and wrong == 2):
                continue
            if key == "episode" and wrong is None:
                continue
            if value is None and isinstance(wrong, int) and not isinstance(wrong, bool):
                continue
            yield case_of(
                door, "s.json", f"{key} is {wrong!r}", dumps(content | {key: wrong}), REFUSE, (key, "snapshot")
            )
        yield case_of(
            door, "s.json", f"no {key}", dumps({k: v for k, v in content.items() if k != key}), REFUSE, (key,)
        )
    yield from unknown_keys(door, "s.json", content, rng, 6, below=lambda path: path == ())
