"""Requests as they come in and go on: read up to a limit, parsed once, and changed only where they must be."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.types import Receive

from bayes_tacit.gateway.server.answers import RefusedError
from bayes_tacit.logs.messages import Message

LOGPROBS = {"logprobs": True, "top_logprobs": 0}
"""What asks for log-probabilities: some servers give none without the second, which asks for no alternatives."""

_MODEL = re.compile(rb'"model"\s*:\s*"(?:[^"\\]|\\.)*"')


class ClientGoneError(Exception):
    """The client left before its request was whole."""


async def read_body(receive: Receive, declared: str | None, most: int) -> bytes:
    """Read a request's body; one that is too long is refused, as soon as that is known."""
    if declared is not None and declared.isdigit() and len(declared) < 20 and int(declared) > most:
        raise too_long(most)
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        piece = message.get("body", b"")
        size += len(piece)
        if size > most:
            raise too_long(most)
        if not message.get("more_body", False):
            return b"".join([*pieces, piece]) if pieces else piece
        pieces.append(piece)


def too_long(most: int) -> RefusedError:
    """Say that a request is longer than any may be."""
    return RefusedError(413, f"the request has too many bytes; expected at most {most:,}")


def parse_object(raw: bytes) -> dict[str, Any]:
    """Parse a request, which is an object; what is not is told in words.

    Examples
    --------
    >>> parse_object(b"[1]")
    Traceback (most recent call last):
        ...
    bayes_tacit.gateway.server.answers.RefusedError: the body is a list; expected a JSON object
    """
    try:
        content = json.loads(raw)
    except RecursionError:
        raise RefusedError(400, "the body is nested too deeply; expected a JSON object") from None
    except ValueError as error:
        raise RefusedError(400, f"the body is not JSON ({str(error)[:120]}); expected a JSON object") from None
    if not isinstance(content, dict):
        raise RefusedError(400, f"the body is a {type(content).__name__}; expected a JSON object")
    return content


def conversation(body: Mapping[str, Any]) -> list[Message] | None:
    """Give the messages of a request if they are such; what is wrong with others, the model's server says."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(one, dict) for one in messages):
        return None
    return messages


def outgoing(
    raw: bytes, body: Mapping[str, Any], messages: Sequence[Message] | None, model: str | None, *, logprobs: bool
) -> bytes:
    r"""Give the body to send on: the very bytes that came, unless something has to be another.

    Parameters
    ----------
    raw, body
        What came, and the same parsed.
    messages
        The conversation to send; the list in `body` itself if it is to stay.
    model
        The model's name there; None for what the client says.
    logprobs
        Whether to ask for log-probabilities where the client does not.

    Examples
    --------
    >>> raw = b'{"model": "any", "messages": [ ]}'
    >>> outgoing(raw, json.loads(raw), None, "small", logprobs=False)
    b'{"model":"small", "messages": [ ]}'
    """
    same = messages is None or messages is body.get("messages")
    ask = logprobs and "logprobs" not in body
    rename = model is not None and body.get("model") != model
    if same and not ask:
        if not rename:
            return raw
        # Inside a JSON text a quotation mark is escaped, so these bytes are a key or a value, and once means the key.
        if isinstance(body.get("model"), str) and raw.count(b'"model"') == 1:
            named = b'"model":' + json.dumps(model).encode()
            changed, times = _MODEL.subn(lambda _: named, raw)
            if times == 1:
                return changed
    changes = {"model": model} if rename else {}
    content = {**body, **changes, **({} if same else {"messages": messages}), **(LOGPROBS if ask else {})}
    return json.dumps(content, separators=(",", ":")).encode()
