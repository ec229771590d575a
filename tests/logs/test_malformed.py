"""Logs that are wrong in two hundred ways: each gives one clear line and exit code 2, and nothing is written."""

import copy
import json

import pytest
from command_line import call as program
from conversations import answer, asked, call, rollout, turn

GOOD = [rollout("a", model="m", trial=0), rollout("b", model="m", trial=0), rollout("c", model="m", trial=0)]
JUNK = [None, True, 7, 2.5, "text", [], [1], {}, {"a": 1}]
"""A value of every kind."""

NAN, INFINITE = float("nan"), float("inf")


def lines(*rollouts):
    return "".join(json.dumps(one) + "\n" for one in rollouts).encode()


def with_second(**changes):
    """Give a log whose second rollout is changed; None takes a key away."""
    second = {**copy.deepcopy(GOOD[1]), **changes}
    return lines(GOOD[0], {key: value for key, value in second.items() if value is not ...}, GOOD[2])


def with_messages(*messages):
    return with_second(messages=list(messages))


def with_turn(**changes):
    return with_messages(asked(), {**turn(call()), **changes}, answer())


def with_answer(**changes):
    whole = {**answer(), **changes}
    return with_messages(asked(), turn(call()), {key: value for key, value in whole.items() if value is not ...})


def with_usage(**usage):
    return with_messages(asked(), turn(call(), usage=usage), answer())


def bare(**changes):
    return with_second(success=..., **changes)


def names(junk):
    return json.dumps(junk)[:20]


def line_cases():
    """Lines that are no JSON, or no rollout."""
    whole = lines(*GOOD).decode().splitlines()
    yield "torn last line", lines(*GOOD)[:-40], 3
    for cut in (1, 5, 20, 60, 100, 150, 200):
        torn = f"{whole[0]}\n{whole[1][:cut]}\n{whole[2]}\n".encode()
        yield f"line torn after {cut}", torn, 2
    for word in (
        "not JSON",
        "{",
        "}",
        "[",
        '"',
        "{'task': 1}",
        "NaN,",
        "nul",
        '{"task": }',
        '{"a" 1}',
        '{"a": 1,}',
        "\x00\x01",
    ):
        yield f"line is {word!r}", f"{whole[0]}\n{word}\n".encode(), 2
    for junk in JUNK:
        yield f"line is {names(junk)}", lines(GOOD[0], junk), 2
    yield "two objects on a line", f"{whole[0]}\n{whole[1]} {whole[2]}\n".encode(), 2
    yield "not UTF-8", f"{whole[0]}\n".encode() + b'{"task": "\xff\xfe"}\n', 2
    yield "nested too deeply", f"{whole[0]}\n".encode() + b"[" * 200_000 + b"\n", 2
    yield "a number of too many digits", f"{whole[0]}\n".encode() + b'{"task": ' + b"9" * 5000 + b"}\n", 2
    yield "a whole number as a list of lines", json.dumps(GOOD).encode(), None
    yield "pretty-printed", json.dumps(GOOD[0], indent=2).encode(), 1
    yield "empty", b"", None
    yield "blank", b"\n\n  \n", None
    yield "binary", bytes(range(256)), 1
    yield "a table", b"task,success\na,1\n", 1
    yield "first line is no rollout", lines({"hello": 1}, *GOOD), 1


def field_cases():
    """Rollouts whose fields are missing or of another kind."""
    for key in ("task", "messages", "success"):
        yield f"no {key}", with_second(**{key: ...}), 2
    for junk in JUNK:
        if not isinstance(junk, int | str) or isinstance(junk, bool):
            yield f"task {names(junk)}", with_second(task=junk), 2
        if junk not in (None, True) and junk != 1:
            yield f"success {names(junk)}", with_second(success=junk), 2
        yield f"messages {names(junk)}", with_second(messages=junk), 2
        if (junk is not None and not isinstance(junk, int | float)) or junk is True:
            yield f"score {names(junk)}", bare(score=junk), 2
        if junk is not None and (isinstance(junk, bool) or not isinstance(junk, int | str)):
            yield f"trial {names(junk)}", with_second(trial=junk), 2
            yield f"model {names(junk)}", with_second(model=junk), 2
        if junk is not None and not isinstance(junk, list):
            yield f"tools {names(junk)}", with_second(tools=junk), 2
        if junk is not None and not isinstance(junk, dict):
            yield f"usage {names(junk)}", with_second(usage=junk), 2
            yield f"features {names(junk)}", with_second(features=junk), 2
        if junk is not None and (isinstance(junk, bool) or not isinstance(junk, int | float)):
            yield f"cost {names(junk)}", with_second(cost=junk), 2
            yield f"input tokens {names(junk)}", with_second(usage={"input_tokens": junk}), 2
        if junk is not None and (not isinstance(junk, bool | int | float)):
            yield f"feature {names(junk)}", with_second(features={"x": junk}), 2
    for bad in (NAN, INFINITE, -INFINITE):
        yield f"score {bad}", bare(score=bad), 2
        yield f"cost {bad}", with_second(cost=bad), 2
        yield f"feature {bad}", with_second(features={"x": bad}), 2
        yield f"tokens {bad}", with_usage(prompt_tokens=bad), 2
    yield "score 1e999", lines(GOOD[0]) + b'{"task": "b", "score": 1e999, "messages": []}\n', 2
    yield "task is empty", with_second(task=""), 2
    yield "task that no file can hold", with_second(task="\ud800"), 2
    yield "negative cost", with_second(cost=-1), 2
    yield "negative tokens", with_usage(completion_tokens=-5), 2
    yield "cost of a message is a text", with_turn(cost="free"), 2
    yield "usage of a message is a list", with_turn(usage=[]), 2
    yield "tools without names", with_second(tools=[{"type": "function"}]), 2
    yield "tools that are numbers", with_second(tools=[1]), 2
    yield "tools with an empty name", with_second(tools=[""]), 2
    yield "another feature than before", lines({**GOOD[0], "features": {"x": 1}}, {**GOOD[1], "features": {"y": 1}}), 2
    yield "no features after some", lines({**GOOD[0], "features": {"x": 1}}, GOOD[1]), 2


def message_cases():
    """Messages that are none, or that do not follow from those before."""
    for junk in JUNK:
        yield f"message {names(junk)}", with_messages(asked(), junk, turn(call())), 2
        yield f"role {names(junk)}", with_messages({"role": junk, "content": "x"}, turn(call())), 2
        if junk not in (None, []) and not isinstance(junk, str):
            yield (
                f"content of the user {names(junk)}",
                with_messages({"role": "user", "content": junk}, turn(call())),
                2,
            )
            yield f"content of a turn {names(junk)}", with_turn(content=junk), 2
            yield f"content of an answer {names(junk)}", with_answer(content=junk), 2
            yield f"text of a part {names(junk)}", with_answer(content=[{"type": "text", "text": junk}]), 2
        if junk:
            yield f"tool_calls {names(junk)}", with_turn(tool_calls=junk), 2
        yield f"a call {names(junk)}", with_turn(tool_calls=[junk]), 2
        yield f"function {names(junk)}", with_turn(tool_calls=[{"id": "1", "function": junk}]), 2
        if not (isinstance(junk, str) and junk):
            function = {"name": junk, "arguments": "{}"}
            yield f"name of a call {names(junk)}", with_turn(tool_calls=[{"id": "1", "function": function}]), 2
        if junk is not None:
            yield f"tool_call_id {names(junk)}", with_answer(tool_call_id=junk), 2
        if junk is not None and junk not in ([], {}, {"a": 1}):
            yield f"logprobs {names(junk)}", with_turn(logprobs=junk), 2
        if junk is not None and not isinstance(junk, dict):
            yield f"logprob {names(junk)}", with_turn(logprobs={"content": [{"token": "a", "logprob": junk}]}), 2
    for bad in (NAN, -INFINITE, INFINITE, 0.5):
        yield f"logprob {bad}", with_turn(logprobs=[bad]), 2
    yield "an answer first", with_messages(answer(), turn(call())), 2
    yield "an answer to no call", with_messages(asked(), turn(text="hi"), answer()), 2
    yield "an answer to a call of an earlier turn", with_messages(turn(call()), turn(text="hi"), answer()), 2
    yield "an answer to another call", with_messages(turn(call(identity="1")), answer(identity="2")), 2
    yield "no turn of the assistant", with_messages(asked(), asked()), 2
    yield "no message", with_messages(), 2
    yield "an answer without content", with_answer(content=...), 2
    yield "a message of 10 MB", with_answer(content="x" * 10_000_000), 2
    yield "a prompt of 10 MB", with_messages(asked("x" * 10_000_000), turn(call())), 2
    yield "a turn of 10 MB", with_turn(content="x" * 10_000_000), 2
    yield "a part of 10 MB", with_answer(content=[{"type": "text", "text": "x" * 10_000_000}]), 2
    yield "a role of 10 MB", with_messages({"role": "x" * 10_000_000}), 2


def log_cases():
    """Logs that are wrong as a whole."""
    untried = [{key: value for key, value in one.items() if key != "trial"} for one in GOOD]
    yield "a task twice", lines(*untried, untried[0]), 4
    yield "a trial twice", lines(*GOOD, GOOD[2]), 4
    yield "no task in common", lines(rollout("x"), rollout("y")), None
    yield "InterCode after rollouts", lines(GOOD[0], {"0": {"turn_history": {}}}), 2
    yield "tau-bench after rollouts", lines(GOOD[0], {"task_id": 0, "traj": [], "reward": 0}), 2
    yield "rollouts after tau-bench", lines({"task_id": 0, "traj": [asked(), turn(text="x")], "reward": 0}, GOOD[0]), 2
    yield "ATIF without an outcome", lines({"schema_version": "ATIF-v1.4", "steps": []}), 1
    yield "ATIF without steps", lines({"schema_version": "ATIF-v1.4"}), 1
    yield "InterCode without turns", lines({"0": {"turn_history": 3}}), 1
    record = {"query": "q", "turn_history": {"actions": ["a"], "observations": []}, "summary": {"max_reward": 1}}
    yield "InterCode with fewer observations", lines({"0": record}), 1
    nan = {**record, "turn_history": {"actions": ["a"], "observations": ["b"]}, "summary": {"max_reward": NAN}}
    yield "InterCode with a reward that is none", lines({"0": nan}), 1
    yield "tau-bench without a reward", lines({"task_id": 0, "traj": [asked(), turn(text="x")]}), 1
    yield "SWE-agent without an outcome", lines({"trajectory": [{"action": "ls", "observation": "a"}]}), 1
    mini = {"trajectory_format": "mini-swe-agent-1", "messages": [turn(text="x")], "info": {}}
    yield "mini-swe-agent without an outcome", lines(mini), 1
    yield "Inspect without scores", lines({"eval": {}, "samples": [{"id": 1, "epoch": 1, "messages": []}]}), 1


CASES = [*line_cases(), *field_cases(), *message_cases(), *log_cases()]


def test_there_are_two_hundred_of_them_and_no_two_are_the_same():
    assert len({name for name, *_ in CASES}) == len(CASES) >= 200
    assert len({content for _, content, _ in CASES}) >= 200


@pytest.mark.parametrize(
    ("content", "line", "side"),
    # Both logs are read by the same code: a few of the cases on the other side will do.
    [pytest.param(*case[1:], "cheap" if at % 5 else "strong", id=case[0]) for at, case in enumerate(CASES)],
)
def test_what_is_wrong_is_told_in_one_line(tmp_path, content, line, side):
    good = "strong" if side == "cheap" else "cheap"
    (tmp_path / f"{good}.jsonl").write_bytes(lines(*GOOD))
    (tmp_path / f"{side}.jsonl").write_bytes(content)
    done = program("import", "cheap.jsonl", "strong.jsonl", "--out", "out.jsonl", cwd=tmp_path)
    assert done.returncode == 2, done.stdout
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert len(done.stderr) < 500
    assert "Traceback" not in done.stderr
    if line is not None:
        assert f"{side}.jsonl:{line}" in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"cheap.jsonl", "strong.jsonl"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["none.jsonl", "good.jsonl", "--out", "out.jsonl"],
        ["good.jsonl", "none.jsonl", "--out", "out.jsonl"],
        ["good.jsonl", "good.jsonl", "--out", "out.txt"],
        ["good.jsonl", "good.jsonl", "--out", "nowhere/out.jsonl"],
        ["good.jsonl", "good.jsonl", "--out", "good.jsonl"],
        ["good.jsonl", "good.jsonl", "--out", "out.jsonl", "--format", "xml"],
        ["good.jsonl", "good.jsonl", "--out", "out.jsonl", "--format", "intercode"],
        ["good.jsonl", "good.jsonl", "--out", "out.jsonl", "--threshold", "nan"],
        ["good.jsonl", "good.jsonl", "--out", "out.jsonl", "--trials", "average"],
        ["good.jsonl", "good.jsonl", "--out", "out.jsonl", "--diagnostics", "mood"],
        ["good.jsonl", "good.jsonl", "--out", "out.jsonl", "--longest", "0"],
        ["good.jsonl", "good.jsonl", "--out", "out.jsonl", "--tasks", "none.csv"],
        ["good.jsonl", "good.jsonl", "--out", "out.jsonl", "--tasks", "short.csv"],
        ["good.jsonl", "good.jsonl", "--out", "out.jsonl", "--tasks", "good.jsonl"],
        ["good.jsonl", "good.jsonl", "--out", "out.jsonl", "--cheap-results", "none.csv"],
        ["good.jsonl", "good.jsonl", "--out", "out.jsonl", "--cheap-results", "short.csv"],
        ["empty", "good.jsonl", "--out", "out.jsonl"],
        ["good.jsonl", "--out", "out.jsonl"],
    ],
    ids=lambda words: " ".join(words),
)
def test_a_wrong_call_is_told_in_one_line(tmp_path, arguments):
    (tmp_path / "good.jsonl").write_bytes(lines(*GOOD))
    (tmp_path / "short.csv").write_text("task,level\na,1\n", encoding="utf-8")
    (tmp_path / "empty").mkdir()
    done = program("import", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"good.jsonl", "short.csv", "empty"}
