"""LangChain 1.x: a middleware that hands an agent over to another model for good. Needs the extra `langchain`."""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, NotRequired, Unpack

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.frameworks import Borrowed, Options, holding, recording, sessions_of, without
from bayes_tacit.gateway import Identity, Reply, SessionState, Ticket, forwarded, read_reply
from bayes_tacit.gateway.sessions import LONGEST_ID
from bayes_tacit.logs.messages import Message
from bayes_tacit.router import Router

try:
    from langchain.agents.middleware.types import (
        AgentMiddleware,
        AgentState,
        ExtendedModelResponse,
        ModelRequest,
        ModelResponse,
    )
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
    from langgraph.config import get_config
    from langgraph.types import Command
except ImportError as error:
    raise without("LangChain 1.x", "langchain", error) from error

KEY = "tacit"
SOURCE = "langchain"
_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "function"}


class TacitState(AgentState[Any]):
    """An agent's state with what is kept of its session: `session`, its name in the log, and `kept`, as JSON."""

    tacit: NotRequired[dict[str, str]]


class TacitMiddleware(AgentMiddleware[TacitState, Any, Any]):
    """Switches an agent from its own model to another one, in mid-task and for good, when the router says so.

    The latch is in the agent's state under `tacit`: whatever keeps the state (a checkpointer, the caller) keeps it.
    Before every call of the model the conversation is read as the gateway reads a request. What the other model cannot
    read is left out of what it is sent; the messages in the state stay as they are. In the log, the id of the agent's
    thread names the task.

    Parameters
    ----------
    router
        Any router that looks at what messages show, but a cascade, which judges episodes that have ended.
    strong
        The model that takes over.
    cheap
        The model before; by default the agent's own.
    **options
        As for `bayes_tacit.frameworks.Options`: shadow, canary, handoff, log, prices, plan.
    features
        Gives the features of a task that messages do not show, by name, from a request.

    Examples
    --------
    >>> from bayes_tacit.gateway import default_router
    >>> from langchain_core.language_models.fake_chat_models import FakeListChatModel
    >>> from langchain.agents import create_agent
    >>> middleware = TacitMiddleware(default_router(), strong=FakeListChatModel(responses=["I am Strong."]))
    >>> agent = create_agent(FakeListChatModel(responses=["I am Cheap."]), middleware=[middleware])
    >>> state = agent.invoke({"messages": [{"role": "user", "content": "Who are you?"}]})
    >>> state["messages"][-1].content, middleware.look(state)["latched"]
    ('I am Cheap.', False)
    """

    state_schema = TacitState

    def __init__(
        self,
        router: Router,
        strong: BaseChatModel,
        *,
        cheap: BaseChatModel | None = None,
        features: Callable[[ModelRequest[Any]], Mapping[str, float]] | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__()
        for name, model in {"strong": strong, "cheap": strong if cheap is None else cheap}.items():
            if not isinstance(model, BaseChatModel):
                raise InvalidDataError("a chat model of LangChain", field=name, value=model)
        self.sessions = sessions_of(router, options, Borrowed())
        self._cheap, self._strong, self._features = cheap, strong, features

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ExtendedModelResponse[Any]:
        """Decide which model is called, and call it."""
        asked = self._asked(request)
        with holding(asked.kept), recording(self.sessions, asked.ticket) as call:
            response = handler(asked.request)
            call.reply = _reply(response)
        return _answered(asked, response)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ExtendedModelResponse[Any]:
        """Decide which model is called, and call it."""
        asked = self._asked(request)
        with holding(asked.kept), recording(self.sessions, asked.ticket) as call:
            response = await handler(asked.request)
            call.reply = _reply(response)
        return _answered(asked, response)

    def look(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is known of the session of an agent's state: steps, latch, calls, cost."""
        name, kept = _session(state)
        with holding(kept):
            return self.sessions.look("", name) or {}

    def outcome(self, state: Mapping[str, Any], **content: object) -> dict[str, Any]:
        """Log how the task of an agent's state ended: `success` (true or false), `score` (a number), or both."""
        name, kept = _session(state)
        with holding(kept):
            return self.sessions.outcome("", name, content) or {}

    def _asked(self, request: ModelRequest[Any]) -> _Asked:
        name, kept = _session(request.state)
        system = [] if request.system_message is None else [packed(request.system_message)]
        messages = system + [packed(message) for message in request.messages]
        features = None if self._features is None else self._features(request)
        with holding(kept):
            ticket = self.sessions.begin(
                Identity("", name, SOURCE), messages, _tools(request.tools), features, _thread()
            )
        side = ticket.ruling.side
        model = self._strong if side == "strong" else self._cheap or request.model
        sent = forwarded(messages, ticket.ruling)
        changed = request.override(model=model)
        if sent is not messages:
            rest: list[Any] = [unpacked(message) for message in sent[len(system) :]]
            changed = changed.override(messages=rest)
        return _Asked(changed, name, kept, ticket)


class _Asked(NamedTuple):
    """One call that was decided."""

    request: ModelRequest[Any]
    name: str
    kept: SessionState
    ticket: Ticket


def _answered(asked: _Asked, response: ModelResponse[Any]) -> ExtendedModelResponse[Any]:
    update = {KEY: {"session": asked.name, "kept": asked.kept.to_json()}}
    return ExtendedModelResponse(model_response=response, command=Command(update=update))


def packed(message: BaseMessage) -> dict[str, Any]:
    """Return a message of LangChain's as the gateway reads it; the message itself goes along."""
    as_read: dict[str, Any] = {"role": _ROLES.get(message.type, getattr(message, "role", message.type))}
    as_read["content"] = message.content
    as_read["message"] = message
    if isinstance(message, AIMessage):
        as_read |= {key: value for key, value in message.additional_kwargs.items() if key not in as_read}
        as_read.pop("tool_calls", None)
        calls = [_call(one["id"], one["name"], json.dumps(one["args"])) for one in message.tool_calls]
        calls += [_call(one["id"], one["name"] or "", one["args"] or "") for one in message.invalid_tool_calls]
        if calls:
            as_read["tool_calls"] = calls
    elif isinstance(message, ToolMessage):
        as_read |= {"tool_call_id": message.tool_call_id, "status": message.status}
    return as_read


def unpacked(message: Message) -> BaseMessage:
    """Return the message of LangChain's for one that may have been changed on its way."""
    original: BaseMessage = message["message"]
    if isinstance(original, ToolMessage):
        return original.model_copy(update={"tool_call_id": message["tool_call_id"]})
    if not isinstance(original, AIMessage):
        return original
    names = [call["id"] for call in message.get("tool_calls", ())]
    known = len(original.tool_calls)
    before = [one["id"] for one in (*original.tool_calls, *original.invalid_tool_calls)]
    renamed = dict(zip(before, names, strict=True))
    content = message["content"]
    if isinstance(content, list):
        content = [
            {**part, "id": renamed[part["id"]]} if isinstance(part, dict) and part.get("id") in renamed else part
            for part in content
        ]
    calls = [{**one, "id": name} for one, name in zip(original.tool_calls, names[:known], strict=True)]
    others = [{**one, "id": name} for one, name in zip(original.invalid_tool_calls, names[known:], strict=True)]
    more = {key: one for key, one in original.additional_kwargs.items() if key in message and key != "tool_calls"}
    # An id there points to what the other model's server has stored.
    about = {key: value for key, value in original.response_metadata.items() if key != "id"}
    changed = {"tool_calls": calls, "invalid_tool_calls": others, "additional_kwargs": more, "response_metadata": about}
    return original.model_copy(update={"content": content or "", **changed})


def _call(identity: str | None, name: str, arguments: str) -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def _reply(response: ModelResponse[Any]) -> Reply | None:
    """Read a reply as one of OpenAI's protocol, for all that is read from one."""
    message = next((one for one in reversed(response.result) if isinstance(one, AIMessage)), None)
    if message is None:
        return None
    about, usage = message.response_metadata, message.usage_metadata
    tokens: dict[str, Any] | None = None
    if usage is not None:
        cached = (usage.get("input_token_details") or {}).get("cache_read")
        tokens = {"prompt_tokens": usage["input_tokens"], "completion_tokens": usage["output_tokens"]}
        tokens["prompt_tokens_details"] = {"cached_tokens": cached}
    choice = {"message": packed(message), "finish_reason": about.get("finish_reason") or about.get("stop_reason")}
    choice["logprobs"] = about.get("logprobs")
    return read_reply({"model": about.get("model_name") or about.get("model"), "choices": [choice], "usage": tokens})


def _session(state: Mapping[str, Any]) -> tuple[str, SessionState]:
    held = state.get(KEY)
    if held is None:
        return secrets.token_hex(8), SessionState()
    if not isinstance(held, Mapping) or not {"session", "kept"} <= held.keys():
        expected = "what the middleware has put there: session and kept"
        raise InvalidDataError(expected, field=f"state[{KEY!r}]", value=held)
    return held["session"], SessionState.from_json(held["kept"])


def _thread() -> str | None:
    """Return the id of the agent's thread, by which a task is found in the log; None where there is none."""
    try:
        found = get_config().get("configurable", {}).get("thread_id")
    except RuntimeError:  # outside of a graph
        return None
    return None if found is None else str(found)[:LONGEST_ID]


def _tools(tools: Sequence[Any]) -> list[Any]:
    return [tool if isinstance(tool, dict) else getattr(tool, "name", "") for tool in tools]
