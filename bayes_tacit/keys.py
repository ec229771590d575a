"""Keys: taken from the environment, checked at the door, and masked in every text that comes back."""

from __future__ import annotations

import html
import os
import re
import string
from functools import lru_cache
from urllib.parse import urlsplit

from bayes_tacit.errors import InvalidDataError

MASK = "***"
PART = 8
"""Letters of a key that is distinguished from other words; a key with fewer, such as EMPTY, is a word and no secret."""


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
            "the name of an environment variable that holds the key",
            field="key_variable",
            value=shown_variable(variable),
        )
    if not re.fullmatch(r"[!-~]+", key):
        raise InvalidDataError(
            "the name of an environment variable whose key has only visible ASCII letters and no space within",
            field="key_variable",
            value=shown_variable(variable),
        )
    return key


def masked(text: str, key: str | None) -> str:
    r"""Replace a key, as it is or as JSON, HTML or addresses write it, wherever it stands in a text.

    A key with fewer than 8 letters is none. Of one with at least 16 parts go, too: 8 letters or more in a row that have
    a figure among them, as where the other side cut it short. The time it takes grows with the length of the text
    alone, whatever the text is.

    Examples
    --------
    >>> masked(r"bad key: s3/cret-s, s3%2Fcret-s, s\u0033/cret-s", "s3/cret-s")
    'bad key: ***, ***, ***'
    >>> masked("bad key: sk-1234567...", "sk-1234567890abcdef")
    'bad key: ***...'
    """
    return text if key is None or len(key) < PART else _without_parts(_whole(key).sub(MASK, text), key)


def excerpt(text: str, key: str | None, letters: int) -> str:
    """Return the beginning of a text, masked before it is cut: half a key is a part of it all the same."""
    # So much is enough to fill it, were it all keys, each written in the longest way.
    longest = 12 * len(key or "")
    return masked(text[: letters * (1 + longest)], key)[:letters]


@lru_cache(maxsize=8)
def _whole(key: str) -> re.Pattern[str]:
    return re.compile("".join(map(_ways, key)), re.IGNORECASE)


def _ways(letter: str) -> str:
    # A pattern for all ways in which a letter is written; JSON within JSON writes one stroke as two or more.
    code = ord(letter)
    named = {html.escape(letter), html.escape(letter).replace("&#x27;", "&apos;"), f"\\{letter}"} - {letter}
    ways = [re.escape(letter), *map(re.escape, sorted(named)), rf"\\{{1,4}}u{code:04x}", rf"\\{{1,4}}x{code:02x}"]
    ways += [f"%(?:25){{0,3}}{code:02x}", f"&#0{{0,5}}{code};", f"&#x0{{0,5}}{code:x};"]
    return f"(?:{'|'.join(ways)})"


def _without_parts(text: str, key: str) -> str:
    lower, hidden = text.translate(_LOWER), bytearray(len(text))
    for part in _parts(key):
        at = lower.find(part)
        while at >= 0:
            hidden[at : at + PART] = b"\1" * PART
            at = lower.find(part, at + 1)
    if not any(hidden):
        return text
    kept, end = [], 0
    for found in re.finditer(rb"\x01+", hidden):
        kept.append(text[end : found.start()])
        end = found.end()
    return MASK.join([*kept, text[end:]])


@lru_cache(maxsize=8)
def _parts(key: str) -> frozenset[str]:
    small = key.translate(_LOWER)
    parts = (small[at : at + PART] for at in range(len(small) - PART + 1))
    return frozenset(part for part in parts if len(key) >= 2 * PART and any(map(str.isdigit, part)))


_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
"""Unlike `str.lower`, this never changes how long a text is."""


def shown_address(address: object) -> object:
    """Return an address that can be shown: without name, password and query."""
    if not isinstance(address, str):
        return address
    address = re.sub(r"^(\w+://)?.*@", rf"\1{MASK}@", address, flags=re.DOTALL)
    return re.sub(r"([?#]).*", rf"\1{MASK}", address, flags=re.DOTALL)


def shown_variable(name: object) -> object:
    """Return the name of a variable if it looks like one; otherwise a mask, since it may be the key itself."""
    return name if not isinstance(name, str) or re.fullmatch(r"[A-Z_][A-Z0-9_]{0,60}", name) else MASK


def no_key_in(key: str | None, **settings: object) -> None:
    """Refuse settings that hold the key itself, since they are shown and written."""
    for name, value in settings.items():
        if key is not None and masked(str(value), key) != str(value):
            raise InvalidDataError(
                "nothing of the key, which belongs in its environment variable alone", field=name, value=MASK
            )


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
            value=shown_address(address),
        )
    return address
