"""Which session a request belongs to: what it says itself, else what its conversation shows."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

from bayes_tacit.errors import InvalidDataError

HEADERS = (
    "x-tacit-session-id",
    "x-session-id",
    "x-litellm-session-id",
    "helicone-session-id",
    "x-bf-session-id",
    "x-switchyard-session-id",
    "x-claude-code-session-id",
    "x-session-affinity",
    "session-id",
    "session_id",
    "x-dynamo-session-id",
)
"""Headers that name the session, the first that is there counts. `x-session-id` is meant for our own clients."""

FIELDS = (("session_id",), ("litellm_session_id",), ("metadata", "session_id"), ("prompt_cache_key",))
"""Fields of the body that name it, after the headers. `user` is a person, not a task, and is not among them."""

AGENT = "x-claude-code-agent-id"
TASK = "x-tacit-task"
FEATURES = "x-tacit-features"
LONGEST_ID = 256
INFERRED = "inferred"


class Identity(NamedTuple):
    """Who asks, and for which session.

    Attributes
    ----------
    scope
        A digest of the API key: sessions of other keys are not seen.
    session
        The session's id; None where it has to be inferred from the conversation.
    source
        Where the id was found: the name of a header or field, or "inferred".
    """

    scope: str
    session: str | None
    source: str


def scope_of(headers: Mapping[str, str]) -> str:
    """Give the digest of the key in a request's headers; the key itself is kept nowhere.

    Examples
    --------
    >>> scope_of({"authorization": "Bearer a"}) == scope_of({"authorization": "Bearer b"})
    False
    """
    key = headers.get("authorization") or headers.get("x-api-key") or headers.get("api-key") or ""
    return blake2b(key.encode("utf-8", "surrogateescape"), digest_size=8, person=b"tacit scope").hexdigest()


def identify(headers: Mapping[str, str], body: Mapping[str, Any]) -> Identity:
    """Find the session that a request names.

    Parameters
    ----------
    headers
        By name in lower case.
    body
        The request, parsed.

    Raises
    ------
    InvalidDataError
        If the id is longer than 256 characters, or has characters that cannot be printed.

    Examples
    --------
    >>> identify({"x-session-id": "a"}, {"user": "me"})[1:], identify({}, {"metadata": {"session_id": "b"}})[1:]
    (('a', 'x-session-id'), ('b', 'metadata.session_id'))
    """
    scope = scope_of(headers)
    for name in HEADERS:
        given = headers.get(name, "").strip()
        if given:
            agent = headers.get(AGENT, "").strip()
            whole = checked_id(given, name) + (f"#{checked_id(agent, AGENT)}" if agent else "")
            return Identity(scope, whole, name)
    for path in FIELDS:
        value: Any = body
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if isinstance(value, str) and value.strip():
            return Identity(scope, checked_id(value.strip(), ".".join(path)), ".".join(path))
    return Identity(scope, None, INFERRED)


def checked_id(text: str, field: str) -> str:
    """Return an id that can name a session."""
    if not 0 < len(text) <= LONGEST_ID or not text.isprintable():
        expected = f"at most {LONGEST_ID} characters that can be printed"
        raise InvalidDataError(expected, field=field, value=text)
    return text


def features_in(headers: Mapping[str, str]) -> dict[str, float]:
    """Read the header with features, a JSON object of numbers.

    Examples
    --------
    >>> features_in({"x-tacit-features": '{"entities": 12}'})
    {'entities': 12.0}
    """
    given = headers.get(FEATURES)
    if given is None:
        return {}
    try:
        content = json.loads(given)
        if not isinstance(content, dict):
            raise TypeError
        features = {name: float(value) for name, value in content.items() if _is_number(value)}
    except (ValueError, TypeError, RecursionError, OverflowError):
        content, features = None, {}
    if content is None or len(features) != len(content):
        expected = 'a JSON object of finite numbers, such as {"entities": 12}'
        raise InvalidDataError(expected, field=FEATURES, value=given)
    return features


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
