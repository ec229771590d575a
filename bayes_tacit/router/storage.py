"""A router as one JSON file, which any language reads; `bayes_tacit/router/router.schema.json` describes it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from bayes_tacit.errors import FileFormatError, InvalidDataError
from bayes_tacit.files import atomic_path, parse_json, regular_file

FORMAT = "bayes_tacit.router"
SCHEMA_VERSION = 4
"""Version 1 held TACIT-Switch as the paper has it, 2 any policy; their files are still read. Since 3 there may be a
design, since 4 there are two more policies, `NEWEST`. Only what needs it is written as 3 or 4, so that an older
bayes_tacit reads all others."""

NEWEST = ("trim", "evoroute")

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
    whole = {"format": FORMAT, "schema_version": _oldest(content), **content}
    lines = (f"  {json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in whole.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def save(text: str, path: str | os.PathLike[str]) -> None:
    """Write the file, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def load[R: Marked](path: str | os.PathLike[str], make: Callable[[dict[str, Any], int], R]) -> R:
    """Read a file that `save` wrote, unless it is too large."""
    source = regular_file(path, EXPECTED.removeprefix("expected "))
    try:
        with source.open("rb") as file:
            too_large = os.fstat(file.fileno()).st_size > LARGEST
            content = b"" if too_large else file.read(LARGEST + 1)
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be read ({error.strerror}); {EXPECTED}") from error
    if too_large or len(content) > LARGEST:
        raise FileFormatError(f"{path}: larger than {LARGEST:,} bytes; {EXPECTED}")
    return from_json(content, str(path), make)


def from_json[R: Marked](text: str | bytes, where: str, make: Callable[[dict[str, Any], int], R]) -> R:
    """Make the router that the text describes from its content and schema version, checking all of it."""
    content = parse_json(text, where, EXPECTED.removeprefix("expected "))
    try:
        version = _version(content)
        router = make(content, version)
        if version not in (1, _oldest(content)):
            expected = f"{_oldest(content)}, as for all such routers"
            raise InvalidDataError(expected, field="schema_version", value=version)
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


def _oldest(content: Mapping[str, object]) -> int:
    """Give the oldest version since 2 that has all that a router needs."""
    return 3 if "design" in content else SCHEMA_VERSION if content.get("policy") in NEWEST else 2


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
        raise InvalidDataError(f"a whole number from 1 to {SCHEMA_VERSION}", field="schema_version", value=version)
    return version
