"""The actor behind an endpoint, against a real server on this machine that misbehaves on demand."""

from __future__ import annotations

import pytest
from command_line import call
from hypothesis import given
from hypothesis import strategies as st
from protocol_server import ProtocolServer, completion, dies, drips, hangs_up, raw, says, stalls, status
from toy_world import Corridor, Stalled

from bayes_tacit.agents import (
    ActorError,
    History,
    Observation,
    Proposal,
    Retry,
    Step,
    StepResult,
    read_transcript,
    run_episode,
)
from bayes_tacit.agents.endpoint import Endpoint, EndpointActor, Prompt, Token, action_nll, closest_action, whole_answer
from bayes_tacit.errors import InvalidDataError, MissingFileError
from bayes_tacit.router import pure

START = History(Observation("A hall.", ("go north", "look"), task="find the cup"))
FREE = History(Observation("A prompt.", None, task="say something"))


def actor(server, *, timeout=5.0, **settings):
    names = ("key_variable", "temperature", "max_tokens", "seed", "logprobs", "extra")
    endpoint = {name: settings.pop(name) for name in names if name in settings}
    return EndpointActor(Endpoint(server.base_url, "tiny", timeout=timeout, **endpoint), **settings)


def ask(*script, history=START, **settings):
    with ProtocolServer(*script) as server:
        return actor(server, **settings).act(history), server.requests


@pytest.mark.parametrize(("pooling", "nll"), [("sum", 0.75), ("mean", 0.375)])
def test_the_action_comes_with_the_nll_of_its_own_tokens(pooling, nll):
    proposal, _ = ask(says("Hm. Action: go north", [-4.0, -3.0, -0.5, -0.25]), pooling=pooling)
    assert (proposal.action, proposal.nll, proposal.fallback) == ("go north", nll, False)
    assert proposal.raw == "Hm. Action: go north"
    assert proposal.usage == {"prompt_tokens": 9.0, "completion_tokens": 3.0}
    assert proposal.seconds > 0


def test_the_request_carries_prompt_settings_and_key(monkeypatch):
    monkeypatch.setenv("TOY_KEY", "s3cret")
    _, (request,) = ask(
        says("look"), key_variable="TOY_KEY", temperature=0.5, max_tokens=9, seed=3, extra={"top_p": 0.25}
    )
    body = request["body"]
    assert request["path"] == "/v1/chat/completions"
    assert request["headers"]["Authorization"] == "Bearer s3cret"
    assert {name: value for name, value in body.items() if name != "messages"} == {
        "model": "tiny",
        "temperature": 0.5,
        "max_tokens": 9,
        "seed": 3,
        "top_p": 0.25,
        "logprobs": True,
        "top_logprobs": 0,
    }
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    for word in ("find the cup", "A hall.", "go north", "look"):
        assert word in body["messages"][1]["content"]


@pytest.mark.parametrize("said", ["go north", "GO  North.", "Action: go north", "I think so.\n**Action**: `go north`"])
def test_an_admissible_action_is_recognized(said):
    proposal, _ = ask(says(said))
    assert (proposal.action, proposal.fallback) == ("go north", False)


@pytest.mark.parametrize("said", ["I would go to the north", "Action: northwards!", "go"])
def test_what_is_not_admissible_falls_back_to_the_nearest_action_without_nll(said):
    proposal, _ = ask(says(said))
    assert (proposal.action, proposal.fallback, proposal.nll) == ("go north", True, None)
    assert proposal.raw == said


@pytest.mark.parametrize("content", ["", "   \n ", None])
def test_an_empty_answer_falls_back(content):
    proposal, _ = ask(raw(completion(content)))
    assert (proposal.action, proposal.fallback) == ("go north", True)
    free, _ = ask(raw(completion(content)), mode="generate", fallback_action="wait", history=FREE)
    assert (free.action, free.fallback, free.nll) == ("wait", True, None)


def test_free_generation_takes_what_is_said():
    proposal, _ = ask(says("Action: dance wildly", [-1.0, -0.5, -0.5]), mode="generate")
    assert (proposal.action, proposal.fallback, proposal.nll) == ("dance wildly", False, 1.0)
    whole, _ = ask(says("one two\nthree"), mode="generate", reads=whole_answer, history=FREE)
    assert whole.action == "one two\nthree"
    assert whole.nll == pytest.approx(0.3)


@pytest.mark.parametrize(
    "logprobs",
    [
        None,
        {},
        {"content": None},
        {"content": []},
        {"content": [{"token": "look"}]},
        {"content": [{"token": "look", "logprob": "high"}]},
        {"content": [{"token": "look", "logprob": float("-inf")}]},
        {"content": ["look"]},
        {"tokens": ["look"], "token_logprobs": [-1.0]},
        [1],
    ],
)
def test_without_usable_logprobs_the_nll_is_missing_and_the_action_stands(logprobs):
    proposal, _ = ask(raw(completion("look", logprobs)))
    assert (proposal.action, proposal.nll, proposal.fallback) == ("look", None, False)


@pytest.mark.parametrize(
    ("behaviour", "transient", "message"),
    [
        (stalls, True, "no answer within 0.3 s"),
        (drips, True, "within 0.3 s"),
        (dies, True, "no answer"),
        (hangs_up, True, "no answer"),
        (status(500), True, "status 500"),
        (status(503), True, "status 503"),
        (status(429), True, "status 429"),
        (status(404), False, "status 404"),
        (status(401), False, "status 401"),
        (status(301, Location="/elsewhere"), False, "status 301"),
        (raw(b"<html>busy</html>"), True, "not a chat completion"),
        (raw(b"\xff\xfe\x00garbage"), True, "not a chat completion"),
        (raw(b"{}"), True, "not a chat completion"),
        (raw(b"[" * 100_000), True, "not a chat completion"),
        (raw(b'{"choices": []}'), True, "not a chat completion"),
        (raw(b'{"choices": [{"message": {"content": ["parts"]}}]}'), True, "content is"),
        (raw(b'{"choices": [{"message": {"content": "look"}}], "usage": 3}'), True, "not a chat completion"),
        (raw(b" " * (17 * 2**20)), True, "more than"),
    ],
)
def test_every_way_to_fail_is_an_actor_error_that_says_whether_to_ask_again(behaviour, transient, message):
    with pytest.raises(ActorError, match=message) as caught:
        ask(behaviour, timeout=0.3 if behaviour in (stalls, drips) else 5.0)
    assert caught.value.transient is transient


@pytest.mark.parametrize(("header", "seconds"), [("2", 2.0), ("0.5", 0.5), ("soon", None), ("-3", 0.0), ("inf", None)])
def test_the_servers_wish_to_wait_is_passed_on(header, seconds):
    with pytest.raises(ActorError) as caught:
        ask(status(429, Retry_After=header))
    assert caught.value.retry_after == seconds


KEY = "sk-0123456789/abcdef+ghij"


@pytest.mark.parametrize("key", ["s3 cret-word", "s3cret\nword", "s3cret-wörd", "s3cret\x7fword", "  \n"])
def test_a_key_that_no_header_can_carry_is_refused_by_the_name_of_its_variable(monkeypatch, key):
    monkeypatch.setenv("TOY_KEY", key)
    with pytest.raises(InvalidDataError, match="key_variable is 'TOY_KEY'") as caught:
        Endpoint("http://127.0.0.1:1/v1", "m", "TOY_KEY")
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "http://me:s3cret@127.0.0.1:1/v1",
        "http://s3cret@127.0.0.1:1/v1",
        "ftp://me:s3cret@127.0.0.1/v1",
        "http://127.0.0.1:1/v1?key=s3cret",
        "http://[::1",
        "http://",
        "http://host:99999999",
        "http://host:port/v1",
        "http://ho st/v1",
        "http://hö\udc00st",
        "https:///v1",
        None,
    ],
)
def test_an_address_with_a_password_or_without_sense_is_refused_and_the_password_not_shown(address):
    with pytest.raises(InvalidDataError, match="base_url is ") as caught:
        Endpoint(address, "m")
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "settings", [{"model": f"m-{KEY}"}, {"extra": {"api_key": KEY}}, {"base_url": f"http://h/{KEY}"}]
)
def test_a_key_among_the_settings_which_are_written_is_refused_and_not_shown(monkeypatch, settings):
    monkeypatch.setenv("TOY_KEY", KEY)
    with pytest.raises(
        InvalidDataError, match=rf"{next(iter(settings))} is '\*\*\*'; expected nothing of the key"
    ) as caught:
        Endpoint(**{"base_url": "http://127.0.0.1:1/v1", "model": "m", "key_variable": "TOY_KEY", **settings})
    assert KEY not in str(caught.value)


def test_a_key_that_is_given_for_the_name_of_its_variable_is_not_shown(tmp_path):
    with pytest.raises(InvalidDataError, match=r"key_variable is '\*\*\*'"):
        Endpoint("http://127.0.0.1:1/v1", "m", KEY)
    words = ("collect", "--benchmark", "simulations.alfworld:benchmark", "--data", "d", "--out", "o")
    for more in (("--cheap-key", KEY), ("--cheap", "http://h/v1", "--cheap-model", "m", "--cheap-key", KEY)):
        done = call(*words, *more, cwd=tmp_path)
        assert done.returncode == 2
        assert KEY[:9] not in done.stdout + done.stderr
    done = call(*words, "--cheap", f"me:{KEY}@host/v1", cwd=tmp_path)
    assert (done.returncode, KEY[:9] in done.stderr, "***@host" in done.stderr) == (2, False, True)


def test_an_episode_survives_a_server_that_misbehaves_between_good_answers(tmp_path):
    script = [
        says("Action: right"),
        dies,
        status(429, Retry_After="3"),
        raw(b"nonsense"),
        says("Action: right"),
        stalls,
        says("Action: right"),
    ]
    waits = []
    with ProtocolServer(*script) as server:
        played = run_episode(
            Corridor(3),
            actor(server, timeout=0.5),
            None,
            pure("cheap"),
            episode="e",
            extractor=Stalled(),
            retry=Retry(jitter=0, first=1),
            sleep=waits.append,
            path=tmp_path / "t.jsonl",
        )
    assert (played.end.status, played.end.success, played.end.cheap_calls) == ("done", True, 3)
    assert [len(step.failures) for step in played.steps] == [0, 3, 1]
    assert waits == [1.0, 3.0, 4.0, 1.0]
    assert read_transcript(tmp_path / "t.jsonl") == played


@given(
    before=st.lists(st.text("abc :", min_size=1), max_size=4),
    action=st.lists(st.text("xyz ", min_size=1), min_size=1, max_size=4),
    after=st.lists(st.text("abc :", min_size=1), max_size=4),
    data=st.data(),
)
def test_the_nll_is_that_of_the_actions_tokens_and_no_others(before, action, after, data):
    values = data.draw(st.lists(st.floats(-9, 0), min_size=40, max_size=40))
    tokens = [Token(text, value) for text, value in zip([*before, *action, *after], values, strict=False)]
    inside = [token.logprob for token in tokens[len(before) : len(before) + len(action)]]
    text = "".join(action)
    if not text.strip():
        return
    assert action_nll(tokens, text) == pytest.approx(-sum(inside))
    assert action_nll(tokens, text, "mean") == pytest.approx(-sum(inside) / len(inside))
    assert action_nll(tokens, text) >= 0


@given(st.text(), st.lists(st.text(), min_size=1))
def test_the_fallback_is_always_admissible(answer, admissible):
    assert closest_action(answer, admissible) in admissible


def test_the_prompt_shows_the_history_up_to_now_and_can_be_cut():
    history = START
    for at in range(3):
        history = history.then(Step("cheap", Proposal(f"act {at}"), StepResult(Observation(f"seen {at}"))))
    (message,) = Prompt("$history|$observation|$actions").messages(history)
    assert message == {"role": "user", "content": "A hall.\n> act 0\nseen 0\n> act 1\nseen 1\n> act 2|seen 2|"}
    (cut,) = Prompt("$history", steps=1).messages(history)
    assert cut["content"] == "A hall.\n...\n> act 2"
    (bare,) = Prompt("$actions", lists_actions=False).messages(START)
    assert bare["content"] == ""


def test_a_prompt_file_is_read_and_its_places_are_checked(tmp_path):
    file = tmp_path / "prompt.txt"
    file.write_text("Pay $$5.\n---\n$task")
    assert Prompt.read(file).messages(START)[0]["content"] == "Pay $5."
    with pytest.raises(InvalidDataError, match=r"\$goal"):
        Prompt("$goal")
    with pytest.raises(InvalidDataError, match="dollar sign"):
        Prompt("costs 5$")
    with pytest.raises(MissingFileError, match="expected a prompt"):
        Prompt.read(tmp_path / "none.txt")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"base_url": "127.0.0.1"}, "starts with http"),
        ({"timeout": 0}, "timeout"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"temperature": -1}, "temperature"),
        ({"key_variable": "NO_SUCH_VARIABLE"}, "environment variable"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(InvalidDataError, match=message):
        Endpoint(**{"base_url": "http://127.0.0.1:1/v1", "model": "m", **settings})
