"""What a model is, as one value that fits and posteriors carry."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypedDict, get_args

import numpy as np
import pandas as pd
import xarray as xr

from bayes_tacit import validate
from bayes_tacit.data.timing import DEFAULT_TIMING, TIMINGS, Timing
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.model.design import Design
from bayes_tacit.model.families import Family, family_named
from bayes_tacit.model.memory import Memory
from bayes_tacit.model.strata import Noise

Weights = Sequence[float] | np.ndarray | Mapping[str, float] | pd.Series
"""Simplex weights in the order of the diagnostics, or by their names."""

Unmarked = Literal["due", "outcome"]
"""How an AB = 01 episode without a window is read: as due by the end of its rollout, or for its outcome alone."""

ZeroMass = Literal["refuse", "drop_window"]
"""What to do with a window that has no mass: refuse the data, or forget the window and keep B = 1."""

Spread = Literal["same", "features"]
"""Whether log thresholds spread alike in all tasks, or by the features."""

JSON = {"features": "design", "weights": "weights", "noise": "noise"}
"""Fields that are attributes of a posterior as JSON, and under which names."""

COORDINATE = "setting"  # coordinate of `constant_data` that holds the settings as JSON in a trace that PyMC made


@dataclass(frozen=True, repr=False)
class ModelSpec:
    """What a model is, apart from its data and its prior.

    `build_model`, `fit_map` and `sample_posterior` take it as `spec`, or its fields by keyword: `clock=True` stands for
    `spec=ModelSpec(clock=True)`, and beside a spec replaces that field of it. A fit has it as `MapFit.spec`, and
    `bayes_tacit.model.spec.spec_of` reads it from a posterior.

    Parameters
    ----------
    family
        Distribution of the threshold: "lognormal" as in the paper, "loglogistic", "weibull", "loggamma", or a
        registered one (`bayes_tacit.model.families.register_family`).
    timing
        "post_action", or "proposal" to align a mark after step t with the proposal at step t + 1.
    memory
        rho from 0 to 1: what is left of a diagnostic's leaky sum after a step. 1, the paper's, forgets nothing; 0 keeps
        the highest value so far. See `bayes_tacit.model.memory`. "learned", for `build_model` and `sample_posterior`,
        makes it a parameter `rho` with a prior, and interpolates the bounds between memories. "profile", for `fit_map`,
        takes the memory with the lowest objective, and `MapFit.profile` shows the others. Both are best with a clock:
        a learned memory needs windows that have mass at every memory, and windows that have none at some decide the
        profile.
    clock
        Whether the number of steps counts as one more diagnostic, "clock", with a weight of its own: the later, the
        more due. Under it every window has mass.
    unmarked
        How an AB = 01 episode without a window is read: "due", as crossed by the end of its rollout, or "outcome", as
        the paper does, for its outcome alone, which makes scores too low. "due" assumes that since Strong solves the
        task and Cheap does not, the handoff was due before Cheap's rollout ended, and that the mark is missing for
        reasons that have nothing to do with when. No mark is needed then, if final risks differ between tasks: a
        warning says where they do not.
    zero_mass
        What to do with a window in which no risk is added, so that it has no mass: "refuse", or "drop_window", which
        keeps the episode's B = 1. By default it is floored if there is a floor, and refused otherwise.
    weights
        Simplex weights to hold fixed, in the order of the diagnostics or by their names; by default they are learned.
    features
        A formula on features and carried columns, such as "bs(words, df=4) + C(kind) + hardness:tools"; by default all
        features as they are. Fits and posteriors carry the `Design` that it comes to.
    groups
        A carried column, such as "database", whose levels get intercepts of their own for incidence and location,
        partially pooled: normal around zero with a spread that has a prior; not for `fit_map`. Scores and routers give
        a known group its own, and a new one a draw from the spread: one for every posterior draw, so that the mean and
        the quantiles of q(t) are over new groups, too.
    spread
        "same", as in the paper: log thresholds have one scale s; or "features": it is s exp(x delta), with a slope
        `delta` for each feature. Not for `fit_map`.
    noise
        How outcomes and marks come about, as a `Noise`, where outcomes are noisy, repeated or missing, or marks may be
        wrong: each record is then a sum over whether Strong can solve the task (`bayes_tacit.model.strata`). By default
        outcomes and marks are exact, as in the paper; episodes of which a side was not played, or Strong several times,
        are then read under `Noise()`. Rollouts of one carried `task` are one record.

    Examples
    --------
    >>> ModelSpec(family="weibull", clock=True)
    ModelSpec(family='weibull', clock=True)
    >>> from bayes_tacit import fit_map, load_example
    >>> fit_map(load_example(), clock=True).spec
    ModelSpec(clock=True)
    """

    family: str | Family = "lognormal"
    timing: Timing = DEFAULT_TIMING
    memory: Memory = 1.0
    clock: bool = False
    unmarked: Unmarked = "due"
    zero_mass: ZeroMass | None = None
    weights: Weights | None = None
    features: str | Design | None = None
    groups: str | None = None
    noise: Noise | None = None
    spread: Spread = "same"

    def __post_init__(self) -> None:
        object.__setattr__(self, "family", family_named(self.family).name)
        validate.choice("timing", self.timing, TIMINGS)
        if not (isinstance(self.memory, str) and self.memory in ("learned", "profile")):
            expected = "a number from 0 to 1, 'learned' or 'profile'"
            object.__setattr__(self, "memory", validate.number("memory", self.memory, expected, least=0, most=1))
        if not isinstance(self.clock, bool):
            raise InvalidDataError("True or False", field="clock", value=self.clock)
        validate.choice("unmarked", self.unmarked, get_args(Unmarked))
        if self.zero_mass is not None:
            validate.choice("zero_mass", self.zero_mass, get_args(ZeroMass))
        if self.weights is not None:
            object.__setattr__(self, "weights", _simplex(self.weights))
        design = self.features is None or isinstance(self.features, Design)
        if not design and not (isinstance(self.features, str) and self.features.strip()):
            expected = "a formula, such as 'bs(words, df=4) + C(kind)'"
            raise InvalidDataError(expected, field="features", value=self.features)
        if not (self.groups is None or isinstance(self.groups, str)):
            raise InvalidDataError("the name of a column", field="groups", value=self.groups)
        validate.choice("spread", self.spread, get_args(Spread))
        if not (self.noise is None or isinstance(self.noise, Noise)):
            raise InvalidDataError("a Noise, such as Noise(sensitivity=(8, 2))", field="noise", value=self.noise)
        if self.noise is not None and self.unmarked == "outcome":
            expected = "'due': beside noise every Cheap rollout says whether it crossed its threshold"
            raise InvalidDataError(expected, field="unmarked", value=self.unmarked)
        if self.noise is not None and self.spread != "same":
            expected = "'same': a spread by features is for outcomes and marks that are exact"
            raise InvalidDataError(expected, field="spread", value=self.spread)

    def __repr__(self) -> str:
        given = {field.name: value for field in fields(self) if (value := getattr(self, field.name)) != field.default}
        if isinstance(self.features, Design):
            given["features"] = self.features.formula
        return f"ModelSpec({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    def weights_for(self, diagnostic_names: tuple[str, ...]) -> np.ndarray | None:
        """Return the fixed weights in the order of the diagnostics, or None if they are learned."""
        given = self.weights
        if given is None:
            return None
        right = set(given) == set(diagnostic_names) if isinstance(given, dict) else len(given) == len(diagnostic_names)
        if not right:
            n, names = len(diagnostic_names), ", ".join(diagnostic_names)
            expected = f"{n} nonnegative numbers that sum to 1, one for each of {names}"
            raise InvalidDataError(expected, field="weights", value=given)
        return np.array([given[name] for name in diagnostic_names] if isinstance(given, dict) else given, dtype=float)

    def to_record(self) -> dict[str, object]:
        """Return it in values that JSON has."""
        record: dict[str, object] = {field.name: getattr(self, field.name) for field in fields(self)}
        if isinstance(self.features, Design):
            record["features"] = self.features.to_record()
        if self.noise is not None:
            record["noise"] = self.noise.to_record()
        return record

    @classmethod
    def of_record(cls, given: object) -> ModelSpec:
        """Read what `to_record` returned, checking all of it."""
        content: dict[str, Any] = validate.record("spec", given, [field.name for field in fields(cls)])
        if isinstance(content["features"], Mapping):
            content["features"] = Design.of_record(content["features"])
        if content["noise"] is not None:
            content["noise"] = Noise.of_record(content["noise"])
        return cls(**content)

    def as_attrs(self) -> dict[str, str | float]:
        """Return it as attributes of a posterior, which `spec_of` reads: numbers and text, without what is None."""
        attrs: dict[str, Any] = {name: value for name, value in self.to_record().items() if value is not None}
        for name, key in JSON.items():
            if name in attrs:
                attrs[key] = json.dumps(attrs.pop(name))
        return attrs | {"clock": int(self.clock)}

    @classmethod
    def of_attrs(cls, attrs: Mapping[str, Any]) -> ModelSpec:
        """Read what `as_attrs` returned, among other attributes, checking all of it."""
        given = {field.name: attrs[field.name] for field in fields(cls) if field.name in attrs}
        if isinstance(clock := given.get("clock"), int | np.integer) and clock in (0, 1):
            given["clock"] = bool(clock)
        for name, key in JSON.items():
            if key in attrs:
                try:
                    given[name] = json.loads(attrs[key])
                except (TypeError, ValueError, RecursionError) as error:
                    raise InvalidDataError(f"{key} as JSON", field=key, value=attrs[key]) from error
        return cls.of_record({field.name: field.default for field in fields(cls)} | given)


class ModelSettings(TypedDict, total=False):
    """The fields of a `ModelSpec`, given by keyword."""

    family: str | Family
    timing: Timing
    memory: Memory
    clock: bool
    unmarked: Unmarked
    zero_mass: ZeroMass | None
    weights: Weights | None
    features: str | Design | None
    groups: str | None
    noise: Noise | None
    spread: Spread


def spec_from(spec: ModelSpec | None, settings: ModelSettings) -> ModelSpec:
    """Return a spec in which some fields are replaced; the default one if there is none."""
    if not (spec is None or isinstance(spec, ModelSpec)):
        raise InvalidDataError("a ModelSpec", field="spec", value=spec)
    return replace(spec or ModelSpec(), **settings)


def spec_of(tree: xr.DataTree) -> ModelSpec:
    """Return the spec of a posterior, or of what `MapFit.to_datatree` or PyMC's own sampler made.

    Examples
    --------
    >>> from bayes_tacit import fit_map, load_example
    >>> spec_of(fit_map(load_example(), timing="proposal").to_datatree())
    ModelSpec(timing='proposal')
    """
    settings = settings_of(tree)
    for name in ("family", "timing"):
        if name not in settings:
            expected = f"{name!r} among them, as sample_posterior and MapFit.to_datatree write it"
            raise InvalidDataError(expected, field="attrs of the tree", value=list(tree.attrs))
    constant = tree["constant_data"].to_dataset() if "constant_data" in tree.children else xr.Dataset()
    spec = ModelSpec.of_attrs(settings)
    if spec.weights is None and "w" in constant and constant.sizes["diagnostic"] > 1:
        return replace(spec, weights=constant["w"].values)
    return spec


def settings_of(tree: xr.DataTree) -> dict[str, Any]:
    """Return all settings of a posterior: its attributes, and those that its model carried as data."""
    carried: dict[str, Any] = {}
    if "constant_data" in tree.children and COORDINATE in tree["constant_data"].coords:
        text = str(np.ravel(tree["constant_data"].to_dataset()[COORDINATE].values)[0])
        try:
            carried = dict(json.loads(text))
        except (TypeError, ValueError) as error:
            expected = "the settings that build_model wrote, as JSON"
            raise InvalidDataError(expected, field=f"coordinate {COORDINATE!r}", value=text) from error
    return carried | {str(name): value for name, value in tree.attrs.items()}


def _simplex(weights: Weights) -> tuple[float, ...] | dict[str, float]:
    """Return weights as a tuple of floats, or by name as a dictionary."""
    given = dict(weights) if isinstance(weights, Mapping | pd.Series) else weights
    shown = given.tolist() if isinstance(given, np.ndarray) else given
    wrong = InvalidDataError("nonnegative numbers that sum to 1, one a diagnostic", field="weights", value=shown)
    try:
        values = np.asarray(list(given.values()) if isinstance(given, dict) else given)
    except ValueError as error:
        raise wrong from error
    if values.dtype.kind not in "iuf" or values.ndim != 1:
        raise wrong
    if not (np.isfinite(values) & (values >= 0)).all() or not validate.sums_to_one(values.sum()):
        raise wrong
    numbers = tuple(values.astype(float).tolist())
    return dict(zip(given, numbers, strict=True)) if isinstance(given, dict) else numbers
