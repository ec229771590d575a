"""Calls that a client sends back as text are read as the calls that they were."""

from __future__ import annotations

import pytest

from bayes_tacit.gateway import Engine, Kept, default_router
from bayes_tacit.logs.extractor import StepExtractor
from bayes_tacit.logs.messages import spelled_out

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
    engine, kept, messages = Engine(default_router(signs=3)), Kept(), [TASK]
    sides = []
    for number in range(4):
        ruling = engine.consider(kept, messages, ["sql"])
        sides.append(ruling.side)
        engine.served(kept, ruling, ruling.side)
        messages += turn(number, "same", "Observation:\nError: no such table: rows")
    assert sides == ["cheap", "cheap", "strong", "strong"]
