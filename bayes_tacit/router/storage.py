"""A router as one JSON file, which any language reads; `bayes_tacit/router/router.schema.json` describes it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError
from bayes_tacit.files import as_path, atomic_path

FORMAT = "bayes_tacit.router"
SCHEMA_VERSION = 2
"""Version 1 held TACIT-Switch as the paper has it; its files are still read."""

EXPECTED = "expected a router written by Router.save"

LARGEST = 256 * 2**20
"""Bytes; a file that is larger is not read. A thousand draws of 20 parameters take less than half a megabyte."""


class Marked(Protocol):
    """What knows the digest of its own content."""

    @property
    def fingerprint(self) -> str:
        """The digest."""
        ...


def to_json(content: Mapping[str, object]) -> str:
    """Write a line for each key, so that a router of a thousand draws can still be looked at."""
    whole = {"format": FORMAT, "schema_version": SCHEMA_VERSION, **content}
    lines = (f"  {json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in whole.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def save(text: str, path: str | os.PathLike[str]) -> None:
    """Write the file, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def load[R: Marked](path: str | os.PathLike[str], make: Callable[[dict[str, Any], int], R]) -> R:
    """Read a file that `save` wrote, unless it is too large."""
    try:
        with as_path(path).open("rb") as file:
            too_large = os.fstat(file.fileno()).st_size > LARGEST
            # What is no regular file does not tell its size.
            content = b"" if too_large else file.read(LARGEST + 1)
    except FileNotFoundError:
        raise MissingFileError(f"{path}: no such file; {EXPECTED}") from None
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be read ({error.strerror}); {EXPECTED}") from error
    if too_large or len(content) > LARGEST:
        raise FileFormatError(f"{path}: larger than {LARGEST:,} bytes; {EXPECTED}")
    return from_json(content, str(path), make)


def from_json[R: Marked](text: str | bytes, where: str, make: Callable[[dict[str, Any], int], R]) -> R:
    """Make the router that the text describes from its content and schema version, checking all of it."""
    try:
        content = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_each_key_once)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{where}: not valid JSON ({error}); {EXPECTED}") from None
    try:
        router = make(content, _version(content))
        if content["fingerprint"] != router.fingerprint:
            raise InvalidDataError(
                "the digest of its content: it was changed after it was saved (to change a setting, use "
                "dataclasses.replace and save again)",
                field="fingerprint",
                value=content["fingerprint"],
            )
    except InvalidDataError as error:
        raise FileFormatError(f"{where}: {error}") from None
    return router


def _version(content: object) -> int:
    """Check format and version."""
    if not isinstance(content, dict):
        raise InvalidDataError("an object with the keys format, schema_version, ...", field="it", value=content)
    if content.get("format") != FORMAT:
        raise InvalidDataError(f"{FORMAT!r}", field="format", value=content.get("format"))
    if "schema_version" not in content:
        raise InvalidDataError("the key schema_version, which is missing")
    version = content["schema_version"]
    if type(version) is int and version > SCHEMA_VERSION:
        expected = f"at most {SCHEMA_VERSION}: it was written by a newer bayes_tacit"
        raise InvalidDataError(expected, field="schema_version", value=version)
    if type(version) is not int or version < 1:
        raise InvalidDataError(f"1 or {SCHEMA_VERSION}", field="schema_version", value=version)
    return version


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _each_key_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    content: dict[str, object] = {}
    for key, value in pairs:
        if key in content:
            raise ValueError(f"the key {key!r} is given twice")
        content[key] = value
    return content
