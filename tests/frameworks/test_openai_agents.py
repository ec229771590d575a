"""A real agent of the OpenAI Agents SDK on two models on this machine, whole and streamed."""

from __future__ import annotations

import asyncio
import json

import pytest
from agents import (
    Agent,
    MaxTurnsExceeded,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from fake_models import FakeModel, running
from openai import AsyncOpenAI, InternalServerError
from scripts import ERROR, THOUGHT, after_two_errors, calls_belong_together, cheap, sql, strong

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.frameworks.openai_agents import TacitModel
from bayes_tacit.gateway import SessionLog
from bayes_tacit.gateway.protocols import pack_items, unpack_items
from simulations.scripted_model import ScriptedModel

set_tracing_disabled(True)
ASK = "How many rows are there?"


@pytest.fixture
def models():
    with ScriptedModel("cheap", cheap) as one, ScriptedModel("strong", strong) as other:
        yield one, other


def model_of(models, router=None, **settings) -> TacitModel:
    two = [Chat(one.name, one.url) for one in models]
    return TacitModel(router or after_two_errors(), *two, **settings)


class Chat(OpenAIChatCompletionsModel):
    """Sends a model's reasoning back to it, as some demand, and closes its client."""

    def __init__(self, name, url):
        client = AsyncOpenAI(base_url=url, api_key="none", max_retries=0)
        super().__init__(name, client, should_replay_reasoning_content=lambda _: True)

    async def close(self):
        await self._client.close()


def agent_of(model, **settings) -> Agent:
    return Agent(
        name="analyst",
        instructions="You answer with SQL.",
        model=model,
        tools=[function_tool(sql)],
        model_settings=ModelSettings(**settings),
    )


async def told(agent, given, *, streamed: bool):
    if not streamed:
        return await Runner.run(agent, given)
    result = Runner.run_streamed(agent, given)
    async for _ in result.stream_events():
        pass
    return result


def run(agent, given=ASK, *, streamed: bool = False):
    async def closing():
        try:
            return await told(agent, given, streamed=streamed)
        finally:
            await agent.model.close()

    return asyncio.run(closing())


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("streamed", [False, True])
def test_a_task_is_handed_over_in_the_middle_and_stays_so(models, tmp_path, streamed):
    log = tmp_path / "log.jsonl"
    model = model_of(models, log=SessionLog(log))
    agent = agent_of(model, metadata={"session_id": "rows-1"}, include_usage=True)

    async def both():
        first = await told(agent, ASK, streamed=streamed)
        counts = [len(one.requests) for one in models]
        again = [*first.to_input_list(), {"role": "user", "content": "And now?"}]
        await told(agent, again, streamed=streamed)
        await model.close()
        return first, counts

    first, counts = asyncio.run(both())
    assert first.final_output == "There are 42 rows."
    assert counts == [2, 2]
    assert len(models[0].requests) == 2
    assert len(models[1].requests) > 2
    known = model.sessions.look("", "rows-1")
    assert (known["latched"], known["handoff_step"]) == (True, 1)
    replies = [line for line in lines_of(log) if line["event"] == "reply"]
    assert [line["side"] for line in replies[:4]] == ["cheap", "cheap", "strong", "strong"]
    assert all(line["usage"]["prompt"] > 0 for line in replies)


@pytest.mark.parametrize("streamed", [False, True])
def test_what_cheap_thought_goes_back_to_cheap_and_not_to_strong(models, streamed):
    run(agent_of(model_of(models)), streamed=streamed)
    by_cheap = [message for message in models[0].requests[1]["messages"] if message["role"] == "assistant"]
    assert [message["reasoning_content"] for message in by_cheap] == [THOUGHT]
    for request in models[1].requests:
        assert THOUGHT not in json.dumps(request)
        assert calls_belong_together(request["messages"])
        assert [one["function"]["name"] for one in request["tools"]] == ["sql"]
    assert models[1].requests[1]["messages"][-2]["reasoning_content"] == "only Strong can read this"


def test_runs_of_one_task_at_once_are_told_apart_by_their_conversations(models):
    model = model_of(models)

    async def runs():
        await asyncio.gather(*(told(agent_of(model), ASK, streamed=False) for _ in range(4)))
        await model.close()

    asyncio.run(runs())
    assert [len(one.requests) for one in models] == [8, 8]
    assert model.sessions.store.count() == 4


def test_a_restart_gives_strong_the_task_alone(models):
    run(agent_of(model_of(models, handoff="restart", session="a")))
    roles = [[message["role"] for message in request["messages"]] for request in models[1].requests]
    assert roles == [["system", "user"], ["system", "user", "assistant", "tool"]]


@pytest.mark.parametrize("streamed", [False, True])
def test_an_error_is_passed_on_and_logged(models, tmp_path, streamed):
    log = tmp_path / "log.jsonl"
    models[0].script = lambda _: {"status": 503}
    model = model_of(models, log=SessionLog(log))
    with pytest.raises(InternalServerError):
        run(agent_of(model), streamed=streamed)
    (reply,) = [line for line in lines_of(log) if line["event"] == "reply"]
    assert (reply["status"], reply["fault"], reply["side"]) == (503, "InternalServerError", "cheap")


def test_a_conversation_that_a_server_keeps_is_refused(models):
    with pytest.raises(
        InvalidDataError, match="previous_response_id is 'resp_1'; expected None: the whole conversation"
    ):
        asyncio.run(Runner.run(agent_of(model_of(models)), ASK, previous_response_id="resp_1"))
    assert models[0].requests == []


def test_items_of_another_model_go_without_thoughts_and_without_what_its_server_stored():
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "So."}]},
        {"type": "function_call", "id": "fc_1", "call_id": "a b", "name": "sql", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a b", "output": "[]"},
        {"type": "reasoning", "id": "rs_2", "summary": []},
        {"type": "computer_call", "call_id": "c", "action": {"type": "click"}},
        {"type": "computer_call_output", "call_id": "c", "output": {"type": "screenshot"}},
    ]
    before = pack_items("Be brief.", items)
    assert [message["role"] for message in before] == ["system", "user", "assistant", "tool", "assistant", "tool"]
    assert before[2]["content"][1]["text"] == "So."
    assert before[4]["tool_calls"][0]["function"] == {
        "name": "computer_call",
        "arguments": '{"action": {"type": "click"}}',
    }
    assert unpack_items(before, before) == items
    turn = {**before[2], "content": before[2]["content"][1:]}
    turn["tool_calls"] = [{**turn["tool_calls"][0], "id": "call_1"}]
    sent = unpack_items([*before[:2], turn, {**before[3], "tool_call_id": "call_1"}, *before[4:]], before)
    said = sent[1].pop("id")
    assert said.startswith("msg_")
    assert said != "msg_1"
    assert sent == [
        items[0],
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "So."}]},
        {"type": "function_call", "call_id": "call_1", "name": "sql", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "[]"},
        *items[5:],
    ]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("kind", [OpenAIChatCompletionsModel, OpenAIResponsesModel])
def test_both_of_the_sdks_models_are_handed_over_with_words_beside_their_calls(kind, streamed):
    fakes = FakeModel("cheap"), FakeModel("strong")
    with running(*fakes) as served:

        async def play():
            clients = [AsyncOpenAI(base_url=one.url, api_key="none", max_retries=0) for one in served]
            two = [kind(fake.name, client) for fake, client in zip(fakes, clients, strict=True)]
            agent = agent_of(TacitModel(after_two_errors(), *two))
            try:
                with pytest.raises(MaxTurnsExceeded):
                    await told_at_most(agent, 4, streamed=streamed)
            finally:
                for client in clients:
                    await client.close()

        asyncio.run(play())
    assert [len(fake.requests) for fake in fakes] == [2, 2]
    sent = json.dumps(fakes[1].requests[0]["body"])
    assert sent.count(ERROR) == 2
    assert "rs_cheap" not in sent
    if kind is OpenAIResponsesModel:
        assert "Let me look." in sent
        assert "rs_cheap" in json.dumps(fakes[0].requests[1]["body"])


async def told_at_most(agent, turns, *, streamed):
    if not streamed:
        await Runner.run(agent, ASK, max_turns=turns)
        return
    result = Runner.run_streamed(agent, ASK, max_turns=turns)
    async for _ in result.stream_events():
        pass


def test_bad_settings_are_refused(models):
    with pytest.raises(InvalidDataError, match="cheap is 'gpt'; expected a Model of the OpenAI Agents SDK"):
        TacitModel(after_two_errors(), "gpt", "gpt")
    with pytest.raises(InvalidDataError, match=r"session is .*expected at most 256 characters"):
        model_of(models, session="x" * 300)
