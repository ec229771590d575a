"""A router as one JSON file, which any language reads; `bayes_tacit/router/router.schema.json` describes it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from bayes_tacit import validate
from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError
from bayes_tacit.files import as_path, atomic_path
from bayes_tacit.model.families import family_named
from bayes_tacit.scores.core import PARAMETERS, Draws
from bayes_tacit.scores.fitted import Fitted, shape_of


class Marked(Protocol):
    """What knows the digest of its own content."""

    @property
    def fingerprint(self) -> str:
        """The digest."""
        ...


FORMAT = "bayes_tacit.router"
SCHEMA_VERSION = 2
"""The newest version. A router that forgets nothing and has no clock is written as version 1, which is all it needs."""

KEYS = (
    "format",
    "schema_version",
    "family",
    "timing",
    "rule",
    "alpha",
    "diagnostics",
    "features",
    "parameters",
    "provenance",
    "fingerprint",
)

FADING = ("memory", "clock")
"""Keys that version 2 has beyond these: what is left of a leaky sum after a step (one number, or one a draw), and
whether the last weight is that of the number of steps."""

EXPECTED = "expected a router written by Router.save"

LARGEST = 256 * 2**20
"""Bytes; a file that is larger is not read. A thousand draws of 20 parameters take less than half a megabyte."""


def version_of(draws: Draws) -> int:
    """Give the version of the file that a router needs."""
    return 2 if np.any(draws.memory != 1.0) or draws.clock else 1


def _fading(draws: Draws) -> dict[str, object]:
    """Give what version 2 has in addition; nothing for version 1."""
    if version_of(draws) == 1:
        return {}
    return {"memory": np.asarray(draws.memory).tolist(), "clock": draws.clock}


def fingerprint(fitted: Fitted, rule: str | float, alpha: float) -> str:
    """Digest the settings and names as JSON and the numbers as little-endian doubles, in the order of the file."""
    fading = _fading(fitted.draws)
    settings = [version_of(fitted.draws), fitted.draws.family.name, fitted.timing, rule, alpha, *fading.values()]
    names = [fitted.diagnostic_names, fitted.feature_names]
    digest = hashlib.sha256(json.dumps([FORMAT, settings, names, fitted.provenance], sort_keys=True).encode())
    parameters = [getattr(fitted.draws, name) for name in PARAMETERS]
    for array in (fitted.feature_mean, fitted.feature_scale, *parameters):
        digest.update(array.astype("<f8").tobytes())
    return digest.hexdigest()


def to_json(fitted: Fitted, rule: str | float, alpha: float, digest: str) -> str:
    """Write a line for each key, so that a router of a thousand draws can still be looked at."""
    standardization = zip(
        fitted.feature_names, fitted.feature_mean.tolist(), fitted.feature_scale.tolist(), strict=True
    )
    content = {
        "format": FORMAT,
        "schema_version": version_of(fitted.draws),
        "family": fitted.draws.family.name,
        "timing": fitted.timing,
        "rule": rule,
        "alpha": alpha,
        **_fading(fitted.draws),
        "diagnostics": fitted.diagnostic_names,
        "features": [{"name": name, "mean": mean, "scale": scale} for name, mean, scale in standardization],
        "parameters": {name: getattr(fitted.draws, name).tolist() for name in PARAMETERS},
        "provenance": fitted.provenance,
        "fingerprint": digest,
    }
    lines = (f"  {json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in content.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def save(text: str, path: str | os.PathLike[str]) -> None:
    """Write the file, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def load[R: Marked](path: str | os.PathLike[str], make: Callable[..., R]) -> R:
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


def from_json[R: Marked](text: str | bytes, where: str, make: Callable[..., R]) -> R:
    """Make the router that the text describes, checking all of it."""
    try:
        content = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_each_key_once)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{where}: not valid JSON ({error}); {EXPECTED}") from None
    try:
        router = make(**_parts(content))
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


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _each_key_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    content: dict[str, object] = {}
    for key, value in pairs:
        if key in content:
            raise ValueError(f"the key {key!r} is given twice")
        content[key] = value
    return content


def _parts(given: object) -> dict[str, object]:
    """Check formats, keys, types and lengths; the router itself checks the values."""
    if isinstance(given, dict) and given.get("format") != FORMAT:
        raise InvalidDataError(f"{FORMAT!r}", field="format", value=given.get("format"))
    version = given.get("schema_version") if isinstance(given, dict) else None
    if type(version) is int and version > SCHEMA_VERSION:
        expected = f"at most {SCHEMA_VERSION}: it was written by a newer bayes_tacit"
        raise InvalidDataError(expected, field="schema_version", value=version)
    content = validate.record("", given, (*KEYS, *FADING) if version == SCHEMA_VERSION else KEYS)
    if type(version) is not int or version < 1:
        raise InvalidDataError(f"1 or {SCHEMA_VERSION}", field="schema_version", value=version)
    memory, clock = _memory(content.get("memory", 1.0)), validate.flag("clock", content.get("clock", False))
    diagnostics = validate.names("diagnostics", content["diagnostics"])
    names, mean, scale = _features(content["features"])
    parameters = validate.record("parameters", content["parameters"], PARAMETERS)
    if not isinstance(parameters["s"], list):
        raise InvalidDataError("a list of numbers", field="parameters.s", value=parameters["s"])
    shapes = {name: shape_of(name, len(parameters["s"]), len(diagnostics) + clock, len(names)) for name in PARAMETERS}
    arrays: dict[str, Any] = {
        name: validate.numbers(f"parameters.{name}", parameters[name], shapes[name]) for name in PARAMETERS
    }
    family = family_named(content["family"])
    return {
        "diagnostic_names": diagnostics,
        "feature_names": names,
        "feature_mean": np.array(mean),
        "feature_scale": np.array(scale),
        "draws": Draws(**arrays, family=family, memory=memory, clock=clock),
        **{name: content[name] for name in ("rule", "alpha", "timing", "provenance")},
    }


def _memory(given: object) -> float | np.ndarray:
    """Read one number, or one a draw; the router checks that they lie from 0 to 1."""
    if isinstance(given, list):
        return validate.numbers("memory", given, (len(given),))
    return validate.number("memory", given)


def _features(given: object) -> tuple[tuple[str, ...], list[float], list[float]]:
    if not isinstance(given, list):
        raise InvalidDataError("a list of objects", field="features", value=given)
    records = [validate.record(f"features[{i}]", each, ("name", "mean", "scale")) for i, each in enumerate(given)]
    return (
        validate.names("features", [record["name"] for record in records]),
        [validate.number(f"features[{i}].mean", record["mean"]) for i, record in enumerate(records)],
        [validate.number(f"features[{i}].scale", record["scale"]) for i, record in enumerate(records)],
    )
