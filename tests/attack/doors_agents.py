"""Bad input about agents: marks, transcripts, questions."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from attack import base
from attack.case import EITHER, REFUSE, SAME, Case, Door, Ended
from attack.doors_route import with_line
from attack.junk import FOREIGN, WRONG, dumps
from attack.putting import (
    broken_text,
    case_of,
    foreign,
    named,
    no_files,
    repeated_keys,
    unknown_keys,
    wrong_fields,
)
from attack.ways import command, python
from toy_world import RIGHT, WAIT, Corridor, Stalled, Walker

from bayes_tacit.agents import Budget, PureController, run_episode
from bayes_tacit.agents.transcript import read_transcript
from simulations.dabench.questions import read_questions


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
    yield case("reversed", text, f"{due[0]},5,1,3\n", names=("line 2",))
    yield case("half", text, f"{due[0]},5,,\n", names=("line 2",))
    yield case("an id twice", text, *rows, rows[0], names=(f"line {len(rows) + 2}",))
    yield case("no id", text, ",0,1,0\n", names=("line 2",))
    yield case("more cells", text, f"{due[0]},0,1,0,7,7\n", names=("line 2",))
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
            PureController(agent),
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
        yield from repeated_keys(
            read,
            file,
            line,
            rng,
            4,
            write=partial(with_line, lines, at),
        )
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


def refusing(run: Callable[[Path], Ended], file: str = "da-dev-") -> Callable[[Path], Ended]:
    """Take the one refusal that comes after a file was read, of a folder without rollouts, for being accepted."""

    def runs(folder: Path) -> Ended:
        ended = run(folder)
        shutil.rmtree(folder / "out", ignore_errors=True)
        return Ended("accepted") if ended.kind == "refused" and file not in ended.said else ended

    return runs


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
    # Nobody plays: whatever is wrong is told before that, and what is not has no player.
    words = (
        "collect",
        "--benchmark",
        "simulations.dabench:benchmark",
        "--data",
        "d",
        "--cheap",
        "d",
        "--strong",
        "d",
        "--out",
        "out",
        "--first",
        "1",
    )
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
    other = Door("DABench questions", refusing(command(*words)), folder, ("da-dev-",))
    for path in ("../x.csv", "/etc/passwd", "a/b.csv"):
        yield case_of(door, "d/da-dev-questions.jsonl", f"file_name is {path}", dumps(QUESTION | {"file_name": path}))
    for number, case in enumerate(foreign(other, "d/da-dev-questions.jsonl")):
        if number % 2:
            yield case
