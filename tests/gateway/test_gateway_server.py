"""The gateway on real sockets: who is asked, what passes, and what happens when something breaks."""

import json
import threading
import time
from pathlib import Path

import httpx
import pytest
from between import gateway
from talks import TASK, TOOLS, alarm, all_routers, counting, tacit, talk

from bayes_tacit.gateway.server.settings import Limits

KEY = {"authorization": "Bearer k"}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with gateway(counting(2), tmp_path_factory.mktemp("gateway")) as one:
        yield one


def sides(served, turns, session, **more):
    """Who serves each request of a conversation."""
    return [
        served.ask(talk(turns[:end]), session, tools=TOOLS, **more).headers["x-tacit-served"]
        for end in range(len(turns) + 1)
    ]


def lines(served):
    return [json.loads(line) for line in Path(served.settings.log).read_text().splitlines()]


def eventually(condition):
    for _ in range(200):
        if condition():
            return True
        time.sleep(0.02)
    return False


def test_headers_say_who_served_and_why(served):
    answer = served.ask(talk("!"), "told", tools=TOOLS)
    told = {name: value for name, value in answer.headers.items() if name.startswith("x-tacit")}
    assert told == {
        "x-tacit-session": "told",
        "x-tacit-step": "1",
        "x-tacit-served": "cheap",
        "x-tacit-model": "any",
        "x-tacit-score": "1",
        "x-tacit-why": "score 1 is below alpha 2",
    }


def test_a_posterior_has_a_band(tmp_path):
    with gateway(tacit(40), tmp_path) as served:
        answer = served.ask(talk("!."), "band", tools=TOOLS)
        lower, upper = map(float, answer.headers["x-tacit-band"].split(","))
        assert 0 < lower < float(answer.headers["x-tacit-score"]) < upper < 1


def test_each_model_has_its_own_name_and_key(tmp_path, monkeypatch):
    monkeypatch.setenv("STRONG_KEY", "sk-strong")
    named = {"cheap": {"model": "small"}, "strong": {"model": "large", "key_variable": "STRONG_KEY"}}
    with gateway(counting(1), tmp_path, **named) as served:
        served.ask(TASK, "a", key="sk-client", headers={"x-api-key": "sk-too", "cookie": "c=1"})
        served.ask(talk("!"), "a", key="sk-client", headers={"x-api-key": "sk-too", "cookie": "c=1"})
        small, large = served.cheap.requests[-1], served.strong.requests[-1]
        assert (small["body"]["model"], large["body"]["model"]) == ("small", "large")
        assert (small["headers"]["authorization"], small["headers"]["x-api-key"]) == ("Bearer sk-client", "sk-too")
        assert large["headers"]["authorization"] == "Bearer sk-strong"
        for secret in ("sk-client", "sk-too", "c=1"):
            assert secret not in str(large)
        assert "cookie" not in small["headers"]
        assert not any(name.startswith("x-tacit") for name in small["headers"])
        for secret in ("sk-client", "sk-strong", "sk-too"):
            assert secret not in Path(served.settings.log).read_text()


def test_a_clients_key_goes_to_no_other_host(served):
    served.ask(talk("!!"), "keys", key="sk-secret")
    assert "sk-secret" not in str(served.strong.requests[-1]["headers"])
    assert "authorization" not in served.strong.requests[-1]["headers"]


@pytest.mark.parametrize("name", ["pure_strong", "task_router", "step_deferral", "landmark", "prefix_router"])
def test_every_kind_of_policy_is_served(name, tmp_path):
    expected = {
        "pure_strong": ["strong"] * 5,
        "task_router": ["cheap"] * 5,
        "step_deferral": ["cheap", "strong", "cheap", "strong", "cheap"],
        "landmark": ["cheap", "cheap", "strong", "strong", "strong"],
        "prefix_router": ["cheap", "cheap", "strong", "strong", "strong"],
    }
    with gateway(all_routers()[name], tmp_path) as served:
        assert sides(served, "!!!!", "s") == expected[name]


def test_the_router_in_shadow_is_logged_only(tmp_path):
    counting(1).save(tmp_path / "shadow.json")
    with gateway(counting(9), tmp_path, shadow=str(tmp_path / "shadow.json")) as served:
        assert sides(served, "!!", "s") == ["cheap"] * 3
        shadows = [line["shadow"] for line in lines(served) if line["event"] == "step"]
        assert [one and one["handoff_step"] for one in shadows] == [None, 0, 0]
        assert served.metric("tacit_shadow_handoffs_total") == 1


def test_missing_features_are_named_and_come_by_header(tmp_path):
    router = alarm(0.5, "tool_error", "entities")
    with gateway(router, tmp_path) as served:
        answer = served.ask(talk("!"), "f")
        assert answer.headers["x-tacit-missing"] == "features['entities']"
        assert answer.headers["x-tacit-served"] == "cheap"
        given = served.ask(talk("!"), "f", headers={"x-tacit-features": '{"entities": 2}'})
        assert given.headers["x-tacit-served"] == "strong"
        assert served.metric("tacit_undecided_total") == 1


def test_log_probabilities_are_asked_for_where_that_is_wanted(tmp_path):
    router = alarm(0.4, "uncertainty")
    with gateway(router, tmp_path, logprobs=True) as served:
        served.ask(TASK, "u", tools=TOOLS)
        assert served.cheap.requests[-1]["body"]["logprobs"] is True
        answer = served.ask(talk("."), "u", tools=TOOLS)
        assert (answer.headers["x-tacit-score"], answer.headers["x-tacit-served"]) == ("0.5", "strong")


def test_decisions_can_be_had_without_sending_anything(served):
    before = len(served.cheap.requests) + len(served.strong.requests)
    for turns, side in (("", "cheap"), ("!", "cheap"), ("!!", "strong"), ("!!.", "strong")):
        told = served.client.post("/decision", json={"messages": talk(turns)}, headers={"x-session-id": "only"}).json()
        assert (told["side"], told["step"], told["session"]) == (side, len(turns), "only")
    assert told["latched"]
    assert len(served.cheap.requests) + len(served.strong.requests) == before


def test_outcomes_are_taken_from_the_same_key_only(served):
    served.ask(TASK, "won", key="mine")
    mine, other = {"authorization": "Bearer mine"}, {"authorization": "Bearer other"}
    assert served.client.post("/sessions/won/outcome", json={"success": True}, headers=other).status_code == 404
    assert served.client.get("/sessions/won", headers=other).status_code == 404
    answer = served.client.post("/sessions/won/outcome", json={"success": True, "score": 1}, headers=mine)
    assert answer.json()["outcome"] == {"success": True, "score": 1}
    assert lines(served)[-1]["event"] == "outcome"


def test_inferred_sessions_hand_over_too(served):
    messages = [{"role": "user", "content": "A task that nobody named."}]
    found = []
    for _ in range(4):
        answer = served.ask(messages, tools=TOOLS)
        found.append((answer.headers["x-tacit-session"], answer.headers["x-tacit-served"]))
        said = answer.json()["choices"][0]["message"]
        call = said["tool_calls"][0]["id"]
        messages += [said, {"role": "tool", "tool_call_id": call, "content": "Error: no such table"}]
    assert len({session for session, _ in found}) == 1
    assert [side for _, side in found] == ["cheap", "cheap", "strong", "strong"]


# Faults.


def test_messages_that_cannot_be_judged_are_served_by_cheap_and_counted(served):
    before = served.metric("tacit_faults_total")
    answer = served.ask([*TASK, {"role": "tool", "tool_call_id": "x", "content": "say hi"}], "odd")
    assert (answer.status_code, answer.headers["x-tacit-served"]) == (200, "cheap")
    assert "1 messages could not be read" in answer.headers["x-tacit-fault"]
    assert served.metric("tacit_faults_total") == before + 1


@pytest.mark.parametrize("status", [429, 500, 503])
def test_strong_stands_in_for_cheap_if_that_is_allowed_and_nothing_is_handed_off(tmp_path, status):
    with gateway(counting(9), tmp_path, fallback=("strong",)) as served:
        served.cheap.failing = status
        answer = served.ask(TASK, "f")
        assert (answer.status_code, answer.headers["x-tacit-served"]) == (200, "strong")
        assert str(status) in answer.headers["x-tacit-fault"]
        served.cheap.failing = None
        assert served.ask(talk("."), "f").headers["x-tacit-served"] == "cheap"
        assert not served.client.get("/sessions/f", headers=KEY).json()["latched"]
        served.cheap.failing = 404
        assert served.ask(talk("."), "f").status_code == 404


def test_a_cheap_server_that_is_gone_is_stood_in_for_too(tmp_path):
    with gateway(counting(9), tmp_path, fallback=("strong",), cheap={"url": "http://127.0.0.1:9/v1"}) as served:
        answer = served.ask(TASK, "g")
        assert (answer.status_code, answer.headers["x-tacit-served"]) == (200, "strong")
        assert served.metric("tacit_fallbacks_total") == 1


def test_without_leave_the_error_of_cheap_is_passed_on(served):
    answer = served.ask([{"role": "user", "content": "status 503"}], "alone")
    assert (answer.status_code, answer.headers["x-tacit-served"]) == (503, "cheap")
    assert answer.json()["error"]["message"] == "told to answer 503"


def test_an_error_of_strong_after_the_handoff_is_passed_on(tmp_path):
    with gateway(counting(1), tmp_path, fallback=("strong",)) as served:
        assert sides(served, "!", "s")[-1] == "strong"
        served.strong.failing = 500
        before = len(served.cheap.requests), len(served.strong.requests)
        answer = served.ask(talk("!."), "s")
        assert (answer.status_code, answer.headers["x-tacit-served"]) == (500, "strong")
        assert (len(served.cheap.requests), len(served.strong.requests)) == (before[0], before[1] + 1)
        served.strong.failing = None
        assert served.ask(talk("!."), "s").headers["x-tacit-served"] == "strong"


def test_a_stream_that_breaks_off_breaks_off_here_and_is_not_asked_for_again(tmp_path):
    with gateway(counting(9), tmp_path, fallback=("strong",)) as served:
        for stream in (True, False):
            with pytest.raises(httpx.RemoteProtocolError):
                served.ask([{"role": "user", "content": "break now"}], "b", stream=stream)
        assert (len(served.cheap.requests), len(served.strong.requests)) == (2, 0)
        assert eventually(lambda: [line["event"] for line in lines(served)].count("reply") == 2)
        assert all("broke off" in line["fault"] for line in lines(served) if line["event"] == "reply")


def test_a_redirect_is_passed_on_and_not_followed(served):
    answer = served.ask([{"role": "user", "content": "redirect me"}], "away", headers={})
    assert answer.status_code == 307


def test_a_server_that_says_nothing_is_given_up(tmp_path):
    with gateway(counting(9), tmp_path, limits=Limits(silence=0.2)) as served:
        answer = served.ask([{"role": "user", "content": "stall"}], "t")
        assert answer.status_code == 504
        assert "did not answer in time" in answer.json()["error"]["message"]


@pytest.mark.parametrize("how", ["stall", "say slowly"])
def test_a_client_that_leaves_takes_the_request_with_it(tmp_path, how):
    with gateway(counting(9), tmp_path) as served:
        message = {"model": "m", "stream": True, "messages": [{"role": "user", "content": how}]}

        def leave():
            with httpx.Client(timeout=0.3) as impatient, pytest.raises(httpx.TimeoutException):
                impatient.post(f"{served.url}/chat/completions", json=message, headers={"x-session-id": "gone"})

        thread = threading.Thread(target=leave)
        thread.start()
        thread.join()
        assert served.cheap.cancelled.wait(5)
        assert eventually(lambda: served.metric("tacit_disconnects_total") == 1)
        reply = [line for line in lines(served) if line["event"] == "reply"][-1]
        assert (reply["status"], reply["fault"]) == (499, "client gone")


def test_a_stream_passes_piece_by_piece_as_it_comes(served):
    message = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "say slowly"}]}
    with served.client.stream("POST", "/chat/completions", json=message, headers={"x-session-id": "live"}) as answer:
        first = next(answer.iter_raw())
    assert b'"role": "assistant"' in first
    assert b"DONE" not in first


def test_a_body_that_is_too_long_is_refused_before_it_is_read(tmp_path):
    with gateway(counting(9), tmp_path, limits=Limits(body=2000)) as served:
        answer = served.ask([{"role": "user", "content": "x" * 3000}], "long")
        assert answer.status_code == 413
        assert served.cheap.requests == []

        def pieces():
            for _ in range(10):
                yield b"x" * 500

        assert served.client.post("/chat/completions", content=pieces()).status_code == 413


def test_a_full_disk_keeps_no_request_from_being_served(tmp_path):
    with gateway(counting(9), tmp_path, log="/dev/full") as served:
        assert served.ask(TASK, "full").status_code == 200
        assert served.metric('tacit_faults_total{kind="log"}') >= 2


def test_sessions_outlive_the_gateway_in_a_file(tmp_path):
    state = str(tmp_path / "sessions.sqlite")
    with gateway(counting(1), tmp_path, state=state) as served:
        assert sides(served, "!", "s")[-1] == "strong"
    with gateway(counting(1), tmp_path, state=state) as served:
        assert served.ask(talk("!."), "s").headers["x-tacit-served"] == "strong"
        assert served.client.get("/sessions/s", headers=KEY).json()["handoff_step"] == 0


def test_models_of_both_are_listed(served):
    assert [one["id"] for one in served.client.get("/models").json()["data"]] == ["cheap", "strong"]


def test_health_and_unknown_paths_are_answered(served):
    base = served.url.removesuffix("/v1")
    assert httpx.get(f"{base}/health").json()["status"] == "ok"
    answer = httpx.post(f"{base}/v1/images", json={})
    assert answer.status_code == 404
    assert "/v1/chat/completions" in answer.json()["error"]["message"]
