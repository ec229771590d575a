"""A router as one JSON file: its fields, checked by models that are made from the dataclasses themselves."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from bayes_tacit import validate
from bayes_tacit.errors import FileFormatError, InvalidDataError
from bayes_tacit.files import atomic_path, parse_json, regular_file
from bayes_tacit.router.rule import RULES, Frozen, Rule, plain, rule_named

if TYPE_CHECKING:
    from pydantic import BaseModel

    from bayes_tacit.data.episodes import Episodes
    from bayes_tacit.router.router import Router

FORMAT = "bayes_tacit.router"
SCHEMA_VERSION = 1

_NUMBER, _OBJECT = {"type": "number"}, {"type": ["object", "null"]}
_NAMES = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
PROPERTIES: dict[str, dict[str, Any]] = {
    "format": {"const": FORMAT},
    "schema_version": {"const": SCHEMA_VERSION},
    "policy": {},
    "alpha": {"type": ["number", "null"], "description": "null where nothing reaches it"},
    "alpha_start": {"type": ["number", "null"], "description": "null for no decision before the first step"},
    "pace": _NUMBER,
    "last_handoff": {"type": ["integer", "null"], "description": "the last step from which Strong may take over"},
    "call": {"enum": ["strong", "strong_once", "restart"]},
    "timing": {"enum": ["post_action", "proposal"]},
    "diagnostics": _NAMES,
    "features": _NAMES,
    "design": _OBJECT,
    "reader": _OBJECT,
    "rule": {"type": "object"},
    "ranges": _OBJECT,
    "provenance": {"type": "object"},
    "fingerprint": {"type": "string"},
}
"""The keys of a file in their order, and the schema of each."""

KEYS = tuple(PROPERTIES)

EXPECTED = "a router written by Router.save"

LARGEST = 256 * 2**20
"""Bytes; a file that is larger is not read. A thousand draws of 20 parameters take less than half a megabyte."""


def content_of(router: Router) -> dict[str, object]:
    """Return everything that a router holds as values that JSON has."""
    return {
        "policy": router.policy,
        "alpha": None if router.alpha == math.inf else router.alpha,
        "alpha_start": None if router.alpha_start == math.inf else router.alpha_start,
        "pace": router.pace,
        "last_handoff": router.last_handoff,
        "call": router.call,
        "timing": router.timing,
        "diagnostics": list(router.diagnostic_names),
        "features": list(router.feature_names),
        "design": None if router.design is None else router.design.to_record(),
        "reader": None if router.reader is None else router.reader.to_dict(),
        "rule": plain(router.rule),
        "ranges": None if router.ranges is None else plain(router.ranges),
        "provenance": dict(router.provenance),
    }


def digest(content: Mapping[str, object]) -> str:
    """Return the SHA-256 of a router's content."""
    return hashlib.sha256(json.dumps({"format": FORMAT, **content}, sort_keys=True).encode()).hexdigest()


def to_json(content: Mapping[str, object]) -> str:
    """Write a line for each key, so that a router of a thousand draws can still be looked at."""
    whole = {"format": FORMAT, "schema_version": SCHEMA_VERSION, **content}
    lines = (f"  {json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in whole.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def save(text: str, path: str | os.PathLike[str]) -> None:
    """Write the file, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def load(path: str | os.PathLike[str], made: type[Router]) -> Router:
    """Read a file that `save` wrote, unless it is too large."""
    source = regular_file(path, EXPECTED)
    try:
        with source.open("rb") as file:
            too_large = os.fstat(file.fileno()).st_size > LARGEST
            content = b"" if too_large else file.read(LARGEST + 1)
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be read ({error.strerror}); expected {EXPECTED}") from error
    if too_large or len(content) > LARGEST:
        raise FileFormatError(f"{path}: larger than {LARGEST:,} bytes; expected {EXPECTED}")
    return from_json(content, str(path), made)


def from_json(text: str | bytes, where: str, made: type[Router]) -> Router:
    """Make the router that the text describes, checking all of it."""
    given = parse_json(text, where, EXPECTED)
    try:
        router = _router(given, made)
    except InvalidDataError as error:
        raise FileFormatError(f"{where}: {error}") from None
    return router


def _router(given: object, made: type[Router]) -> Router:
    if not isinstance(given, dict):
        raise InvalidDataError("an object with the keys format, schema_version, ...", field="it", value=given)
    if given.get("format") != FORMAT:
        raise InvalidDataError(f"{FORMAT!r}", field="format", value=given.get("format"))
    version = given.get("schema_version")
    if type(version) is not int or version != SCHEMA_VERSION:
        raise InvalidDataError(
            f"{SCHEMA_VERSION}, all that this bayes_tacit reads", field="schema_version", value=version
        )
    content: dict[str, Any] = validate.record("", given, KEYS)
    rule = rule_of(content["policy"], content["rule"])
    design = content["design"]
    if design is not None:
        from bayes_tacit.model.design import Design

        design = Design.of_record(design)
    reader = content["reader"]
    if reader is not None:
        from bayes_tacit.logs.reader import Reader

        reader = Reader.from_dict(reader)
    names = validate.names("features", content["features"])
    diagnostics = validate.names("diagnostics", content["diagnostics"])
    router = made(
        rule=rule,
        alpha=math.inf if content["alpha"] is None else content["alpha"],
        alpha_start=math.inf if content["alpha_start"] is None else content["alpha_start"],
        feature_names=names,
        diagnostic_names=diagnostics,
        design=design,
        reader=reader,
        ranges=_read_ranges(content["ranges"], names if design is None else design.measured, diagnostics),
        **{name: content[name] for name in ("pace", "last_handoff", "call", "timing", "provenance")},
    )
    if content["fingerprint"] != router.fingerprint:
        expected = (
            "the digest of its content: it was changed after it was saved (to change a setting, use "
            "dataclasses.replace and save again)"
        )
        raise InvalidDataError(expected, field="fingerprint", value=content["fingerprint"])
    return router


def rule_of(policy: object, content: object) -> Rule:
    """Make the rule of a policy from its fields as JSON has them."""
    import pydantic

    kind = rule_named(policy)
    try:
        checked = _model(kind).model_validate(content)
    except pydantic.ValidationError as error:
        raise _in_words(error) from None
    return kind(**_arguments(kind, checked))


def schema() -> dict[str, Any]:
    """Return the JSON schema of router files, made from the rules' own fields."""
    definitions: dict[str, Any] = {}
    choices = []
    for policy, kind in RULES.items():
        found = _model(kind).model_json_schema(ref_template="#/$defs/{model}")
        definitions |= found.pop("$defs", {}) | {kind.__name__: found}
        choices.append({"properties": {"policy": {"const": policy}, "rule": {"$ref": f"#/$defs/{kind.__name__}"}}})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A router of bayes_tacit",
        "type": "object",
        "required": list(KEYS),
        "additionalProperties": False,
        "properties": PROPERTIES | {"policy": {"enum": list(RULES)}},
        "oneOf": choices,
        "$defs": definitions,
    }


_MODELS: dict[type[Frozen], type[BaseModel]] = {}


def _model(kind: type[Frozen]) -> type[BaseModel]:
    """Make the model that checks the fields of a dataclass as JSON has them, once."""
    import pydantic

    if kind in _MODELS:
        return _MODELS[kind]
    hints = get_type_hints(kind)
    found: dict[str, Any] = {each.name: (_as_json(hints[each.name]), ...) for each in dataclasses.fields(kind)}
    config = pydantic.ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
    doc = (kind.__doc__ or "").partition("\n")[0]
    _MODELS[kind] = pydantic.create_model(kind.__name__, __config__=config, __doc__=doc, **found)
    return _MODELS[kind]


def _as_json(hint: Any) -> Any:  # noqa: ANN401
    """Return what a field's type is in JSON."""
    if hint is np.ndarray:
        rows = list[list[float]]
        return list[float] | rows | list[rows]
    if isinstance(hint, type) and issubclass(hint, Frozen):
        return _model(hint)
    if get_origin(hint) in (Union, UnionType):
        return Union[tuple(_as_json(one) for one in get_args(hint))]  # noqa: UP007
    return list.__class_getitem__(get_args(hint)[0]) if get_origin(hint) is tuple else hint


def _arguments(kind: type[Frozen], checked: BaseModel) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {each.name: _value(hints[each.name], getattr(checked, each.name)) for each in dataclasses.fields(kind)}


def _value(hint: Any, value: Any) -> Any:  # noqa: ANN401
    """Return a checked value in its field's own type."""
    if get_origin(hint) in (Union, UnionType):
        return None if value is None else _value(next(one for one in get_args(hint) if one is not NoneType), value)
    if hint is np.ndarray:
        try:
            return np.array(value, dtype=float)
        except ValueError:
            raise InvalidDataError("lists of one length", field="a list of the rule", value=value) from None
    if isinstance(hint, type) and issubclass(hint, Frozen):
        return hint(**_arguments(hint, value))
    return tuple(value) if get_origin(hint) is tuple else value


def _in_words(error: Any) -> InvalidDataError:  # noqa: ANN401
    """Say the first thing that is wrong, as all errors of files do."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in ("rule", *first["loc"]) if not str(part).startswith(("list[", "function-")))
    if first["type"] == "missing":
        return InvalidDataError(f"the key {place}, which is missing")
    expected = first["msg"].removeprefix("Input should be ").removeprefix("Extra inputs are ")
    expected = {"not permitted": "no such key", "finite number": "a finite number"}.get(expected, expected)
    return InvalidDataError(expected, field=place, value=first["input"])


def _read_ranges(given: object, features: tuple[str, ...], diagnostics: tuple[str, ...]) -> Ranges | None:
    if given is None:
        return None
    content = validate.record("ranges", given, ("features", "diagnostics"))
    found: dict[str, dict[str, tuple[float, ...]]] = {}
    for kind, names in (("features", features), ("diagnostics", diagnostics)):
        known: dict[str, Any] = validate.record(f"ranges.{kind}", content[kind], names)
        shape = (len(PROBABILITIES),)
        found[kind] = {
            name: tuple(validate.numbers(f"ranges.{kind}.{name}", known[name], shape).tolist()) for name in known
        }
    return Ranges(**found)


PROBABILITIES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
"""Which quantiles are kept: the first is the smallest value, the last the largest."""


@dataclass(frozen=True)
class Ranges:
    """Quantiles of each feature over training tasks, and of each diagnostic over all their steps.

    Attributes
    ----------
    features, diagnostics
        By name, one number for each of `PROBABILITIES`.

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> ranges = Ranges.of(load_example())
    >>> ranges.features["subgoals"]
    (1.0, 1.0, 2.0, 3.0, 4.0, 5.0, 5.0)
    >>> ranges.outside("features", {"subgoals": 9.0, "needs_tool": 1.0})
    ('subgoals',)
    """

    features: Mapping[str, tuple[float, ...]]
    diagnostics: Mapping[str, tuple[float, ...]]

    def __post_init__(self) -> None:
        """Check the numbers."""
        for kind in ("features", "diagnostics"):
            given = getattr(self, kind)
            for name, values in given.items():
                place = f"range of {kind}[{name!r}]"
                numbers = validate.finite(place, np.asarray(values, dtype=float), (len(PROBABILITIES),))
                if (np.diff(numbers) < 0).any():
                    raise InvalidDataError("numbers that do not fall", field=place, value=values)
            own = {name: tuple(float(value) for value in values) for name, values in given.items()}
            object.__setattr__(self, kind, own)

    @classmethod
    def of(cls, training: Episodes, columns: Sequence[str] | None = None) -> Ranges:
        """Measure training episodes: all features or, where a formula reads others, these columns."""
        features, diagnostics = (training.dataset[name].values for name in ("features", "diagnostics"))
        names = training.feature_names if columns is None else tuple(columns)
        if columns is not None:
            from bayes_tacit.model.design import columns_of

            found = columns_of(training, names)
            features = np.column_stack([np.empty((len(training), 0)), *(found[name] for name in names)])
        inside = np.arange(diagnostics.shape[1]) < training.n_steps[:, None]
        return cls(_quantiles(names, features), _quantiles(training.diagnostic_names, diagnostics[inside]))

    def only(self, features: Sequence[str], diagnostics: Sequence[str]) -> Ranges:
        """Return those of a router that looks at less."""
        return Ranges(
            {name: self.features[name] for name in features}, {name: self.diagnostics[name] for name in diagnostics}
        )

    def check(self, features: Sequence[str], diagnostics: Sequence[str]) -> None:
        """Check that it has the names of its router."""
        for kind, names in (("features", features), ("diagnostics", diagnostics)):
            known = [*getattr(self, kind)]
            if sorted(known) != sorted(names):
                raise InvalidDataError(f"{list(names)}", field=f"names in the ranges of {kind}", value=known)

    def outside(self, kind: str, values: Mapping[str, float]) -> tuple[str, ...]:
        """Name those of some "features" or "diagnostics" that are below or above all values in training."""
        known: Mapping[str, tuple[float, ...]] = getattr(self, kind)
        return tuple(
            name for name, value in values.items() if name in known and not known[name][0] <= value <= known[name][-1]
        )


def _quantiles(names: Sequence[str], columns: np.ndarray) -> dict[str, tuple[float, ...]]:
    levels = np.quantile(columns, PROBABILITIES, axis=0)
    # Interpolation may round two equal numbers to different ones.
    return dict(zip(names, map(tuple, np.maximum.accumulate(levels).T.tolist()), strict=True))
