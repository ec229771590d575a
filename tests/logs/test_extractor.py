"""The generic extractor, from outside: short conversations with a known answer, and any cut of them."""

import json
import math
import random
import sys
from itertools import pairwise
from subprocess import run

import pytest
from conversations import answer, asked, call, turn

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.logs import StepExtractor
from bayes_tacit.logs.extractor import FLAGS


def extracted(messages, **options):
    extractor = StepExtractor(**options)
    extractor.extend(messages)
    return extractor


def column(name, messages, **options):
    extractor = extracted(messages, **options)
    return [extractor.diagnostics(step)[name] for step in range(extractor.n_steps)]


def calls(*names):
    """One turn a name, each answered differently."""
    return [one for at, name in enumerate(names) for one in (turn(call(q=name)), answer(f"{at}"))]


def written(text, name="sql"):
    return turn({"id": "1", "function": {"name": name, "arguments": text}})


def test_a_call_repeats_whatever_the_order_and_spacing_of_its_arguments():
    turns = [written('{"a": 5, "b": [1, {"c": 2, "d": 3}]}'), written('{"b":[1,{"d":3,"c":2}],  "a":5}')]
    assert column("repeated_call", turns) == [0, 1]
    assert column("repeated_call", [written('{"a": 5, "b": "x"}'), written('\n{"b": "x", "a":5} ')]) == [0, 1]


@pytest.mark.parametrize(
    ("one", "other"),
    [('{"a": 1}', '{"a": true}'), ('{"a": 0}', '{"a": false}'), ('{"a": 1}', '{"a": 2}'), ('{"a": "1"}', '{"a": 1}')],
)
def test_other_arguments_are_another_call(one, other):
    assert column("repeated_call", [written(one), written(other), written(one), written(other)]) == [0, 0, 1, 1]


def test_a_call_twice_in_one_turn_counts_once_and_is_no_repetition():
    twice = turn(call(identity="1", q="x"), call(identity="2", q="x"))
    assert column("repeated_call", [twice]) == [0]
    assert column("repeated_call", [twice, turn(call(q="x"))]) == [0, 1]
    errors = [twice, answer("Error: a", "1"), answer("Error: b", "2")]
    assert column("tool_error", errors) == [1]


@pytest.mark.parametrize(
    ("names", "cycle"),
    [
        ("abab", [0, 0, 0, 1]),
        ("ababa", [0, 0, 0, 1, 1]),
        ("abcabc", [0, 0, 0, 0, 0, 1]),
        ("abcab", [0] * 5),
        ("aaaa", [0] * 4),
        ("aaaaaa", [0] * 6),
        ("abba", [0] * 4),
        ("aabaab", [0, 0, 0, 0, 0, 1]),
        ("abcdabcd", [0] * 8),
    ],
)
def test_cycles_have_a_period_of_two_or_three(names, cycle):
    assert column("short_cycle", calls(*names)) == cycle


def test_an_answer_may_be_marked_as_an_error_beside_its_text():
    assert column("tool_error", [turn(call()), answer("nothing", is_error=True)]) == [1]
    assert column("tool_error", [turn(call()), answer("nothing", status="error")]) == [1]
    assert column("tool_error", [turn(call()), answer("nothing", name="sql")]) == [0]


def test_an_observation_is_unchanged_if_the_answers_of_two_turns_are_the_same():
    messages = [
        turn(call(q=1)),
        answer("x"),
        turn(call(q=2)),
        answer("x"),
        turn(call(q=3)),
        answer("y"),
        turn(call(q=4)),
    ]
    assert column("unchanged_observation", messages) == [0, 1, 0, 0]
    two = [turn(call(identity="1", q=1), call(identity="2", q=2)), answer("x", "1"), answer("y", "2")]
    assert column("unchanged_observation", [*two, *two]) == [0, 1]
    assert column("unchanged_observation", [*two, turn(call(q=5)), answer("x")]) == [0, 0]


def test_a_call_is_malformed_if_its_arguments_are_no_object_or_its_tool_was_not_offered():
    bad = [written("{"), written("[1]"), written("text"), written('{"a": 1} and more'), written("7")]
    assert column("malformed_call", bad) == [1] * 5
    assert column("malformed_call", [written("{}"), written(""), written('{"a": 1}\n')]) == [0] * 3
    assert column("malformed_call", [written("{}", "sql"), written("{}", "rm")], tools=["sql"]) == [0, 1]
    assert column("repeated_call", [written("{"), written("{")]) == [0, 1]
    assert column("malformed_call", [written("{"), written("{")]) == [1, 1]


def test_there_is_no_action_in_an_empty_turn_or_one_cut_for_its_length():
    turns = [turn(text="Hi"), turn(text="  "), turn(text="Hi", finish_reason="length"), turn(call()), turn()]
    assert column("no_action", turns) == [0, 1, 1, 0, 1]


def test_uncertainty_is_the_mean_nll_and_only_there_where_it_is_known():
    logprobs = {"content": [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": -2.5}]}
    extractor = extracted([turn(text="a", logprobs=logprobs), turn(text="b")])
    assert extractor.diagnostics(0)["uncertainty"] == 1.5
    assert "uncertainty" not in extractor.diagnostics(1)
    with pytest.raises(InvalidDataError, match="message 0: logprob is nan"):
        extracted([turn(text="a", logprobs=[math.nan])])


def test_the_prompt_is_what_comes_before_the_first_turn():
    parts = [{"type": "text", "text": "four"}, {"type": "image_url", "image_url": {"url": "x"}}]
    extractor = extracted([{"role": "system", "content": parts}, asked("three"), turn(text="a"), asked("more")])
    assert extractor.features() == {"prompt_length": 9, "n_tools": 0}


def conversation(seed):
    """A long conversation with all that happens."""
    rng = random.Random(seed)
    messages = [asked("Find it.")]
    for _ in range(60):
        made = [call(identity=str(at), q=rng.choice("abc")) for at in range(rng.choice([0, 1, 1, 1, 2, 3]))]
        messages.append(turn(*made, text=rng.choice(["", "so"]), finish_reason=rng.choice(["stop", "length"])))
        messages += [answer(rng.choice(["x", "y", "Error: z"]), str(at)) for at in range(len(made))]
    return messages


@pytest.mark.parametrize("seed", range(5))
def test_messages_may_come_in_any_portions(seed):
    messages, rng = conversation(seed), random.Random(seed)
    whole = extracted(messages)
    cuts = sorted({0, len(messages), *(rng.randrange(len(messages)) for _ in range(20))})
    parts, single = StepExtractor(), StepExtractor()
    for start, end in pairwise(cuts):
        parts.extend(messages[start:end])
    for at, message in enumerate(messages):
        single.extend([message])
        # What is known after each message is what the conversation up to there says.
        assert single.flags == extracted(messages[: at + 1]).flags
    assert whole.flags == parts.flags == single.flags
    assert {bit for flag in whole.flags for bit in range(len(FLAGS)) if flag >> bit & 1} >= {0, 2, 3, 5}


def test_without_diagnostics_steps_are_counted_and_messages_checked():
    messages = conversation(3)
    counted = extracted(messages, diagnose=False)
    assert counted.n_steps == extracted(messages).n_steps
    with pytest.raises(InvalidDataError, match="name of a call is 3"):
        extracted([turn({"function": {"name": 3, "arguments": ""}})], diagnose=False)
    with pytest.raises(InvalidDataError, match="message 1: tool_call_id is '9'"):
        extracted([turn(call()), answer(identity="9")], diagnose=False)


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([answer()], "message 0: role is 'tool'; expected a call by the assistant before"),
        ([turn(call()), answer(identity="9")], "message 1: tool_call_id is '9'; expected the id of a call"),
        ([turn(text="Hi"), answer()], "message 1: role is 'tool'"),
        ([{"content": "x"}], "message 0: role is None; expected 'system'"),
        ([{"role": "robot", "content": "x"}], "message 0: role is 'robot'"),
        (["x"], "message 0: message is 'x'; expected an object"),
        ([{"role": "user", "content": 7}], "message 0: content is 7; expected a text"),
        ([{"role": "assistant", "content": 7}], "message 0: content is 7; expected a text"),
        ([{"role": "assistant", "tool_calls": 7}], "message 0: tool_calls is 7; expected a list of calls"),
        ([{"role": "assistant", "tool_calls": [{}]}], "expected a list of calls"),
        ([turn({"function": {"name": 3, "arguments": ""}})], "name of a call is 3"),
        ([turn(call()), {"role": "tool", "tool_call_id": "1"}], "message 1: content is None"),
    ],
)
def test_a_message_that_is_none_is_refused_with_its_number(messages, said):
    with pytest.raises(InvalidDataError, match=said):
        extracted(messages)


def test_a_message_longer_than_any_is_refused_in_a_short_line():
    with pytest.raises(InvalidDataError, match="number of characters is 5000001; expected at most 5,000,000") as caught:
        extracted([turn(call()), answer("x" * 5_000_001)])
    assert len(str(caught.value)) < 200
    assert extracted([turn(call()), answer("x" * 5_000_001)], longest=6_000_000).n_steps == 1


def test_the_extractor_needs_the_standard_library_alone():
    code = "import sys, bayes_tacit.logs.extractor; print(json.dumps(sorted({m.split('.')[0] for m in sys.modules})))"
    loaded = json.loads(run([sys.executable, "-c", f"import json; {code}"], capture_output=True, check=True).stdout)
    assert not {"numpy", "pandas", "pydantic", "scipy", "xarray"} & set(loaded)
