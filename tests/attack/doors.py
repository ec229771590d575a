"""Every door of the library, and bad input for each: files, logs to import, lines on standard input, options."""

from __future__ import annotations

import io
import json
import shutil
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from attack import cases
from attack.cases import EITHER, REFUSE, SAME, Case, Door, Ended, command, python
from attack.junk import (
    FOREIGN,
    KINDS,
    WRONG,
    Raw,
    broken_bytes,
    broken_fields,
    broken_netcdf,
    broken_text,
    broken_zarr,
    case_of,
    dumps,
    fields_of,
    foreign,
    inside,
    no_files,
    paths,
    replaced,
    rewritten,
    same,
    with_line,
)
from conversations import answer as replied
from conversations import asked, call, turn
from routers import random_router
from toy_world import RIGHT, WAIT, Corridor, Stalled, Walker

from bayes_tacit import Counterfactuals, Episodes, MapFit, Router
from bayes_tacit.agents import Budget, run_episode
from bayes_tacit.agents.transcript import read_transcript
from bayes_tacit.cli.route import answer
from bayes_tacit.gateway import Engine, FileStore, Identity, Reply, SessionLog, Sessions, default_router
from bayes_tacit.router import DecisionLog, pure, replay
from simulations.dabench.questions import read_questions


def episodes_by_line(home: Path, rng: Random) -> Iterator[Case]:
    """One line of JSON Lines is wrong."""
    folder = cases.written(home / "jsonl", "e.jsonl")
    lines = [json.loads(line) for line in (folder / "e.jsonl").read_text().splitlines()]
    at = next(place for place, line in enumerate(lines) if line.get("window"))
    fields = {("episode",): "id", ("features",): "object", ("features", "entities"): "number or flag"}
    fields |= {("cheap_success",): "flag", ("strong_success",): "flag", ("diagnostics",): "list"}
    fields |= {("diagnostics", 0): "object", ("diagnostics", 0, "repeat"): "nonnegative or flag"}
    write, read = partial(with_line, lines, at), python(lambda _: repr(Episodes.read("e.jsonl").summary()))
    for name, run, each in (("episodes .jsonl", command("summary", "e.jsonl", "--json"), 99), ("Python", read, 3)):
        door = Door(name, run, folder, ("e.jsonl",))
        line = (f"e.jsonl:{at + 1}",)
        yield from broken_fields(
            door, "e.jsonl", lines[at], fields, rng, write=write, per_field=each, repeats=12, names=line
        )
        yield from broken_text(door, "e.jsonl", write(dumps(lines[at])), rng, lines=True)
        yield from same(door, "e.jsonl", lines, rng, 6, lines=True)
        for value in (1e308, 1e-310, 1e300, -0.0, 5e-324):
            changed = lines[at] | {"diagnostics": [step | {"repeat": value} for step in lines[at]["diagnostics"]]}
            yield case_of(door, "e.jsonl", f"a diagnostic of {value}", write(dumps(changed)), EITHER)


def arrays(home: Path, rng: Random, name: str, *words: str) -> Iterator[Case]:
    """Episodes or a posterior as netCDF or Zarr; wrong values in one are those of tests/data/test_stores.py."""
    folder = cases.written(home / name, name, "few.jsonl")
    door = Door(name, command(*words, out=("out.csv",) if "score" in words else ()), folder, (name,))
    yield from (broken_netcdf if name.endswith(".nc") else broken_zarr)(door, name, rng)


def episodes_in_tables(home: Path, rng: Random) -> Iterator[Case]:
    """Episodes as a folder of two Parquet tables."""
    folder = cases.written(home / "parquet", "e.parquet")
    door = Door("episodes .parquet", command("summary", "e.parquet", "--json"), folder, ("e.parquet",))
    for table in ("tasks", "steps"):
        yield from broken_bytes(door, f"e.parquet/{table}.parquet", rng)
    yield from no_files(door, "e.parquet")


def fits(home: Path, rng: Random) -> Iterator[Case]:
    """The fit is wrong."""
    folder = cases.written(home / "fit", "fit.json", "few.jsonl")
    content = json.loads((folder / "fit.json").read_text())
    fields = fields_of(content, frozenset({"restarts", "standard_errors", "floored", "provenance", "profile"}))
    fields |= {("feature_names",): "names", ("diagnostic_names",): "names", ("s",): "positive", ("w", 0): "share"}
    fields |= {("spec", "memory"): "share", ("spec", "family"): "choice", ("ridge",): "nonnegative"}
    scored = command("score", "fit.json", "few.jsonl", "--out", "out.csv", out=("out.csv",))
    for name, run in (("fit.json", scored), ("fit, Python", python(lambda _: repr(MapFit.load("fit.json"))))):
        door = Door(name, run, folder, ("fit.json",))
        yield from broken_fields(door, "fit.json", content, fields, rng, per_field=6, repeats=25, unknown=10)
        yield from broken_text(door, "fit.json", (folder / "fit.json").read_bytes(), rng)
        yield from same(door, "fit.json", content, rng, 6)
        for what, changed in {
            "weights that sum to 2": {"w": [2 * weight for weight in content["w"]]},
            "no diagnostic": {"w": [], "diagnostic_names": []},
            "a newer schema": {"schema_version": 99},
            "more timed than episodes": {"n_timed": content["n_episodes"] + 1},
        }.items():
            yield case_of(door, "fit.json", what, dumps(content | changed))
    door = Door("fit.json", scored, folder, ("fit.json",))
    for key, value in (("gamma0", 1e308), ("beta0", -1e308), ("s", 1e-310), ("s", 1e308), ("beta0", 1e4)):
        yield case_of(door, "fit.json", f"{key} is {value}", dumps(content | {key: value}), EITHER)


def routers(home: Path, rng: Random) -> Iterator[Case]:
    """The router is wrong: one of every rule; a digest tells whatever was changed."""
    for name, router in cases.routers().items():
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
        routed = Door(f"router.json, {name}", command("route", "r.json", stdin=requests), folder, ("r.json",))
        loaded = Door("router.json, Python", python(lambda _: repr(Router.load("r.json"))), folder, ("r.json",))
        values = [path for path in paths(content) if not isinstance(inside(content, path), dict | list)]
        for path in rng.sample(values, min(25, len(values))):
            value = inside(content, path)
            others: list[object] = [not value, None, "true"] if isinstance(value, bool) else [1, [], {}, "x", "", True]
            if isinstance(value, int | float) and not isinstance(value, bool):
                others = [value + 1, -value - 1, None, str(value), [value], value * 1.0000001 + 1e-9]
            other = rng.choice(others)
            yield case_of(routed, "r.json", f"{path} is {other!r}", dumps(replaced(content, path, other)))
        yield from broken_fields(routed, "r.json", content, {}, rng, repeats=6, unknown=5)
        yield from broken_text(rng.choice([routed, loaded]), "r.json", dumps(content), rng)
        yield from same(routed, "r.json", content, rng, 3)


def tables_of_counterfactuals(home: Path, rng: Random) -> Iterator[Case]:
    """What comes of handoffs, as .csv, .parquet and .nc."""
    for suffix in ("csv", "parquet", "nc"):
        name = f"c.{suffix}"
        folder = cases.written(home / f"c{suffix}", name, "fit.json", "few.jsonl")
        words = f"select fit.json few.jsonl --cap 8 --n 5 --counterfactuals {name} --out out.json".split()
        chosen = Door(f"counterfactuals .{suffix}", command(*words, out=("out.json",)), folder, (name,))
        reads = python(lambda _, name=name: repr(Counterfactuals.read(name)))
        read = Door(f"counterfactuals .{suffix}, Python", reads, folder, (name,))
        yield from no_files(chosen, name)
        if suffix == "nc":
            yield from broken_netcdf(read, name, rng)
        elif suffix == "parquet":
            yield from broken_bytes(read, name, rng)
        else:
            content = (folder / name).read_bytes()
            yield from foreign(read, name)
            for what, bad in {
                "UTF-16": content.decode().encode("utf-16"),
                "a NUL": content.replace(b"task-0001", b"task\0", 1),
                "a column twice": content.replace(b"success", b"cost", 1),
                "ragged": content + b"a,b,c,d,e,f,g,h,i\n",
                "an open quote": content + b'"',
                "byte 0xff": content + b"\xff,,,,,\n",
            }.items():
                yield case_of(read, name, what, bad)


BEGIN = {"episode": "a", "features": {"x0": 1, "x1": 0.5}}
STEP = {"episode": "a", "diagnostics": {"u0": 0.5, "u1": 0, "u2": 1}}


def requests(home: Path, rng: Random) -> Iterator[Case]:
    """A line to `route` is wrong: it is answered by an error, and the next one as if it had not been."""
    (folder := home / "route").mkdir(parents=True)
    (folder / "line").write_bytes(dumps(STEP))
    router = random_router(draws=3)

    def ask(given: bytes) -> list[dict[str, Any]]:
        out = io.StringIO()
        answer(router, io.BufferedReader(io.BytesIO(given)), out)
        return [json.loads(reply) for reply in out.getvalue().splitlines()]

    begin, step = dumps(BEGIN) + b"\n", dumps(STEP) + b"\n"
    after = ask(begin + step)

    def run(where: Path) -> Ended:
        replies = ask(begin + (where / "line").read_bytes() + b"\n" + step)
        if "error" not in replies[1]:
            return Ended("accepted", "", replies[1])
        if replies[1]["line"] != 2 or replies[-1] != after[1]:
            return Ended("crashed", f"after it: {replies[1:]}")
        return Ended("refused", replies[1]["error"])

    door = Door("lines to route", run, folder)
    for content, fields in (
        (STEP, {("episode",): "id", ("diagnostics",): "object", ("diagnostics", "u0"): "nonnegative or flag"}),
        (BEGIN | {"episode": "b"}, {("features",): "object", ("features", "x1"): "number or flag"}),
        ({"episode": "a", "end": True}, {("episode",): "id", ("end",): "flag"}),
    ):
        for case in broken_fields(door, "line", content, fields, rng, unknown=6, names=()):
            # Numbers in order are as good as numbers by name; their count is another test.
            yield case if not case.name.endswith("s is '[]'") else replace(case, expects=EITHER)
        text = dumps(content)
        for cut in rng.sample(range(1, len(text) - 1), 6):
            yield case_of(door, "line", f"cut {cut}", text[:cut])
    for what, line in {
        "two things": dumps(STEP | {"end": True}),
        "features and diagnostics": dumps(STEP | BEGIN),
        "nothing": dumps({"episode": "a"}),
        "not begun": dumps(STEP | {"episode": "z"}),
        "begun again": dumps(BEGIN),
        "end of none": dumps({"episode": "z", "end": True}),
        "a number too few": dumps(STEP | {"diagnostics": [1, 2]}),
        "UTF-16": dumps(STEP).decode().encode("utf-16").replace(b"\n", b""),
        "latin-1": '{"episode": "é"}'.encode("latin-1"),
        "too long": b'{"episode": "' + b"a" * 2**20 + b'"}',
        "two objects": dumps(STEP) + dumps(STEP),
        "an episode that is a number": dumps(STEP | {"episode": 1}),
    }.items():
        yield case_of(door, "line", what, line)
    for what, foreigner in FOREIGN.items():
        if foreigner.strip() and b"\n" not in foreigner:
            yield case_of(door, "line", what, foreigner)
    for number in range(5):
        yield case_of(door, "line", f"written otherwise {number}", rewritten(STEP, rng), SAME)


def decision_logs(home: Path, rng: Random) -> Iterator[Case]:
    """A decision log is wrong: replaying finds it."""
    (folder := home / "log").mkdir(parents=True)
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
    # A value that is not what the router computes is found: that is what a replay is for.
    replayed = python(lambda _: "agrees" if replay("d.jsonl", router).agrees else "found")
    door = Door("decision log", replayed, folder, ("d.jsonl",))
    start = {
        ("event",): "choice",
        ("episode",): "id",
        ("router",): "text",
        ("features",): "object",
        ("shadow",): "flag",
    }
    start |= {("features", "x0"): "number or flag", ("schema_version",): "count"}
    seen = {("event",): "choice", ("diagnostics",): "object", ("diagnostics", "u1"): "nonnegative or flag"}
    restored = {("snapshot",): "object", ("snapshot", "router"): "text", ("snapshot", "features"): "list"}
    for at, fields in ((0, start), (1, seen), (4, restored)):
        names = (f"line {at + 1}", f"line {at + 2}", "router")
        write = partial(with_line, lines, at)
        yield from broken_fields(door, "d.jsonl", lines[at], fields, rng, write=write, unknown=4, names=names)
    yield from no_files(door, "d.jsonl")
    yield from foreign(door, "d.jsonl", lambda text: b"\n" not in text)
    for _ in range(8):
        cut = rng.randrange(1, len(content))
        yield case_of(door, "d.jsonl", f"cut after {cut}", content[:cut], EITHER)


def snapshots(home: Path, rng: Random) -> Iterator[Case]:
    """A snapshot of an episode is wrong."""
    (folder := home / "snapshot").mkdir(parents=True)
    router = random_router(draws=3)
    state = router.start([1, 0.5], episode="a")
    state.observe([0.5, 0, 1])
    content = json.loads(json.dumps(state.snapshot()))
    (folder / "s.json").write_bytes(dumps(content))

    def restored(where: Path) -> object:
        return [router.restore(json.loads((where / "s.json").read_bytes())).observe([0.5, 0, 1])._asdict()]

    door = Door("snapshot, Python", python(restored), folder)
    for case in broken_fields(door, "s.json", content, fields_of(content), rng, repeats=0, unknown=6, names=()):
        # What is no JSON does not come as far as the snapshot.
        if not any(str(raw)[:20] in case.name for raw in WRONG["number"] if isinstance(raw, Raw)):
            yield case


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


def session_logs(home: Path, rng: Random) -> Iterator[Case]:
    """A log of sessions is wrong.

    It is read while servers write to it: a line that is none is left out, and counted in a note. What a page does not
    show it does not look at.
    """
    folder = home / "sessions"
    serve(folder, sessions=3)
    (folder / "sessions.sqlite").unlink()
    monitor = command("monitor", "served.jsonl", "--out", "out.html", "--json", out=("out.html",))
    door = Door("session logs", monitor, folder, ("served.jsonl",))
    text = (folder / "served.jsonl").read_bytes()
    lines = [json.loads(line) for line in text.splitlines()]
    for event in ("start", "step", "reply", "outcome"):
        at = next(place for place, line in enumerate(lines) if line["event"] == event)
        fields = {(key,): KINDS[type(value)] for key, value in lines[at].items() if value is not None}
        write = partial(with_line, lines, at)
        yield from broken_fields(
            door, "served.jsonl", lines[at], fields, rng, write=write, expects=EITHER, per_field=5, unknown=3
        )
    torn = ("cut after", "a NUL", "0xff", "too much", "a tab")
    for case in broken_text(door, "served.jsonl", text, rng, lines=True):
        yield replace(case, expects=EITHER) if any(word in case.name for word in torn) else case


NO_COUNTS = ("x", "-1", "1.5", "1e3", "9" * 5000, "nan", "inf", "0x1", "1_0", "\u0661", "+1", "1 0", "\x1b[31m", '"')


def marks(home: Path, rng: Random) -> Iterator[Case]:
    """A table of marks is wrong."""
    folder = cases.written(home / "marks", "few.jsonl")
    text = "episode,window_start,window_end,recommended\n"
    known = cases.episodes()
    due = [name for name, outcome in zip(known.ids, known.outcomes, strict=True) if outcome == "01"]
    rows = [f"{name},0,1,0\n" for name in due]
    whole = text + "".join(rows)
    (folder / "m.csv").write_text(whole)
    taught = command("teach", "few.jsonl", "--marks", "m.csv", "--out", "out.jsonl", out=("out.jsonl",))
    door = Door("marks", taught, folder, ("m.csv",))
    for column in range(1, 4):
        for value in NO_COUNTS:
            cells = [due[0], "0", "1", "0"]
            cells[column] = value
            changed = (text + ",".join(cells) + "\n" + "".join(rows[1:])).encode()
            yield case_of(door, "m.csv", f"column {column} is {value[:20]!r}", changed, REFUSE, ("m.csv:2", "CSV"))
    for what, bad in {
        "past the rollout": text + f"{due[0]},0,999,0\n",
        "of an unknown episode": text + "nobody,0,1,0\n",
        "of an episode that is not due": text + "task-0000,0,1,0\n",
        "a column twice": whole.replace("recommended", "window_start"),
        "an open quote": text + f'"{due[0]},0,1,0\n',
        **{f"no column {column}": whole.replace(column, "other") for column in ("episode", "window_end")},
    }.items():
        yield case_of(door, "m.csv", what, bad.encode())
    yield case_of(door, "m.csv", "no row", text.encode(), EITHER)
    yield case_of(door, "m.csv", "a byte order mark", b"\xef\xbb\xbf" + whole.encode(), SAME)
    yield case_of(door, "m.csv", "CRLF", whole.replace("\n", "\r\n").encode(), SAME)
    yield from no_table(door, "m.csv", whole, rng)


def no_table(door: Door, file: str, text: str, rng: Random) -> Iterator[Case]:
    for encoding in ("utf-16", "utf-32", "utf-16-le"):
        yield case_of(door, file, f"{file}: {encoding}", text.encode(encoding))
    for _ in range(6):
        at = rng.randrange(len(text))
        yield case_of(door, file, f"{file}: 0xff at {at}", text[:at].encode() + b"\xff" + text[at:].encode())
    yield from foreign(door, file)
    yield from no_files(door, file)


def transcripts(home: Path, rng: Random) -> Iterator[Case]:
    """A transcript is wrong."""
    (folder := home / "transcripts" / "t").mkdir(parents=True)
    for agent, actions in (("cheap", WAIT), ("strong", RIGHT)):
        walkers = Walker("cheap", WAIT, (0.1, None)), Walker("strong", actions)
        told = {"extractor": Stalled(), "episode": "corridor", "budget": Budget(6)}
        run_episode(Corridor(3), *walkers, pure(agent), path=folder / f"{agent}.jsonl", **told)
    file, read = "t/cheap.jsonl", python(lambda _: repr(read_transcript("t/cheap.jsonl").end))
    door = Door("transcripts, Python", read, folder.parent, ("cheap.jsonl",))
    content = (folder / "cheap.jsonl").read_bytes()
    lines = [json.loads(line) for line in content.splitlines()]
    for at in (0, 1, 2, len(lines) - 1):
        write = partial(with_line, lines, at)
        shown = {key: value for key, value in lines[at].items() if key not in ("info", "usage", "facts")}
        fields = {(key,): KINDS[type(value)] for key, value in shown.items() if value is not None}
        for case in broken_fields(door, file, lines[at], fields, rng, write=write, per_field=4, names=()):
            # A number may be another one, and some may be missing; none may crash.
            loose = fields.get((case.name.split(" ")[0],)) in ("count", "number") or "not there" in case.name
            yield replace(case, expects=EITHER) if loose else case
    yield from foreign(door, file, lambda text: b"\n" not in text)
    yield from no_files(door, file, ("missing", "a dangling link", "a link to itself"))
    for _ in range(6):
        at = rng.randrange(1, len(content) - 2)
        yield case_of(door, file, f"cut after {at}", content[:at], EITHER)
        yield case_of(door, file, f"0xff at {at}", content[:at] + b"\xff" + content[at:])


QUESTION = {"id": 7, "question": "What is the mean?", "concepts": ["Summary Statistics"], "constraints": "None."}
QUESTION |= {"format": "@mean[mean_value]", "file_name": "plants.csv", "level": "easy"}
LABEL = {"id": 7, "common_answers": [["mean", "2.50"]]}
FILES = {"d/da-dev-questions.jsonl": QUESTION, "d/da-dev-labels.jsonl": LABEL}
DABENCH = ("--benchmark", "simulations.dabench:benchmark", "--data", "d")


def questions(home: Path, rng: Random) -> Iterator[Case]:
    """Questions or labels of DABench are wrong, or the list of those to play."""
    (home / "dabench" / "d" / "da-dev-tables").mkdir(parents=True)
    folder = home / "dabench"
    (folder / "d" / "da-dev-tables" / "plants.csv").write_text("a\n1\n")
    (folder / "list.txt").write_text("7\n")
    for file, content in FILES.items():
        (folder / file).write_bytes(dumps(content) + b"\n")
    door = Door("DABench questions, Python", python(lambda _: repr(read_questions("d"))), folder, ("da-dev-",))
    for file, content in FILES.items():
        fields = {(key,): "id" if key == "id" else KINDS[type(value)] for key, value in content.items()}
        yield from broken_fields(door, file, content, fields, rng, names=("line 1", *content))
        yield from broken_text(door, file, dumps(content) + b"\n", rng)
    for path in ("../x.csv", "/etc/passwd", "a/b.csv"):
        yield case_of(door, "d/da-dev-questions.jsonl", f"file_name is {path}", dumps(QUESTION | {"file_name": path}))
    words = ("collect", *DABENCH, "--cheap", "scripted", "--strong", "scripted", "--tasks", "list.txt", "--out", "out")

    def played(where: Path) -> Ended:
        ended = command(*words)(where)
        shutil.rmtree(where / "out", ignore_errors=True)
        return Ended("accepted") if ended.kind == "accepted" else ended

    listed = Door("lists of tasks", played, folder, ("list.txt",))
    for value in ("8", "7\n8", "7 8", "7,8", "-7", "07", "7.0", "\x1b[31m7", "7\0", "9" * 5000, "\u0667", '"7"', "[7]"):
        yield case_of(listed, "list.txt", f"names {value[:20]!r}", value.encode())
    yield from no_table(listed, "list.txt", "7\n", rng)
