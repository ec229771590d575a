"""Episodes as JSON Lines: one episode a line, such as this one (broken here to fit).

    {"episode": "task-17", "features": {"food": 1, "entities": 12}, "cheap_success": false, "strong_success": true,
     "window": [1, 1], "diagnostics": [{"repeat": 0, "invalid": 1}, {"repeat": 1, "invalid": 0}]}

`window` may be absent or null. The outcome of a side that was not played is null; without a Cheap
rollout `diagnostics` are empty. Several rollouts of Strong are `strong_trials` and `strong_successes`, in place of
`strong_success`. Any other key with a number, a boolean, a text or null is carried along by episode; the
key `steps`, a list as long as `diagnostics`, carries such values by step. Null or absent there means missing. A first
line `{"reader": {...}}` holds what diagnostics and features from words were read with (`bayes_tacit.logs.reader`).
"""

from __future__ import annotations

import json
import math
import re
from array import array
from collections.abc import Iterator, KeysView
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import xarray as xr
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
)

from bayes_tacit.data.frames import check_tabular, dataset_from_columns
from bayes_tacit.data.layout import (
    COUNTS,
    MISSING,
    OUTCOMES,
    READER,
    SCHEMA_VERSION,
    WINDOW,
    Array,
    as_ids,
    blocks,
    carried_variables,
    check_name,
    check_schema_version,
    plain,
    strong_counts,
)
from bayes_tacit.errors import FileFormatError, InvalidDataError


def read_jsonl(path: Path) -> xr.Dataset:
    """Read one episode from each line that is not blank."""
    columns: _Columns | None = None
    reader: str | None = None
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if number == 1 and line.startswith(_HEADER):
                reader = json.dumps((parse_object(line, path, 1) or {})[READER])
                continue
            record = parse(line, path, number)
            if record is not None:
                columns = columns or _Columns(path, number, record)
                columns.add(record, number)
    if columns is None:
        raise FileFormatError(f"{path} has no episode; expected one JSON object on each line")
    dataset = columns.to_dataset()
    return dataset if reader is None else dataset.assign_attrs({READER: reader})


def write_jsonl(dataset: xr.Dataset, path: Path) -> None:
    """Write one line for each episode."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        if READER in dataset.attrs:
            file.write(header(dataset.attrs[READER]))
        for block in blocks(dataset):
            for record in _records(dataset.isel(episode=block).compute()):
                file.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")


def header(reader: str) -> str:
    """Return the first line of a file whose episodes were read by a reader."""
    return f'{{"{READER}": {reader}}}\n'


def check_jsonl(dataset: xr.Dataset) -> None:
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
                        episode=plain(dataset["episode"].values[block][position[0]]),
                        field=name,
                        value=float(values[tuple(position)]),
                    )


def line_of(path: Path, episode: object) -> int | None:
    """Return the line that holds an episode, for an error that is found after reading."""
    if episode is None:
        return None
    with path.open("rb") as file:
        objects = ((number, parse_object(line, path, number)) for number, line in enumerate(file, start=1))
        return next((number for number, raw in objects if raw is not None and raw.get("episode") == episode), None)


class _Columns:
    """The records read so far, by column: a million steps as numbers take a tenth of what they take as objects."""

    def __init__(self, path: Path, number: int, first: Record) -> None:
        self._path = path
        self._first = f"episode {first.episode!r} on line {number}"
        self._id_type = type(first.episode)
        self._names = {"features": first.features.keys(), "diagnostics": {}.keys()}
        self._check_names("features", first, number)
        self._lines: dict[str | int, int] = {}
        self._outcomes: list[tuple[float, float]] = []
        self._counts: list[tuple[int, int]] | None = None
        self._windows: list[list[int] | tuple[float, float]] = []
        self._lengths: list[int] = []
        self._feature_values, self._diagnostic_values = array("d"), array("d")
        self._carried: list[dict[str, Any]] = []
        self._step_carried: list[list[dict[str, Any]] | None] = []
        self._carried_names: dict[str, None] = {}
        self._step_carried_names: dict[str, None] = {}

    def add(self, record: Record, number: int) -> None:
        """Append a record, refusing one that does not go with those before it."""
        if not self._names["diagnostics"] and record.diagnostics:
            self._names["diagnostics"] = record.diagnostics[0].keys()
            self._check_names("diagnostics", record, number)
        features, diagnostics = self._names.values()
        if (
            record.episode in self._lines
            or type(record.episode) is not self._id_type
            or record.features.keys() != features
            or any(row.keys() != diagnostics for row in record.diagnostics)
        ):
            raise self._mismatch(record, number)
        self._register(record.__pydantic_extra__, self._carried_names, features, "key", record, number)
        for step in record.steps or ():
            self._register(step, self._step_carried_names, diagnostics, "key of steps", record, number)
        self._lines[record.episode] = number
        cheap, strong = record.cheap_success, record.strong_success
        self._outcomes.append((math.nan if cheap is None else cheap, math.nan if strong is None else strong))
        if self._counts is None and record.strong_trials is not None:
            # Those before it had one rollout of Strong, or none.
            self._counts = [(int(b == 1), int(b == b)) for _, b in self._outcomes[:-1]]
        if self._counts is not None:
            self._counts.append(record.counts)
        self._windows.append((math.nan, math.nan) if record.window is None else record.window)
        self._lengths.append(len(record.diagnostics))
        self._feature_values.extend([record.features[name] for name in features])
        self._diagnostic_values.extend([row[name] for row in record.diagnostics for name in diagnostics])
        self._carried.append(record.__pydantic_extra__)
        self._step_carried.append(record.steps)

    def to_dataset(self) -> xr.Dataset:
        """Return the records as a dataset."""
        lengths, features, diagnostics = np.array(self._lengths), *map(list, self._names.values())
        n, total = len(lengths), int(lengths.sum())
        by_task = dict(zip(OUTCOMES, np.array(self._outcomes).T, strict=True))
        by_task |= dict(zip(WINDOW, np.array(self._windows, dtype=np.float64).T, strict=True))
        by_task |= {} if self._counts is None else dict(zip(COUNTS, np.array(self._counts).T, strict=True))
        pairs = zip(self._step_carried, self._lengths, strict=True)
        steps = [row for rows, length in pairs for row in (rows or [{}] * length)] if self._step_carried_names else []
        return dataset_from_columns(
            as_ids(_objects(list(self._lines))),
            np.repeat(np.arange(n), lengths),
            np.arange(total) - np.repeat(np.cumsum(lengths) - lengths, lengths),
            features=(features, np.array(self._feature_values).reshape(n, -1)),
            diagnostics=(diagnostics, list(np.array(self._diagnostic_values).reshape(total, len(diagnostics)).T)),
            by_task=by_task,
            task_carried={name: _objects([row.get(name) for row in self._carried]) for name in self._carried_names},
            step_carried={name: _objects([row.get(name) for row in steps]) for name in self._step_carried_names},
        )

    def _check_names(self, field: str, record: Record, number: int) -> None:
        for name in self._names[field]:
            check_name(name, f"key of {field}", episode=record.episode, where=f"{self._path}:{number}")

    def _register(
        self,
        values: dict[str, Any],
        known: dict[str, None],
        taken: KeysView[str],
        field: str,
        record: Record,
        line: int,
    ) -> None:
        """Check names that no record had before."""
        for name in values.keys() - known.keys() and values:
            place: dict[str, Any] = {"episode": record.episode, "where": f"{self._path}:{line}"}
            if check_name(name, field, **place) in taken:
                raise InvalidDataError("a name that nothing else has", field=field, value=name, **place)
            known[name] = None

    def _mismatch(self, record: Record, line: int) -> InvalidDataError:
        """Say what does not go with the records before: a repeated id, an id or keys of another kind."""

        def error(expected: str, field: str, value: object, step: str = "") -> InvalidDataError:
            where = f"{self._path}:{line}{step}"
            return InvalidDataError(expected, episode=record.episode, field=field, value=value, where=where)

        if record.episode in self._lines:
            expected = f"an id that does not repeat; it is also on line {self._lines[record.episode]}"
            return error(expected, "episode", record.episode)
        if type(record.episode) is not self._id_type:
            expected = f"ids that are all text or all whole numbers, as the first is: {self._first}"
            return error(expected, "episode", record.episode)
        places = [("features", record.features, "")]
        places += [("diagnostics", row, f", step {step}") for step, row in enumerate(record.diagnostics)]
        field, keys, step = next(each for each in places if each[1].keys() != self._names[each[0]])
        wanted = list(self._names[field])
        has = f"has {wanted}" if wanted else "has none"
        expected = f"the same keys in every record; the first, {self._first}, {has}"
        odd = next(key for key in [*keys, *wanted] if key not in keys or key not in wanted)
        return error(expected, f"{field}[{odd!r}]", keys.get(odd, MISSING), step)


def _objects(items: list[Any]) -> Array:
    out = np.empty(len(items), dtype=object)
    out[:] = items
    return out


def _records(part: xr.Dataset) -> Iterator[dict[str, Any]]:
    feature_names, diagnostic_names = part["feature"].values.tolist(), part["diagnostic"].values.tolist()
    names = carried_variables(part)
    by_episode = {name: part[name].values.tolist() for name in names if part[name].dims == ("episode",)}
    by_step = {name: part[name].values.tolist() for name in names if name not in by_episode}
    core = ("episode", "n_steps", "cheap_success", "strong_success", "window_start", "window_end")
    columns = [part[name].values.tolist() for name in core]
    columns += [counts.tolist() for counts in strong_counts(part)]
    features, diagnostics = part["features"].values.tolist(), part["diagnostics"].values.tolist()
    for i, (episode, length, cheap, strong, start, end, successes, trials) in enumerate(zip(*columns, strict=True)):
        record: dict[str, Any] = {
            "episode": episode,
            "features": dict(zip(feature_names, map(_short, features[i]), strict=True)),
            "cheap_success": cheap if length else None,
        }
        if trials > 1:
            record |= {"strong_successes": successes, "strong_trials": trials}
        else:
            record["strong_success"] = strong if trials else None
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


type _Scalar = StrictBool | StrictInt | float | StrictStr | None
type _Diagnostic = Annotated[float, Field(ge=0, allow_inf_nan=False)]
type _Checkpoint = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]

_HEADER = f'{{"{READER}"'.encode()
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')


def _flag(value: object) -> object:
    return bool(value) if isinstance(value, int) and value in (0, 1) else value


type _Flag = Annotated[bool | None, BeforeValidator(_flag)]
type _Count = Annotated[int, Field(ge=0, lt=2**31)]


class Record(BaseModel):
    """One line, as it must be."""

    model_config = ConfigDict(extra="allow", strict=True)
    __pydantic_extra__: dict[str, _Scalar]

    episode: StrictStr | StrictInt
    features: dict[str, Annotated[float, Field(allow_inf_nan=False)] | bool]
    cheap_success: _Flag
    strong_success: _Flag = None
    strong_successes: _Count | None = None
    strong_trials: _Count | None = None
    window: Annotated[list[_Checkpoint], Field(min_length=2, max_length=2)] | None = None
    diagnostics: list[dict[str, _Diagnostic | bool]]
    steps: list[dict[str, _Scalar]] | None = None

    @property
    def counts(self) -> tuple[int, int]:
        """Successes and rollouts of Strong."""
        if self.strong_trials is not None:
            return self.strong_successes or 0, self.strong_trials
        return int(self.strong_success is True), int(self.strong_success is not None)


_EXPECTED = {
    ("episode",): "a text or a whole number",
    ("features",): "an object of numbers",
    ("features", "*"): "a finite number",
    ("cheap_success",): "true or false, or 1 or 0, or null if Cheap was not played",
    ("strong_success",): "true or false, or 1 or 0, or null if Strong was not played",
    ("strong_successes",): "a whole number >= 0",
    ("strong_trials",): "a whole number >= 0",
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
    _check_sides(record, where)
    if record.steps is not None and len(record.steps) != len(record.diagnostics):
        raise InvalidDataError(
            f"{len(record.diagnostics)}, as many as diagnostics has",
            episode=record.episode,
            field="length of steps",
            value=len(record.steps),
            where=where,
        )
    return record


def _check_sides(record: Record, where: str) -> None:
    """Refuse an outcome of Cheap without its steps, and the other way round; and counts that say two things."""

    def refuse(expected: str, field: str, value: object) -> None:
        raise InvalidDataError(expected, episode=record.episode, field=field, value=value, where=where)

    if record.cheap_success is not None and not record.diagnostics:
        refuse("at least one step, each an object of numbers", "diagnostics", [])
    if record.cheap_success is None and record.diagnostics:
        refuse("true or false, since there are diagnostics of a Cheap rollout", "cheap_success", MISSING)
    if "strong_success" not in record.model_fields_set and record.strong_trials is None:
        refuse(_EXPECTED[("strong_success",)], "strong_success", MISSING)
    if (record.strong_trials is None) != (record.strong_successes is None):
        absent = "strong_trials" if record.strong_trials is None else "strong_successes"
        refuse("both strong_successes and strong_trials, or neither", absent, MISSING)


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
    """Check whether a line of valid JSON has more keys than the record that was read from it.

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
