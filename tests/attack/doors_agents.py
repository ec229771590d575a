"""Bad input about agents: requests to `route`, decision logs, snapshots, marks, transcripts, questions, sessions."""

from __future__ import annotations

import io
import json
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from attack import base
from attack.cases import EITHER, REFUSE, SAME, Case, Door, Ended, command, python
from attack.junk import (
    FOREIGN,
    WRONG,
    Raw,
    broken_text,
    case_of,
    dumps,
    foreign,
    named,
    no_files,
    repeated_keys,
    replaced,
    rewritten,
    unknown_keys,
    wrong_fields,
)
from conversations import answer as replied
from conversations import asked, call, turn
from routers import random_router
from toy_world import RIGHT, WAIT, Corridor, Stalled, Walker

from bayes_tacit.agents import Budget, run_episode
from bayes_tacit.agents.transcript import read_transcript
from bayes_tacit.cli.route import answer
from bayes_tacit.gateway import Engine, FileStore, Identity, Reply, SessionLog, Sessions, default_router
from bayes_tacit.router import DecisionLog, pure, replay
from simulations.dabench.questions import read_questions

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
    start |= {("features", "x0"): "number or flag", ("schema_version",): "count", ("alpha",): "numbers"}
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


BAD_TURNS = (2, 5, 6, 8)
"""After some of them the default router hands off."""

TURNS = 12


def serve(folder: Path, sessions: int = 40) -> None:
    """Serve sessions; those that a log names already are gone on with, by clients that know of no interruption."""
    folder.mkdir(exist_ok=True)
    log, begun = folder / "served.jsonl", defaultdict(int)
    for line in log.read_bytes().splitlines() if log.exists() else ():
        known = json.loads(line)
        begun[known["episode"]] += known["event"] == "reply"
    served = Sessions(Engine(default_router()), FileStore(folder / "sessions.sqlite"), SessionLog(log))
    for number in range(sessions):
        who = Identity("", f"task-{number}", "test")
        for length in range(begun[who.session], TURNS):
            ticket = served.begin(who, _conversation(length))
            served.replied(ticket, ticket.ruling.side, Reply(), seconds=0.1)
        if begun[who.session] < TURNS:
            served.outcome("", who.session, {"success": True})
    served.store.close()


def _conversation(length: int) -> list[dict[str, object]]:
    messages = [asked("How many rows has t?")]
    for number in range(length):
        bad = number in BAD_TURNS
        messages += [turn(call("sql", f"c{number}", query="SELECT" if bad else f"SELECT {number}"))]
        messages += [replied("Error: incomplete input" if bad else f"[({number},)]", f"c{number}")]
    return messages


def marks(home: Path, rng: Random) -> Iterator[Case]:
    """A table of marks is wrong."""
    folder = base.written(home / "marks", "few.jsonl")
    text = "episode,window_start,window_end,recommended\n"
    due = [
        line["episode"]
        for line in map(json.loads, (folder / "few.jsonl").read_text().splitlines())
        if not line["cheap_success"] and line["strong_success"]
    ]
    rows = [f"{name},0,1,0\n" for name in due]
    (folder / "m.csv").write_text(text + "".join(rows))
    words = ("teach", "few.jsonl", "--marks", "m.csv", "--out", "out.jsonl")
    door = Door("marks", command(*words, out=("out.jsonl",)), folder, ("m.csv",))

    def case(what: str, *lines: str, expects: str = REFUSE, names: tuple[str, ...] = ()) -> Case:
        return case_of(door, "m.csv", what, "".join(lines).encode(errors="surrogatepass"), expects, names)

    for column in range(1, 4):
        for value in (
            "x",
            "-1",
            "1.5",
            "1e3",
            "9" * 5000,
            "nan",
            "inf",
            "0x1",
            "1_0",
            "\u0661",
            "+1",
            "1 0",
            "\x1b[31m",
            "0" * 20,
            '"',
            "'1'",
            "½",
        ):
            cells = [due[0], "0", "1", "0"]
            cells[column] = value
            yield case(
                f"column {column} is {value[:20]!r}", text, ",".join(cells) + "\n", *rows[1:], names=("line 2", "CSV")
            )
    yield case("past the rollout", text, f"{due[0]},0,999,0\n")
    yield case("of an unknown episode", text, "nobody,0,1,0\n")
    yield case("of an episode that is not due", text, "task-0000,0,1,0\n")
    for column in ("episode", "window_start", "window_end"):
        yield case(f"no column {column}", text.replace(column, "other"), *rows, names=(column,))
    yield case("no row", text, expects=EITHER)
    yield case("a column twice", text.replace("recommended", "window_start"), *rows)
    yield case("an open quote", text, f'"{due[0]},0,1,0\n')
    yield case("CR only", (text + rows[0]).replace("\n", "\r"), expects=EITHER)
    yield case("a byte order mark", "\ufeff", text, *rows, expects=SAME)
    yield case("CRLF", (text + "".join(rows)).replace("\n", "\r\n"), expects=SAME)
    whole = (text + "".join(rows)).encode()
    for encoding in ("utf-16", "utf-32", "utf-16-le"):
        yield case_of(door, "m.csv", encoding, whole.decode().encode(encoding))
    for _ in range(8):
        place = rng.randrange(len(whole))
        yield case_of(door, "m.csv", f"0xff at {place}", whole[:place] + b"\xff" + whole[place:])
        yield case_of(door, "m.csv", f"NUL at {place}", whole[:place] + b"\0" + whole[place:])
    yield from foreign(door, "m.csv")
    yield from no_files(door, "m.csv")


def transcripts(home: Path, rng: Random) -> Iterator[Case]:
    """A transcript is wrong."""
    folder = home / "transcripts"
    (folder / "t").mkdir(parents=True)
    for agent, actions in (("cheap", WAIT), ("strong", RIGHT)):
        run_episode(
            Corridor(3),
            Walker("cheap", WAIT, (0.1, None)),
            Walker("strong", actions),
            pure(agent),
            path=folder / "t" / f"{agent}.jsonl",
            extractor=Stalled(),
            episode="corridor",
            budget=Budget(6),
        )
    (folder / "m.csv").write_text("episode,window_start,window_end\ncorridor,0,1\n")
    words = ("teach", "t", "--marks", "m.csv", "--out", "out.jsonl")
    file = "t/cheap.jsonl"
    door = Door("transcripts", command(*words, out=("out.jsonl",)), folder, ("cheap.jsonl", "t:"))
    read = Door(
        "transcripts, Python", python(lambda _: repr(read_transcript("t/cheap.jsonl").end)), folder, ("cheap.jsonl",)
    )
    content = (folder / file).read_bytes()
    lines = [json.loads(line) for line in content.splitlines()]
    kinds = {bool: "flag", int: "count", float: "number", str: "text", list: "list", dict: "object"}
    for number, line in enumerate(lines[:3] + lines[-1:]):
        at = number if number < 3 else len(lines) - 1

        def write(changed: Any, at: int = at) -> bytes:
            return b"".join(dumps(changed if place == at else each) + b"\n" for place, each in enumerate(lines))

        for key, value in line.items():
            if value is None or key in ("info", "usage", "facts"):
                continue
            wrong = [
                each
                for each in WRONG[kinds[type(value)]]
                if not (isinstance(value, bool) and each in (2, "true", "yes", ""))
            ]
            for other in rng.sample(wrong, min(4, len(wrong))):
                loose = (
                    isinstance(value, int | float) and not isinstance(value, bool) and isinstance(other, int | float)
                )
                expects = EITHER if loose or other is None else REFUSE
                yield case_of(
                    rng.choice([door, read]),
                    file,
                    f"line {at + 1}: {key} is {str(other)[:20]!r}",
                    write(line | {key: other}),
                    expects,
                )
        yield from unknown_keys(read, file, line, rng, 2, below=lambda path: path == (), write=write)
        yield from repeated_keys(read, file, line, rng, 4, write=partial(with_line, lines, at))
    for _ in range(6):
        cut = rng.randrange(1, len(content) - 2)
        yield case_of(read, file, f"cut after {cut}", content[:cut], EITHER)
    for what, text in FOREIGN.items():
        yield case_of(read, file, f"holds {what}", text, EITHER if b"\n" not in text else REFUSE)
    for _ in range(5):
        place = rng.randrange(len(content) - 2)
        yield case_of(read, file, f"0xff at {place}", content[:place] + b"\xff" + content[place:])
    yield from (
        case for case in no_files(read, file) if case.name.split(" is ")[1] in ("a folder", "a pipe", "a device")
    )


def playing(*words: str) -> Callable[[Path], Ended]:
    """Return what runs the program and removes what it has played."""

    def runs(folder: Path) -> Ended:
        ended = command(*words)(folder)
        shutil.rmtree(folder / "out", ignore_errors=True)
        return replace(ended, said="", result=None) if ended.kind == "accepted" else ended

    return runs


ON_DABENCH = ("--benchmark", "simulations.dabench:benchmark", "--data", "d")
BY_RULE = ("--cheap", "scripted", "--strong", "scripted")
QUESTION = {
    "id": 7,
    "question": "What is the mean?",
    "concepts": ["Summary Statistics"],
    "constraints": "None.",
    "format": "@mean[mean_value]",
    "file_name": "plants.csv",
    "level": "easy",
}
LABEL = {"id": 7, "common_answers": [["mean", "2.50"]]}


def questions(home: Path, rng: Random) -> Iterator[Case]:
    """Questions or labels of DABench are wrong."""
    folder = home / "dabench"
    (folder / "d" / "da-dev-tables").mkdir(parents=True)
    (folder / "d" / "da-dev-tables" / "plants.csv").write_text("a\n1\n")
    files = {"d/da-dev-questions.jsonl": QUESTION, "d/da-dev-labels.jsonl": LABEL}
    for file, content in files.items():
        (folder / file).write_bytes(dumps(content) + b"\n")
    door = Door("DABench questions, Python", python(lambda _: repr(read_questions("d"))), folder, ("da-dev-",))
    words = ("collect", *ON_DABENCH, *BY_RULE, "--out", "out", "--first", "1")
    for file, content in files.items():
        fields = {
            (key,): "id" if key == "id" else "list" if isinstance(value, list) else "text"
            for key, value in content.items()
        }
        yield from wrong_fields(
            door,
            file,
            content,
            fields,
            rng,
            names=lambda path: ("line 1", *named(path)),
            write=lambda line: dumps(line) + b"\n",
        )
        yield from repeated_keys(door, file, content, rng, 8)
        yield from foreign(door, file)
        yield from no_files(door, file)
        yield from broken_text(door, file, dumps(content) + b"\n", rng)
    other = Door("DABench questions", playing(*words), folder, ("da-dev-",))
    for path in ("../x.csv", "/etc/passwd", "a/b.csv"):
        yield case_of(door, "d/da-dev-questions.jsonl", f"file_name is {path}", dumps(QUESTION | {"file_name": path}))
    for number, case in enumerate(foreign(other, "d/da-dev-questions.jsonl")):
        if number % 2:
            yield case


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
    for name, content in (("questions", QUESTION), ("labels", LABEL)):
        (folder / "d" / f"da-dev-{name}.jsonl").write_bytes(dumps(content) + b"\n")
    (folder / "list.txt").write_text("7\n")
    words = ("collect", *ON_DABENCH, *BY_RULE, "--tasks", "list.txt", "--out", "out")
    door = Door("lists of tasks", playing(*words), folder, ("list.txt",))
    for value in ("8", "7\n8", "7 8", "7,8", "-7", "07", "7.0", "\x1b[31m7", "7\0", "9" * 5000, "\u0667", '"7"', "[7]"):
        yield case_of(door, "list.txt", f"names {value[:20]!r}", value.encode(), REFUSE)
    for encoding in ("utf-16", "utf-32", "utf-16-le"):
        yield case_of(door, "list.txt", encoding, "7\n".encode(encoding))
    for number in range(6):
        yield case_of(door, "list.txt", f"bytes {number}", rng.randbytes(30) + b"\xff")
    yield from foreign(door, "list.txt")
    yield from no_files(door, "list.txt")
