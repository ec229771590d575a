"""One line of JSON Lines: what it must be, and how that is said when it is not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Le, Len
from pydantic import (
    AllowInfNan,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
)

from bayes_tacit.data.episodes.conversions import MISSING
from bayes_tacit.data.episodes.layout import SCHEMA_VERSION, check_schema_version
from bayes_tacit.errors import FileFormatError, InvalidDataError

type _Scalar = StrictBool | StrictInt | float | StrictStr | None
type _Checkpoint = Annotated[int, Ge(-(2**63)), Le(2**63 - 1)]

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')


def _flag(value: object) -> object:
    return bool(value) if isinstance(value, int) and value in (0, 1) else value


class Record(BaseModel):
    """One line, as it must be."""

    model_config = ConfigDict(extra="allow", strict=True)
    __pydantic_extra__: dict[str, _Scalar]

    episode: StrictStr | StrictInt
    features: dict[str, Annotated[float, AllowInfNan(False)] | bool]
    cheap_success: Annotated[bool, BeforeValidator(_flag)]
    strong_success: Annotated[bool, BeforeValidator(_flag)]
    window: Annotated[list[_Checkpoint], Len(2, 2)] | None = None
    diagnostics: Annotated[list[dict[str, Annotated[float, AllowInfNan(False), Ge(0)] | bool]], Len(1)]
    steps: list[dict[str, _Scalar]] | None = None


_EXPECTED = {
    ("episode",): "a text or a whole number",
    ("features",): "an object of numbers",
    ("features", "*"): "a finite number",
    ("cheap_success",): "true or false, or 1 or 0",
    ("strong_success",): "true or false, or 1 or 0",
    ("window",): "two whole numbers [start, end], or null",
    ("diagnostics",): "a list of at least one step, each an object of numbers",
    ("diagnostics", "*"): "an object of numbers",
    ("diagnostics", "*", "*"): "a finite number >= 0",
    ("steps",): "a list of objects, one for each step",
    ("steps", "*"): "an object",
}


def parse(line: bytes, path: Path, number: int) -> Record | None:
    """Return the record on a line, or None for a blank line.

    One pass of pydantic is enough for an ordinary line. It does not notice repeated keys, though, and its complaints
    are not ours: a line that it refuses, or that has more keys than it found, is parsed again with care.
    """
    where = f"{path}:{number}"
    try:
        record = Record.model_validate_json(line)
    except ValidationError:
        record = None
    if record is None or _has_repeated_key(line, record):
        raw = parse_object(line, path, number)
        if raw is None:
            return None
        check_schema_version(raw.get("schema_version", SCHEMA_VERSION), where)
        try:
            record = Record.model_validate(raw)
        except ValidationError as error:
            raise _explained(error, raw, where) from error
    check_schema_version(record.__pydantic_extra__.pop("schema_version", SCHEMA_VERSION), where)
    if record.steps is not None and len(record.steps) != len(record.diagnostics):
        raise InvalidDataError(
            f"{len(record.diagnostics)}, as many as diagnostics has",
            episode=record.episode,
            field="length of steps",
            value=len(record.steps),
            where=where,
        )
    return record


def parse_object(line: bytes, path: Path, number: int) -> dict[str, Any] | None:
    """Return the JSON object on a line, whatever is in it, or None for a blank line."""
    where = f"{path}:{number}"
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{where} is not UTF-8 text, byte {error.start} of the line") from error
    if not text.strip():
        return None
    try:
        raw = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        cut = "" if text.endswith("\n") else "; the last line may be cut short"
        raise FileFormatError(f"{where} is not one JSON object: {error}{cut}") from error
    if not isinstance(raw, dict):
        raise FileFormatError(f"{where} is JSON, but not an object; expected one episode on each line")
    return raw


def _has_repeated_key(line: bytes, record: Record) -> bool:
    """Tell whether a line of valid JSON has more keys than the record that was read from it.

    Every key has a colon, and so may every text: the texts are only taken out where the count is not right at once.
    """
    keys = len(record.model_fields_set) + len(record.features)
    keys += sum(map(len, record.diagnostics)) + sum(map(len, record.steps or ()))
    return line.count(b":") != keys and _STRING.sub(b"", line).count(b":") != keys


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {next(key for key in keys if keys.count(key) > 1)!r} is repeated")
    return out


def _explained(error: ValidationError, raw: dict[str, Any], where: str) -> InvalidDataError:
    """Say the first of pydantic's complaints in our words."""
    detail = error.errors(include_url=False)[0]
    top, *rest = detail["loc"]
    depth = {"features": 1, "diagnostics": 2, "steps": 2}.get(str(top), 0)
    path = (top, *rest[:depth])
    key = (str(top), *("*" for _ in path[1:]))
    value: Any = raw
    for part in path:
        value = value.get(part, MISSING) if isinstance(value, dict) else value[int(part)]
    names = path[1:]
    if top in ("diagnostics", "steps") and names:
        where, names = f"{where}, step {names[0]}", names[1:]
    episode = raw.get("episode")
    return InvalidDataError(
        _EXPECTED.get(key, "a number, a text, true, false or null"),
        episode=episode if isinstance(episode, str | int) else None,
        field=str(top) + "".join(f"[{name!r}]" for name in names),
        value=value,
        where=where,
    )
