"""Errors are found in what tools answer, and calls in words are read as the calls that they were."""

import pytest

from bayes_tacit.gateway import Engine, SessionState, default_router
from bayes_tacit.logs import StepExtractor
from bayes_tacit.logs.messages import reports_error, spelled_out

TASK = {"role": "user", "content": [{"type": "text", "text": "New task:\nHow many?"}]}
RETRY = "Now let's retry: take care not to repeat previous errors! If you have retried several times, try another.\n"


def said(role: str, text: str) -> dict:
    return {"role": role, "content": [{"type": "text", "text": text}]}


def turn(number: int, query: str, answer: str) -> list[dict]:
    function = {"name": "sql", "arguments": {"query": query}}
    calls = [{"id": f"call_{number}", "type": "function", "function": function}]
    return [said("assistant", f"I look.\nCalling tools:\n{calls}"), said("user", answer)]


def test_signs_are_those_of_the_same_conversation_with_real_calls():
    failed = f"Error:\nError executing tool 'sql'\n{RETRY}"
    words = [TASK, *turn(1, "a", "Observation:\n[(1,)]"), *turn(2, "b", failed), *turn(3, "b", failed)]
    extractor = StepExtractor(["sql"])
    extractor.extend(spelled_out(words))
    found = [[name for name, value in extractor.diagnostics(step).items() if value] for step in range(3)]
    assert found == [[], ["tool_error"], ["repeated_call", "tool_error", "unchanged_observation"]]


def test_code_is_a_call_with_one_input():
    call = [{"id": "c", "type": "function", "function": {"name": "python_interpreter", "arguments": "print(x)"}}]
    words = [TASK, said("assistant", f"<code>\nprint(x)\n</code>\nCalling tools:\n{call}")]
    (made,) = spelled_out(words)[1]["tool_calls"]
    assert made["function"] == {"name": "python_interpreter", "arguments": '{"input": "print(x)"}'}


@pytest.mark.parametrize(
    "messages",
    [
        [TASK, said("assistant", "Hello."), said("user", "Observation: it rains")],
        [TASK, said("assistant", "Calling tools:\n[__import__('os').system('true')]")],
        [TASK, said("assistant", "Calling tools:\n[" * 2_000)],
        [TASK, said("assistant", "Calling tools:\n[1, 2]")],
        [TASK, {"role": "assistant", "content": 7}, {"role": "user", "content": {"no": "list"}}],
        [
            {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
            said("assistant", "Calling tools:\n[{'id': 'c', 'function': {'name': 'f', 'arguments': {}}}]"),
        ],
    ],
)
def test_all_else_stays_the_very_same_list(messages):
    assert spelled_out(messages) is messages


def test_the_engine_hands_such_a_session_off():
    engine, kept, messages = Engine(default_router(signs=3)), SessionState(), [TASK]
    sides = []
    for number in range(4):
        ruling = engine.consider(kept, messages, ["sql"])
        sides.append(ruling.side)
        messages += turn(number, "same", "Observation:\nError: no such table: rows")
    assert sides == ["cheap", "cheap", "strong", "strong"]


@pytest.mark.parametrize(
    "text",
    [
        "Error executing query: no table t",
        "sqlite3.OperationalError: near FROM",
        "Traceback (most recent call last):\n  File x\nKeyError: 1",
        "bash: foo: command not found",
        "cat: x: No such file or directory",
        "output\nExit code: 1",
        "<returncode>2</returncode>\n<output>\n</output>",
        '{"output": "", "exit_code": 127}',
        '{"error": "not allowed"}',
        '{"status": "error"}',
        "process exited with code 3",
        "x" * 5000 + "\nValueError: bad\n",
        "x" * 5000 + "\n[exit status 1]",
        "FATAL: no such role",
        "failed to connect",
    ],
)
def test_errors_are_found_by_their_text(text):
    assert reports_error(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "3 rows",
        "0 errors",
        "no errors were found",
        "exit code: 0",
        "<returncode>0</returncode>\nfine",
        '{"error": null, "rows": 3}',
        '{"error": ""}',
        '{"exit_code": 0, "output": "code 5"}',
        "return 5 apples",
        "the code is 17",
        "x" * 2000 + " error 17 " + "x" * 2000,
    ],
)
def test_no_error_is_seen_where_there_is_none(text):
    assert not reports_error(text)
