"""Task features made of raw columns, as data: what a formula comes to, kept with a fit and evaluated by its router."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bayes_tacit import validate
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.model.design.factors import FUNCTIONS, KINDS, Factor, Level, NewLevel, Number, Spline


@dataclass(frozen=True)
class Column:
    """One column of a design: its name, and the factors that are multiplied."""

    name: str
    factors: tuple[Factor, ...]


@dataclass(frozen=True)
class Design:
    """All columns of a design, in order.

    Attributes
    ----------
    formula
        Where they come from, in words.
    columns
        The columns.
    levels
        The levels that are known of each categorical column of the data; another one is refused.
    groups
        A categorical column of which levels may be new, if there is one.

    Examples
    --------
    >>> column = Column("words:kind[b]", (Number("words"), Level("kind", "b")))
    >>> design = Design("words:C(kind)", (column,), {"kind": ("a", "b")})
    >>> design.row({"words": 12, "kind": "b"})
    (12.0,)
    >>> design.row({"words": 12, "kind": "c"})
    Traceback (most recent call last):
    bayes_tacit.errors.InvalidDataError: features['kind'] is 'c'; expected one of a, b, the levels in training
    """

    formula: str
    columns: tuple[Column, ...]
    levels: Mapping[str, tuple[str, ...]]
    groups: str | None = None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Names of the columns of the data that are read."""
        return tuple(dict.fromkeys(factor.column for column in self.columns for factor in column.factors))

    @property
    def measured(self) -> tuple[str, ...]:
        """Names of those that are numbers."""
        return tuple(name for name in self.inputs if name not in self.levels)

    def matrix(self, data: Mapping[str, np.ndarray], episodes: Sequence[object] = ()) -> np.ndarray:
        """Evaluate all columns: (episode, column).

        Parameters
        ----------
        data
            The columns of the data by name, numbers or levels.
        episodes
            Their ids, for messages.
        """
        read = {name: self._read(name, np.asarray(data[name]), episodes) for name in self.inputs}
        n = len(next(iter(read.values()))) if read else len(episodes)
        out = np.ones((n, len(self.columns)))
        for at, column in enumerate(self.columns):
            for factor in column.factors:
                out[:, at] *= factor.values(read[factor.column])
            wrong = np.flatnonzero(~np.isfinite(out[:, at]))
            if wrong.size:
                row = int(wrong[0])
                raise InvalidDataError(
                    f"one for which {column.name} is a finite number",
                    episode=episodes[row] if len(episodes) else None,
                    field=" and ".join(f"features[{factor.column!r}]" for factor in column.factors),
                    value=", ".join(str(read[factor.column][row]) for factor in column.factors),
                )
        return out

    def row(self, values: Mapping[str, object]) -> tuple[float, ...]:
        """Evaluate all columns for one task, whose raw values are given by name."""
        for name in self.inputs:
            if name not in values:
                raise InvalidDataError(f"features[{name!r}], which is missing")
        for name in values:
            if name not in self.inputs:
                raise InvalidDataError(f"one of {', '.join(self.inputs)}", field="a name in features", value=name)
        data = {name: np.array([values[name]], dtype=object) for name in self.inputs}
        return tuple(self.matrix(data)[0].tolist())

    def with_groups(self, column: str, levels: tuple[str, ...]) -> Design:
        """Add a column for each level of a grouping, and one for all that are new."""
        added = [Column(f"{column}[{level}]", (Level(column, level),)) for level in levels]
        new = Column(f"{column}[new]", (NewLevel(column, levels),))
        return Design(self.formula, (*self.columns, *added, new), {**self.levels, column: levels}, column)

    def _read(self, name: str, values: np.ndarray, episodes: Sequence[object]) -> np.ndarray:
        def refuse(row: int, expected: str) -> InvalidDataError:
            given = values[row]
            shown = given.item() if isinstance(given, np.generic) else given
            episode = episodes[row] if len(episodes) else None
            return InvalidDataError(expected, episode=episode, field=f"features[{name!r}]", value=shown)

        if name in self.levels:
            text = level_names(values)
            if name != self.groups:
                for row in np.flatnonzero(~np.isin(text, self.levels[name])):
                    raise refuse(int(row), f"one of {', '.join(self.levels[name])}, the levels in training")
            return text
        if values.dtype.kind in "fiub":
            numbers = values.astype(float)
        else:
            for at, given in enumerate(values.tolist()):
                if isinstance(given, str) or not isinstance(given, int | float | np.number):
                    raise refuse(at, "a finite number")
            numbers = values.astype(float)
        for row in np.flatnonzero(~np.isfinite(numbers)):
            raise refuse(int(row), "a finite number")
        return numbers

    def to_record(self) -> dict[str, object]:
        """Give it as values that JSON has."""
        columns = [
            {"name": each.name, "factors": [{"kind": factor.kind} | asdict(factor) for factor in each.factors]}
            for each in self.columns
        ]
        levels = {name: list(known) for name, known in self.levels.items()}
        return {"formula": self.formula, "columns": columns, "levels": levels, "groups": self.groups}

    def to_json(self) -> str:
        """Write it down."""
        return json.dumps(self.to_record())

    @classmethod
    def from_json(cls, text: object) -> Design:
        """Read what `to_json` wrote, checking all of it."""
        try:
            content = json.loads(text) if isinstance(text, str) else None
        except (ValueError, RecursionError):
            content = None
        if content is None:
            raise InvalidDataError("a design as JSON", field="design", value=text)
        return cls.of_record(content)

    @classmethod
    def of_record(cls, given: object) -> Design:
        """Read what `to_record` gave, checking all of it."""
        content: dict[str, Any] = validate.record("design", given, ("formula", "columns", "levels", "groups"))
        if not isinstance(content["levels"], dict) or not isinstance(content["columns"], list):
            raise InvalidDataError("columns as a list and levels as an object", field="design", value=given)
        levels = {name: validate.names(f"design.levels.{name}", known) for name, known in content["levels"].items()}
        columns = []
        for at, each in enumerate(content["columns"]):
            column: dict[str, Any] = validate.record(f"design.columns[{at}]", each, ("name", "factors"))
            if not isinstance(column["factors"], list) or not column["factors"]:
                raise InvalidDataError("a list of factors", field=f"design.columns[{at}].factors", value=each)
            factors = tuple(_factor(f"design.columns[{at}]", factor) for factor in column["factors"])
            columns.append(Column(validate.text(f"design.columns[{at}].name", column["name"]), factors))
        validate.names("design.columns", [column.name for column in columns])
        groups = content["groups"]
        if groups is not None and groups not in levels:
            raise InvalidDataError(f"one of {', '.join(levels) or 'none'}", field="design.groups", value=groups)
        return cls(validate.text("design.formula", content["formula"]), tuple(columns), levels, groups)


def level_names(values: np.ndarray) -> np.ndarray:
    """Give levels as text: 3 and 3.0 are the same.

    Examples
    --------
    >>> level_names(np.array([3.0, "b", True], dtype=object)).tolist()
    ['3', 'b', 'True']
    """
    plain = (each.item() if isinstance(each, np.generic) else each for each in values.tolist())
    whole = (int(each) if isinstance(each, float) and each.is_integer() else each for each in plain)
    return np.array([str(each) for each in whole], dtype=object)


def _factor(place: str, given: object) -> Factor:
    if not isinstance(given, dict) or given.get("kind") not in KINDS:
        raise InvalidDataError(f"a factor of the kind {' or '.join(KINDS)}", field=place, value=given)
    kind = KINDS[given["kind"]]
    fields = tuple(kind.__dataclass_fields__)
    content: dict[str, Any] = validate.record(place, given, ("kind", *(name for name in fields if name != "kind")))
    content.pop("kind")
    validate.text(f"{place}.column", content["column"])
    if kind is Level:
        validate.text(f"{place}.level", content["level"])
    elif kind is NewLevel:
        content["levels"] = validate.names(f"{place}.levels", content["levels"])
    elif kind is Number:
        validate.choice(f"{place}.function", content["function"], FUNCTIONS)
        content["power"] = validate.number(f"{place}.power", content["power"])
    else:
        content["degree"] = validate.whole(f"{place}.degree", content["degree"], 0, 20)
        content["index"] = validate.whole(f"{place}.index", content["index"], 0, 10_000)
        content["knots"] = _knots(place, content)
    return kind(**content)


def _knots(place: str, content: dict[str, Any]) -> tuple[float, ...]:
    knots = content["knots"]
    least = content["index"] + content["degree"] + 2
    if not isinstance(knots, list) or len(knots) < least:
        raise InvalidDataError(f"a list of at least {least} knots", field=f"{place}.knots", value=knots)
    numbers = [validate.number(f"{place}.knots[{at}]", knot) for at, knot in enumerate(knots)]
    rising = all(one <= other for one, other in itertools.pairwise(numbers))
    if not rising or not math.isfinite(numbers[0]) or numbers[0] == numbers[-1]:
        raise InvalidDataError("knots that do not fall, not all the same", field=f"{place}.knots", value=knots)
    return tuple(numbers)


__all__ = ["Column", "Design", "Factor", "Level", "NewLevel", "Number", "Spline", "level_names"]
