"""A real LangChain agent on two models on this machine: handed over in mid-task, for good, thoughts left out."""

from __future__ import annotations

import asyncio
import json

import pytest
from chat_model import ChatModel
from langchain.agents import create_agent
from langchain.tools import tool
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from openai import InternalServerError
from scripts import ERROR, THOUGHT, after_two_errors, calls_belong_together, cheap, sql, strong

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.frameworks.langchain import TacitMiddleware, packed, unpacked
from bayes_tacit.gateway import SessionLog
from bayes_tacit.monitor import summarize
from simulations.scripted_model import ScriptedModel

ASK = {"messages": [{"role": "user", "content": "How many rows are there?"}]}


@pytest.fixture
def models():
    with ScriptedModel("cheap", cheap) as one, ScriptedModel("strong", strong) as other:
        yield one, other


def agent_of(models, middleware, **more):
    return create_agent(
        ChatModel(name="cheap", url=models[0].url),
        tools=[tool(sql)],
        system_prompt="You answer with SQL.",
        middleware=[middleware],
        **more,
    )


def middleware_of(models, router=None, **settings) -> TacitMiddleware:
    return TacitMiddleware(router or after_two_errors(), ChatModel(name="strong", url=models[1].url), **settings)


def invoked(agent, state, config=None, *, asynchronously: bool):
    return asyncio.run(agent.ainvoke(state, config)) if asynchronously else agent.invoke(state, config)


@pytest.mark.parametrize("asynchronously", [False, True])
def test_a_task_is_handed_over_in_the_middle_and_stays_so(models, tmp_path, asynchronously):
    log = tmp_path / "log.jsonl"
    middleware = middleware_of(models, log=SessionLog(log))
    agent = agent_of(models, middleware, checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "rows-1"}}
    state = invoked(agent, ASK, thread, asynchronously=asynchronously)
    assert state["messages"][-1].content == "There are 42 rows."
    assert [len(model.requests) for model in models] == [2, 2]
    answers = [message.content for message in state["messages"] if isinstance(message, ToolMessage)]
    assert answers == [ERROR, ERROR, "[(42,)]"]
    known = middleware.look(state)
    assert (known["latched"], known["handoff_step"], known["task"]) == (True, 1, "rows-1")
    assert known["calls"] == {"cheap": 2, "strong": 2}
    # The next question of the same thread: the latch was in the state that the checkpointer kept.
    later = invoked(agent, {"messages": [HumanMessage("And now?")]}, thread, asynchronously=asynchronously)
    assert len(models[0].requests) == 2
    assert len(models[1].requests) > 2
    middleware.outcome(later, success=True)
    summary = summarize(log)
    assert (summary.sessions, summary.handed, summary.success[0].succeeded) == (1, 1, 1)
    assert summary.spent.cost == 2 * 1 + len(models[1].requests) * 10


def test_what_cheap_thought_goes_back_to_cheap_and_not_to_strong(models):
    agent = agent_of(models, middleware_of(models))
    state = agent.invoke(ASK)
    by_cheap = [message for message in models[0].requests[1]["messages"] if message["role"] == "assistant"]
    assert [message["reasoning_content"] for message in by_cheap] == [THOUGHT]
    for request in models[1].requests:
        assert THOUGHT not in json.dumps(request)
        assert calls_belong_together(request["messages"])
        assert request["messages"][0] == {"role": "system", "content": "You answer with SQL."}
        assert [one["function"]["name"] for one in request["tools"]] == ["sql"]
    own = models[1].requests[1]["messages"][-2]
    assert own["reasoning_content"] == "only Strong can read this"
    # The state keeps all that was said.
    said = [message for message in state["messages"] if isinstance(message, AIMessage)]
    assert [message.additional_kwargs.get("reasoning_content") for message in said[:2]] == [THOUGHT, THOUGHT]


def test_a_state_that_the_caller_carries_on_keeps_the_latch_and_a_new_one_has_none(models):
    agent = agent_of(models, middleware_of(models))
    state = agent.invoke(ASK)
    agent.invoke({**state, "messages": [*state["messages"], HumanMessage("And now?")]})
    assert len(models[0].requests) == 2
    agent.invoke(ASK)
    assert len(models[0].requests) == 4


def test_a_restart_gives_strong_the_task_alone(models):
    agent_of(models, middleware_of(models, handoff="restart")).invoke(ASK)
    assert [message["role"] for message in models[1].requests[0]["messages"]] == ["system", "user"]
    roles = [message["role"] for message in models[1].requests[1]["messages"]]
    assert roles == ["system", "user", "assistant", "tool"]


def test_an_error_is_passed_on_and_logged(models, tmp_path):
    log = tmp_path / "log.jsonl"
    models[0].script = lambda _: {"status": 503}
    with pytest.raises(InternalServerError):
        agent_of(models, middleware_of(models, log=SessionLog(log))).invoke(ASK)
    (reply,) = [line for line in map(json.loads, log.read_text().splitlines()) if line["event"] == "reply"]
    assert (reply["status"], reply["fault"], reply["side"]) == (503, "InternalServerError", "cheap")


def test_features_and_log_probabilities_reach_the_router(models, tmp_path):
    log = tmp_path / "log.jsonl"
    middleware = middleware_of(models, log=SessionLog(log), features=lambda _: {"entities": 7.0})
    agent_of(models, middleware).invoke(ASK)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert lines[0]["features"]["entities"] == 7
    assert lines[0]["features"]["n_tools"] == 1
    assert [line["nll"] for line in lines if line["event"] == "reply"] == [[0.5, 1]] * 4
    assert lines[3]["steps"][0]["diagnostics"]["uncertainty"] == 0.5


def test_messages_go_out_as_they_came_but_for_thoughts_and_ids():
    calls = [{"name": "sql", "args": {"query": "x"}, "id": "a b", "type": "tool_call"}]
    bad = [{"name": "sql", "args": "{", "id": "bad", "error": "no JSON", "type": "invalid_tool_call"}]
    parts = [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "So."}]
    parts.append({"type": "tool_use", "id": "a b", "name": "sql", "input": {}})
    message = AIMessage(
        parts,
        tool_calls=calls,
        invalid_tool_calls=bad,
        additional_kwargs={"reasoning_content": "hm", "refusal": None, "tool_calls": [{"id": "a b"}]},
        response_metadata={"id": "resp_1", "model_name": "m"},
    )
    plain = packed(message)
    assert plain["tool_calls"][1]["function"]["arguments"] == "{"
    plain.pop("reasoning_content")
    plain["content"] = parts[1:]
    plain["tool_calls"][0]["id"] = "call_1"
    back = unpacked(plain)
    assert back.content == [parts[1], {**parts[2], "id": "call_1"}]
    assert [one["id"] for one in (*back.tool_calls, *back.invalid_tool_calls)] == ["call_1", "bad"]
    assert (back.additional_kwargs, back.response_metadata) == ({"refusal": None}, {"model_name": "m"})
    assert message.content == parts
    assert message.tool_calls[0]["id"] == "a b"
    failed = packed(ToolMessage("no", tool_call_id="x", status="error"))
    assert (failed["role"], failed["status"]) == ("tool", "error")
    assert unpacked({**failed, "tool_call_id": "y"}).tool_call_id == "y"
    assert packed(SystemMessage("s"))["role"] == "system"


def test_bad_settings_and_states_are_refused(models):
    with pytest.raises(InvalidDataError, match="strong is 'gpt'; expected a chat model of LangChain"):
        TacitMiddleware(after_two_errors(), "gpt")
    with pytest.raises(InvalidDataError, match=r"state\['tacit'\] is 'x'; expected what the middleware has put there"):
        middleware_of(models).look({"tacit": "x"})
