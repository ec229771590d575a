"""The engine decides as the router does, counts a step once, and never takes a handoff back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from talks import TASK, TOOLS, alarm, all_routers, counting, tacit, talk, turn

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.gateway import Engine, SessionState, default_router
from bayes_tacit.logs import StepExtractor

ROUTERS = all_routers()


def run(engine, turns, kept=None):
    """Play a whole conversation, request by request, and give all rulings."""
    kept = SessionState() if kept is None else kept
    return [engine.consider(kept, talk(turns[:end]), TOOLS) for end in range(len(turns) + 1)]


def directly(router, turns):
    """Ask the router itself, on diagnostics of the whole conversation, as long as Cheap makes the turns."""
    extractor = StepExtractor(["sql"])
    extractor.extend(talk(turns))
    state = router.start({name: extractor.features()[name] for name in router.feature_names})
    decisions = [state.opening]
    for step in range(extractor.n_steps):
        if decisions[-1] is not None and decisions[-1].call != "cheap":
            break
        known = extractor.diagnostics(step)
        decisions.append(state.observe({name: known[name] for name in router.diagnostic_names}))
    return decisions


@pytest.mark.parametrize("name", ROUTERS)
@pytest.mark.parametrize("turns", ["....!!!!", "!.!.!.!.", "........"])
def test_every_kind_of_router_decides_as_it_does_on_the_extracted_steps(name, turns):
    rulings = run(Engine(ROUTERS[name]), turns)
    expected = directly(ROUTERS[name], turns)
    assert [ruling.decision for ruling in rulings[: len(expected)]] == expected
    handed = [ruling.latched for ruling in rulings]
    assert handed == sorted(handed)
    assert all(ruling.side == "strong" for ruling in rulings if ruling.latched)


@given(st.text(".!", max_size=12), st.lists(st.integers(0, 12), max_size=6))
def test_a_request_that_is_sent_again_counts_once(turns, again):
    engine, kept = Engine(tacit()), SessionState()
    plain = [ruling.decision for ruling in run(engine, turns)]
    for end in range(len(turns) + 1):
        for _ in range(1 + again.count(end)):
            ruling = engine.consider(kept, talk(turns[:end]), TOOLS)
        assert ruling.step == end
        if not ruling.latched:
            assert ruling.decision == plain[end]


def test_an_older_request_changes_neither_the_count_nor_what_follows():
    engine, kept = Engine(counting(9)), SessionState()
    for turns in ("", ".", "..", "...", "."):
        ruling = engine.consider(kept, talk(turns))
    assert ruling.step == 3
    assert engine.consider(kept, talk("....")).step == 4


def test_a_handoff_stays_whatever_the_client_sends_next():
    engine = Engine(counting(2))
    kept = SessionState()
    assert run(engine, "!!", kept)[-1].new_handoff
    for messages in (talk("!!."), talk("."), TASK, [{"role": "user", "content": "Summary: all went well."}], []):
        ruling = engine.consider(kept, messages)
        assert (ruling.side, ruling.latched, ruling.new_handoff) == ("strong", True, False)


def test_after_compaction_the_higher_count_stays_and_goes_on():
    engine, kept = Engine(counting(3)), SessionState()
    run(engine, "!..!..", kept)
    summary = [{"role": "user", "content": "Summary of six turns."}]
    assert engine.consider(kept, summary).step == 6
    later = [*summary, *turn(7)]
    assert engine.consider(kept, later).step == 7
    ruling = engine.consider(kept, [*later, *turn(8, bad=True)])
    assert ruling.step == 8
    assert ruling.new_handoff
    assert ruling.decision.score == 3


def test_a_system_prompt_that_tells_the_time_does_not_count_steps_twice():
    engine, kept = Engine(counting(9)), SessionState()
    for end in range(5):
        clock = [{"role": "system", "content": f"It is {end} o'clock."}]
        ruling = engine.consider(kept, [*clock, *talk("!" * end)])
        assert ruling.step == end
    assert ruling.decision.score == 4


def test_marks_of_a_prompt_cache_do_not_change_the_conversation():
    engine, kept = Engine(counting(9)), SessionState()
    engine.consider(kept, talk(".."))
    marked = talk("...")
    marked[1] = {
        "role": "user",
        "content": [{"type": "text", "text": TASK[1]["content"], "cache_control": {"type": "ephemeral"}}],
    }
    before = list(kept.turns)
    assert engine.consider(kept, marked).step == 3
    assert kept.turns[:2] == before


def test_what_is_kept_survives_as_text_in_the_middle_of_an_episode():
    engine = Engine(tacit(20))
    whole, kept = SessionState(), SessionState()
    for end in range(9):
        messages = talk(".!!..!!!"[:end])
        one = engine.consider(whole, messages, TOOLS)
        other = engine.consider(kept, messages, TOOLS)
        assert one == other
        kept = SessionState.from_json(kept.to_json())
        assert kept == whole


def test_the_answer_that_a_client_begins_is_no_step():
    engine, kept = Engine(counting()), SessionState()
    begun = [*talk("!"), {"role": "assistant", "content": "SELECT count"}]
    assert engine.consider(kept, begun).step == 1


def custom(number):
    """A call with a text for input, as OpenAI's custom tools have it, and its failed answer."""
    call = {"id": f"call_custom_{number}", "type": "custom", "custom": {"name": "shell", "input": f"ls {number}"}}
    answer = {"role": "tool", "tool_call_id": call["id"], "content": "Error: no such thing"}
    return [{"role": "assistant", "content": None, "tool_calls": [call]}, answer]


@pytest.mark.parametrize(
    ("odd", "skipped"),
    [
        (custom(0), 0),
        ([{"role": "robot", "content": "Hi"}], 1),
        ([{"role": "tool", "tool_call_id": "cut away", "content": "Error: x"}], 1),
        ([{"role": "assistant", "tool_calls": [{"id": "call_strange", "type": "strange"}]}], 1),
        ([{"role": "user", "content": 3}], 1),
    ],
)
def test_a_message_that_cannot_be_read_is_passed_over_and_the_rest_is_judged(odd, skipped):
    engine, kept = Engine(counting(2)), SessionState()
    messages = [*TASK, *odd]
    for number in range(3):
        ruling = engine.consider(kept, messages)
        assert ruling.skipped == skipped
        messages += turn(number, bad=True)
    last = engine.consider(kept, messages)
    assert last.latched
    assert last.step == sum(one["role"] == "assistant" for one in messages)
    assert kept.n_steps == len(kept.turns)


def test_a_custom_call_that_fails_is_a_sign_as_any_other_is():
    engine, kept = Engine(counting(2)), SessionState()
    assert not engine.consider(kept, [*TASK, *custom(0)]).latched
    assert engine.consider(kept, [*TASK, *custom(0), *custom(1)]).new_handoff


# One session, several conversations: side calls, sub-agents, compaction.

TITLE = [{"role": "system", "content": "Name this talk."}, {"role": "user", "content": "How many rows has t?"}]


def test_a_side_call_under_the_same_id_does_not_blind_the_count():
    engine, kept = Engine(counting(30)), SessionState()
    run(engine, ".....", kept)
    compacted = [{"role": "user", "content": "Summary of five turns."}]
    for number in range(30):
        engine.consider(kept, TITLE)
        compacted += turn(100 + number, bad=True)
        ruling = engine.consider(kept, compacted, TOOLS)
    assert (ruling.step, ruling.decision.score) == (35, 30)
    assert ruling.new_handoff


def test_a_sub_agent_between_two_requests_counts_for_itself_and_takes_nothing_away():
    engine, kept = Engine(counting(99)), SessionState()
    for number in range(1, 6):
        engine.consider(kept, talk("!" * number), TOOLS)
        sub = [{"role": "user", "content": "Look it up."}]
        for inner in range(number):
            sub += turn(0, bad=True, identity=f"call_of_sub_agent_{inner}")
        ruling = engine.consider(kept, sub, TOOLS)
    assert ruling.step == 10
    assert ruling.decision.score == 10


def test_turns_that_a_compaction_keeps_are_not_counted_twice():
    engine, kept = Engine(counting(99)), SessionState()
    run(engine, "!!!!!!", kept)
    tail = [{"role": "user", "content": "Summary of four turns."}, *turn(4, bad=True), *turn(5, bad=True)]
    assert engine.consider(kept, tail, TOOLS).step == 6
    assert engine.consider(kept, [*tail, *turn(6, bad=True)], TOOLS).step == 7


def test_the_same_words_said_again_are_another_step():
    engine, kept = Engine(counting(99)), SessionState()
    said = [{"role": "assistant", "content": "I do not know."}, {"role": "user", "content": "Try again."}]
    for number in range(5):
        assert engine.consider(kept, [*TASK, *said * number]).step == number


def test_features_are_those_of_the_conversation_that_goes_on():
    engine, kept = Engine(tacit()), SessionState()
    engine.consider(kept, TITLE)
    engine.consider(kept, TASK, TOOLS)
    engine.consider(kept, TITLE)
    engine.consider(kept, talk("."), TOOLS)
    engine.consider(kept, [{"role": "user", "content": "Look it up."}], TOOLS)
    length = sum(len(one["content"]) for one in TASK)
    assert kept.features == {"prompt_length": float(length), "n_tools": 1.0}


def test_a_router_that_fails_is_a_fault_and_hands_off_nothing(monkeypatch):
    engine, kept = Engine(counting(1)), SessionState()
    monkeypatch.setattr(engine.checkpoints, "latest", lambda _: 1 / 0)
    ruling = engine.consider(kept, talk("!!"))
    assert (ruling.side, ruling.step) == ("cheap", 2)
    assert "ZeroDivisionError" in ruling.fault
    assert not kept.latched


def test_a_feature_that_nobody_gave_is_named_and_comes_later():
    engine, kept = Engine(tacit()), SessionState()
    engine.router.feature_names  # noqa: B018  these two every request has
    asked = Engine(alarm(0.5, "tool_error", "entities"))
    ruling = asked.consider(kept, talk("!"))
    assert ruling.missing == ("features['entities']",)
    assert (ruling.side, ruling.fault) == ("cheap", None)
    assert "entities" in asked.remarks[0]
    assert not engine.remarks
    assert asked.consider(kept, talk("!"), features={"entities": 3.0}).new_handoff
    assert asked.consider(kept, talk("!."), features={"entities": 9.0}) is not None
    assert kept.features["entities"] == 3.0


def test_uncertainty_is_needed_at_every_step_of_a_router_that_looks_at_it():
    router = alarm(1.5, "uncertainty")
    engine, kept = Engine(router), SessionState()
    assert "log-probabilities" in engine.remarks[0]
    engine.consider(kept, talk(""))
    assert engine.consider(kept, talk(".")).missing == ("diagnostics['uncertainty'] of step 0",)
    kept.nll[0] = (2.0, 4)
    assert engine.consider(kept, talk(".")).decision.score == 0.5
    kept.nll[1] = (8.0, 4)
    assert engine.consider(kept, talk("..")).new_handoff


def test_a_router_of_other_diagnostics_is_refused_with_their_names():
    with pytest.raises(InvalidDataError, match=r"diagnostics of the router is \['stalled'\]"):
        Engine(alarm(0.5, "stalled"))


def test_single_steps_of_strong_are_no_checkpoints_of_cheap():
    engine, kept = Engine(ROUTERS["step_deferral"]), SessionState()
    sides = [ruling.side for ruling in run(engine, "!!.!.", kept)]
    # After a bad turn of Cheap's Strong makes one; that one is not judged, and Cheap goes on.
    assert sides == ["cheap", "strong", "cheap", "cheap", "strong", "cheap"]
    assert kept.by_strong == {1, 4}
    assert not kept.latched


def test_the_router_in_shadow_is_recorded_and_hands_off_nothing():
    engine, kept = Engine(counting(9), counting(2)), SessionState()
    rulings = run(engine, "!!!", kept)
    assert [ruling.shadow.call for ruling in rulings[1:]] == ["cheap", "strong", "strong"]
    assert {ruling.side for ruling in rulings} == {"cheap"}
    assert kept.shadow_step == 1


def test_a_cascade_restarts_an_episode_that_has_ended():
    engine, kept = Engine(ROUTERS["cascade"]), SessionState()
    run(engine, "!!!", kept)
    assert engine.finish(kept).new_handoff
    ruling = engine.consider(kept, talk("!!!"))
    assert (ruling.side, ruling.restart) == ("strong", True)
    standing = SessionState()
    run(engine, "...", standing)
    assert not engine.finish(standing).latched


def test_the_default_router_needs_nothing_that_messages_do_not_show():
    engine = Engine(default_router(signs=3))
    assert engine.remarks == []
    assert [ruling.side for ruling in run(engine, "!!")] == ["cheap", "cheap", "strong"]
