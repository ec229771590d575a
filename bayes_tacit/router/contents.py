"""What a file holds of TACIT-Switch: the parameters or draws, and all settings."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any, NamedTuple

import numpy as np

from bayes_tacit import validate
from bayes_tacit.data.timing import DEFAULT_HANDOFF, Handoff
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.model.design import Design
from bayes_tacit.model.families import family_named
from bayes_tacit.router.ranges import PROBABILITIES, Ranges
from bayes_tacit.router.start import Start
from bayes_tacit.router.storage import FORMAT
from bayes_tacit.scores.core import PARAMETERS, Draws
from bayes_tacit.scores.fitted import Fitted, shape_of

TACIT_SWITCH = "tacit_switch"

HEADER = ("format", "schema_version")
KEYS_1 = (*HEADER, "family", "timing", "rule", "alpha", "diagnostics", "features", "parameters", "provenance")
KEYS = (
    *(*HEADER, "policy", "family", "timing", "handoff", "rule", "alpha", "pace", "memory", "clock", "start"),
    *("diagnostics", "features", "ranges", "parameters", "provenance", "fingerprint"),
)
KEYS_3 = (*KEYS[:-1], "design", KEYS[-1])
BY_VERSION = {1: (*KEYS_1, "fingerprint"), 2: KEYS, 3: KEYS_3, 4: KEYS_3}


class Settings(NamedTuple):
    """What a router has besides its parameters."""

    rule: str | float
    alpha: float
    pace: float = 0.0
    at_start: Start | None = None
    handoff: Handoff = DEFAULT_HANDOFF
    ranges: Ranges | None = None


def fingerprint(fitted: Fitted, settings: Settings) -> str:
    """Digest the settings and names as JSON and the numbers as little-endian doubles, in the order of the file.

    A router that a file of version 1 can hold has the same digest whichever version its file has, so that logs and
    snapshots stay valid.
    """
    draws = fitted.draws
    basic = [1, draws.family.name, fitted.timing, settings.rule, finite_or_none(settings.alpha)]
    names = [fitted.diagnostic_names, fitted.feature_names]
    arrays = [fitted.feature_mean, fitted.feature_scale, *(getattr(draws, name) for name in PARAMETERS)]
    content: list[object] = [FORMAT, basic, names, fitted.provenance]
    shared = not isinstance(draws.memory, np.ndarray)
    if settings[2:] != Settings("", 0)[2:] or draws.clock or not shared or draws.memory != 1:
        start = settings.at_start
        content.append([settings.pace, settings.handoff, draws.clock, shared, ranges_content(settings.ranges)])
        content.append(None if start is None else [start.weight, start.threshold])
        arrays += [np.asarray(draws.memory), *(() if start is None else (start.intercept, start.slopes))]
    if fitted.design is not None:
        content.append(fitted.design.to_record())
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for array in arrays:
        digest.update(array.astype("<f8").tobytes())
    return digest.hexdigest()


def content_of(fitted: Fitted, settings: Settings, digest: str) -> dict[str, object]:
    """Give everything as values that JSON has, but the header."""
    draws, start = fitted.draws, settings.at_start
    standardization = zip(
        fitted.feature_names, fitted.feature_mean.tolist(), fitted.feature_scale.tolist(), strict=True
    )
    return {
        "policy": TACIT_SWITCH,
        "family": draws.family.name,
        "timing": fitted.timing,
        "handoff": settings.handoff,
        "rule": settings.rule,
        "alpha": finite_or_none(settings.alpha),
        "pace": settings.pace,
        "memory": np.asarray(draws.memory).tolist(),
        "clock": draws.clock,
        "start": None
        if start is None
        else {
            "weight": start.weight,
            "threshold": start.threshold,
            "intercept": start.intercept.tolist(),
            "slopes": start.slopes.tolist(),
        },
        "diagnostics": fitted.diagnostic_names,
        "features": [{"name": name, "mean": mean, "scale": scale} for name, mean, scale in standardization],
        "ranges": ranges_content(settings.ranges),
        "parameters": {name: getattr(draws, name).tolist() for name in PARAMETERS},
        "provenance": fitted.provenance,
        **({} if fitted.design is None else {"design": fitted.design.to_record()}),
        "fingerprint": digest,
    }


def parts_of(given: dict[str, Any], version: int) -> dict[str, Any]:
    """Check keys, types and lengths of a file's content; the router itself checks the values."""
    content: dict[str, Any] = validate.record("", given, BY_VERSION[version])
    diagnostics = validate.names("diagnostics", content["diagnostics"])
    names, mean, scale = _features(content["features"])
    clock = validate.flag("clock", content.get("clock", False))
    parameters: dict[str, Any] = validate.record("parameters", content["parameters"], PARAMETERS)
    if not isinstance(parameters["s"], list):
        raise InvalidDataError("a list of numbers", field="parameters.s", value=parameters["s"])
    n = len(parameters["s"])
    shapes = {name: shape_of(name, n, len(diagnostics) + clock, len(names)) for name in PARAMETERS}
    arrays: dict[str, Any] = {
        name: validate.numbers(f"parameters.{name}", parameters[name], shapes[name]) for name in PARAMETERS
    }
    memory = content.get("memory", 1.0)
    memory = validate.numbers("memory", memory, (n,)) if isinstance(memory, list) else validate.number("memory", memory)
    alpha = content["alpha"]
    design = Design.of_record(content["design"]) if "design" in content else None
    measured = names if design is None else design.measured
    return {
        "diagnostic_names": diagnostics,
        "feature_names": names,
        "feature_mean": np.array(mean),
        "feature_scale": np.array(scale),
        "draws": Draws(**arrays, family=family_named(content["family"]), memory=memory, clock=clock),
        "alpha": math.inf if alpha is None and version > 1 else alpha,
        "pace": content.get("pace", 0.0),
        "handoff": content.get("handoff", DEFAULT_HANDOFF),
        "at_start": _start(content.get("start"), n, len(names)),
        "ranges": read_ranges(content.get("ranges"), measured, diagnostics),
        "design": design,
        **{name: content[name] for name in ("rule", "timing", "provenance")},
    }


def finite_or_none(alpha: float) -> float | None:
    """Give a threshold as JSON has it: None where nothing reaches it."""
    return None if alpha == math.inf else alpha


def _start(given: object, draws: int, features: int) -> Start | None:
    if given is None:
        return None
    content: dict[str, Any] = validate.record("start", given, ("weight", "threshold", "intercept", "slopes"))
    intercept = validate.numbers("start.intercept", content["intercept"], (draws,))
    slopes = validate.numbers("start.slopes", content["slopes"], (draws, features))
    return Start(content["weight"], content["threshold"], intercept, slopes)


def ranges_content(ranges: Ranges | None) -> dict[str, object] | None:
    """Give ranges as values that JSON has."""
    if ranges is None:
        return None
    by_kind = {"features": ranges.features, "diagnostics": ranges.diagnostics}
    return {kind: {name: list(values) for name, values in known.items()} for kind, known in by_kind.items()}


def read_ranges(given: object, features: tuple[str, ...], diagnostics: tuple[str, ...]) -> Ranges | None:
    """Read the ranges of a file, if it has any."""
    if given is None:
        return None
    content = validate.record("ranges", given, ("features", "diagnostics"))
    found: dict[str, dict[str, tuple[float, ...]]] = {}
    for kind, names in (("features", features), ("diagnostics", diagnostics)):
        known: dict[str, Any] = validate.record(f"ranges.{kind}", content[kind], names)
        place = {name: f"ranges.{kind}.{name}" for name in known}
        shape = (len(PROBABILITIES),)
        found[kind] = {name: tuple(validate.numbers(place[name], known[name], shape).tolist()) for name in known}
    return Ranges(**found)


def _features(given: object) -> tuple[tuple[str, ...], list[float], list[float]]:
    if not isinstance(given, list):
        raise InvalidDataError("a list of objects", field="features", value=given)
    records = [validate.record(f"features[{i}]", each, ("name", "mean", "scale")) for i, each in enumerate(given)]
    return (
        validate.names("features", [record["name"] for record in records]),
        [validate.number(f"features[{i}].mean", record["mean"]) for i, record in enumerate(records)],
        [validate.number(f"features[{i}].scale", record["scale"]) for i, record in enumerate(records)],
    )
