"""OpenAI Agents SDK: a model that is two, one after the other. Needs the extra `openai-agents`."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, NamedTuple

from bayes_tacit.data.timing import Handoff
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.frameworks.shared import record_end, without
from bayes_tacit.gateway import (
    Engine,
    Identity,
    Prices,
    Reply,
    SessionLog,
    Sessions,
    Store,
    Ticket,
    forwarded,
    identify,
    read_reply,
)
from bayes_tacit.gateway.sessions import checked_id, features_in
from bayes_tacit.logs.messages import Message
from bayes_tacit.router import Router

try:
    from agents import Model, ModelResponse, ModelSettings
except ImportError as error:
    raise without("the OpenAI Agents SDK", "openai-agents", error) from error

SOURCE = "openai_agents"
_STORED = ("id", "provider_data")
"""What points to things that only the server has stored that made an item."""

_ABOUT = ("id", "call_id", "type", "name", "status", *_STORED)


class TacitModel(Model):
    """Calls Cheap until the router says that Strong is to take over, for good.

    Give it to an agent as its `model`. Sessions are told apart as the gateway does: by `session`, by a header or field
    of the model settings (such as `metadata={"session_id": ...}`), else by the conversation itself. The whole of it has
    to be in the input; one that a server keeps (`previous_response_id`, `conversation_id`) is refused, since the other
    model could not go on with it.

    Parameters
    ----------
    router
        Any router that looks at what messages show.
    cheap, strong
        The two models, whatever they are.
    session
        A name for the session, for a model that serves one task.
    shadow
        A second router, which decides and is logged, and hands off nothing.
    handoff
        "resume" or "restart", in place of what the router says.
    store
        Keeps sessions; in memory by default.
    log
        Where decisions, replies and outcomes are written.
    prices
        What calls cost.

    Attributes
    ----------
    sessions
        What it knows of sessions; `sessions.outcome("", name, {"success": True})` says how one ended.

    Examples
    --------
    >>> from agents import Agent, OpenAIChatCompletionsModel
    >>> from bayes_tacit.gateway import default_router
    >>> from openai import AsyncOpenAI
    >>> client = AsyncOpenAI(base_url="http://127.0.0.1:8000/v1", api_key="none")
    >>> two = [OpenAIChatCompletionsModel(name, client) for name in ("small", "large")]
    >>> agent = Agent(name="analyst", model=TacitModel(default_router(), *two))
    """

    def __init__(
        self,
        router: Router,
        cheap: Model,
        strong: Model,
        *,
        session: str | None = None,
        shadow: Router | None = None,
        handoff: Handoff | None = None,
        store: Store | None = None,
        log: SessionLog | None = None,
        prices: Prices | None = None,
    ) -> None:
        for name, model in (("cheap", cheap), ("strong", strong)):
            if not isinstance(model, Model):
                raise InvalidDataError("a Model of the OpenAI Agents SDK", field=name, value=model)
        self._models = {"cheap": cheap, "strong": strong}
        self._session = None if session is None else checked_id(session, "session")
        self.sessions = Sessions(Engine(router, shadow, handoff=handoff), store, log, prices)

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[Any],  # noqa: A002  as `Model` has it
        model_settings: ModelSettings,
        tools: list[Any],
        output_schema: Any,  # noqa: ANN401
        handoffs: list[Any],
        tracing: Any,  # noqa: ANN401
        **more: Any,  # noqa: ANN401  passed on, whatever a version has
    ) -> ModelResponse:
        """Decide which model answers, and let it."""
        asked = self._asked(system_instructions, input, model_settings, [*tools, *handoffs], more)
        try:
            response = await asked.model.get_response(
                system_instructions, asked.items, model_settings, tools, output_schema, handoffs, tracing, **more
            )
        except Exception as failure:
            record_end(self.sessions, asked.ticket, asked.began, None, failure)
            raise
        record_end(self.sessions, asked.ticket, asked.began, _reply(response.output, response.usage, None))
        return response

    async def stream_response(
        self,
        system_instructions: str | None,
        input: str | list[Any],  # noqa: A002
        model_settings: ModelSettings,
        tools: list[Any],
        output_schema: Any,  # noqa: ANN401
        handoffs: list[Any],
        tracing: Any,  # noqa: ANN401
        **more: Any,  # noqa: ANN401
    ) -> AsyncIterator[Any]:
        """Decide which model answers, and pass its events on as they come."""
        asked = self._asked(system_instructions, input, model_settings, [*tools, *handoffs], more)
        reply: Reply | None = None
        try:
            async for event in asked.model.stream_response(
                system_instructions, asked.items, model_settings, tools, output_schema, handoffs, tracing, **more
            ):
                whole = getattr(event, "response", None)
                if whole is not None and event.type in ("response.completed", "response.incomplete"):
                    reply = _reply(whole.output, whole.usage, whole.model)
                yield event
        except Exception as failure:
            record_end(self.sessions, asked.ticket, asked.began, reply, failure)
            raise
        record_end(self.sessions, asked.ticket, asked.began, reply)

    def get_retry_advice(self, request: Any) -> Any:  # noqa: ANN401  types of the SDK that not every version has
        """Ask both models: either may know the error."""
        return self._models["cheap"].get_retry_advice(request) or self._models["strong"].get_retry_advice(request)

    async def close(self) -> None:
        """Close both models."""
        for model in self._models.values():
            await model.close()

    def _asked(
        self,
        instructions: str | None,
        given: str | list[Any],
        settings: ModelSettings,
        tools: Sequence[Any],
        more: Mapping[str, Any],
    ) -> _Asked:
        for field in ("previous_response_id", "conversation_id"):
            if more.get(field) is not None:
                expected = "None: the whole conversation in the input, which both models can read"
                raise InvalidDataError(expected, field=field, value=more[field])
        headers = {name.lower(): str(value) for name, value in (settings.extra_headers or {}).items()}
        body = settings.extra_body if isinstance(settings.extra_body, Mapping) else {}
        identity = (
            identify(headers, {**body, "metadata": settings.metadata})._replace(scope="")
            if self._session is None
            else Identity("", self._session, SOURCE)
        )
        messages = packed(instructions, given)
        ticket = self.sessions.begin(identity, messages, [_tool(tool) for tool in tools], features_in(headers))
        sent = forwarded(messages, ticket.ruling)
        items = given if sent is messages else unpacked(sent, messages)
        return _Asked(self._models[ticket.ruling.side], items, ticket, time.perf_counter())


class _Asked(NamedTuple):
    """One call that was decided."""

    model: Model
    items: Any
    ticket: Ticket
    began: float


def packed(instructions: str | None, items: str | list[Any]) -> list[dict[str, Any]]:
    """Give input items as the gateway reads a conversation: what the model put out in a row is one turn.

    Examples
    --------
    >>> call = {"type": "function_call", "call_id": "c1", "name": "sql", "arguments": "{}"}
    >>> answer = {"type": "function_call_output", "call_id": "c1", "output": "[]"}
    >>> [message["role"] for message in packed("Be brief.", [{"role": "user", "content": "Hi"}, call, answer])]
    ['system', 'user', 'assistant', 'tool']
    """
    messages: list[dict[str, Any]] = []
    if instructions is not None:
        messages.append({"role": "system", "content": instructions, "items": []})
    if isinstance(items, str):
        return [*messages, {"role": "user", "content": items, "items": [{"role": "user", "content": items}]}]
    for item in items:
        kind, role = str(item.get("type") or "message"), item.get("role")
        if kind == "message" and role != "assistant":
            messages.append({"role": role, "content": _text(item.get("content")), "items": [item]})
        elif kind.endswith("_output") and "call_id" in item:
            said = {"role": "tool", "tool_call_id": item["call_id"], "content": _text(item.get("output"))}
            messages.append({**said, "items": [item]})
        else:
            if not messages or messages[-1]["role"] != "assistant":
                messages.append({"role": "assistant", "content": [], "items": []})
            _add(messages[-1], item, kind)
    return messages


def unpacked(sent: Sequence[Message], before: Sequence[Message]) -> list[Any]:
    """Give the input items of messages, some of which were changed on their way; the others go as they came."""
    same = {id(message) for message in before}
    items: list[Any] = []
    for message in sent:
        if id(message) in same:
            items += message["items"]
        elif message["role"] == "tool":
            items += [{**item, "call_id": message["tool_call_id"]} for item in message["items"]]
        else:
            parts = message["content"] or ()
            items += [{key: value for key, value in part.items() if key not in ("text", *_STORED)} for part in parts]
            for call in message.get("tool_calls", ()):
                item = {key: value for key, value in call["item"].items() if key not in _STORED}
                items.append({**item, "call_id": call["id"]})
    return items


def _add(turn: dict[str, Any], item: Mapping[str, Any], kind: str) -> None:
    """Add an item to the turn of the assistant that it belongs to."""
    turn["items"].append(item)
    if kind.endswith("_call") and "call_id" in item:
        given = item.get("arguments")
        rest = {key: value for key, value in item.items() if key not in _ABOUT}
        arguments = given if isinstance(given, str) else json.dumps(rest, sort_keys=True, default=str)
        function = {"name": item.get("name", kind), "arguments": arguments}
        turn.setdefault("tool_calls", []).append({"id": item["call_id"], "function": function, "item": item})
    else:
        turn["content"].append({**item, "type": kind, "text": _text(item.get("content")) if kind == "message" else ""})


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return "" if content is None else json.dumps(content, sort_keys=True, default=str)


def _reply(output: Sequence[Any], usage: Any, model: str | None) -> Reply:  # noqa: ANN401  either of two kinds of usage
    """Read what the next request will not show."""
    items = [item if isinstance(item, dict) else item.model_dump(exclude_unset=True) for item in output]
    turn = next((message for message in packed(None, items) if message["role"] == "assistant"), None)
    parts = [part for item in items if item.get("type") == "message" for part in item.get("content") or ()]
    tokens = [token for part in parts for token in part.get("logprobs") or ()]
    choice = {"message": turn, "logprobs": {"content": tokens}}
    counted = None
    if usage is not None:
        counted = {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens}
        details = getattr(usage, "input_tokens_details", None)
        counted["prompt_tokens_details"] = {"cached_tokens": getattr(details, "cached_tokens", None)}
    return read_reply({"model": model, "choices": [choice], "usage": counted})


def _tool(tool: Any) -> str:  # noqa: ANN401  any of the SDK's tools, or another agent to hand to
    return str(getattr(tool, "name", "") or getattr(tool, "tool_name", ""))
