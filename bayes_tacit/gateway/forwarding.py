"""What is sent on: the conversation without what the other model cannot read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from bayes_tacit.gateway.engine import Assignment
from bayes_tacit.gateway.session_state import Side
from bayes_tacit.logs.messages import Message

FOREIGN_KEYS = frozenset(
    {
        *("reasoning", "reasoning_content", "reasoning_details", "reasoning_signature", "reasoning_items"),
        *("thinking", "thinking_blocks", "signature", "thought_signature", "encrypted_content"),
        *("provider_specific_fields", "extra_content"),
    }
)
"""Keys of a message, a part or a call that only the model that wrote them can read."""

FOREIGN_PARTS = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_content", "encrypted_reasoning"})
"""Types of parts that likewise go."""

_USUAL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def forwarded(messages: Sequence[Message], ruling: Assignment, side: Side | None = None) -> Sequence[Message]:
    """Return the messages for the side that serves; the very same list where nothing has to be changed.

    What the other side thought is taken out of its turns: reasoning and signatures. Its calls and the answers to them
    stay, under ids that any server takes and that still belong together. Where a handoff restarts the task, the turns
    before it are cut, with the answers to their calls.

    Parameters
    ----------
    messages
        The conversation, as the client sent it.
    ruling
        What `Engine.consider` said of it.
    side
        Who serves, if it is not the ruling's side.

    Examples
    --------
    >>> from bayes_tacit.gateway import Engine, SessionState, default_router
    >>> messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?", "reasoning": "Hm."}]
    >>> ruling = Engine(default_router()).consider(SessionState(), [*messages, {"role": "user", "content": "Go on"}])
    >>> forwarded(messages, ruling) is messages, forwarded(messages, ruling, "strong")[1]
    (True, {'role': 'assistant', 'content': 'Yes?'})
    """
    side = ruling.side if side is None else side
    turns = [place for place, message in enumerate(messages) if message.get("role") == "assistant"]
    first = 0
    if side == "strong" and ruling.latched and ruling.cut:
        first = ruling.cut
        # Where the answer is still to come, all turns are cut and nothing follows the task.
        rest = messages[turns[first] :] if first < len(turns) else ()
        messages = [*messages[: turns[0]], *rest]
        turns = [place for place, message in enumerate(messages) if message.get("role") == "assistant"]
    foreign = {
        place for turn, place in enumerate(turns, start=first) if (turn in ruling.by_strong) != (side == "strong")
    }
    return _without(messages, foreign) if foreign else messages


def _without(messages: Sequence[Message], foreign: set[int]) -> list[Message]:
    sent: list[Message] = []
    names: dict[str, str] = {}
    used: set[str] = set()
    for place, message in enumerate(messages):
        role = message.get("role")
        if role == "assistant":
            calls = message.get("tool_calls")
            calls = calls if isinstance(calls, list) else []
            if place in foreign:
                message, names = _plain(message, calls, used)
            else:
                names = {}
            used.update(str(call.get("id")) for call in calls if isinstance(call, Mapping))
            used.update(names.values())
        elif role == "tool" and message.get("tool_call_id") in names:
            message = {**message, "tool_call_id": names[message["tool_call_id"]]}
        sent.append(message)
    return sent


def _plain(message: Message, calls: list[Any], used: set[str]) -> tuple[Message, dict[str, str]]:
    """Return a turn without thoughts, and the new ids of its calls where the old ones could not stay."""
    plain = {key: value for key, value in message.items() if key not in FOREIGN_KEYS}
    content = plain.get("content")
    if isinstance(content, list):
        parts = [_part(part) for part in content if not _is_thought(part)]
        plain["content"] = parts or (None if calls else "")
    names: dict[str, str] = {}
    if calls:
        named = []
        for call in calls:
            if isinstance(call, Mapping):
                call = {key: value for key, value in call.items() if key not in FOREIGN_KEYS}
                old = call.get("id")
                if isinstance(old, str) and (old in used or not _USUAL_ID.fullmatch(old)):
                    # The same in every later request, so that a server's cache of the prompt holds.
                    text = f"{len(used)}/{old}".encode("utf-8", "surrogatepass")
                    names[old] = call["id"] = f"call_{blake2b(text, digest_size=12).hexdigest()}"
            named.append(call)
        plain["tool_calls"] = named
    return plain, names


def _is_thought(part: object) -> bool:
    return isinstance(part, Mapping) and part.get("type") in FOREIGN_PARTS


def _part(part: object) -> object:
    return {key: value for key, value in part.items() if key not in FOREIGN_KEYS} if isinstance(part, Mapping) else part
