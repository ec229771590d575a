"""Bad logs to import, of every format, and the tables beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

from attack.cases import EITHER, REFUSE, SAME, Case, Door, command
from attack.junk import WRONG, Raw, case_of, dumps, foreign, no_files, repeated_keys, replaced
from conversations import answer, asked, call, rollout, turn

Field = tuple[object, ...]


def _tau(tasks: str) -> list[dict[str, Any]]:
    traj = [asked("Cancel."), {**turn(call("cancel", "c1", flight=1)), "content": None}, answer("Error", "c1")]
    return [{"task_id": task, "reward": 1.0, "info": {"task": {}}, "traj": traj, "trial": 0} for task in tasks]


def _atif(task: str) -> dict[str, Any]:
    steps = [
        {"step_id": 1, "source": "user", "message": "List."},
        {
            "step_id": 2,
            "source": "agent",
            "message": "I look.",
            "tool_calls": [{"tool_call_id": "c1", "function_name": "bash", "arguments": {"cmd": "ls"}}],
            "observation": {"results": [{"source_call_id": "c1", "content": "a.txt"}]},
            "metrics": {"prompt_tokens": 100, "completion_tokens": 10, "cost_usd": 0.25},
        },
    ]
    agent = {"name": "t", "version": "2", "model_name": "small"}
    extra = {"task": task, "success": True}
    return {"schema_version": "ATIF-v1.4", "session_id": "s", "agent": agent, "steps": steps, "extra": extra}


def _inspect(tasks: str) -> dict[str, Any]:
    def sample(task: str) -> dict[str, Any]:
        messages = [
            {"id": "m1", "content": "Add.", "role": "user"},
            {
                "id": "m2",
                "content": "I add.",
                "role": "assistant",
                "tool_calls": [{"id": "t1", "function": "add", "arguments": {"x": 1}, "type": "function"}],
            },
            {"id": "m3", "content": "3", "role": "tool", "tool_call_id": "t1", "function": "add"},
        ]
        return {"id": task, "epoch": 1, "input": "Add.", "messages": messages, "scores": {"match": {"value": "C"}}}

    return {"version": 2, "status": "success", "eval": {"model": "m"}, "samples": [sample(task) for task in tasks]}


def _intercode(tasks: str) -> dict[str, Any]:
    history = {
        "actions": ["ls", "cat a"],
        "observations": ["a", "b"],
        "rewards": [0.0, 1.0],
        "valid_action": [True, True],
    }
    summary = {"max_reward": 1.0, "turns_taken": 2, "turns_max": 10}
    return {
        task: {"environment": "sql", "task_id": task, "query": "Do it.", "turn_history": history, "summary": summary}
        for task in tasks
    }


def _mini(task: str) -> dict[str, Any]:
    said = {**turn(call("bash", command="ls")), "extra": {"response": {"usage": {"prompt_tokens": 9}}, "cost": 0.5}}
    info = {
        "model_stats": {"instance_cost": 1.0, "api_calls": 2},
        "config": {"model": {"model_name": "small"}},
        "exit_status": "Submitted",
    }
    messages = [asked("Fix it."), said, {**answer("<returncode>1</returncode>"), "extra": {"returncode": 1}}]
    return {"info": info, "messages": messages, "trajectory_format": "mini-swe-agent-1.1", "instance_id": task}


def _swe(_: str) -> dict[str, Any]:
    step = {"action": "ls\n", "observation": "a.py", "response": "I look.", "thought": "I look."}
    info = {
        "exit_status": "submitted",
        "model_stats": {"instance_cost": 0.4, "tokens_sent": 90, "tokens_received": 9, "api_calls": 3},
    }
    history = [{"role": "system", "content": "SETTING", "agent": "main"}, {"role": "user", "content": "ISSUE"}]
    return {"environment": "main", "trajectory": [step, step], "history": history, "info": info}


FORMATS: Mapping[str, tuple[str, Any, Mapping[Field, str]]] = {
    "openai": (
        "cheap.jsonl",
        [rollout(task, model="m") for task in "abc"],
        {
            (1, "task"): "id",
            (1, "success"): "flag",
            (1, "messages"): "list",
            (1, "messages", 1): "object",
            (1, "messages", 1, "role"): "choice",
            (1, "messages", 1, "tool_calls"): "object",
        },
    ),
    "tau-bench": (
        "cheap.json",
        _tau("abc"),
        {
            (1, "task_id"): "id",
            (1, "reward"): "number",
            (1, "traj"): "list",
            (1, "traj", 1): "object",
            (1, "info"): "object",
            (1, "traj", 1, "role"): "choice",
        },
    ),
    "atif": (
        "cheap.jsonl",
        [_atif(task) for task in "abc"],
        {
            (1, "steps"): "list",
            (1, "steps", 1): "object",
            (1, "extra", "task"): "id",
            (1, "extra", "success"): "flag",
            (1, "extra"): "object",
            (1, "agent"): "object",
            (1, "steps", 1, "metrics"): "object",
            (1, "steps", 1, "observation"): "object",
            (1, "steps", 1, "tool_calls"): "list",
        },
    ),
    "inspect": (
        "cheap.json",
        _inspect("abc"),
        {
            ("samples",): "list",
            ("samples", 1): "object",
            ("samples", 1, "id"): "id",
            ("samples", 1, "messages"): "list",
            ("samples", 1, "messages", 1): "object",
            ("eval",): "object",
            ("samples", 1, "scores"): "object",
            ("samples", 1, "scores", "match"): "object",
        },
    ),
    "intercode": (
        "cheap.json",
        _intercode("abc"),
        {
            ("b",): "object",
            ("b", "query"): "text",
            ("b", "turn_history"): "object",
            ("b", "turn_history", "actions"): "list",
            ("b", "summary"): "object",
            ("b", "summary", "max_reward"): "number",
        },
    ),
    "mini-swe-agent": (
        "cheap",
        {f"{task}/{task}.traj.json": _mini(task) for task in "abc"},
        {
            ("messages",): "list",
            ("messages", 1): "object",
            ("info",): "object",
            ("info", "model_stats"): "object",
            ("info", "config"): "object",
            ("messages", 1, "extra"): "object",
            ("messages", 1, "role"): "choice",
        },
    ),
    "swe-agent": (
        "cheap",
        {f"{task}.traj": _swe(task) for task in "abc"},
        {
            ("trajectory",): "list",
            ("trajectory", 0): "object",
            ("trajectory", 0, "action"): "text",
            ("info",): "object",
            ("info", "model_stats"): "object",
            ("history",): "list",
        },
    ),
}
"""By format: the name of the log, what it holds (a file by name where it is a folder), and fields to break."""


def write_log(path: Path, content: Any) -> None:
    if not path.suffix:
        for name, each in content.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(dumps(each))
    elif path.suffix == ".jsonl":
        path.write_bytes(b"".join(dumps(each) + b"\n" for each in content))
    else:
        path.write_bytes(dumps(content))


def imported(home: Path, rng: Random, formats: list[str]) -> Iterator[Case]:
    """A log of one format is wrong."""
    for form in formats:
        log, content, fields = FORMATS[form]
        folder = home / f"import_{form}"
        folder.mkdir(parents=True)
        write_log(folder / log, content)
        strong = log.replace("cheap", "strong")
        write_log(folder / strong, content)
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
        write_log(folder / name, logs)
    outcomes = "task,success\na,1\nb,0\nc,true\n"
    tasks = "task,size,kind\na,1,x\nb,2.5,y\nc,3,x\n"
    (folder / "o.csv").write_text(outcomes)
    (folder / "k.csv").write_text(tasks)
    words, out = ("import", "cheap.jsonl", "strong.jsonl"), ("--out", "out.jsonl", "--workers", "1")
    tables = ("--cheap-results", "o.csv", "--strong-results", "o.csv", "--tasks", "k.csv")
    door = Door(
        "import, outcomes and tasks",
        command(*words, *tables, *out, out=("out.jsonl",)),
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
        command(*words, "--cheap-results", "report.json", *tables[2:4], *out, out=("out.jsonl",)),
        folder,
        ("report.json", "-results"),
    )
    for key in report:
        for value in WRONG["names"]:
            if value not in (["a", "a"], [""]):
                yield case_of(reported, "report.json", f"{key} is {str(value)[:20]!r}", dumps(report | {key: value}))
    yield from repeated_keys(reported, "report.json", report, rng, 4)
    yield from foreign(reported, "report.json")
