"""Logs that are wrong in hundreds of ways: each gives one clear line and exit code 2, and nothing is written."""

import copy
import json

import pytest
from command_line import call as program
from conversations import answer, asked, call, rollout, turn

GOOD = [rollout("a", model="m", trial=0), rollout("b", model="m", trial=0), rollout("c", model="m", trial=0)]
JUNK = [None, True, 7, "text", {"a": 1}]
"""A value of every kind."""

NAN = float("nan")
NOT_FINITE = [NAN, float("inf"), -float("inf")]
TEXTS = ' null "text" [] '
MANY = 10_000_000


def lines(*rollouts):
    return "".join(json.dumps(one) + "\n" for one in rollouts).encode()


def with_second(**changes):
    """Return a log whose second rollout is changed; ... takes a key away."""
    second = {**copy.deepcopy(GOOD[1]), **changes}
    return lines(GOOD[0], {key: value for key, value in second.items() if value is not ...}, GOOD[2])


def with_messages(*messages):
    return with_second(messages=list(messages))


def with_turn(**changes):
    return with_messages(asked(), {**turn(call()), **changes}, answer())


def with_answer(**changes):
    whole = {**answer(), **changes}
    return with_messages(asked(), turn(call()), {key: value for key, value in whole.items() if value is not ...})


def line_cases():
    """Lines that are no JSON, or no rollout."""
    whole = lines(*GOOD).decode().splitlines()
    yield "torn last line", lines(*GOOD)[:-40], 3
    for cut in (1, 60, 200):
        torn = f"{whole[0]}\n{whole[1][:cut]}\n{whole[2]}\n".encode()
        yield f"line torn after {cut}", torn, 2
    for word in ("not JSON", "{", '"', "{'task': 1}", "NaN,", '{"a": 1,}', "\x00\x01"):
        yield f"line is {word!r}", f"{whole[0]}\n{word}\n".encode(), 2
    for junk in JUNK:
        yield f"line is {json.dumps(junk)}", lines(GOOD[0], junk), 2
    yield "not UTF-8", f"{whole[0]}\n".encode() + b'{"task": "\xff\xfe"}\n', 2
    yield "nested too deeply", f"{whole[0]}\n".encode() + b"[" * 200_000 + b"\n", 2
    yield "a number of too many digits", f"{whole[0]}\n".encode() + b'{"task": ' + b"9" * 5000 + b"}\n", 2
    yield "empty", b"", None
    yield "first line is no rollout", lines({"hello": 1}, *GOOD), 1


CHANGED = {
    # what is changed: how, the kinds of JUNK that are right there, and more values that are not
    "task": (lambda junk: with_second(task=junk), ' 7 "text" ', ["", "\ud800"]),
    "success": (lambda junk: with_second(success=junk), " true ", []),
    "messages": (lambda junk: with_second(messages=junk), "", []),
    "score": (lambda junk: with_second(success=..., score=junk), " 7 2.5 ", NOT_FINITE),
    "trial": (lambda junk: with_second(trial=junk), ' null 7 "text" ', []),
    "tools": (lambda junk: with_second(tools=junk), " null [] ", [[{"type": "function"}], [""]]),
    "usage": (lambda junk: with_second(usage=junk), ' null {} {"a":1} ', []),
    "features": (lambda junk: with_second(features=junk), " null {} ", []),
    "cost": (lambda junk: with_second(cost=junk), " null 7 2.5 ", [*NOT_FINITE, -1]),
    "input tokens": (lambda junk: with_second(usage={"input_tokens": junk}), " null 7 2.5 ", [*NOT_FINITE, -5]),
    "message": (lambda junk: with_messages(asked(), junk, turn(call())), "", []),
    "role": (lambda junk: with_messages({"role": junk, "content": "x"}, turn(call())), "", ["x" * MANY]),
    "content of a turn": (lambda junk: with_turn(content=junk), TEXTS, ["x" * MANY]),
    "content of an answer": (lambda junk: with_answer(content=junk), TEXTS, ["x" * MANY, ...]),
    "tool_calls": (lambda junk: with_turn(tool_calls=junk), " null [] {} ", []),
    "a call": (lambda junk: with_turn(tool_calls=[junk]), "", []),
    "function": (lambda junk: with_turn(tool_calls=[{"id": "1", "function": junk}]), "", []),
    "name of a call": (
        lambda junk: with_turn(tool_calls=[{"id": "1", "function": {"name": junk, "arguments": "{}"}}]),
        ' "text" ',
        [""],
    ),
    "tool_call_id": (lambda junk: with_answer(tool_call_id=junk), " null ", []),
    "logprobs": (lambda junk: with_turn(logprobs=junk), ' null [] {} {"a":1} ', []),
    "logprob": (
        lambda junk: with_turn(logprobs={"content": [{"token": "a", "logprob": junk}]}),
        " null ",
        [*NOT_FINITE, 0.5],
    ),
}


def field_cases():
    """Rollouts and messages whose fields are missing or of another kind."""
    for key in ("task", "messages", "success"):
        yield f"no {key}", with_second(**{key: ...}), 2
    for what, (change, right, more) in CHANGED.items():
        for junk in JUNK:
            word = json.dumps(junk, separators=(",", ":"))
            if f" {word} " not in right:
                yield f"{what} {word}", change(junk), 2
        for bad in more:
            yield f"{what} {bad!r:.20}", change(bad), 2
    yield "score 1e999", lines(GOOD[0]) + b'{"task": "b", "score": 1e999, "messages": []}\n', 2
    yield "another feature than before", lines({**GOOD[0], "features": {"x": 1}}, {**GOOD[1], "features": {"y": 1}}), 2
    yield "no features after some", lines({**GOOD[0], "features": {"x": 1}}, GOOD[1]), 2
    yield "an answer first", with_messages(answer(), turn(call())), 2
    yield "an answer to no call", with_messages(asked(), turn(text="hi"), answer()), 2
    yield "an answer to a call of an earlier turn", with_messages(turn(call()), turn(text="hi"), answer()), 2
    yield "an answer to another call", with_messages(turn(call(identity="1")), answer(identity="2")), 2
    yield "no turn of the assistant", with_messages(asked(), asked()), 2


def log_cases():
    """Logs that are wrong as a whole."""
    untried = [{key: value for key, value in one.items() if key != "trial"} for one in GOOD]
    yield "a task twice", lines(*untried, untried[0]), 4
    yield "a trial twice", lines(*GOOD, GOOD[2]), 4
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


CASES = [*line_cases(), *field_cases(), *log_cases()]


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
        ["good.jsonl", "good.jsonl", "--out", "nowhere/out.jsonl"],
        ["good.jsonl", "good.jsonl", "--out", "good.jsonl"],
        ["good.jsonl", "good.jsonl", "--out", "out.jsonl", "--format", "xml"],
        ["good.jsonl", "good.jsonl", "--out", "out.jsonl", "--threshold", "nan"],
        ["good.jsonl", "good.jsonl", "--out", "out.jsonl", "--trials", "average"],
        ["good.jsonl", "good.jsonl", "--out", "out.jsonl", "--diagnostics", "mood"],
        ["good.jsonl", "good.jsonl", "--out", "out.jsonl", "--tasks", "short.csv"],
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
