"""What is wrong with text and JSON, drawn from a generator."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from random import Random
from typing import Any

DEEP = "[" * 100_000
DIGITS = "9" * 5_000


class Raw(str):
    """JSON text that stands where a value is."""

    __slots__ = ()


NOT_NUMBERS = (None, "1", "", [], {}, [1], {"a": 1}, Raw("NaN"), Raw("Infinity"), Raw("-Infinity"), "NaN", "\uff11")
TOO_LARGE = (Raw("1e999"), Raw("-1e999"), Raw(DIGITS), Raw(DEEP))
WRONG: dict[str, tuple[object, ...]] = {
    "number": (*NOT_NUMBERS, *TOO_LARGE, True),
    "number or flag": (*NOT_NUMBERS, *TOO_LARGE),
    "positive": (*NOT_NUMBERS, *TOO_LARGE, True, 0, -1, -1e-300, 0.0),
    "nonnegative": (*NOT_NUMBERS, *TOO_LARGE, True, -1, -1e-300, -1e308),
    "nonnegative or flag": (*NOT_NUMBERS, *TOO_LARGE, -1, -1e-300, -1e308),
    "share": (*NOT_NUMBERS, *TOO_LARGE, True, -0.1, 1.1, -1e-12, 2, 1e308),
    "count": (*NOT_NUMBERS, Raw("1e999"), Raw(DIGITS), Raw(DEEP), True, -1, 1.5, -(2**63)),
    "flag": (None, "true", "", 2, -1, 0.5, [], {}, [True], Raw("NaN"), Raw(DIGITS), Raw(DEEP), "yes"),
    "text": (None, 1, 1.5, True, [], {}, ["a"], Raw("NaN"), Raw(DIGITS), Raw(DEEP)),
    "id": (None, 1.5, True, [], {}, ["a"], Raw("NaN"), Raw(DIGITS), Raw(DEEP), [1], {"a": 1}),
    "choice": (None, 1, True, [], {}, "", "x", " ", "MEAN", ["mean"], Raw("NaN"), Raw(DEEP)),
    "numbers": (None, 1, "x", {}, [None], ["1"], [[]], [True], [Raw("NaN")], [Raw("1e999")], [[[1.0]]], Raw(DEEP)),
    "names": (None, 1, "x", {}, [1], [""], [None], ["a", "a"], [["a"]], [True], Raw(DEEP)),
    "object": (None, 1, "x", [], [1], True, 1.5, Raw("NaN"), Raw(DEEP)),
    "list": (None, 1, "x", {}, {"0": 1}, True, 1.5, Raw("NaN"), Raw(DEEP)),
}
"""Values that a field of each kind must not have."""


def dumps(content: object) -> bytes:
    """Write JSON; raw texts stand as they are."""
    raws: list[str] = []

    def swap(value: object) -> object:
        if isinstance(value, Raw):
            raws.append(str(value))
            return f"@raw{len(raws) - 1}@"
        if isinstance(value, dict):
            return {key: swap(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [swap(inner) for inner in value]
        return value

    text = json.dumps(swap(content))
    for number, raw in enumerate(raws):
        text = text.replace(f'"@raw{number}@"', raw)
    return text.encode()


def replaced(content: Any, path: tuple[object, ...], value: object) -> Any:
    """Give a copy of JSON content with another value at a path."""
    if not path:
        return value
    first, *rest = path
    if isinstance(content, dict):
        return {**content, first: replaced(content.get(first), tuple(rest), value)}
    copy = list(content)
    copy[first] = replaced(copy[first], tuple(rest), value)  # type: ignore[index, call-overload]
    return copy


def removed(content: Any, path: tuple[object, ...]) -> Any:
    """Give a copy without what is at a path."""
    *above, last = path
    inner = content
    for part in above:
        inner = inner[part]
    if isinstance(inner, dict):
        kept: object = {key: value for key, value in inner.items() if key != last}
    else:
        kept = [value for place, value in enumerate(inner) if place != last]
    return replaced(content, tuple(above), kept)


def objects(content: Any, path: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    """Give the paths of all objects that have a key."""
    if isinstance(content, dict) and content:
        yield path
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in items:
        yield from objects(value, (*path, key))


def twice(content: Any, path: tuple[object, ...], key: str, value: object) -> bytes:
    """Write JSON in which a key of the object at a path is there twice."""
    mark = "@twice@"
    inner = content
    for part in path:
        inner = inner[part]
    text = dumps(replaced(content, path, {mark: 0, **inner})).decode()
    return text.replace(f'"{mark}": 0', f"{json.dumps(key)}: {json.dumps(value)}", 1).encode()


def rewritten(content: object, rng: Random, *, shuffled: bool = True) -> bytes:
    """Write the same JSON otherwise: other spaces, other order of keys, letters as their numbers."""

    def again(value: object) -> str:
        return rewritten(value, rng, shuffled=shuffled).decode()

    if isinstance(content, dict):
        pairs = list(content.items())
        if shuffled:
            rng.shuffle(pairs)
        inner = ",".join(f"{_text(key, rng)}{_space(rng)}:{again(value)}" for key, value in pairs)
        return ("{" + inner + "}").encode()
    if isinstance(content, list):
        inner = ",".join(f"{_space(rng)}{again(value)}" for value in content)
        return ("[" + inner + "]").encode()
    if isinstance(content, str):
        return _text(content, rng).encode()
    if isinstance(content, float) and rng.random() < 0.3:
        return f"{content!r}".replace("e", "E").encode()
    return json.dumps(content).encode()


def _space(rng: Random) -> str:
    return rng.choice(["", " ", "  ", "\t"])


def _text(text: str, rng: Random) -> str:
    if not text or rng.random() < 0.5:
        return json.dumps(text)
    place = rng.randrange(len(text))
    if not text[place].isalnum() or not text[place].isascii():
        return json.dumps(text)
    return json.dumps(text[:place])[:-1] + f"\\u{ord(text[place]):04x}" + json.dumps(text[place + 1 :])[1:]


def torn(text: bytes, rng: Random, *, lines: bool) -> Iterator[tuple[str, bytes]]:
    """Give text that is no JSON document, or no lines of them, any more."""
    for _ in range(8):
        cut = rng.randrange(1, len(text) - 1)
        within = not lines or text[cut - 1 : cut + 1].strip(b"\r\n ") == text[cut - 1 : cut + 1]
        if within and text[:cut].rstrip()[-1:] != b"}":
            yield f"cut after {cut} bytes", text[:cut]
    for _ in range(6):
        place = rng.randrange(len(text))
        yield f"a NUL at {place}", text[:place] + b"\0" + text[place:]
        yield f"byte 0xff at {place}", text[:place] + b"\xff" + text[place:]
    whole = text.decode("utf-8")
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32"):
        yield encoding, whole.encode(encoding)
    yield "packed by gzip", gzip.compress(text, mtime=0)
    yield "backwards", text[::-1]
    yield "upper case", text.upper()
    yield "single quotes", text.replace(b'"', b"'")
    yield "a comment before it", b"// a comment\n" + text
    yield "a comma too much", text.rstrip()[:-1] + b",}"
    yield "a bracket too much", text.rstrip() + b"}"
    yield "a tab inside a text", text.replace(b'": ', b'\t": ', 1)


FOREIGN: dict[str, bytes] = {
    "nothing": b"",
    "one NUL": b"\0",
    "null": b"null",
    "true": b"true",
    "a number": b"1",
    "a text": b'"x"',
    "a list": b"[]",
    "an object": b"{}",
    "a list of objects": b"[{}]",
    "NaN": b"NaN",
    "an object of another kind": b'{"hello": "world"}',
    "deep lists": DEEP.encode(),
    "deep objects": b'{"a":' * 50_000,
    "deep and closed": b"[" * 50_000 + b"]" * 50_000,
    "5,000 digits": DIGITS.encode(),
    "a picture": b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
    "a page": b"<!DOCTYPE html><html></html>\n",
    "a table": b"a,b\n1,2\n",
    "a program": b"\x7fELF" + bytes(200),
    "a zip": b"PK\x03\x04" + bytes(100),
    "YAML": b"format: x\nschema_version: 1\n",
    "a byte order mark alone": b"\xef\xbb\xbf",
    "escape codes": b"\x1b[31m\x1b]0;title\x07",
}
"""What other files hold."""
