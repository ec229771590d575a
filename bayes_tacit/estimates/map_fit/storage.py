"""A fit as a JSON file, and as a DataTree."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, is_dataclass
from importlib.metadata import version
from typing import Annotated, Any, Literal

import numpy as np
import xarray as xr
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from bayes_tacit.data.timing import Timing
from bayes_tacit.errors import FileFormatError
from bayes_tacit.estimates.map_fit.profile import ProfilePoint
from bayes_tacit.estimates.map_fit.values import FittedValues, Restart
from bayes_tacit.files import atomic_path, parse_json, read_text
from bayes_tacit.model.design import Design
from bayes_tacit.model.evidence import Unmarked
from bayes_tacit.model.families import family_named
from bayes_tacit.validate import sums_to_one

FORMAT = "bayes_tacit.map_fit"
SCHEMA_VERSION = 3

SINCE_VERSION_2: dict[str, object] = {"memory": 1.0, "clock": False, "unmarked": "outcome", "profile": []}
"""What a file of version 1 does not say, since there was no choice."""

SINCE_VERSION_3: dict[str, object] = {"prior": None, "design": None}
"""The same of version 2."""

Finite = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
Weight = Annotated[float, Field(ge=0, le=1)]
Name = Annotated[str, Field(min_length=1)]


def _design(text: str | None) -> str | None:
    """Check a design; one that was changed is refused."""
    return None if text is None else Design.from_json(text).to_json()


class _RestartRecord(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    objective: Finite
    gradient_norm: Finite
    iterations: Count
    floored: Count
    converged: bool


class _ProfileRecord(BaseModel):
    """A point of the profile; where there is no fit the objective is null."""

    model_config = ConfigDict(strict=True, extra="forbid")

    memory: Annotated[float, Field(ge=0, le=1)]
    objective: Finite | None
    floored: Count


class _FitRecord(BaseModel):
    """The file's content. A standard error that does not exist is null."""

    model_config = ConfigDict(strict=True, extra="forbid")

    format: Literal["bayes_tacit.map_fit"]
    schema_version: Literal[3]
    written_by: str
    diagnostic_names: Annotated[list[Name], Field(min_length=1)]
    feature_names: list[Name]
    feature_mean: list[Finite]
    feature_scale: list[Positive]
    w: list[Weight]
    gamma0: Finite
    gamma: list[Finite]
    beta0: Finite
    beta: list[Finite]
    s: Positive
    standard_errors: dict[Literal["w", "gamma0", "gamma", "beta0", "beta", "s"], list[float | None] | float | None]
    objective: Finite
    gradient_norm: Finite
    converged: bool
    restarts: list[_RestartRecord]
    floored: list[str | int]
    n_episodes: Count
    n_timed: Count
    weights_fixed: bool
    ridge: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    floor: Positive | None
    family: Annotated[str, AfterValidator(lambda name: family_named(name).name)]
    timing: Timing
    seed: Count
    data_fingerprint: str
    memory: Annotated[float, Field(ge=0, le=1)]
    clock: bool
    unmarked: Unmarked
    profile: list[_ProfileRecord]
    prior: str | None
    design: Annotated[str | None, AfterValidator(_design)]

    @model_validator(mode="after")
    def _lengths_fit(self) -> _FitRecord:
        for name in ("feature_mean", "feature_scale", "gamma", "beta"):
            if len(getattr(self, name)) != len(self.feature_names):
                raise ValueError(
                    f"{name} has {len(getattr(self, name))} numbers for {len(self.feature_names)} feature_names"
                )
        if len(self.w) != len(self.diagnostic_names):
            raise ValueError(f"w has {len(self.w)} numbers for {len(self.diagnostic_names)} diagnostic_names")
        for name in ("feature_names", "diagnostic_names"):
            if len(set(getattr(self, name))) < len(getattr(self, name)):
                raise ValueError(f"{name} has one of them twice")
        if self.n_timed > self.n_episodes:
            raise ValueError(f"n_timed is {self.n_timed} of n_episodes {self.n_episodes}")
        if not sums_to_one(sum(self.w)):
            raise ValueError(f"w sums to {sum(self.w)}, expected 1")
        return self


def save(fit: FittedValues, path: str | os.PathLike[str]) -> None:
    """Write the fit as JSON."""
    content = as_record(fit)
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def as_record(fit: FittedValues) -> dict[str, object]:
    """Give the fit in plain Python values, as the file holds them."""
    content: dict[str, object] = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "written_by": f"bayes_tacit {version('bayes_tacit')}",
    }
    for name in _FitRecord.model_fields:
        if name not in content:
            content[name] = _plain(getattr(fit, name))
    return content


def _plain(value: object) -> object:
    """Turn arrays into lists, NaN into null, records into objects."""
    if isinstance(value, np.ndarray):
        return [_plain(number) for number in value.tolist()]
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple):
        return [_plain(inner) for inner in value]
    return _plain(asdict(value)) if is_dataclass(value) and not isinstance(value, type) else value


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the values of a file that `save` wrote, checking all of it."""
    expected = "a fit written by MapFit.save"
    content = parse_json(read_text(path, expected), str(path), expected)
    given = content.get("schema_version") if isinstance(content, dict) else None
    if type(given) is int and given > SCHEMA_VERSION:
        raise FileFormatError(
            f"{path}: schema_version is {given}; expected at most {SCHEMA_VERSION}: the file was written by a newer "
            "bayes_tacit"
        )
    if type(given) is int and 1 <= given < SCHEMA_VERSION:
        missing = SINCE_VERSION_3 | (SINCE_VERSION_2 if given == 1 else {})
        content = missing | content | {"schema_version": SCHEMA_VERSION}
    try:
        record = _FitRecord.model_validate_json(json.dumps(content))
    except ValidationError as error:
        first = error.errors()[0]
        # Keys of the file are others' text.
        field = ".".join(map(str, first["loc"])).encode("unicode_escape").decode() or "the file"
        raise FileFormatError(f"{path}: {field}: {first['msg']}; expected a fit written by MapFit.save") from error
    values = record.model_dump(exclude={"format", "schema_version", "written_by"})
    for name in ("w", "gamma", "beta", "feature_mean", "feature_scale"):
        values[name] = np.array(values[name], dtype=float)
    for name in ("feature_names", "diagnostic_names", "floored"):
        values[name] = tuple(values[name])
    values["standard_errors"] = {key: _errors(given) for key, given in values["standard_errors"].items()}
    values["profile"] = tuple(ProfilePoint(**_known(point)) for point in values["profile"])
    values["restarts"] = tuple(Restart(**restart) for restart in values["restarts"])
    return values


def _known(point: dict[str, Any]) -> dict[str, Any]:
    return point if point["objective"] is not None else point | {"objective": float("inf")}


def _errors(given: list[float | None] | float | None) -> np.ndarray | float:
    return np.array(given, dtype=float) if isinstance(given, list) else float("nan" if given is None else given)


def as_datatree(fit: FittedValues) -> xr.DataTree:
    """One chain, one draw."""
    coords = {
        "chain": [0],
        "draw": [0],
        "feature": list(fit.feature_names),
        "diagnostic": list(fit.diagnostic_names),
    }
    dims = {"w": ["diagnostic"], "gamma0": [], "gamma": ["feature"], "beta0": [], "beta": ["feature"], "s": []}
    posterior = xr.Dataset(
        {name: (["chain", "draw", *its], np.asarray(getattr(fit, name))[None, None]) for name, its in dims.items()},
        coords=coords,
    )
    constant = xr.Dataset(
        {"feature_mean": ("feature", fit.feature_mean), "feature_scale": ("feature", fit.feature_scale)},
        coords={"feature": coords["feature"]},
    )
    tree = xr.DataTree.from_dict({"posterior": posterior, "constant_data": constant})
    tree.attrs = {
        "inference_method": "map",
        "family": fit.family,
        "timing": fit.timing,
        "memory": fit.memory,
        "clock": int(fit.clock),
        "unmarked": fit.unmarked,
        "ridge": fit.ridge,
        "objective": fit.objective,
        "seed": fit.seed,
        "data_fingerprint": fit.data_fingerprint,
        "bayes_tacit_version": version("bayes_tacit"),
    }
    if fit.design is not None:
        tree.attrs["design"] = fit.design
    return tree
