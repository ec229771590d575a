"""Bad logs to import, of every format, and the tables beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

from attack.case import EITHER, REFUSE, SAME, Case, Door
from attack.junk import WRONG, Raw, dumps, replaced
from attack.putting import case_of, foreign, no_files, repeated_keys
from attack.valid_logs import FORMATS, Field, write
from attack.ways import command
from conversations import rollout


def imported(home: Path, rng: Random, formats: list[str]) -> Iterator[Case]:
    """A log of one format is wrong."""
    for form in formats:
        log, content, fields = FORMATS[form]
        folder = home / f"import_{form}"
        folder.mkdir(parents=True)
        write(folder / log, content)
        strong = log.replace("cheap", "strong")
        write(folder / strong, content)
        words = ["import", log, strong, "--out", "out.jsonl", "--workers", "1"]
        if log == "cheap":
            (folder / "results.csv").write_text(
                "task,success\n" + "".join(f"{task},{at % 2}\n" for at, task in enumerate("abc"))
            )
            words += ["--cheap-results", "results.csv", "--strong-results", "results.csv"]
        door = Door(f"import, {form}", command(*words, out=("out.jsonl",)), folder, ("cheap",))
        yield from _fields(door, log, content, fields, rng)
        yield from _anywhere(door, log, content, rng, 60)
        file = log if log != "cheap" else f"cheap/{next(iter(content))}"
        text = (folder / file).read_bytes()
        for what, bad in _torn(text, rng):
            yield case_of(door, file, f"{form}: {what}", bad)
        skipped = frozenset({"an object of another kind", "a list", "an object", "a list of objects"})
        yield from foreign(door, file, skipped)
        if log != "cheap":
            yield from no_files(door, log)
        # Others' programs write these; as with every reader of JSON the last of two counts.
        one = content[1] if isinstance(content, list) else next(iter(content.values())) if log == "cheap" else content
        for case in repeated_keys(door, file, one, rng, 4):
            yield Case(case.door, case.name, case.prepare, EITHER, (), case.key)


def _fields(door: Door, log: str, content: Any, fields: Mapping[Field, str], rng: Random) -> Iterator[Case]:
    lines = log.endswith(".jsonl")
    first = next(iter(content)) if log == "cheap" else ""
    whole = content[first] if log == "cheap" else content
    file = f"cheap/{first}" if log == "cheap" else log
    for path, kind in fields.items():
        for value in rng.sample(list(WRONG[kind]), min(7, len(WRONG[kind]))):
            changed = replaced(whole, path, value)
            text = b"".join(dumps(each) + b"\n" for each in changed) if lines else dumps(changed)
            # Formats differ in what they let pass where it does not matter; it must not crash.
            expects = REFUSE if isinstance(value, Raw) and str(value)[:1] in "[9" else EITHER
            yield case_of(door, file, f"{'.'.join(map(str, path))} is {str(value)[:20]!r}", text, expects)


def _anywhere(door: Door, log: str, content: Any, rng: Random, n: int) -> Iterator[Case]:
    """Put a value of another kind anywhere: it may not matter, but it must not crash."""
    lines = log.endswith(".jsonl")
    first = next(iter(content)) if log == "cheap" else ""
    whole = content[first] if log == "cheap" else content
    file = f"cheap/{first}" if log == "cheap" else log
    places = [path for path in _paths(whole) if path]
    for _ in range(n):
        path, value = (
            rng.choice(places),
            rng.choice([None, True, 7, -1, 2.5, "text", "", [], [1], [None], {}, {"a": 1}, [[]], 10**30, 1e300]),
        )
        changed = replaced(whole, path, value)
        text = b"".join(dumps(each) + b"\n" for each in changed) if lines else dumps(changed)
        yield case_of(door, file, f"{'.'.join(map(str, path))} is {value!r}", text, EITHER)


def _paths(content: Any, path: Field = ()) -> Iterator[Field]:
    yield path
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in items:
        yield from _paths(value, (*path, key))


def _torn(text: bytes, rng: Random) -> Iterator[tuple[str, bytes]]:
    for _ in range(5):
        cut = rng.randrange(1, len(text) - 2)
        if text[:cut].rstrip()[-1:] != b"}":
            yield f"cut after {cut}", text[:cut]
    for _ in range(3):
        place = rng.randrange(len(text))
        yield f"0xff at {place}", text[:place] + b"\xff" + text[place:]
    for encoding in ("utf-16", "utf-32"):
        yield encoding, text.decode().encode(encoding)


def tables_beside(home: Path, rng: Random) -> Iterator[Case]:
    """The tables of tasks and of outcomes are wrong."""
    folder = home / "beside"
    folder.mkdir(parents=True)
    logs = [{key: value for key, value in rollout(task, model="m").items() if key != "success"} for task in "abc"]
    for name in ("cheap.jsonl", "strong.jsonl"):
        write(folder / name, logs)
    outcomes = "task,success\na,1\nb,0\nc,true\n"
    tasks = "task,size,kind\na,1,x\nb,2.5,y\nc,3,x\n"
    (folder / "o.csv").write_text(outcomes)
    (folder / "k.csv").write_text(tasks)
    words = [
        "import",
        "cheap.jsonl",
        "strong.jsonl",
        "--cheap-results",
        "o.csv",
        "--strong-results",
        "o.csv",
        "--tasks",
        "k.csv",
    ]
    door = Door(
        "import, outcomes and tasks",
        command(*words, "--out", "out.jsonl", "--workers", "1", out=("out.jsonl",)),
        folder,
        ("o.csv", "k.csv", "-results", "--tasks"),
    )
    for value in ("x", "2", "-1", "0.5", "", "nan", "yes!", "9" * 5000, "\x1b[31m", '"'):
        yield case_of(door, "o.csv", f"success is {value[:10]!r}", outcomes.replace("b,0", f"b,{value}").encode())
    for value in ("nan", "inf", "-inf", "1e999"):
        yield case_of(door, "k.csv", f"size is {value}", tasks.replace("2.5", value).encode(), EITHER)
    for file, text in (("o.csv", outcomes), ("k.csv", tasks)):
        for what, bad in {
            "a task twice": text + text.splitlines()[1] + "\n",
            "a task missing": "\n".join(text.splitlines()[:-1]) + "\n",
            "no column task": text.replace("task", "other"),
            "a column twice": text.replace(",s", ",task,s", 1),
            "no rows": text.splitlines()[0] + "\n",
            "ragged": text + "d,1,2,3,4,5\n",
            "an open quote": text + '"d,1\n',
            "a NUL": text.replace("b,", "b\0,"),
        }.items():
            yield case_of(door, file, f"{file}: {what}", bad.encode())
        yield case_of(door, file, f"{file}: a byte order mark", b"\xef\xbb\xbf" + text.encode(), SAME)
        yield case_of(door, file, f"{file}: utf-16", text.encode("utf-16"))
        yield case_of(door, file, f"{file}: 0xff", text.encode() + b"\xff,1,1\n")
        yield from foreign(door, file)
        yield from no_files(door, file)
    report = {"resolved_ids": ["a"], "unresolved_ids": ["b", "c"]}
    (folder / "report.json").write_text(json.dumps(report))
    reported = Door(
        "import, a report",
        command(
            *words[:3],
            "--cheap-results",
            "report.json",
            "--strong-results",
            "o.csv",
            "--out",
            "out.jsonl",
            "--workers",
            "1",
            out=("out.jsonl",),
        ),
        folder,
        ("report.json", "-results"),
    )
    for key in report:
        for value in WRONG["names"]:
            if value not in (["a", "a"], [""]):
                yield case_of(reported, "report.json", f"{key} is {str(value)[:20]!r}", dumps(report | {key: value}))
    yield from repeated_keys(reported, "report.json", report, rng, 4)
    yield from foreign(reported, "report.json")
