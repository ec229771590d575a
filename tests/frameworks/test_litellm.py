"""LiteLLM's real package on two models on this machine: called from Python, and hooked as its proxy does."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import litellm
import pytest
from scripts import THOUGHT, after_two_errors, calls_belong_together, cheap, sql, strong

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.frameworks.litellm import TacitLiteLLM
from bayes_tacit.gateway import SessionLog
from simulations.scripted_model import ScriptedModel

TOOLS = [{"type": "function", "function": {"name": "sql", "parameters": {"type": "object"}}}]
ASK = [{"role": "system", "content": "You answer with SQL."}, {"role": "user", "content": "How many rows are there?"}]
CHAT = {"tools": TOOLS, "num_retries": 0}


@pytest.fixture
def models():
    with ScriptedModel("cheap", cheap) as one, ScriptedModel("strong", strong) as other:
        yield one, other


def params(model) -> dict[str, str]:
    return {"model": f"openai/{model.name}", "api_base": model.url, "api_key": f"key-of-{model.name}"}


def tacit_of(models, **settings) -> TacitLiteLLM:
    return TacitLiteLLM(settings.pop("router", after_two_errors()), *map(params, models), **settings)


async def said_by(tacit, messages, how, **more):
    """One answer, as a message that goes back with the next request."""
    settings = {**CHAT, "stream": "stream" in how, **more}
    if how.startswith("sync"):
        response = tacit.completion(messages, **settings)
        chunks = list(response) if settings["stream"] else None
    else:
        response = await tacit.acompletion(messages, **settings)
        chunks = [chunk async for chunk in response] if settings["stream"] else None
    whole = response if chunks is None else litellm.stream_chunk_builder(chunks)
    message = whole.choices[0].message
    plain = {"role": "assistant", "content": message.content}
    if message.tool_calls:
        plain["tool_calls"] = [call.model_dump() for call in message.tool_calls]
        plain["reasoning_content"] = message.reasoning_content
    return plain


async def played(tacit, how, most=6, **more):
    """An agent's loop on it, until it says something."""
    messages = list(ASK)
    for _ in range(most):
        messages.append(await said_by(tacit, messages, how, **more))
        calls = messages[-1].get("tool_calls")
        if not calls:
            break
        query = json.loads(calls[0]["function"]["arguments"])["query"]
        messages.append({"role": "tool", "tool_call_id": calls[0]["id"], "content": sql(query)})
    return messages


HOW = ["sync", "sync stream", "async", "async stream"]


@pytest.mark.parametrize("how", HOW)
def test_a_task_is_handed_over_in_the_middle_and_stays_so(models, tmp_path, how):
    log = tmp_path / "log.jsonl"
    tacit = tacit_of(models, log=SessionLog(log))

    async def both():
        messages = await played(tacit, how, litellm_session_id="rows-1")
        counts = [len(one.requests) for one in models]
        await said_by(tacit, [*messages, {"role": "user", "content": "And now?"}], how, litellm_session_id="rows-1")
        return messages, counts

    messages, counts = asyncio.run(both())
    assert messages[-1]["content"] == "There are 42 rows."
    assert counts == [2, 2]
    assert [len(one.requests) for one in models] == [2, 3]
    known = tacit.sessions.look("", "rows-1")
    assert (known["latched"], known["handoff_step"], known["calls"]) == (True, 1, {"cheap": 2, "strong": 3})
    for request in models[1].requests:
        assert THOUGHT not in json.dumps(request)
        assert calls_belong_together(request["messages"])
    assert models[0].keys == ["Bearer key-of-cheap"] * 2
    assert set(models[1].keys) == {"Bearer key-of-strong"}
    sides = [line["side"] for line in map(json.loads, log.read_text().splitlines()) if line["event"] == "reply"]
    assert sides == ["cheap", "cheap", "strong", "strong", "strong"]


def test_sessions_without_a_name_are_told_apart_by_their_conversations(models):
    tacit = tacit_of(models)

    async def runs():
        await asyncio.gather(*(played(tacit, "async") for _ in range(3)))

    asyncio.run(runs())
    assert [len(one.requests) for one in models] == [6, 6]
    assert tacit.sessions.store.count() == 3


def test_it_calls_through_a_router_of_litellm(models):
    listed = [{"model_name": one.name, "litellm_params": params(one)} for one in models]
    router = litellm.Router(listed, num_retries=0)
    tacit = TacitLiteLLM(after_two_errors(), "cheap", "strong", through=router)
    messages = asyncio.run(played(tacit, "sync"))
    assert messages[-1]["content"] == "There are 42 rows."
    assert [len(one.requests) for one in models] == [2, 2]


@pytest.mark.parametrize("stream", [False, True])
def test_the_hook_rewrites_requests_as_the_proxy_calls_it(models, tmp_path, stream):
    log = tmp_path / "log.jsonl"
    tacit = tacit_of(models, log=SessionLog(log))
    key = SimpleNamespace(token="hashed", api_key=None)

    class Proxy:
        """The order in which LiteLLM's proxy calls a hook around a call."""

        async def acompletion(self, messages, **settings):
            headers = {"X-Tacit-Session-Id": "rows-1", "x-tacit-features": '{"entities": 3}'}
            data = {"model": "tacit", "messages": messages, "proxy_server_request": {"headers": headers}, **settings}
            data |= {"litellm_call_id": f"id-{len(messages)}"}
            changed = await tacit.async_pre_call_hook(key, None, data, "completion")
            called = {name: value for name, value in changed.items() if name != "proxy_server_request"}
            response = await litellm.acompletion(**called)
            if stream:
                return tacit.async_post_call_streaming_iterator_hook(key, response, changed)
            return await tacit.async_post_call_success_hook(changed, key, response)

    messages = asyncio.run(played(Proxy(), "async stream" if stream else "async"))
    assert messages[-1]["content"] == "There are 42 rows."
    assert [len(one.requests) for one in models] == [2, 2]
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert lines[0]["features"]["entities"] == 3
    assert (lines[0]["episode"], lines[0]["source"]) == ("rows-1", "x-tacit-session-id")
    assert lines[0]["scope"] not in ("", "hashed")
    assert [line["side"] for line in lines if line["event"] == "reply"] == ["cheap", "cheap", "strong", "strong"]


def test_other_requests_pass_and_errors_are_recorded(models, tmp_path):
    log = tmp_path / "log.jsonl"
    tacit = tacit_of(models, log=SessionLog(log))
    other = {"model": "gpt", "messages": ASK}
    for data, kind in ((dict(other), "completion"), ({**other, "model": "tacit"}, "embeddings")):
        before = dict(data)
        assert asyncio.run(tacit.async_pre_call_hook(None, None, data, kind)) is None
        assert data == before
    data = {**other, "model": "tacit"}
    asyncio.run(tacit.async_pre_call_hook(None, None, data, "acompletion"))
    failure = litellm.RateLimitError("slow down", "openai", "cheap")
    asyncio.run(tacit.async_post_call_failure_hook(data, failure, None))
    models[0].script = lambda _: {"status": 503}
    with pytest.raises(litellm.ServiceUnavailableError):
        tacit.completion(ASK, **CHAT)
    with pytest.raises(litellm.ServiceUnavailableError):
        asyncio.run(tacit.acompletion(ASK, **CHAT))
    replies = [line for line in map(json.loads, log.read_text().splitlines()) if line["event"] == "reply"]
    assert [line["status"] for line in replies] == [429, 503, 503]
    assert replies[0]["fault"] == "RateLimitError"


def test_a_reply_may_go_back_as_the_object_that_it_was(models):
    tacit = tacit_of(models)
    first = tacit.completion(ASK, metadata={"session_id": "a"}, **CHAT).choices[0].message
    answer = {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": "[]"}
    tacit.completion([*ASK, first, answer], metadata={"session_id": "a"}, **CHAT)
    assert tacit.sessions.look("", "a")["steps"] == 1
    assert models[0].requests[1]["messages"][2]["tool_calls"][0]["id"] == answer["tool_call_id"]


def test_a_restart_gives_strong_the_task_alone(models):
    asyncio.run(played(tacit_of(models, handoff="restart"), "sync", session_id="a"))
    assert [message["role"] for message in models[1].requests[0]["messages"]] == ["system", "user"]


def test_bad_settings_are_refused():
    with pytest.raises(InvalidDataError, match=r"strong is \{\}; expected a model's name"):
        TacitLiteLLM(after_two_errors(), "cheap", {})
