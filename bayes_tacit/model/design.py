"""Task features: on a common scale, made of raw columns by a formula, or the groups of a column.

What a formula comes to is data (`Design`), kept with a fit and evaluated by its router: NumPy alone is imported, and
formulaic and pandas only where a formula is read.
"""

from __future__ import annotations

import ast
import itertools
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from bayes_tacit import validate
from bayes_tacit.errors import InvalidDataError, MissingDependencyError

if TYPE_CHECKING:
    from bayes_tacit.data.episodes import Episodes


@dataclass(frozen=True)
class Standardization:
    """Mean and scale of each task feature.

    A constant feature carries no information; its scale is set to 1, so that it standardizes to zero.

    `constant` says which features do not vary.

    Examples
    --------
    >>> standardization = Standardization.of(np.array([[1.0, 5.0], [3.0, 5.0]]))
    >>> standardization.apply(np.array([[5.0, 5.0]]))
    array([[3., 0.]])
    """

    mean: np.ndarray
    scale: np.ndarray
    constant: np.ndarray

    @classmethod
    def of(cls, features: np.ndarray) -> Standardization:
        """Take mean and scale from the rows of an (episode, feature) array."""
        columns = np.ascontiguousarray(features.T)
        constant = columns.max(axis=1) == columns.min(axis=1)
        # Dividing by the largest value first keeps squares from overflowing.
        largest = np.maximum(np.abs(columns).max(axis=1), np.finfo(float).tiny)
        mean = np.where(constant, columns[:, 0], (columns / largest[:, None]).mean(axis=1) * largest)
        scale = np.where(constant, 1.0, (columns / largest[:, None]).std(axis=1) * largest)
        return cls(mean, scale, constant)

    def apply(self, features: np.ndarray) -> np.ndarray:
        """Standardize the last axis."""
        return (features - self.mean) / self.scale


STRICT = {"strict": True, "extra": "forbid"}  # how pydantic reads a design

Function = Literal["identity", "log", "log1p", "sqrt", "exp"]

FUNCTIONS: dict[Function, Callable[[np.ndarray], np.ndarray]] = {
    "identity": lambda x: x,
    "log": np.log,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "exp": np.exp,
}
"""Functions of a number, by their names in formulas."""


@dataclass(frozen=True)
class Number:
    """A column, a function of it, or a power of it."""

    __pydantic_config__: ClassVar = STRICT
    column: str
    function: Function = "identity"
    power: float = 1.0
    kind: Literal["number"] = "number"

    def values(self, column: np.ndarray) -> np.ndarray:
        """Evaluate it; what is not defined is NaN."""
        with np.errstate(all="ignore"):
            found: np.ndarray = FUNCTIONS[self.function](column)
            return found if self.power == 1 else found**self.power


@dataclass(frozen=True)
class Level:
    """Whether a column has a level."""

    __pydantic_config__: ClassVar = STRICT
    column: str
    level: str
    kind: Literal["level"] = "level"

    def values(self, column: np.ndarray) -> np.ndarray:
        """Return ones and zeros."""
        return (column == self.level).astype(float)


@dataclass(frozen=True)
class NewLevel:
    """Whether a column has none of the levels that were known in training."""

    __pydantic_config__: ClassVar = STRICT
    column: str
    levels: tuple[str, ...]
    kind: Literal["new level"] = "new level"

    def values(self, column: np.ndarray) -> np.ndarray:
        """Return ones and zeros."""
        return (~np.isin(column, self.levels)).astype(float)


@dataclass(frozen=True)
class Spline:
    """One function of a B-spline basis; beyond the knots it keeps the value at the nearest one.

    Examples
    --------
    >>> Spline("x", (0.0, 0.0, 1.0, 1.0), degree=1, index=1).values(np.array([0.0, 0.5, 1.0, 9.0]))
    array([0. , 0.5, 1. , 1. ])
    """

    __pydantic_config__: ClassVar = STRICT
    column: str
    knots: tuple[float, ...]
    degree: int
    index: int
    kind: Literal["spline"] = "spline"

    def values(self, column: np.ndarray) -> np.ndarray:
        """Evaluate it by the recursion of Cox and de Boor."""
        knots, index = np.array(self.knots), self.index
        x = np.clip(column, knots[0], knots[-1])
        # The last interval that is not empty contains its upper end, too.
        last = int(np.flatnonzero(knots < knots[-1])[-1])
        inside = [
            (knots[j] <= x) & ((x < knots[j + 1]) | ((j == last) & (x == knots[-1])))
            for j in range(index, index + self.degree + 1)
        ]
        basis = [each.astype(float) for each in inside]

        def part(distance: np.ndarray, width: float) -> np.ndarray:
            return distance / width if width > 0 else np.zeros_like(distance)

        for order in range(1, self.degree + 1):
            basis = [
                part(x - knots[j], knots[j + order] - knots[j]) * basis[j - index]
                + part(knots[j + order + 1] - x, knots[j + order + 1] - knots[j + 1]) * basis[j - index + 1]
                for j in range(index, index + self.degree + 1 - order)
            ]
        return basis[0]


Factor = Number | Level | NewLevel | Spline


@dataclass(frozen=True)
class Column:
    """One column of a design: its name, and the factors that are multiplied."""

    __pydantic_config__: ClassVar = STRICT
    name: str
    factors: tuple[Factor, ...]


@dataclass(frozen=True)
class Design:
    """All columns of a design, in order.

    Attributes
    ----------
    formula
        The formula that they come from.
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

    __pydantic_config__: ClassVar = STRICT
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
        """Evaluate all columns of data by name: (episode, column). The ids of episodes are for messages."""
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
        """Evaluate all columns for one task, from its raw values by name."""
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
        """Return it in values that JSON has."""
        record: dict[str, object] = json.loads(self.to_json())
        return record

    def to_json(self) -> str:
        """Write it down."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: object) -> Design:
        """Read what `to_json` wrote, checking all of it."""
        from pydantic import TypeAdapter, ValidationError

        try:
            found = TypeAdapter(cls).validate_json(text if isinstance(text, str) else "")
        except (ValidationError, ValueError) as error:
            wrong: Any = {"loc": (), "msg": str(error), "input": text}
            wrong = error.errors()[0] if isinstance(error, ValidationError) else wrong
            field = ".".join(map(str, ("design", *wrong["loc"])))
            raise InvalidDataError(f"a design as JSON ({wrong['msg']})", field=field, value=wrong["input"]) from error
        found._check()
        return found

    @classmethod
    def of_record(cls, given: object) -> Design:
        """Read what `to_record` returned, checking all of it."""
        return cls.from_json(json.dumps(given, default=str))

    def _check(self) -> None:
        """Check what its types do not say, of a design from a file."""
        validate.names("design.columns", list(self.names))
        for name, known in self.levels.items():
            validate.names(f"design.levels.{name}", list(known))
        if self.groups is not None and self.groups not in self.levels:
            raise InvalidDataError(f"one of {', '.join(self.levels)}", field="design.groups", value=self.groups)
        for column in self.columns:
            if not column.factors:
                raise InvalidDataError("a list of factors", field=f"design column {column.name!r}", value=[])
            for factor in column.factors:
                numbers = factor.knots if isinstance(factor, Spline) else ()
                wrong = not all(map(math.isfinite, (*numbers, getattr(factor, "power", 1.0))))
                if isinstance(factor, Spline):
                    wrong |= not (0 <= factor.degree <= 20 and factor.index >= 0)
                    wrong |= len(numbers) < factor.index + factor.degree + 2 or numbers[0] == numbers[-1]
                    wrong |= any(one > other for one, other in itertools.pairwise(numbers))
                if wrong:
                    expected = "finite numbers, and enough knots that do not fall and are not all the same"
                    raise InvalidDataError(expected, field=f"design column {column.name!r}", value=factor)


def level_names(values: np.ndarray) -> np.ndarray:
    """Return levels as text: 3 and 3.0 are the same."""
    plain = (each.item() if isinstance(each, np.generic) else each for each in values.tolist())
    whole = (int(each) if isinstance(each, float) and each.is_integer() else each for each in plain)
    return np.array([str(each) for each in whole], dtype=object)


KNOWN = "columns, C(column), bs(column, df=4), log, log1p, sqrt or exp of a column, I(column**2), joined by + : *"


def design_of(formula: str, episodes: Episodes) -> Design:
    """Read a formula on the features and carried columns of training episodes.

    Terms are joined by +, such as "bs(words, df=4) + C(kind) + hardness:tools"; the intercept is always there.
    Knots and levels are taken from the training episodes.

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> design_of("bs(entities, df=4) + subgoals:needs_tool", load_example()).names[3:]
    ('bs(entities, df=4)[4]', 'subgoals:needs_tool')
    """
    try:
        import formulaic
        import pandas as pd
        from formulaic.errors import FormulaicError
    except ImportError as error:
        raise MissingDependencyError("a formula needs the package formulaic") from error
    if not isinstance(formula, str) or not formula.strip():
        raise InvalidDataError("a formula, such as 'bs(words, df=4) + C(kind)'", field="features", value=formula)
    try:
        frame = pd.DataFrame(columns_of(episodes, _names(episodes)))
        matrix = formulaic.model_matrix(formula, frame, na_action="raise", context={})
        spec = matrix.model_spec
    except (FormulaicError, SyntaxError, AttributeError, TypeError, ValueError) as error:
        if isinstance(error, InvalidDataError):
            raise
        why = re.sub(r"\x1b\[[0-9;]*m|[⧛⧚]", "", str(error))  # its colours and brackets are for a terminal
        raise InvalidDataError(f"a formula of {KNOWN} ({why})", field="features", value=formula) from error
    if "Intercept" not in matrix.columns:
        raise InvalidDataError("a formula with its intercept, without 0 or -1", field="features", value=formula)
    levels: dict[str, tuple[str, ...]] = {}
    columns: list[Column] = []
    for structure in spec.structure:
        names = [name for name in structure.columns if name != "Intercept"]
        made = {
            ":".join(part[0] for part in product): tuple(part[1] for part in product)
            for term in structure.scoped_terms
            for product in itertools.product(*(_parts(each, spec, levels, formula) for each in term.factors))
        }
        columns += [Column(name, made[name]) for name in names]
    if not columns:
        raise InvalidDataError("a formula with at least one term", field="features", value=formula)
    found = Design(formula, tuple(columns), levels)
    if not np.allclose(design_matrix(found, episodes), matrix[list(found.names)].to_numpy(dtype=float)):
        raise InvalidDataError(f"a formula of {KNOWN}", field="features", value=formula)
    return found


def design_matrix(design: Design, episodes: Episodes) -> np.ndarray:
    """Evaluate a design on episodes: (episode, column)."""
    return design.matrix(columns_of(episodes, design.inputs), episodes.ids.tolist())


def columns_of(episodes: Episodes, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Return columns of episodes by name: features, or carried columns with one value an episode."""
    dataset, known, out = episodes.dataset, _names(episodes), {}
    for name in names:
        if name in episodes.feature_names:
            out[name] = dataset["features"].sel(feature=name).values
        elif name in known:
            out[name] = dataset[name].values
        else:
            raise InvalidDataError(f"one of {', '.join(known)}", field="a column of the episodes", value=name)
    return out


def _names(episodes: Episodes) -> tuple[str, ...]:
    """Name the features, and the carried columns with one value an episode; not what is only known at the end."""
    from bayes_tacit.data.layout import VARIABLES

    arrays = episodes.dataset.data_vars.items()
    carried = (str(name) for name, array in arrays if array.dims == ("episode",) and name not in VARIABLES)
    return (*episodes.feature_names, *carried)


def _parts(scoped: Any, spec: Any, levels: dict[str, tuple[str, ...]], formula: str) -> list[tuple[str, Factor]]:  # noqa: ANN401
    """Return the columns of one factor of a term, each with formulaic's name for it."""
    expression = str(scoped.factor)
    kind, state = spec.encoder_state[expression]
    tree = ast.parse(expression, mode="eval").body
    if str(kind.value) == "categorical":
        inner = tree.args[0] if isinstance(tree, ast.Call) and len(tree.args) == 1 and not tree.keywords else tree
        if isinstance(inner, ast.Name):
            raw = list(state["categories"])
            known = tuple(level_names(np.array(raw, dtype=object)).tolist())
            levels[inner.id] = known
            pairs = [(str(each), Level(inner.id, text)) for each, text in zip(raw, known, strict=True)]
            if scoped.reduced:
                return [(f"{expression}[T.{label}]", level) for label, level in pairs[1:]]
            return [(f"{expression}[{label}]", level) for label, level in pairs]
    elif isinstance(tree, ast.Name):
        return [(expression, Number(tree.id))]
    elif isinstance(tree, ast.Call) and (found := _called(tree, expression, spec)):
        return found
    raise InvalidDataError(f"{KNOWN}, not {expression!r}", field="features", value=formula)


def _called(tree: ast.Call, expression: str, spec: Any) -> list[tuple[str, Factor]]:  # noqa: ANN401
    name = ast.unparse(tree.func).removeprefix("np.")
    if not tree.args:
        return []
    argument = tree.args[0]
    if name == "I" and isinstance(argument, ast.BinOp) and isinstance(argument.op, ast.Pow):
        base, power = argument.left, argument.right
        if isinstance(base, ast.Name) and isinstance(power, ast.Constant) and isinstance(power.value, int | float):
            return [(expression, Number(base.id, power=float(power.value)))]
    if not isinstance(argument, ast.Name):
        return []
    if name in FUNCTIONS:
        return [(expression, Number(argument.id, name))]
    if name == "bs":
        settings = {keyword.arg: ast.literal_eval(keyword.value) for keyword in tree.keywords}
        knots = tuple(float(knot) for knot in spec.transform_state[expression]["knots"])
        degree = int(settings.get("degree", 3))
        first = 0 if settings.get("include_intercept", False) else 1
        size = len(knots) - degree - 1
        return [(f"{expression}[{at}]", Spline(argument.id, knots, degree, at)) for at in range(first, size)]
    return []


@dataclass(frozen=True, eq=False)
class Grouping:
    """A column of the episodes, read as groups: its levels, sorted, and which of them each episode has."""

    column: str
    names: tuple[str, ...]
    position: np.ndarray

    @classmethod
    def of(cls, column: str, episodes: Episodes) -> Grouping:
        """Read the groups of training episodes."""
        if not isinstance(column, str):
            raise InvalidDataError("the name of a column", field="groups", value=column)
        names, position = np.unique(
            level_names(columns_of(episodes, (column,))[column]).astype(str), return_inverse=True
        )
        if len(names) < 2:
            raise InvalidDataError("a column with two groups or more", field="groups", value=column)
        if len(names) == len(episodes):
            raise InvalidDataError("a column in which some episodes are alike", field="groups", value=column)
        return cls(column, tuple(names.tolist()), position)
