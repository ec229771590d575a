"""Bad logs of sessions for `monitor`, and bad lists of tasks for `collect`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random

from attack.case import EITHER, REFUSE, Case, Door
from attack.doors_agents import LABEL, QUESTION, refusing
from attack.doors_route import with_line
from attack.junk import WRONG, dumps
from attack.putting import broken_text, case_of, foreign, no_files, repeated_keys, unknown_keys
from attack.serving import serve
from attack.ways import command

KINDS = {bool: "flag", int: "count", float: "number", str: "text", list: "list", dict: "object"}


def session_logs(home: Path, rng: Random) -> Iterator[Case]:
    """A log of sessions is wrong.

    It is read while servers write to it: a line that is none is left out, and counted in a note. What a page does not
    show it does not look at.
    """
    folder = home / "sessions"
    serve(folder, sessions=3)
    (folder / "sessions.sqlite").unlink()
    words = ("monitor", "served.jsonl", "--out", "out.html", "--json")
    door = Door("session logs", command(*words, out=("out.html",)), folder, ("served.jsonl",))
    text = (folder / "served.jsonl").read_bytes()
    lines = [json.loads(line) for line in text.splitlines()]
    for event in ("start", "step", "reply", "outcome"):
        at = next(place for place, line in enumerate(lines) if line["event"] == event)
        write = partial(with_line, lines, at)
        for key, value in lines[at].items():
            if value is None:
                continue
            for other in rng.sample(list(WRONG[KINDS[type(value)]]), 5):
                what = f"line {at + 1}: {key} is {str(other)[:20]!r}"
                yield case_of(door, "served.jsonl", what, write(dumps(lines[at] | {key: other})), EITHER)
        for case in repeated_keys(door, "served.jsonl", lines[at], rng, 6, write=write):
            yield Case(case.door, case.name, case.prepare, EITHER, (), case.key)
        for case in unknown_keys(
            door, "served.jsonl", lines[at], rng, 3, write=lambda line, at=at: with_line(lines, at, dumps(line))
        ):
            yield Case(case.door, case.name, case.prepare, EITHER, (), case.key)
    for case in broken_text(door, "served.jsonl", text, rng, lines=True):
        torn = any(words in case.name for words in ("cut after", "a NUL", "0xff", "too much", "a tab"))
        yield Case(case.door, case.name, case.prepare, EITHER if torn else case.expects, (), case.key)
    yield from foreign(door, "served.jsonl")
    yield from no_files(door, "served.jsonl")


def lists_of_tasks(home: Path, rng: Random) -> Iterator[Case]:
    """The list of tasks to play is wrong."""
    folder = home / "lists"
    (folder / "d" / "da-dev-tables").mkdir(parents=True)
    (folder / "d" / "da-dev-tables" / "plants.csv").write_text("a\n1\n")
    (folder / "kept").mkdir()
    for name, content in (("questions", QUESTION), ("labels", LABEL)):
        (folder / "d" / f"da-dev-{name}.jsonl").write_bytes(dumps(content) + b"\n")
    (folder / "list.txt").write_text("7\n")
    seats = ("--cheap", "kept", "--strong", "kept")
    words = (
        "collect",
        "--benchmark",
        "simulations.dabench:benchmark",
        "--data",
        "d",
        *seats,
        "--tasks",
        "list.txt",
        "--out",
        "out",
    )
    # Nobody plays: whatever is wrong with the list is told before that.
    door = Door("lists of tasks", refusing(command(*words), "list.txt"), folder, ("list.txt",))
    for value in ("8", "7\n8", "7 8", "7,8", "-7", "07", "7.0", "\x1b[31m7", "7\0", "9" * 5000, "\u0667", '"7"', "[7]"):
        yield case_of(door, "list.txt", f"names {value[:20]!r}", value.encode(), REFUSE)
    for encoding in ("utf-16", "utf-32", "utf-16-le"):
        yield case_of(door, "list.txt", encoding, "7\n".encode(encoding))
    for number in range(6):
        yield case_of(door, "list.txt", f"bytes {number}", rng.randbytes(30) + b"\xff")
    yield from foreign(door, "list.txt")
    yield from no_files(door, "list.txt")
