"""What `fit_map` returns: estimates with names, a table to read, a DataTree to analyse, a JSON file to keep."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from importlib.metadata import version
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from scipy import special

from bayes_tacit.data.timing import Timing
from bayes_tacit.errors import FileFormatError
from bayes_tacit.files import atomic_path, parse_json, read_text
from bayes_tacit.html import render, table_of
from bayes_tacit.model.design import Design
from bayes_tacit.model.families import family_named
from bayes_tacit.model.spec import ModelSpec, Unmarked
from bayes_tacit.model.strata import Noise
from bayes_tacit.validate import sums_to_one

FORMAT = "bayes_tacit.map_fit"
SCHEMA_VERSION = 1

FAINT = 0.5  # share of a prior's variance that is left where the data hardly tell a rate

LIMIT = float(special.chdtri(1, 0.05)) / 2
"""Nats by which a log-likelihood may be below its maximum inside a 95% interval of one parameter."""

PARAMETERS = {"w": "diagnostic", "gamma0": None, "gamma": "feature", "beta0": None, "beta": "feature", "s": None}
"""Every parameter, and its dimension."""

Finite = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]
Name = Annotated[str, Field(min_length=1)]
Error = Annotated[
    list[float | None] | float | None,
    AfterValidator(
        lambda given: np.array(given, float) if isinstance(given, list) else np.nan if given is None else given
    ),
]
STRICT = ConfigDict(strict=True, extra="forbid")


@dataclass(frozen=True)
class Restart:
    """How one start of the optimizer ended: the objective, its largest gradient component, and Newton steps taken.

    `floored` counts the episodes with a likelihood below the floor; `converged` says whether it is an optimum.
    """

    __pydantic_config__ = STRICT
    objective: Finite
    gradient_norm: Finite
    iterations: Count
    floored: Count
    converged: bool


@dataclass(frozen=True)
class ProfilePoint:
    """The best fit at one memory, rho: its objective, infinite if there is none, and how many episodes are floored."""

    __pydantic_config__ = STRICT
    memory: Share
    objective: Annotated[float, BeforeValidator(lambda given: float("inf") if given is None else given)]
    floored: Count


@dataclass(frozen=True, repr=False, eq=False)
class MapFit:
    """A fitted model: one value for each parameter, on standardized features.

    Attributes
    ----------
    w
        Simplex weights of the diagnostics.
    gamma0, gamma
        Incidence: P(B = 1) = sigmoid(gamma0 + x gamma).
    beta0, beta
        Threshold location: E log kappa = beta0 + x beta.
    s
        Scale of log kappa: its standard deviation if the family is log-normal.
    standard_errors
        By parameter, from the inverse Hessian of n times the objective (with a ridge, the Laplace approximation's).
        NaN where the estimate is not regular: a fixed weight, one on the boundary of the simplex, a constant feature.
    objective
        Mean negative log-likelihood plus penalty.
    gradient_norm
        Largest absolute component of its gradient in the optimizer's coordinates.
    converged
        Always true: `fit_map` raises otherwise.
    restarts
        How every start ended.
    floored
        Episodes whose likelihood is below the floor.
    feature_names, feature_mean, feature_scale
        The features and their standardization.
    diagnostic_names
        The diagnostics, in the order of `w`; the clock, if there is one, is the last.
    n_episodes, n_timed
        How many episodes were used, and how many said something about the threshold.
    spec
        What the model is, with the design that a formula came to and the memory that a profile chose; `family`,
        `timing`, `memory`, `clock`, `unmarked` and `weights_fixed` are parts of it.
    ridge, floor, seed
        The settings of the optimizer.
    data_fingerprint
        Digest of the evidence it was fitted on.
    profile
        The objective at every memory that was tried, if the memory was chosen by it.
    prior
        The prior as JSON, where it is not the ridge penalty.
    rates
        What was learned of outcomes and marks, where they are noisy (`bayes_tacit.model.strata`): each rate with its
        standard error.
    """

    w: np.ndarray
    gamma0: float
    gamma: np.ndarray
    beta0: float
    beta: np.ndarray
    s: float
    standard_errors: dict[str, np.ndarray | float]
    objective: float
    gradient_norm: float
    converged: bool
    restarts: tuple[Restart, ...]
    floored: tuple[str | int, ...]
    feature_names: tuple[str, ...]
    feature_mean: np.ndarray
    feature_scale: np.ndarray
    diagnostic_names: tuple[str, ...]
    n_episodes: int
    n_timed: int
    spec: ModelSpec
    ridge: float
    floor: float | None
    seed: int
    data_fingerprint: str
    profile: tuple[ProfilePoint, ...] = ()
    prior: str | None = None
    rates: dict[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for value in (*vars(self).values(), *self.standard_errors.values()):
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    @property
    def family(self) -> str:
        """Name of the distribution of the threshold."""
        return str(self.spec.family)

    @property
    def timing(self) -> Timing:
        """How marks are aligned with checkpoints."""
        return self.spec.timing

    @property
    def memory(self) -> float:
        """What is left of a diagnostic's leaky sum after a step: rho."""
        return float(self.spec.memory)

    @property
    def clock(self) -> bool:
        """Whether the last diagnostic is the clock."""
        return self.spec.clock

    @property
    def unmarked(self) -> Unmarked:
        """How AB = 01 episodes without a window were read."""
        return self.spec.unmarked

    @property
    def weights_fixed(self) -> bool:
        """Whether the weights were given, not learned."""
        return self.spec.weights is not None

    @property
    def design(self) -> str | None:
        """How the features are made of raw columns, as JSON, where a formula says so."""
        return self.spec.features.to_json() if isinstance(self.spec.features, Design) else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MapFit) and _as_record(self) == _as_record(other)

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        frame = self.summary().map(lambda value: f"{value: .4f}" if np.isfinite(value) else "--")
        body = frame.reset_index().to_string(index=False, justify="right")
        return "\n".join([_heading(self), "", body, "", *_footer(self)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        frame = self.summary()
        table = table_of(frame, "", formats=dict.fromkeys(frame.columns, ".4f"))
        return render("fit.html", heading=_heading(self), table=table, footer=_footer(self))

    def summary(self) -> pd.DataFrame:
        """Return a table of parameters: estimate, standard error, and the interval that 1.96 of them span."""
        names, parts = [], []
        for parameter, dim in PARAMETERS.items():
            estimate, error = np.atleast_1d(getattr(self, parameter)), np.atleast_1d(self.standard_errors[parameter])
            interval = weight_interval if parameter == "w" else normal_interval
            names += (
                [parameter] if dim is None else [f"{parameter}[{label}]" for label in getattr(self, f"{dim}_names")]
            )
            parts.append(np.column_stack([estimate, error, *interval(estimate, error)]))
        for name, pair in self.rates.items():
            names.append(name)
            estimate, error = np.atleast_1d(*pair)
            interval = normal_interval if name.startswith(("lucky0", "lucky_slope")) else weight_interval
            parts.append(np.column_stack([estimate, error, *interval(estimate, error)]))
        columns = ["estimate", "se", "lower_95", "upper_95"]
        return pd.DataFrame(np.concatenate(parts), columns=columns, index=pd.Index(names, name="parameter"))

    def to_datatree(self) -> xr.DataTree:
        """Return the fit in the shape of a posterior with one chain and one draw, for what takes a posterior."""
        names = {"feature": list(self.feature_names), "diagnostic": list(self.diagnostic_names)}
        posterior = xr.Dataset(
            {
                name: (["chain", "draw", *([] if dim is None else [dim])], np.asarray(getattr(self, name))[None, None])
                for name, dim in PARAMETERS.items()
            },
            coords={"chain": [0], "draw": [0], **names},
        )
        constant = xr.Dataset(
            {"feature_mean": ("feature", self.feature_mean), "feature_scale": ("feature", self.feature_scale)},
            coords={"feature": names["feature"]},
        )
        tree = xr.DataTree.from_dict({"posterior": posterior, "constant_data": constant})
        tree.attrs = {
            "inference_method": "map",
            **self.spec.as_attrs(),
            "ridge": self.ridge,
            "objective": self.objective,
            "seed": self.seed,
            "data_fingerprint": self.data_fingerprint,
            "bayes_tacit_version": version("bayes_tacit"),
        }
        return tree

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON file; every number is read back exactly."""
        text = json.dumps(_as_record(self), indent=2, allow_nan=False) + "\n"
        with atomic_path(path) as temporary:
            temporary.write_text(text, encoding="utf-8")

    @staticmethod
    def load(path: str | os.PathLike[str]) -> MapFit:
        """Read a file that `save` wrote, checking all of it."""
        expected = "a fit written by MapFit.save"
        content = parse_json(read_text(path, expected), str(path), expected)
        given = content.get("schema_version") if isinstance(content, dict) else None
        if type(given) is int and given > SCHEMA_VERSION:
            raise FileFormatError(
                f"{path}: schema_version is {given}; expected {SCHEMA_VERSION}: the file was written by a newer "
                "bayes_tacit"
            )
        try:
            record = _FitRecord.model_validate_json(json.dumps(content))
        except ValidationError as error:
            first = error.errors()[0]
            # Keys of the file are others' text.
            field = ".".join(map(str, first["loc"])).encode("unicode_escape").decode() or "the file"
            raise FileFormatError(f"{path}: {field}: {first['msg']}; expected {expected}") from error
        return MapFit(**{field.name: getattr(record, field.name) for field in fields(MapFit)})


# The file.


class _FitRecord(BaseModel):
    """The file's content. A standard error that does not exist is null."""

    model_config = STRICT

    format: Literal["bayes_tacit.map_fit"]
    schema_version: Annotated[int, Field(strict=True, ge=SCHEMA_VERSION, le=SCHEMA_VERSION)]
    written_by: str
    diagnostic_names: Annotated[tuple[Name, ...], Field(min_length=1)]
    feature_names: tuple[Name, ...]
    feature_mean: Annotated[list[Finite], AfterValidator(np.array)]
    feature_scale: Annotated[list[Positive], AfterValidator(np.array)]
    w: Annotated[list[Share], AfterValidator(np.array)]
    gamma0: Finite
    gamma: Annotated[list[Finite], AfterValidator(np.array)]
    beta0: Finite
    beta: Annotated[list[Finite], AfterValidator(np.array)]
    s: Positive
    standard_errors: dict[Literal["w", "gamma0", "gamma", "beta0", "beta", "s"], Error]
    objective: Finite
    gradient_norm: Finite
    converged: bool
    restarts: tuple[Restart, ...]
    floored: tuple[str | int, ...]
    n_episodes: Count
    n_timed: Count
    spec: Annotated[Any, AfterValidator(ModelSpec.of_record)]
    ridge: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    floor: Positive | None
    seed: Count
    data_fingerprint: str
    profile: tuple[ProfilePoint, ...]
    prior: str | None
    rates: dict[str, tuple[Finite, Error]]

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
        if isinstance(self.spec.memory, str):
            raise ValueError(f"memory of the spec is {self.spec.memory!r}, expected a number")
        if isinstance(self.spec.features, str):
            raise ValueError("features of the spec is a formula, expected the design that it came to")
        if self.n_timed > self.n_episodes:
            raise ValueError(f"n_timed is {self.n_timed} of n_episodes {self.n_episodes}")
        if not sums_to_one(sum(self.w)):
            raise ValueError(f"w sums to {sum(self.w)}, expected 1")
        return self


def _as_record(fit: MapFit) -> dict[str, object]:
    """Return the fit in plain Python values, as the file holds them."""
    content = {field.name: _plain(getattr(fit, field.name)) for field in fields(fit)}
    written = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "written_by": f"bayes_tacit {version('bayes_tacit')}",
    }
    return written | content


def _plain(value: object) -> object:
    """Turn arrays into lists, NaN and infinity into null, records into objects."""
    if isinstance(value, np.ndarray):
        return [_plain(number) for number in value.tolist()]
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, ModelSpec):
        return _plain(value.to_record())
    return _plain(asdict(value)) if is_dataclass(value) and not isinstance(value, type) else value


# The table.


def normal_interval(
    estimate: npt.ArrayLike, error: npt.ArrayLike, probability: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    """Return the normal interval of an estimate: lower and upper ends, NaN where there is no standard error."""
    center, reach = np.asarray(estimate), special.ndtri((1 + probability) / 2) * np.asarray(error)
    return center - reach, center + reach


def weight_interval(w: npt.ArrayLike, error: npt.ArrayLike, probability: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Return the interval of weights: normal for log(w / (1 - w)), whose standard error is se / (w (1 - w)).

    That is the delta method, and its ends are never below 0 nor above 1.
    """
    weight = np.asarray(w, dtype=float)
    known = np.isfinite(error) & (weight > 0) & (weight < 1)
    inside = np.where(known, weight, 0.5)
    ends = normal_interval(special.logit(inside), np.asarray(error) / (inside * (1 - inside)), probability)
    lower, upper = (np.where(known, special.expit(end), np.nan) for end in ends)
    return lower, upper


def _heading(fit: MapFit) -> str:
    penalty = f"ridge {fit.ridge:g}" if fit.ridge else "no penalty"
    if fit.prior is not None:
        penalty = f"prior {json.loads(fit.prior)['name']}"
    memory = (f", memory {fit.memory:.3g}" if fit.memory != 1 else "") + (", with a clock" if fit.clock else "")
    return (
        f"MapFit: {fit.n_episodes} episodes, {fit.n_timed} of them timed, {penalty}, "
        f"{family_named(fit.family).label} threshold, {fit.timing} timing{memory}"
    )


def _footer(fit: MapFit) -> list[str]:
    """Say how the optimizer ended, and what must be known to read the table."""
    best = fit.objective
    agreeing = sum(restart.objective - best < 1e-6 for restart in fit.restarts)
    lines = [
        f"objective {best:.6f}, gradient {fit.gradient_norm:.1e}, {agreeing} of {len(fit.restarts)} starts agree, "
        f"{len(fit.floored)} episodes floored",
        "w sums to 1; gamma and beta are per standard deviation of a feature",
    ]
    if fit.profile:
        lines.append(_profile(fit))
    if fit.unmarked == "due":
        lines.append("AB = 01 without a window counts as due by the end of the rollout")
    if fit.weights_fixed:
        lines.append("w was given, not learned")
    return [*lines, *_told_of_rates(fit)]


def _told_of_rates(fit: MapFit) -> list[str]:
    """Say which rates the data tell: by how much less is left of the prior's variance."""
    noise, told = fit.spec.noise or Noise(), []
    for name, (_, error) in fit.rates.items():
        prior = getattr(noise, name, None)
        if not isinstance(prior, tuple) or name == "lateness":
            continue
        a, b = prior
        variance = a * b / ((a + b) ** 2 * (a + b + 1))
        left = error**2 / variance
        if not np.isfinite(left):
            told.append(f"{name}: at the edge of what it can be, without a standard error")
        elif left > FAINT:
            told.append(
                f"{name}: the data hardly tell it, and it is much as its prior has it ({left:.0%} of its variance)"
            )
        else:
            told.append(f"{name}: learned from the data ({left:.0%} of its prior's variance is left)")
    return told


def _profile(fit: MapFit) -> str:
    """Say which memories are as likely, how far behind the paper's is, and whether windows without mass decided."""
    behind = {point.memory: fit.n_episodes * (point.objective - fit.objective) for point in fit.profile}
    near = [memory for memory, nats in behind.items() if nats <= LIMIT]
    said = (
        f"memory {fit.memory:.3g} by profile likelihood: of {len(behind)} that were tried, those from {min(near):.3g} "
        f"to {max(near):.3g} are within {LIMIT:.2g} nats of it, the limit of a 95% interval"
    )
    if fit.memory != 1:
        said += f"; memory 1 is {behind[1.0]:.1f} nats behind"
    empty = sum(point.floored > len(fit.floored) for point in fit.profile)
    if empty:
        said += (
            f"; at {empty} of them windows have no mass and count with the floor, which decides against those: with a "
            "clock every window has mass"
        )
    return said
