"""The three protocols that agents speak: how a request, a reply and a stream of each are read as one conversation.

========== ====================== ==================================================
name       path                   whose
========== ====================== ==================================================
chat       /v1/chat/completions   OpenAI's chat protocol
responses  /v1/responses          OpenAI's responses, which the Agents SDK and Codex speak
messages   /v1/messages           Anthropic's, which Claude Code speaks
========== ====================== ==================================================

Each is read into messages as the chat protocol has them, with what they were under `native`; the extractor, the engine
and `forwarded` know that form only. What is sent on is in the client's protocol.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from bayes_tacit.gateway.conversation import reply_mark
from bayes_tacit.gateway.session_state import Reply, Usage
from bayes_tacit.logs.messages import Message

NATIVE = "native"


@dataclass(frozen=True)
class Protocol:
    """One protocol: its name and its path below /v1.

    `read` returns the conversation of a request, None where there is none; `write` the fields of a request that hold a
    conversation which `forwarded` has changed, from what is sent and what was read. `reply` and `stream` read a whole
    reply, parsed, and the bytes of one that came as events; `end` stands in the last event of a stream.
    """

    name: str
    path: str
    read: Callable[[Mapping[str, Any]], list[Message] | None]
    write: Callable[[Sequence[Message], Sequence[Message]], dict[str, Any]]
    reply: Callable[[object], Reply]
    stream: Callable[[bytes], Reply]
    end: bytes

    def error(self, status: int, message: str) -> bytes:
        """Return an error as clients of the protocol read it."""
        kind = "invalid_request_error" if status < 500 else "api_error" if self is MESSAGES else "upstream_error"
        error = {"type": kind, "message": message}
        if self is MESSAGES:
            return json.dumps({"type": "error", "error": error}).encode()
        return json.dumps({"error": {**error, "param": None, "code": f"tacit_{status}"}}).encode()


def events(raw: bytes) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a stream of events; [DONE] and what is no JSON is left out."""
    for line in raw.splitlines():
        if line.startswith(b"data:"):
            try:
                event = json.loads(line[len(b"data:") :])
            except (ValueError, RecursionError):
                continue
            if isinstance(event, Mapping):
                yield event


def _fault(content: Mapping[str, Any]) -> str | None:
    error = content.get("error")
    if not error:
        return None
    said = error.get("message") if isinstance(error, Mapping) else error
    return " ".join(str(said or "an error").split())[:200]


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: object) -> int | None:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**53
    return int(value) if fits else None  # type: ignore[call-overload]


def _reply_of(
    message: Message | None,
    *,
    model: object = None,
    finish_reason: object = None,
    usage: Usage | None = None,
    tokens: Sequence[object] = (),
    error: str | None = None,
) -> Reply:
    """Return what is kept of a reply, from the turn in OpenAI's chat format and its tokens' log-probabilities.

    Of what is not as it should be, nothing is kept.
    """
    values = [token.get("logprob") if isinstance(token, Mapping) else token for token in tokens]
    numbers = [value for value in values if isinstance(value, int | float) and -math.inf < value <= 1e-6]
    return Reply(
        mark=None if message is None else reply_mark(message),
        model=_text(model),
        finish_reason=_text(finish_reason),
        usage=usage,
        nll=(max(0.0, -math.fsum(numbers)), len(numbers)) if numbers else None,
        letters=0 if message is None else _letters(message),
        error=error,
    )


def _letters(message: Message) -> int:
    content = message.get("content")
    parts = [part.get("text") for part in _list(content) if isinstance(part, Mapping)]
    functions = [_mapping(_mapping(call).get("function")) for call in _list(message.get("tool_calls"))]
    return sum(len(_text(one) or "") for one in (content, *parts, *(one.get("arguments") for one in functions)))


# OpenAI's chat.


def _read_chat(body: Mapping[str, Any]) -> list[Message] | None:
    messages = body.get("messages")
    fits = isinstance(messages, list) and messages and all(isinstance(one, dict) for one in messages)
    return messages if fits else None


def read_reply(content: object) -> Reply:
    """Read a whole reply of OpenAI's chat protocol, parsed from JSON.

    Examples
    --------
    >>> reply = read_reply({"model": "m", "choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}],
    ...                     "usage": {"prompt_tokens": 9, "completion_tokens": 1}})
    >>> reply.model, reply.finish_reason, reply.usage
    ('m', 'stop', Usage(prompt=9, completion=1, cached=None, estimated=False))
    """
    if not isinstance(content, Mapping):
        return Reply()
    choices = _list(content.get("choices"))
    choice = _mapping(choices[0] if choices else None)
    message = choice.get("message")
    return _reply_of(
        message if isinstance(message, Mapping) else None,
        model=content.get("model"),
        finish_reason=choice.get("finish_reason"),
        usage=_chat_usage(content.get("usage")),
        tokens=_chat_tokens(choice),
        error=_fault(content),
    )


def read_stream(raw: bytes) -> Reply:
    r"""Read a reply of OpenAI's chat protocol that came as a stream of events, all of it at once.

    Examples
    --------
    >>> chunks = [{"choices": [{"delta": {"content": text}}]} for text in ("Hel", "lo")]
    >>> raw = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"
    >>> read_stream(raw).mark == read_reply({"choices": [{"message": {"content": "Hello"}}]}).mark
    True
    """
    text: list[str] = []
    calls: dict[str, dict[str, Any]] = {}
    tokens: list[object] = []
    said: dict[str, Any] = {}
    seen, error = False, None
    for chunk in events(raw):
        error = error or _fault(chunk)
        said.update({key: chunk[key] for key in ("model", "usage") if chunk.get(key)})
        choices = _list(chunk.get("choices"))
        choice = _mapping(choices[0] if choices else None)
        if not choice or choice.get("index", 0) != 0:
            continue
        said["finish_reason"] = choice.get("finish_reason") or said.get("finish_reason")
        tokens += _chat_tokens(choice)
        delta = choice.get("delta")
        if isinstance(delta, Mapping):
            seen = True
            text.append(_text(delta.get("content")) or "")
            for piece in filter(None, map(_mapping, _list(delta.get("tool_calls")))):
                # The first piece of a call has id and name, the rest more of the arguments.
                new = {"id": None, "function": {"name": "", "arguments": ""}}
                call = calls.setdefault(str(piece.get("index", 0)), new)
                call["id"] = call["id"] or piece.get("id")
                for key in ("name", "arguments"):
                    call["function"][key] += _text(_mapping(piece.get("function")).get(key)) or ""
    return _reply_of(
        {"content": "".join(text), "tool_calls": list(calls.values())} if seen else None,
        model=said.get("model"),
        finish_reason=said.get("finish_reason"),
        usage=_chat_usage(said.get("usage")),
        tokens=tokens,
        error=error,
    )


def _chat_tokens(choice: Mapping[str, Any]) -> list[object]:
    logprobs = _mapping(choice.get("logprobs"))
    return _list(logprobs.get("content") or logprobs.get("token_logprobs"))


def _chat_usage(usage: object) -> Usage | None:
    found = _mapping(usage)
    cached = _count(_mapping(found.get("prompt_tokens_details")).get("cached_tokens"))
    prompt = _count(found.get("prompt_tokens"))
    return None if prompt is None else Usage(prompt, _count(found.get("completion_tokens")) or 0, cached)


# OpenAI's responses: items, of which those that the model put out in a row are one turn.

_STORED = ("id", "provider_data")
"""What points to things that only the server has stored that made an item."""

_ABOUT = ("id", "call_id", "type", "name", "status", *_STORED)


def _read_responses(body: Mapping[str, Any]) -> list[Message] | None:
    given = body.get("input")
    fits = isinstance(given, str) or (isinstance(given, list) and all(isinstance(one, dict) for one in given))
    return pack_items(_text(body.get("instructions")), given) if given and fits else None


def pack_items(instructions: str | None, items: str | Sequence[Mapping[str, Any]]) -> list[Message]:
    """Return input items of OpenAI's responses as the gateway reads a conversation.

    Examples
    --------
    >>> call = {"type": "function_call", "call_id": "c1", "name": "sql", "arguments": "{}"}
    >>> answer = {"type": "function_call_output", "call_id": "c1", "output": "[]"}
    >>> [message["role"] for message in pack_items("Be brief.", [{"role": "user", "content": "Hi"}, call, answer])]
    ['system', 'user', 'assistant', 'tool']
    """
    messages: list[dict[str, Any]] = []
    if instructions is not None:
        messages.append({"role": "system", "content": instructions, NATIVE: []})
    if isinstance(items, str):
        return [*messages, {"role": "user", "content": items, NATIVE: [{"role": "user", "content": items}]}]
    for item in items:
        kind, role = str(item.get("type") or "message"), item.get("role")
        if kind == "message" and role != "assistant":
            messages.append({"role": role, "content": _item_text(item.get("content")), NATIVE: [item]})
        elif kind.endswith("_output") and "call_id" in item:
            said = {"role": "tool", "tool_call_id": item["call_id"], "content": _item_text(item.get("output"))}
            messages.append({**said, NATIVE: [item]})
        else:
            if not messages or messages[-1]["role"] != "assistant":
                messages.append({"role": "assistant", "content": [], NATIVE: []})
            _add_item(messages[-1], item, kind)
    return list(messages)


def unpack_items(sent: Sequence[Message], before: Sequence[Message]) -> list[Any]:
    """Return the input items of messages, some of which were changed on their way; the others as they came."""
    same = {id(message) for message in before}
    items: list[Any] = []
    for message in sent:
        if id(message) in same:
            items += message[NATIVE]
        elif message["role"] == "tool":
            items += [{**item, "call_id": message["tool_call_id"]} for item in message[NATIVE]]
        else:
            # In the order in which they were put out; what `forwarded` has taken out is not among them.
            parts = {id(part[NATIVE]): part for part in message["content"] or () if NATIVE in part}
            calls = {id(call[NATIVE]): call for call in message.get("tool_calls", ())}
            for item in message[NATIVE]:
                if id(item) in calls:
                    items.append({**_without_stored(item), "call_id": calls[id(item)]["id"]})
                elif id(item) in parts:
                    items.append(_without_stored(item))
    return items


def _without_stored(item: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in item.items() if key not in _STORED}
    if item.get("type") == "message" and "id" in item:
        # A message of the model's has to have one; any will do that no server takes for one of its own.
        kept["id"] = f"msg_{blake2b(str(item['id']).encode(), digest_size=12).hexdigest()}"
    return kept


def _add_item(turn: dict[str, Any], item: Mapping[str, Any], kind: str) -> None:
    """Add an item to the turn of the assistant that it belongs to."""
    turn[NATIVE].append(item)
    if kind.endswith("_call") and "call_id" in item:
        given = item.get("arguments")
        rest = {key: value for key, value in item.items() if key not in _ABOUT}
        arguments = given if isinstance(given, str) else json.dumps(rest, sort_keys=True, default=str)
        function = {"name": item.get("name", kind), "arguments": arguments}
        turn.setdefault("tool_calls", []).append({"id": item["call_id"], "function": function, NATIVE: item})
    else:
        text = _item_text(item.get("content")) if kind == "message" else ""
        turn["content"].append({"type": kind, "text": text, NATIVE: item})


def _item_text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return "" if content is None else json.dumps(content, sort_keys=True, default=str)


def read_response(content: object) -> Reply:
    """Read a whole reply of OpenAI's responses.

    Examples
    --------
    >>> call = {"type": "function_call", "call_id": "c1", "name": "sql", "arguments": "{}"}
    >>> read_response({"output": [call], "status": "completed"}).finish_reason
    'tool_calls'
    """
    if not isinstance(content, Mapping):
        return Reply()
    items = [item for item in _list(content.get("output")) if isinstance(item, Mapping)]
    turns = [message for message in pack_items(None, items) if message["role"] == "assistant"]
    turn = turns[0] if turns else None
    parts = [part for item in items if item.get("type") == "message" for part in _list(item.get("content"))]
    usage = _mapping(content.get("usage"))
    prompt = _count(usage.get("input_tokens"))
    cached = _count(_mapping(usage.get("input_tokens_details")).get("cached_tokens"))
    counted = None if prompt is None else Usage(prompt, _count(usage.get("output_tokens")) or 0, cached)
    ended = "tool_calls" if turn is not None and turn.get("tool_calls") else "stop"
    name = content.get("id")
    reply = _reply_of(
        turn,
        model=content.get("model"),
        finish_reason={"completed": ended, "incomplete": "length"}.get(str(content.get("status"))),
        usage=counted,
        tokens=[token for part in parts for token in _list(_mapping(part).get("logprobs"))],
        error=_fault(content),
    )
    return replace(reply, stored=(name, items)) if isinstance(name, str) and name else reply


def read_response_stream(raw: bytes) -> Reply:
    """Read a reply of OpenAI's responses that came as events; of one that was cut, the items that were whole."""
    items, error = [], None
    for event in events(raw):
        kind = event.get("type")
        if kind in ("response.completed", "response.incomplete", "response.failed"):
            return read_response(event.get("response"))
        if kind == "error":
            error = _fault(event) or _text(event.get("message")) or "an error"
        if kind == "response.output_item.done":
            items.append(event.get("item"))
    return read_response({"output": items, "error": error})


# Anthropic's messages: calls and thoughts are blocks of a turn, answers of tools are blocks of the user's.


def _read_messages(body: Mapping[str, Any]) -> list[Message] | None:
    messages = _read_chat(body)
    if messages is None:
        return None
    system = body.get("system")
    packed: list[Message] = [] if system is None else [{"role": "system", "content": system, NATIVE: None}]
    for message in messages:
        if message.get("role") == "assistant":
            packed.append(pack_turn(message))
            continue
        content = message.get("content")
        said = [block for block in _list(content) if not _is_answer(block)]
        for block in filter(_is_answer, _list(content)):
            answer = {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": block.get("content")}
            packed.append({**answer, "is_error": block.get("is_error") is True, NATIVE: block, "within": message})
        if said or not isinstance(content, list):
            packed.append({**message, "content": said or content, NATIVE: said or content, "within": message})
    return packed


def pack_turn(message: Message) -> Message:
    """Return a turn of Anthropic's as the gateway reads it."""
    content = message.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    calls = [
        {"id": one.get("id"), "function": {"name": one.get("name"), "arguments": one.get("input")}, NATIVE: one}
        for one in blocks
        if isinstance(one, Mapping) and one.get("type") == "tool_use"
    ]
    rest = [one for one in blocks if not (isinstance(one, Mapping) and one.get("type") == "tool_use")]
    turn = {"role": "assistant", "content": rest, NATIVE: message}
    return {**turn, "tool_calls": calls} if calls else turn


def _is_answer(block: object) -> bool:
    return isinstance(block, Mapping) and block.get("type") == "tool_result"


def _write_messages(sent: Sequence[Message], before: Sequence[Message]) -> dict[str, Any]:
    same = {id(message) for message in before}
    written: list[dict[str, Any]] = []
    within: object = None
    for message in sent:
        if message["role"] == "system" and message[NATIVE] is None:
            continue
        if message["role"] == "assistant":
            within = None
            written.append(message[NATIVE] if id(message) in same else _turn_written(message))
            continue
        blocks = message[NATIVE]
        if message["role"] == "tool":
            block = blocks if id(message) in same else {**blocks, "tool_use_id": message["tool_call_id"]}
            blocks = [block]
        whole = message["within"]
        if whole is within:
            written[-1] = {**written[-1], "content": [*written[-1]["content"], *blocks]}
        else:
            written.append({**whole, "content": blocks})
            within = whole
    return {"messages": written}


def _turn_written(message: Message) -> dict[str, Any]:
    parts, calls = message["content"], message.get("tool_calls", ())
    blocks = [*(parts if isinstance(parts, list) else ()), *({**call[NATIVE], "id": call["id"]} for call in calls)]
    # A turn may not be empty there.
    return {"role": "assistant", "content": blocks or [{"type": "text", "text": "(nothing)"}]}


_ENDED = {"end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_calls", "max_tokens": "length"}


def read_message(content: object) -> Reply:
    """Read a whole reply of Anthropic's messages.

    Examples
    --------
    >>> reply = read_message({"content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn",
    ...                       "usage": {"input_tokens": 5, "cache_read_input_tokens": 4, "output_tokens": 1}})
    >>> reply.finish_reason, reply.usage
    ('stop', Usage(prompt=9, completion=1, cached=4, estimated=False))
    """
    if not isinstance(content, Mapping):
        return Reply()
    usage = _mapping(content.get("usage"))
    fresh, output = _count(usage.get("input_tokens")), _count(usage.get("output_tokens"))
    cached, made = (_count(usage.get(f"cache_{what}_input_tokens")) or 0 for what in ("read", "creation"))
    stop = _text(content.get("stop_reason"))
    return _reply_of(
        pack_turn(content) if isinstance(content.get("content"), list) else None,
        model=content.get("model"),
        finish_reason=_ENDED.get(stop or "", stop),
        usage=None if fresh is None else Usage(fresh + cached + made, output or 0, cached),
        error=_fault(content),
    )


def read_message_stream(raw: bytes) -> Reply:
    """Read a reply of Anthropic's messages that came as events."""
    whole: dict[str, Any] = {}
    blocks: dict[object, dict[str, Any]] = {}
    pieces: dict[object, list[str]] = {}
    for event in events(raw):
        kind, place = event.get("type"), event.get("index")
        if kind == "message_start":
            whole |= _mapping(event.get("message"))
        elif kind == "content_block_start":
            blocks[place] = dict(_mapping(event.get("content_block")))
            pieces[place] = []
        elif kind == "content_block_delta" and place in blocks:
            delta = _mapping(event.get("delta"))
            pieces[place].append(_text(delta.get("text")) or _text(delta.get("partial_json")) or "")
        elif kind == "message_delta":
            whole |= _mapping(event.get("delta"))
            whole["usage"] = {**_mapping(whole.get("usage")), **_mapping(event.get("usage"))}
        elif kind == "error":
            whole["error"] = event.get("error") or "an error"
    for place, block in blocks.items():
        said = "".join(pieces[place])
        if block.get("type") == "tool_use" and said:
            block["input"] = said
        elif block.get("type") == "text":
            block["text"] = (_text(block.get("text")) or "") + said
    return read_message({**whole, "content": list(blocks.values())} if blocks else whole)


CHAT = Protocol(
    "chat",
    "/chat/completions",
    _read_chat,
    lambda sent, _: {"messages": list(sent)},
    read_reply,
    read_stream,
    b"[DONE]",
)
RESPONSES = Protocol(
    name="responses",
    path="/responses",
    read=_read_responses,
    write=lambda sent, before: {"input": unpack_items(sent, before)},
    reply=read_response,
    stream=read_response_stream,
    end=b"response.completed",
)
MESSAGES = Protocol(
    "messages", "/messages", _read_messages, _write_messages, read_message, read_message_stream, b"event: message_stop"
)
PROTOCOLS = {one.name: one for one in (CHAT, RESPONSES, MESSAGES)}
"""All of them, by name."""
