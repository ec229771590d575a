"""JSON Lines: one episode a line.

    {"episode": "task-17", "features": {"food": 1, "entities": 12}, "cheap_success": false, "strong_success": true,
     "window": [3, 5], "diagnostics": [{"repeat": 0, "invalid": 1}, {"repeat": 1, "invalid": 0}]}

`window` may be absent or null. Any other key with a number, a boolean, a text or null is carried along by episode; the
key `steps`, a list as long as `diagnostics`, carries such values by step. Null or absent there means missing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import xarray as xr
from annotated_types import Ge, Len
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

from bayes_tacit.episodes.conversions import MISSING
from bayes_tacit.episodes.frames import check_tabular, dataset_from_frames
from bayes_tacit.episodes.layout import SCHEMA_VERSION, blocks, carried_variables, check_name, check_schema_version
from bayes_tacit.errors import FileFormatError, InvalidDataError

type _Scalar = StrictBool | StrictInt | float | StrictStr | None


def _flag(value: object) -> object:
    return bool(value) if isinstance(value, int) and value in (0, 1) else value


class _Record(BaseModel):
    """One line, as it must be."""

    model_config = ConfigDict(extra="allow", strict=True)
    __pydantic_extra__: dict[str, _Scalar]

    episode: StrictStr | StrictInt
    features: dict[str, Annotated[float, AllowInfNan(False)] | bool]
    cheap_success: Annotated[bool, BeforeValidator(_flag)]
    strong_success: Annotated[bool, BeforeValidator(_flag)]
    window: Annotated[list[int], Len(2, 2)] | None = None
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


def read(path: Path) -> xr.Dataset:
    """Read one episode from each line that is not blank."""
    lines: dict[object, int] = {}
    records: list[_Record] = []
    for number, raw in _objects(path):
        record = _parse(raw, f"{path}:{number}")
        _check_against(record, records[0] if records else record, lines, f"{path}:{number}")
        lines[record.episode] = number
        records.append(record)
    if not records:
        raise FileFormatError(f"{path} has no episode; expected one JSON object on each line")
    return _assemble(records)


def write(dataset: xr.Dataset, path: Path) -> None:
    """Write one line for each episode."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for block in blocks(dataset):
            for record in _records(dataset.isel(episode=block).compute()):
                file.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")


def check(dataset: xr.Dataset) -> None:
    """Refuse carried variables that JSON cannot hold: other dims, datetimes, infinities."""
    check_tabular(dataset, "JSON Lines")
    for name in carried_variables(dataset):
        array = dataset[name]
        if array.dtype.kind not in "bifO":
            raise InvalidDataError("numbers, booleans or text, for JSON Lines", field=name, value=array.dtype)
        if array.dtype.kind == "f":
            for block in blocks(dataset):
                values = array.isel(episode=block).values
                if np.isinf(values).any():
                    position = np.argwhere(np.isinf(values))[0]
                    raise InvalidDataError(
                        "finite numbers or NaN, for JSON Lines",
                        episode=dataset["episode"].values[block][position[0]],
                        field=name,
                        value=float(values[tuple(position)]),
                    )


def line_of(path: Path, episode: object) -> int | None:
    """Return the line that holds an episode, for an error that is found after reading."""
    return None if episode is None else next((n for n, raw in _objects(path) if raw.get("episode") == episode), None)


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield line numbers and JSON objects."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            where = f"{path}:{number}"
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise FileFormatError(f"{where} is not UTF-8 text, byte {error.start} of the line") from error
            if not text.strip():
                continue
            try:
                raw = json.loads(text, object_pairs_hook=_unique)
            except (ValueError, RecursionError) as error:
                cut = "" if text.endswith("\n") else "; the last line may be cut short"
                raise FileFormatError(f"{where} is not one JSON object: {error}{cut}") from error
            if not isinstance(raw, dict):
                raise FileFormatError(f"{where} is JSON, but not an object; expected one episode on each line")
            yield number, raw


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {next(key for key in keys if keys.count(key) > 1)!r} is repeated")
    return out


def _parse(raw: dict[str, Any], where: str) -> _Record:
    check_schema_version(raw.pop("schema_version", SCHEMA_VERSION), where)
    try:
        record = _Record.model_validate(raw)
    except ValidationError as error:
        raise _explained(error, raw, where) from error
    if record.steps is not None and len(record.steps) != len(record.diagnostics):
        raise InvalidDataError(
            f"{len(record.diagnostics)}, as many as diagnostics has",
            episode=record.episode,
            field="length of steps",
            value=len(record.steps),
            where=where,
        )
    return record


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


def _check_against(record: _Record, first: _Record, lines: dict[object, int], where: str) -> None:
    """Refuse an id that was there before, and features or diagnostics other than those of the first record."""

    def refuse(expected: str, field: str, value: object, step: str = "") -> None:
        raise InvalidDataError(expected, episode=record.episode, field=field, value=value, where=where + step)

    if record.episode in lines:
        refuse(f"an id that does not repeat; it is also on line {lines[record.episode]}", "episode", record.episode)
    if type(record.episode) is not type(first.episode):
        refuse("ids that are all text or all whole numbers", "episode", record.episode)

    def compare(field: str, keys: dict[str, Any], wanted: dict[str, Any], step: str = "") -> None:
        if keys.keys() != wanted.keys():
            odd = next((key for key in keys if key not in wanted), None)
            absent = next((key for key in wanted if key not in keys), None)
            same = f"the same keys in every record: {list(wanted)}"
            if odd is not None:
                refuse(same, f"{field}[{odd!r}]", keys[odd], step)
            refuse(same, f"{field}[{absent!r}]", MISSING, step)

    compare("features", record.features, first.features)
    for step, diagnostics in enumerate(record.diagnostics):
        compare("diagnostics", diagnostics, first.diagnostics[0], f", step {step}")


def _assemble(records: list[_Record]) -> xr.Dataset:
    features, diagnostics = list(records[0].features), list(records[0].diagnostics[0])
    extras = [record.__pydantic_extra__ for record in records]
    carried = list(dict.fromkeys(key for extra in extras for key in extra))
    rows = [step for record in records for step in record.diagnostics]
    extra_rows = [step for record in records for step in record.steps or [{}] * len(record.diagnostics)]
    step_carried = list(dict.fromkeys(key for step in extra_rows for key in step))
    for field, names, others in (("features", features, carried), ("diagnostics", diagnostics, step_carried)):
        for name in names:
            if check_name(name, f"key of {field}") in others:
                raise InvalidDataError("a name that nothing else has", field=f"key of {field}", value=name)

    lengths = [len(record.diagnostics) for record in records]
    ids = pd.Series([record.episode for record in records], dtype=object)
    nothing = (np.nan, np.nan)
    windows = np.array([nothing if record.window is None else record.window for record in records], dtype=float)
    tasks = {
        "episode": ids,
        "cheap_success": [record.cheap_success for record in records],
        "strong_success": [record.strong_success for record in records],
        "window_start": windows[:, 0],
        "window_end": windows[:, 1],
        **{name: np.array([record.features[name] for record in records], dtype=float) for name in features},
        **{name: pd.Series([extra.get(name) for extra in extras], dtype=object) for name in carried},
    }
    steps = {
        "episode": np.repeat(ids.to_numpy(), lengths),
        "step": np.concatenate([np.arange(length) for length in lengths]),
        **{name: np.array([row[name] for row in rows], dtype=float) for name in diagnostics},
        **{name: pd.Series([row.get(name) for row in extra_rows], dtype=object) for name in step_carried},
    }
    return dataset_from_frames(pd.DataFrame(tasks), pd.DataFrame(steps), features, diagnostics)


def _records(part: xr.Dataset) -> Iterator[dict[str, Any]]:
    feature_names, diagnostic_names = part["feature"].values.tolist(), part["diagnostic"].values.tolist()
    names = carried_variables(part)
    by_episode = {name: part[name].values.tolist() for name in names if part[name].dims == ("episode",)}
    by_step = {name: part[name].values.tolist() for name in names if name not in by_episode}
    core = ("episode", "n_steps", "cheap_success", "strong_success", "window_start", "window_end")
    columns = [part[name].values.tolist() for name in core]
    features, diagnostics = part["features"].values.tolist(), part["diagnostics"].values.tolist()
    for i, (episode, length, cheap, strong, start, end) in enumerate(zip(*columns, strict=True)):
        record: dict[str, Any] = {
            "episode": episode,
            "features": dict(zip(feature_names, map(_short, features[i]), strict=True)),
            "cheap_success": cheap,
            "strong_success": strong,
        }
        if start == start:
            record["window"] = [int(start), int(end)]
        rows = diagnostics[i][:length]
        record["diagnostics"] = [dict(zip(diagnostic_names, map(_short, row), strict=True)) for row in rows]
        if by_step:
            record["steps"] = [{name: _null(by_step[name][i][t]) for name in by_step} for t in range(length)]
        yield record | {name: _null(values[i]) for name, values in by_episode.items()}


def _short(value: float) -> float | int:
    """Return 3 for 3.0, which reads back as the same float; -0.0 would not."""
    whole = value.is_integer() and abs(value) < 1e15 and (value != 0 or math.copysign(1.0, value) > 0)
    return int(value) if whole else value


def _null(value: Any) -> Any:  # noqa: ANN401  any scalar
    return None if value != value else value
