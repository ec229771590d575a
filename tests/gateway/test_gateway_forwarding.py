"""What is sent on at a handoff: nothing that the other model cannot read, and every answer with its call."""

import pytest
from talks import TASK, counting, talk, turn

from bayes_tacit.gateway import Engine, Reply, SessionState, forwarded, record
from bayes_tacit.gateway.conversation import reply_mark

THOUGHT = {
    "reasoning_content": "Hm.",
    "reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}],
    "thinking_blocks": [{"type": "thinking", "thinking": "Hm.", "signature": "s"}],
}


def thoughtful(number, **more):
    said = turn(number, bad=True, **more)
    parts = [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "text", "text": "I try.", "signature": "s"},
    ]
    said[0] |= {"content": parts, **THOUGHT}
    said[0]["tool_calls"][0]["extra_content"] = {"google": {"thought_signature": "s"}}
    return said


def handed_over(messages, handoff=None):
    """A session of two bad turns of Cheap's, then handed over."""
    engine, kept = Engine(counting(2), handoff=handoff), SessionState()
    ruling = engine.consider(kept, messages)
    return engine, kept, ruling


def calls_and_answers(messages):
    """Each call's id with the ids that answer it, turn by turn."""
    turns = []
    for message in messages:
        if message["role"] == "assistant":
            turns.append(([call["id"] for call in message.get("tool_calls") or ()], []))
        elif message["role"] == "tool":
            turns[-1][1].append(message["tool_call_id"])
    return turns


def test_what_cheap_thought_is_stripped_and_what_it_did_stays():
    messages = [*TASK, *thoughtful(0), *thoughtful(1)]
    _, _, ruling = handed_over(messages)
    sent = forwarded(messages, ruling)
    assert ruling.side == "strong"
    for word in ("Hm.", "signature", "reasoning", "thinking", "extra_content"):
        assert word in str(messages)
        assert word not in str(sent)
    assert sent[2]["content"] == [{"type": "text", "text": "I try."}]
    assert sent[2]["tool_calls"][0]["function"] == messages[2]["tool_calls"][0]["function"]
    assert [message for message in sent if message["role"] != "assistant"] == [*TASK, messages[3], messages[5]]


def test_what_the_client_sent_is_not_changed_itself():
    messages = [*TASK, *thoughtful(0), *thoughtful(1, identity="a b")]
    before = str(messages)
    forwarded(messages, handed_over(messages)[2])
    assert str(messages) == before


def test_strong_gets_its_own_thoughts_back():
    messages = [*TASK, *thoughtful(0), *thoughtful(1)]
    engine, kept, _ = handed_over(messages)
    later = [*messages, *thoughtful(2)]
    sent = forwarded(later, engine.consider(kept, later))
    assert sent[6] == later[6]
    assert "Hm." not in str(sent[:6])


def test_cheap_is_sent_the_very_same_list():
    messages = [*TASK, *thoughtful(0)]
    ruling = Engine(counting(9)).consider(SessionState(), messages)
    assert forwarded(messages, ruling) is messages


def test_a_turn_that_strong_made_in_between_is_stripped_for_cheap():
    engine, kept = Engine(counting(9)), SessionState()
    ruling = engine.consider(kept, TASK)
    record(kept, ruling, "strong", Reply(mark=reply_mark(thoughtful(0)[0])))
    messages = [*TASK, *thoughtful(0), *thoughtful(1)]
    sent = forwarded(messages, engine.consider(kept, messages))
    assert "Hm." not in str(sent[2])
    assert sent[4] == messages[4]


@pytest.mark.parametrize("identity", ["call 1", "", "x" * 80, "call_1__thought__Ab+/=", "ä"])
def test_ids_that_not_every_server_takes_are_renamed_with_their_answers(identity):
    messages = [*TASK, *thoughtful(0), *thoughtful(1, identity=identity)]
    sent = forwarded(messages, handed_over(messages)[2])
    (_, first), ((renamed,), answers) = calls_and_answers(sent)
    assert first == ["call_0"]
    assert answers == [renamed]
    assert renamed != identity
    assert renamed.isascii()
    assert len(renamed) <= 40
    assert calls_and_answers(forwarded(messages, handed_over(messages)[2])) == calls_and_answers(sent)


def test_ids_that_are_used_twice_become_different():
    messages = [*TASK, *thoughtful(0, identity="call_0"), *thoughtful(1, identity="call_0")]
    turns = calls_and_answers(forwarded(messages, handed_over(messages)[2]))
    assert [calls for calls, _ in turns] == [answers for _, answers in turns]
    assert turns[0] != turns[1]


def test_a_turn_of_thoughts_alone_stays_a_turn():
    thought = {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm."}]}
    messages = [*TASK, thought, {"role": "user", "content": "Go on."}]
    ruling = Engine(counting(9)).consider(SessionState(), messages)
    assert forwarded(messages, ruling, "strong")[2] == {"role": "assistant", "content": ""}


def test_a_restart_cuts_the_history_to_the_task_and_keeps_what_strong_does_then():
    messages = talk("!!")
    engine, kept, ruling = handed_over(messages, "restart")
    assert forwarded(messages, ruling) == TASK
    first = turn(2)
    assert forwarded([*messages, *first], engine.consider(kept, [*messages, *first])) == [*TASK, *first]
    both = [*messages, *first, *turn(3)]
    assert forwarded(both, engine.consider(kept, both)) == [*TASK, *first, *turn(3)]


def test_after_a_restart_and_a_compaction_nothing_more_is_cut():
    engine, kept, _ = handed_over(talk("!!"), "restart")
    compacted = [{"role": "user", "content": "Summary."}, *turn(5)]
    ruling = engine.consider(kept, compacted)
    assert ruling.restart
    assert [message["role"] for message in forwarded(compacted, ruling)] == ["user", "assistant", "tool"]
