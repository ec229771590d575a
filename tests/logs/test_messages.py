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
        "x" * 5000 + "\nValueError: bad\n",
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
        "0 errors",
        "exit code: 0",
        '{"error": null, "rows": 3}',
        '{"error": ""}',
        '{"exit_code": 0, "output": "code 5"}',
        "the code is 17",
        "x" * 2000 + " error 17 " + "x" * 2000,
    ],
)
def test_no_error_is_seen_where_there_is_none(text):
    assert not reports_error(text)
