"""OpenAI Agents SDK: a model that is two, one after the other. Needs the extra `openai-agents`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, NamedTuple, Unpack

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.frameworks import Options, recording, sessions_of, without
from bayes_tacit.gateway import Identity, Reply, Ticket, forwarded, identify
from bayes_tacit.gateway.protocols import pack_items, read_response, unpack_items
from bayes_tacit.gateway.sessions import checked_id, features_in
from bayes_tacit.router import Router

try:
    from agents import Model, ModelResponse, ModelSettings
except ImportError as error:
    raise without("the OpenAI Agents SDK", "openai-agents", error) from error

SOURCE = "openai_agents"


class TacitModel(Model):
    """Calls Cheap until the router says that Strong is to take over, for good.

    An agent takes it as its `model`. Sessions are found as the gateway does: by `session`, by a header or field
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
    **options
        As for `bayes_tacit.frameworks.Options`: shadow, canary, handoff, store, log, prices, plan.

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
        **options: Unpack[Options],
    ) -> None:
        for name, model in (("cheap", cheap), ("strong", strong)):
            if not isinstance(model, Model):
                raise InvalidDataError("a Model of the OpenAI Agents SDK", field=name, value=model)
        self._models = {"cheap": cheap, "strong": strong}
        self._session = None if session is None else checked_id(session, "session")
        self.sessions = sessions_of(router, options)

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
        with recording(self.sessions, asked.ticket) as call:
            response = await asked.model.get_response(
                system_instructions, asked.items, model_settings, tools, output_schema, handoffs, tracing, **more
            )
            call.reply = _reply(response.output, response.usage, None)
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
        with recording(self.sessions, asked.ticket) as call:
            async for event in asked.model.stream_response(
                system_instructions, asked.items, model_settings, tools, output_schema, handoffs, tracing, **more
            ):
                whole = getattr(event, "response", None)
                if whole is not None and event.type in ("response.completed", "response.incomplete"):
                    call.reply = _reply(whole.output, whole.usage, whole.model)
                yield event

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
        identity = Identity("", str(self._session), SOURCE)
        if self._session is None:
            identity = identify(headers, {**body, "metadata": settings.metadata}, "")
        messages = pack_items(instructions, given)
        ticket = self.sessions.begin(identity, messages, [_tool(tool) for tool in tools], features_in(headers))
        sent = forwarded(messages, ticket.ruling)
        items = given if sent is messages else unpack_items(sent, messages)
        return _Asked(self._models[ticket.ruling.side], items, ticket)


class _Asked(NamedTuple):
    """One call that was decided."""

    model: Model
    items: Any
    ticket: Ticket


def _reply(output: Sequence[Any], usage: Any, model: str | None) -> Reply:  # noqa: ANN401  either of two kinds of usage
    """Read what the next request will not show."""
    items = [item if isinstance(item, dict) else item.model_dump(exclude_unset=True) for item in output]
    spent = None
    if usage is not None:
        details = getattr(usage, "input_tokens_details", None)
        spent = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
        spent["input_tokens_details"] = {"cached_tokens": getattr(details, "cached_tokens", None)}
    return read_response({"model": model, "output": items, "usage": spent, "status": "completed"})


def _tool(tool: Any) -> str:  # noqa: ANN401  any of the SDK's tools, or another agent to hand to
    return str(getattr(tool, "name", "") or getattr(tool, "tool_name", ""))
