"""What is read of a request's end alone is what all of it shows."""

import json

import pytest
from between import gateway
from hypothesis import given, settings
from hypothesis import strategies as st
from talks import TASK, TOOLS, counting, turn
from test_gateway_server import KEY

from bayes_tacit.gateway.conversation import read_conversation
from bayes_tacit.gateway.server.requests import SMALLEST, Prefixes

FILLER = [{"role": "user", "content": 'ä \u2028 \\ " ] } , 日本 ' + "x" * SMALLEST}]
ODD = [{"role": "robot", "content": "?"}], [{"role": "assistant", "content": None, "tool_calls": [7]}], []


@given(
    st.lists(st.tuples(st.sampled_from([".", "!", "odd"]), st.integers(0, 2)), max_size=8),
    st.lists(st.sampled_from(["same", "tools", "past", "begun", "shorter"]), max_size=8),
    st.booleans(),
    st.sampled_from([None, 1]),
)
@settings(deadline=None, max_examples=60)
def test_growing_requests_show_what_whole_ones_do(turns, changes, escaped, indent):
    prefixes, messages, tools = Prefixes(), [*TASK, *FILLER], list(TOOLS)
    for number, (kind, odd) in enumerate(turns):
        change = changes[number] if number < len(changes) else "same"
        if change == "tools":
            tools = [*tools, {"type": "function", "function": {"name": f"t{number}"}}]
        if change == "past":
            messages[1] = {"role": "user", "content": f"Another {number}"}
        sent = messages[:-1] if change == "shorter" else messages
        sent = [*sent, {"role": "assistant", "content": "Well"}] if change == "begun" else sent
        body = {"model": "m", "messages": sent, "tools": tools, "note": "[]}"}
        raw = json.dumps(body, ensure_ascii=escaped, indent=indent).encode()
        found = prefixes.read("key", raw)
        assert (found is None) is (len(raw) < SMALLEST)
        if found is None:
            continue
        small, seen = found
        assert seen == read_conversation(sent, tools)
        assert small == {**body, "messages": None}
        messages = [*messages, *(ODD[odd] if kind == "odd" else turn(number, bad=kind == "!"))]


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a": {"messages": [1]}, "messages": [{"role": "user", "content": "%b"}]}',
        b'{"messages": [{"role": "user", "content": "%b"}], "messages": [{"role": "user"}]}',
        b'{"messages": [{"role": "user", "content": "%b"}, 3]}',
        b'{"messages": [{"role": "user", "content": "%b"}]',
        b'[{"messages": [{"role": "user", "content": "%b"}]}]',
    ],
)
def test_what_is_not_plain_is_left_to_whoever_reads_all_of_it(raw):
    assert Prefixes().read("key", raw % (b"x" * SMALLEST)) is None


def test_a_long_session_is_handed_over_and_stripped_as_a_short_one_is(tmp_path):
    with gateway(counting(2), tmp_path, strong={"model": "large"}) as served:
        messages, found = [*TASK, *FILLER], []
        for number in range(5):
            raw = json.dumps({"model": "m", "messages": messages, "tools": TOOLS}).encode()
            headers = {**KEY, "x-session-id": "long", "content-type": "application/json"}
            answer = served.client.post("/chat/completions", content=raw, headers=headers)
            found.append((answer.headers["x-tacit-served"], int(answer.headers["x-tacit-step"])))
            if found[-1][0] == "cheap":
                assert served.cheap.requests[-1]["raw"] == raw
            messages += turn(number, bad=True, reasoning_content="Hm.")
        assert found == [("cheap", 0), ("cheap", 1), ("strong", 2), ("strong", 3), ("strong", 4)]
        assert served.app.state.desk._prefixes.hits == 4
        last = served.strong.requests[-1]["body"]
        assert last["model"] == "large"
        assert len(last["messages"]) == len(messages) - 2
        assert str(last).count("Hm.") == 2  # its own
