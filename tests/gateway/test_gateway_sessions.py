"""Sessions: found by what a request says or shows, kept apart by key, remembered by every store."""

import itertools
import json

import pytest
from stores import KINDS
from talks import TASK, TOOLS, counting, talk, turn

from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError, TacitWarning
from bayes_tacit.gateway import (
    Engine,
    FileStore,
    Identity,
    Price,
    Prices,
    SessionLog,
    Sessions,
    SessionState,
    identify,
    open_store,
    read_reply,
    read_stream,
)
from bayes_tacit.gateway.sessions import FIELDS, HEADERS, features_in


@pytest.fixture(params=KINDS)
def store(request, places, tmp_path):
    made = open_store(places.fresh(request.param, tmp_path))
    yield made
    made.close()


def answered(message):
    return read_reply({"choices": [{"message": message}]})


def nobody(scope="key"):
    return Identity(scope, None, "inferred")


# Which session.


def test_the_first_name_in_the_order_of_the_list_counts():
    for earlier, later in itertools.pairwise(HEADERS):
        assert identify({earlier: "a", later: "b"}, {"session_id": "c"})[1:] == ("a", earlier)
    bodies = {"session_id": "s", "litellm_session_id": "l", "metadata": {"session_id": "m"}}
    for path, expected in zip(FIELDS, "slm", strict=True):
        assert identify({}, bodies)[1:] == (expected, ".".join(path))
        del bodies[path[0]]
    assert identify({}, {"user": "me", "metadata": "x", "session_id": {}})[1:] == (None, "inferred")


def test_a_key_of_a_cache_names_no_session():
    assert identify({}, {"prompt_cache_key": "the same for all tasks"}).session is None


def test_a_sub_agent_is_a_session_of_its_own():
    headers = {"x-claude-code-session-id": "s"}
    assert identify(headers, {}).session != identify(headers | {"x-claude-code-agent-id": "a"}, {}).session


@pytest.mark.parametrize("wrong", ["x" * 257, "a\x00b", "a\nb", "a\x1b[31m"])
def test_an_id_that_is_too_long_or_cannot_be_printed_is_refused(wrong):
    for headers, body in (({"x-session-id": wrong}, {}), ({}, {"metadata": {"session_id": wrong}})):
        with pytest.raises(InvalidDataError, match="at most 256 characters"):
            identify(headers, body)
    assert identify({"x-session-id": "x" * 256}, {}).session == "x" * 256


@pytest.mark.parametrize("wrong", ["", "1", "[1]", '{"a": "1"}', '{"a": true}', '{"a": NaN}', "{", '{"a": 1e999}'])
def test_features_that_are_no_numbers_are_refused(wrong):
    with pytest.raises(InvalidDataError, match="x-tacit-features"):
        features_in({"x-tacit-features": wrong})


# Inferred sessions.


def test_two_runs_of_one_task_at_once_do_not_collide(store):
    sessions = Sessions(Engine(counting(2)), store)
    runs = {"good": ".....", "bad": "!!!!!"}
    found = {name: [] for name in runs}
    messages = {name: list(TASK) for name in runs}
    for number in range(5):
        for name, turns in runs.items():
            ticket = sessions.begin(nobody(), messages[name], TOOLS)
            found[name].append(ticket.identity.session)
            said = turn(number, bad=turns[number] == "!", identity=f"{name}_{number}")
            sessions.replied(ticket, ticket.ruling.side, answered(said[0]))
            messages[name] += said
    assert [len(set(ids)) for ids in found.values()] == [1, 1]
    assert found["good"][0] != found["bad"][0]
    assert sessions.look("key", found["bad"][0])["latched"]
    assert not sessions.look("key", found["good"][0])["latched"]


def test_two_runs_that_say_the_same_word_for_word_do_not_collide_either(store):
    sessions = Sessions(Engine(counting(9)), store)
    found = ([], [])
    for number in range(4):
        for run in found:
            ticket = sessions.begin(nobody(), talk("." * number), TOOLS)
            sessions.replied(ticket, "cheap", answered(turn(number)[0]))
            run.append(ticket.identity.session)
    assert set(found[0]).isdisjoint(found[1])
    assert [len(set(run)) for run in found] == [1, 1]
    assert store.count() == 2


def test_a_retry_in_the_middle_is_the_same_session(store):
    sessions = Sessions(Engine(counting(9)), store)
    first = sessions.begin(nobody(), talk(""))
    sessions.replied(first, "cheap", answered(turn(0)[0]))
    tickets = [sessions.begin(nobody(), talk(".")) for _ in range(3)]
    assert {ticket.identity.session for ticket in tickets} == {first.identity.session}
    assert {ticket.ruling.step for ticket in tickets} == {1}


def test_a_reply_that_nobody_gave_here_is_another_session(store):
    sessions = Sessions(Engine(counting(9)), store)
    first = sessions.begin(nobody(), talk(""))
    sessions.replied(first, "cheap", answered(turn(0, identity="ours")[0]))
    assert sessions.begin(nobody(), [*TASK, *turn(0, identity="theirs")]).identity.session != first.identity.session
    assert sessions.begin(nobody("other"), [*TASK, *turn(0, identity="ours")]).ruling.step == 1
    assert sessions.begin(nobody(), [*TASK, *turn(0, identity="ours")]).identity.session == first.identity.session


def test_a_stream_is_known_again_as_the_whole_reply_is():
    message = turn(0)[0] | {"content": "Let me see. "}
    whole = message["tool_calls"][0]["function"]["arguments"]
    pieces = [
        {"content": "Let me "},
        {"content": "see. "},
        {"tool_calls": [{"index": 0, "id": "call_0", "function": {"name": "sql", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": whole}}]},
    ]
    raw = b"".join(b"data: " + json.dumps({"choices": [{"delta": piece}]}).encode() + b"\r\n\r\n" for piece in pieces)
    assert read_stream(raw + b"data: [DONE]\n\n").mark == answered(message).mark


def test_more_than_a_hundred_runs_that_begin_alike_keep_who_they_are(store):
    sessions, runs = Sessions(Engine(counting(2)), store), 150
    messages, found = [list(TASK) for _ in range(runs)], [[] for _ in range(runs)]
    for step in range(4):
        for run in range(runs):
            ticket = sessions.begin(nobody(), messages[run], TOOLS)
            found[run].append((ticket.identity.session, ticket.ruling.step))
            said = turn(step, bad=True, identity=f"call_of_run_{run}_{step}")
            sessions.replied(ticket, ticket.ruling.side, answered(said[0]))
            messages[run] += said
    assert [len({name for name, _ in one}) for one in found] == [1] * runs
    assert len({one[0][0] for one in found}) == runs
    assert [step for _, step in found[-1]] == [0, 1, 2, 3]
    assert all(sessions.look("key", one[0][0])["latched"] for one in found)


def test_a_file_that_holds_something_else_is_refused(tmp_path):
    other = tmp_path / "notes.txt"
    other.write_text("not a data base, but long enough to look at " * 40)
    with pytest.raises(FileFormatError, match="SQLite"):
        FileStore(other)
    with pytest.raises(FileFormatError, match="expected a log of sessions, or a new file; it is left as it is"):
        SessionLog(other)
    with pytest.raises(MissingFileError):
        SessionLog(tmp_path / "no" / "log.jsonl")


# Cost.


def test_a_handoff_pays_for_one_uncached_prefix():
    prices, kept = Prices(Price.parse("1,0.1,0"), Price.parse("10,1,0")), SessionState()
    usage = read_reply({"usage": {"prompt_tokens": 10**6, "completion_tokens": 5}}).usage
    costs = [prices.charge(kept, side, usage)[0] for side in ("cheap", "cheap", "strong", "strong")]
    assert costs == pytest.approx([1, 0.1, 10, 1])
    assert kept.strong_cost == pytest.approx(10 + 1 + 1 + 1)
    told = read_reply({"usage": {"prompt_tokens": 10**6, "prompt_tokens_details": {"cached_tokens": 10**6}}}).usage
    assert prices.charge(SessionState(), "strong", told)[0] == pytest.approx(1)
    assert prices.charge(SessionState(), "strong", None)[0] == 0


# The log.


def test_the_log_has_every_decision_and_nothing_that_was_said(tmp_path):
    log = SessionLog(tmp_path / "log.jsonl")
    sessions = Sessions(Engine(counting(2), counting(1)), log=log)
    for number in range(4):
        ticket = sessions.begin(identify({"authorization": "Bearer sk-1", "x-session-id": "s"}, {}), talk("!" * number))
        sessions.replied(ticket, ticket.ruling.side, answered(turn(number)[0]))
    scope = ticket.identity.scope
    sessions.outcome(scope, "s", {"success": True, "score": 0.5, "task": "t-1"})
    text = log.path.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["event"] for line in lines] == ["start", *["step", "reply"] * 4, "outcome"]
    steps = [line for line in lines if line["event"] == "step"]
    assert [line["side"] for line in steps] == ["cheap", "cheap", "strong", "strong"]
    shown = [[(one["step"], one["side"], one["diagnostics"]["tool_error"]) for one in line["steps"]] for line in steps]
    assert shown == [[], [(0, "cheap", 1.0)], [(1, "cheap", 1.0)], [(2, "strong", 1.0)]]
    assert {line["router"] for line in steps} == {sessions.engine.router.fingerprint}
    assert steps[1]["shadow"]["handoff_step"] == 0
    assert lines[-1]["task"] == "t-1"
    for word in ("SELECT", "rows", "sk-1", "Bearer"):
        assert word not in text


def test_a_log_goes_on_after_a_line_that_was_cut(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"event": "step", "ti')
    with pytest.warns(TacitWarning, match="removed a last line that was cut short"):
        log = SessionLog(path)
    log.append("d", "s", [("outcome", {"success": True})])
    assert json.loads(path.read_text())["success"] is True


def test_a_log_that_is_moved_away_begins_anew_under_its_name(tmp_path):
    log = SessionLog(tmp_path / "log.jsonl")
    log.append("d", "s", [("outcome", {"success": True})])
    (tmp_path / "log.jsonl").rename(tmp_path / "log.1")
    log.append("d", "s", [("outcome", {"success": False})])
    log.close()
    found = [json.loads((tmp_path / name).read_text())["success"] for name in ("log.1", "log.jsonl")]
    assert found == [True, False]


@pytest.mark.parametrize(
    "wrong", [None, {}, [], {"success": 1}, {"score": "1"}, {"score": float("nan")}, {"task": "t"}, {"win": True}]
)
def test_an_outcome_that_is_none_is_refused(wrong):
    sessions = Sessions(Engine(counting()))
    sessions.begin(Identity("k", "s", "mine"), TASK)
    with pytest.raises(InvalidDataError, match="outcome"):
        sessions.outcome("k", "s", wrong)
    assert sessions.outcome("k", "nobody", {"success": True}) is None
