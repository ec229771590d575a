"""Keys: taken from the environment, checked at the door, and masked in every text that comes back."""

from __future__ import annotations

import html
import json
import os
import re
from urllib.parse import quote, quote_plus, urlsplit

from bayes_tacit.errors import InvalidDataError

MASK = "***"


def key_from(variable: str | None) -> str | None:
    """Take a key from an environment variable, without space around it; None where none is named.

    Raises
    ------
    InvalidDataError
        If there is none, or it has letters that a header cannot carry. The message has the variable, never the key.
    """
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip() if isinstance(variable, str) and "\0" not in variable else ""
    if not key:
        raise InvalidDataError(
            "the name of an environment variable that holds the key", field="key_variable", value=variable
        )
    if not re.fullmatch(r"[!-~]+", key):
        raise InvalidDataError(
            "the name of an environment variable whose key has only visible ASCII letters and no space within",
            field="key_variable",
            value=variable,
        )
    return key


def masked(text: str, key: str | None) -> str:
    """Replace a key, as it is or as JSON, HTML or addresses write it, wherever it stands in a text.

    Examples
    --------
    >>> masked("bad key: s3/cret, s3%2Fcret", "s3/cret")
    'bad key: ***, ***'
    """
    if key is None:
        return text
    ways = {key, json.dumps(key)[1:-1], key.replace("/", "\\/"), quote(key, safe=""), quote_plus(key), html.escape(key)}
    # The longest first: where one way of writing holds another, all of it goes.
    return re.sub("|".join(re.escape(way) for way in sorted(ways, key=len, reverse=True)), MASK, text, flags=re.I)


def shown_address(address: object) -> object:
    """Give an address as it may be shown: without a name and password in front of the host.

    Examples
    --------
    >>> shown_address("http://me:s3cret@host/v1")
    'http://***@host/v1'
    """
    return re.sub(r"//.*@", f"//{MASK}@", address, flags=re.S) if isinstance(address, str) else address


def checked_address(address: object) -> str:
    """Return the address of an endpoint if it can be one; a password in it is refused and not shown."""
    try:
        parts = urlsplit(address) if isinstance(address, str) else None
        fits = parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    if not fits or not isinstance(address, str) or not re.fullmatch(r"[!-~]+", address) or parts is None:
        raise InvalidDataError(
            "an address that starts with http:// or https:// and names a host, such as http://127.0.0.1:8000/v1",
            field="base_url",
            value=shown_address(address),
        )
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise InvalidDataError(
            "an address without password, ? or #; a key belongs in an environment variable",
            field="base_url",
            value=shown_address(address).partition("?")[0],  # type: ignore[attr-defined]
        )
    return address
