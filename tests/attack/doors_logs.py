"""Logs to import, of every format, the tables beside them, and the options of every command."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from attack import cases
from attack.cases import EITHER, REFUSE, SAME, Case, Door, Ended, command
from attack.doors import no_table
from attack.junk import (
    WRONG,
    Raw,
    broken_fields,
    case_of,
    cleared,
    dumps,
    foreign,
    no_files,
    paths,
    replaced,
    with_line,
)
from conversations import answer as replied
from conversations import asked, call, rollout, turn

from bayes_tacit.cli.app import app


def _log(form: str, task: str) -> Any:
    """Return what a program writes of one task, or of three, as short as it can be."""
    traj = [asked("Cancel."), {**turn(call("cancel", "c1", flight=1)), "content": None}, replied("Error", "c1")]
    added = {"id": "t1", "function": "add", "arguments": {"x": 1}, "type": "function"}
    chat = [asked("Add."), {**turn(), "tool_calls": [added]}, {**replied("3", "t1"), "function": "add"}]
    made = {"tool_call_id": "c1", "function_name": "bash", "arguments": {"cmd": "ls"}}
    acts = {"source": "agent", "message": "I look.", "tool_calls": [made], "metrics": {"prompt_tokens": 100}}
    acts["observation"] = {"results": [{"source_call_id": "c1", "content": "a.txt"}]}
    history = {"actions": ["ls", "cat"], "observations": ["a", "b"], "rewards": [0.0, 1.0], "valid_action": [True] * 2}
    said = {**turn(call("bash", command="ls")), "extra": {"response": {"usage": {"prompt_tokens": 9}}, "cost": 0.5}}
    spent = {"model_stats": {"instance_cost": 1.0, "api_calls": 2}, "exit_status": "submitted"}
    step = {"action": "ls\n", "observation": "a.py", "response": "I look.", "thought": "I look."}
    found = {
        "openai": rollout(task, model="m"),
        "tau-bench": {"task_id": task, "reward": 1.0, "info": {"task": {}}, "traj": traj, "trial": 0},
        "atif": {
            "schema_version": "ATIF-v1.4",
            "session_id": "s",
            "agent": {"name": "t", "version": "2", "model_name": "small"},
            "steps": [{"step_id": 1, "source": "user", "message": "List."}, {"step_id": 2, **acts}],
            "extra": {"task": task, "success": True},
        },
        "inspect": {"id": task, "epoch": 1, "input": "Add.", "messages": chat, "scores": {"match": {"value": "C"}}},
        "intercode": {
            "environment": "sql",
            "task_id": task,
            "query": "Do it.",
            "turn_history": history,
            "summary": {"max_reward": 1.0, "turns_taken": 2, "turns_max": 10},
        },
        "mini-swe-agent": {
            "info": spent | {"config": {"model": {"model_name": "small"}}},
            "messages": [asked("Fix it."), said, {**replied("<returncode>1"), "extra": {"returncode": 1}}],
            "trajectory_format": "mini-swe-agent-1.1",
            "instance_id": task,
        },
        "swe-agent": {"environment": "main", "trajectory": [step] * 2, "history": [asked("ISSUE")], "info": spent},
    }
    return found[form]


FORMATS = ("openai", "tau-bench", "atif", "inspect", "intercode", "mini-swe-agent", "swe-agent")


def write_log(path: Path, form: str = "openai") -> Path:
    """Write a log of three tasks as a program does; return the file that holds the first one."""
    logs = {task: _log(form, task) for task in "abc"}
    if form.endswith("swe-agent"):
        for task, log in logs.items():
            file = path / (f"{task}/{task}.traj.json" if form.startswith("mini") else f"{task}.traj")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(dumps(log))
        return path / ("a/a.traj.json" if form.startswith("mini") else "a.traj")
    if path.suffix == ".jsonl":
        path.write_bytes(b"".join(dumps(log) + b"\n" for log in logs.values()))
        return path
    whole = {"version": 2, "status": "success", "eval": {"model": "m"}, "samples": list(logs.values())}
    path.write_bytes(dumps({"inspect": whole, "intercode": logs}.get(form, list(logs.values()))))
    return path


ANYTHING = (None, True, 7, -1, 2.5, "text", "", [], [1], [None], {}, {"a": 1}, [[]], 10**30, 1e300, Raw("[" * 9999))


def imported(home: Path, rng: Random) -> Iterator[Case]:
    """A log of one format is wrong: formats differ in what does not matter to them, but none may crash."""
    for form in FORMATS:
        (folder := home / f"import_{form}").mkdir(parents=True)
        suffix = ".jsonl" if form in ("openai", "atif") else "" if form.endswith("swe-agent") else ".json"
        path, _ = (write_log(folder / f"{side}{suffix}", form) for side in ("cheap", "strong"))
        file = str(path.relative_to(folder))
        words = ["import", f"cheap{suffix}", f"strong{suffix}", "--out", "out.jsonl", "--workers", "1"]
        if not suffix:
            (folder / "results.csv").write_text("task,success\na,0\nb,1\nc,0\n")
            words += ["--cheap-results", "results.csv", "--strong-results", "results.csv"]
        door = Door(f"import, {form}", command(*words, out=("out.jsonl",)), folder, ("cheap",))
        text = path.read_bytes()
        lines = [json.loads(line) for line in text.splitlines()]
        write, content = partial(with_line, lines, 1 if len(lines) > 1 else 0), lines[-1]
        places = [each for each in paths(content) if each]
        for _ in range(90):
            place, value = rng.choice(places), rng.choice(ANYTHING)
            expects = REFUSE if isinstance(value, Raw) else EITHER
            what = f"{place} is {str(value)[:20]!r}"
            yield case_of(door, file, what, write(dumps(replaced(content, place, value))), expects)
        # Others' programs write these; as with every reader of JSON the last of two counts.
        yield from broken_fields(door, file, content, {}, rng, write=write, expects=EITHER, repeats=4)
        for at in (rng.randrange(1, len(text) - 2) for _ in range(4)):
            yield case_of(door, file, f"0xff at {at}", text[:at] + b"\xff" + text[at:])
            if text[:at].rstrip()[-1:] != b"}":
                yield case_of(door, file, f"cut after {at}", text[:at])
        yield from foreign(door, file, lambda text: text[:1] in (b"[", b"{") and len(text) < 99)
        yield from no_files(door, file) if suffix else ()


def tables_beside(home: Path, rng: Random) -> Iterator[Case]:
    """The tables of tasks and of outcomes are wrong."""
    (folder := home / "beside").mkdir(parents=True)
    logs = [{key: value for key, value in rollout(task).items() if key != "success"} for task in "abc"]
    for name in ("cheap.jsonl", "strong.jsonl"):
        (folder / name).write_bytes(b"".join(dumps(log) + b"\n" for log in logs))
    tables = {"o.csv": "task,success\na,1\nb,0\nc,true\n", "k.csv": "task,size,kind\na,1,x\nb,2.5,y\nc,3,x\n"}
    for name, text in tables.items():
        (folder / name).write_text(text)
    report = {"resolved_ids": ["a"], "unresolved_ids": ["b", "c"]}
    (folder / "report.json").write_text(json.dumps(report))

    def door(results: str, *more: str) -> Door:
        words = ["import", "cheap.jsonl", "strong.jsonl", "--cheap-results", results, "--strong-results", "o.csv"]
        run = command(*words, *more, "--out", "out.jsonl", "--workers", "1", out=("out.jsonl",))
        return Door(f"import, {results}", run, folder, (results, "k.csv", "-results", "--tasks"))

    beside = door("o.csv", "--tasks", "k.csv")
    for value in ("x", "2", "-1", "0.5", "", "nan", "yes!", "9" * 5000, "\x1b[31m", '"'):
        yield case_of(
            beside, "o.csv", f"success is {value[:10]!r}", tables["o.csv"].replace("b,0", f"b,{value}").encode()
        )
    for value in ("nan", "inf", "1e999"):
        yield case_of(beside, "k.csv", f"size is {value}", tables["k.csv"].replace("2.5", value).encode(), EITHER)
    for file, text in tables.items():
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
            yield case_of(beside, file, f"{file}: {what}", bad.encode())
        yield case_of(beside, file, f"{file}: a byte order mark", b"\xef\xbb\xbf" + text.encode(), SAME)
        yield from no_table(beside, file, text, rng)
    reported = door("report.json")
    for key in report:
        for value in WRONG["names"]:
            if value not in (["a", "a"], [""]):
                changed = dumps(report | {key: value})
                yield case_of(reported, "report.json", f"{key} is {str(value)[:20]!r}", changed)
    yield from broken_fields(reported, "report.json", report, {}, rng, repeats=4)
    yield from foreign(reported, "report.json")


WORDS = ("abc", "", " ", "nan", "1,5", "0x10", "--", "1e", "\x1b[31m1", "½", "9" * 400 + "x", "None", "true")
NO_OPTION: dict[object, tuple[str, ...]] = {
    int: (*WORDS, "1.5", "1e3", "inf", "1e400", "9" * 400, "-" + "9" * 400, "-1000"),
    float: (*WORDS, "inf", "-inf", "1e400"),
    Literal: ("", "abc", " ", "\x1b[31m", "NONE", "1"),
}
"""What an option must not be, by the type that its command says."""

CALLS = {
    "fit": "fit few.jsonl --out out.json",
    "sample": "sample few.jsonl --out out.nc",
    "score": "score p.nc few.jsonl --out out.csv",
    "report": "report p.nc few.jsonl --out out.html",
    "select": "select fit.json few.jsonl --cap 50 --step-budget 40 --out out.json",
    "recommend": "recommend few.jsonl --cap 50 --step-budget 40 --out out.json",
    "import": "import cheap.jsonl strong.jsonl --out out.jsonl",
    "teach": "teach few.jsonl --rule 3 --out out.jsonl",
}
ENDLESS = {
    "fit": ("--restarts",),
    "sample": ("--draws", "--tune", "--chains"),
    "select": ("--n",),
    "import": ("--workers",),
}
"""Counts that would never end."""

OTHERS = {
    "fit": {"--memory": ("1.1", "learned", "-1"), "--ridge": ("-1",), "--floor": ("-1",)},
    "sample": {"--memory": ("1.1", "profile"), "--target-accept": ("0", "1", "2")},
    "score": {"--probability": ("0", "1", "1.5")},
    "report": {"--alpha": ("0", "1.5", "-1")},
    "select": {"--cap": ("-1", "nan"), "--rule": ("x", "0", "2", "nan"), "--cheap-cost": ("-1",)},
    "recommend": {"--cap": ("50%%", "%", "-5%", "nan%"), "--share": ("0", "1"), "--folds": ("1",)},
    "import": {"--diagnostics": ("", "abc", ",", "repeated_call,repeated_call"), "--format": ("abc",)},
    "teach": {"--diagnostics": ("", "abc", ","), "--rule": ("0",)},
}

UNUSED = {"teach": ("--timeout", "--stalled", "--actions", "--attempts"), "select": ("--seed",), "import": ("--seed",)}
"""Options that these calls do not come to use."""


def options(home: Path, _: Random) -> Iterator[Case]:
    """One option is wrong; which there are, and of what type, the commands say."""
    folder = cases.written(home / "options", "few.jsonl", "fit.json", "p.nc")
    for side in ("cheap", "strong"):
        write_log(folder / f"{side}.jsonl")
    (folder / "words.json").write_text(json.dumps(["summary", "few.jsonl"]))
    run: Callable[[Path], Ended] = lambda where: command(*json.loads((where / "words.json").read_bytes()))(where)  # noqa: E731
    hints = {
        made.name or made.callback.__name__: get_type_hints(made.callback, include_extras=True)
        for made in app.registered_commands
    }
    for name, line in CALLS.items():
        door, words = Door(f"options of {name}", run, folder), line.split()
        wrong = {option: list(values) for option, values in OTHERS[name].items()}
        for parameter, hint in hints[name].items():
            kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
            option = "--" + parameter.replace("_", "-")
            wrong.setdefault(option, []).extend(NO_OPTION.get(get_origin(kind) or kind, ()))
            wrong[option] += ["1000000000000"] if option in ENDLESS.get(name, ()) else []
        for option, values in wrong.items():
            for value in values:
                given = [*words[: words.index(option)], *words[words.index(option) + 2 :]] if option in words else words
                expects = EITHER if option in UNUSED.get(name, ()) else REFUSE
                yield _words(door, f"{option} {value[:20]!r}", [*given, option, value], expects)
        yield _words(door, "an option that is none", [*words, "--nothing"])
        yield _words(door, "an argument too much", [*words, "more"])
        yield _words(door, "no output", words[:-2])
        yield _words(door, "an output in no folder", [word.replace("out.", "nowhere/out.") for word in words])


def _words(door: Door, what: str, words: list[str], expects: str = REFUSE) -> Case:
    return Case(door, what, lambda folder: cleared(folder / "words.json").write_bytes(dumps(words)), expects)
