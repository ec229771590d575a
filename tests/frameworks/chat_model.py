"""A chat model of LangChain's on the real openai package: a message's reasoning goes back with it, as some demand."""

from __future__ import annotations

import json
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from openai import AsyncOpenAI, OpenAI


class ChatModel(BaseChatModel):
    name: str
    url: str

    @property
    def _llm_type(self) -> str:
        return "chat completions"

    def bind_tools(self, tools, **_):
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools])

    def _body(self, messages, kwargs) -> dict[str, Any]:
        sent = convert_to_openai_messages(messages)
        for message, original in zip(sent, messages, strict=True):
            message |= {k: v for k, v in original.additional_kwargs.items() if k == "reasoning_content"}
        return {"model": self.name, "messages": sent, "logprobs": True, "tools": kwargs.get("tools") or None}

    def _result(self, completion) -> ChatResult:
        choice = completion.model_dump()["choices"][0]
        calls = [
            {"name": one["function"]["name"], "args": json.loads(one["function"]["arguments"]), "id": one["id"]}
            for one in choice["message"].get("tool_calls") or ()
        ]
        reasoning = choice["message"].get("reasoning_content")
        usage = completion.usage
        message = AIMessage(
            content=choice["message"]["content"] or "",
            tool_calls=calls,
            additional_kwargs={"reasoning_content": reasoning} if reasoning else {},
            response_metadata={
                "model_name": completion.model,
                "finish_reason": choice["finish_reason"],
                "logprobs": choice["logprobs"],
            },
            usage_metadata={
                "input_tokens": usage.prompt_tokens,
                "output_tokens": usage.completion_tokens,
                "total_tokens": usage.total_tokens,
            },
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):  # noqa: ARG002
        with OpenAI(base_url=self.url, api_key="none", max_retries=0) as client:
            return self._result(client.chat.completions.create(**self._body(messages, kwargs)))

    async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs):  # noqa: ARG002
        async with AsyncOpenAI(base_url=self.url, api_key="none", max_retries=0) as client:
            return self._result(await client.chat.completions.create(**self._body(messages, kwargs)))
