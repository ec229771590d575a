"""Fitted parameters with what is needed to apply them to episodes, read out of a fit or a posterior.

NumPy is all that `Fitted` takes; xarray is loaded where a posterior is read.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy

from bayes_tacit import validate
from bayes_tacit.data.timing import TIMINGS, Timing
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.model.design import Column, Design, Number
from bayes_tacit.model.families import family_named
from bayes_tacit.model.memory import CLOCK, LEARNED
from bayes_tacit.scores.core import PARAMETERS, Draws

if TYPE_CHECKING:
    import xarray as xr

    from bayes_tacit.data.episodes import Episodes
    from bayes_tacit.estimates.map_fit import MapFit

DRAWS = 1000  # draws of a posterior that a router keeps at most, unless asked otherwise


def provenance(
    inference_method: str | None = None,
    draws_available: int | None = None,
    data_fingerprint: str | None = None,
    seed: int | None = None,
) -> dict[str, object]:
    """Say where parameters come from, as far as it is known, and what reads them, as plain JSON values."""
    return {
        "created_by": f"bayes_tacit {_own_version()}",
        "versions": {"python": platform.python_version(), "numpy": np.__version__, "scipy": scipy.__version__},
        "inference_method": inference_method,
        "draws_available": draws_available,
        "data_fingerprint": data_fingerprint,
        "seed": seed,
    }


_own_version = cache(lambda: version("bayes_tacit"))


def check_provenance(given: object) -> dict[str, object]:
    """Check that it has the keys and types that `provenance` gives."""
    found = validate.record("provenance", given, tuple(provenance()))
    validate.text("provenance.created_by", found["created_by"])
    versions = found["versions"]
    if not isinstance(versions, Mapping):
        raise InvalidDataError("an object of version numbers", field="provenance.versions", value=versions)
    found["versions"] = {
        validate.text("a key of provenance.versions", name): validate.text(f"provenance.versions.{name}", version)
        for name, version in versions.items()
    }
    for name in ("inference_method", "data_fingerprint"):
        if found[name] is not None:
            validate.text(f"provenance.{name}", found[name])
    for name in ("draws_available", "seed"):
        if found[name] is not None:
            found[name] = validate.whole(f"provenance.{name}", found[name], 0)
    return found


@dataclass(frozen=True, eq=False)
class Fitted:
    """Draws of the parameters, with what is needed to apply them to episodes; checked, and never changed.

    Attributes
    ----------
    diagnostic_names
        The diagnostics, in the order of the weights; the clock, which is last if there is one, is not among them.
    feature_names, feature_mean, feature_scale
        The features and the standardization that the fit was made with.
    draws
        The parameters; a point estimate is one draw, of a posterior all chains come one after the other.
    timing
        What a checkpoint is: "post_action" (the Cheap action was executed, Strong takes the next one) or "proposal"
        (it was not executed yet; at a handoff it is discarded and Strong acts in its place).
    provenance
        Where the parameters come from; kept, not interpreted.
    design
        How the features are made of raw columns, where a formula or groups say so; the features are then its columns.
    """

    diagnostic_names: tuple[str, ...]
    feature_names: tuple[str, ...]
    feature_mean: np.ndarray
    feature_scale: np.ndarray
    draws: Draws
    timing: Timing = "post_action"
    provenance: Mapping[str, object] = field(default_factory=provenance)
    design: Design | None = None

    def __post_init__(self) -> None:
        """Keep own, read-only arrays, and check everything."""
        arrays: dict[str, Any] = {
            name: _own(value) for name, value in vars(self.draws).items() if isinstance(value, np.ndarray)
        }
        settled = {
            "diagnostic_names": validate.names("diagnostics", self.diagnostic_names),
            "feature_names": validate.names("features", self.feature_names),
            "feature_mean": _own(self.feature_mean),
            "feature_scale": _own(self.feature_scale),
            "draws": replace(self.draws, **arrays),
            "timing": validate.choice("timing", self.timing, TIMINGS),
            "provenance": check_provenance(self.provenance),
        }
        for name, value in settled.items():
            object.__setattr__(self, name, value)
        self._check_numbers()
        if self.design is not None and self.design.names != self.feature_names:
            expected = f"{list(self.feature_names)}, the features"
            raise InvalidDataError(expected, field="columns of the design", value=list(self.design.names))

    def _check_numbers(self) -> None:
        draws, d, p = self.draws, len(self.weight_names), len(self.feature_names)
        n = len(np.atleast_1d(draws.s))
        if d == 0 or n == 0:
            what = "number of diagnostics" if d == 0 else "number of draws"
            raise InvalidDataError("at least one", field=what, value=0)
        validate.finite("feature mean", self.feature_mean, (p,))
        validate.finite("feature scale", self.feature_scale, (p,))
        validate.positive("feature scale", self.feature_scale)
        columns = {"w": (d,), "gamma": (p,), "beta": (p,), "delta": (p,)}
        for name in (*PARAMETERS, "memory", "delta"):
            if isinstance(value := getattr(draws, name), np.ndarray):
                validate.finite(name, value, (n, *columns.get(name, ())))
        memory = np.atleast_1d(draws.memory)
        if not ((memory >= 0) & (memory <= 1)).all():
            raise InvalidDataError("numbers from 0 to 1", field="memory", value=memory.tolist())
        validate.simplex("w", draws.w)
        validate.positive("s", draws.s)

    @property
    def weight_names(self) -> tuple[str, ...]:
        """Names of the weights: those of the diagnostics, and the clock's if there is one."""
        return (*self.diagnostic_names, CLOCK) if self.draws.clock else self.diagnostic_names

    @property
    def n_ungrouped(self) -> int:
        """How many of the features are not intercepts of groups."""
        if self.design is None or self.design.groups is None:
            return len(self.feature_names)
        return len(self.feature_names) - len(self.design.levels[self.design.groups]) - 1

    def thinned(self, most: int = DRAWS) -> Self:
        """Keep at most so many draws, taken at even distances from all of them."""
        most = validate.whole("draws", most, 1)
        return self if most >= len(self.draws) else replace(self, draws=self.draws.thinned(most))

    def standardize(self, features: np.ndarray) -> np.ndarray:
        """Standardize raw features (..., feature) as the fit did; columns beyond its features are left out."""
        return (features[..., : len(self.feature_mean)] - self.feature_mean) / self.feature_scale

    def columns_of(self, episodes: Episodes) -> tuple[xr.DataArray, xr.DataArray]:
        """Return the episodes' features and diagnostics in the fit's order of names."""
        from bayes_tacit.data.episodes import Episodes

        if not isinstance(episodes, Episodes):
            raise InvalidDataError("Episodes", field="episodes", value=episodes)
        features, diagnostics = self._features_of(episodes), episodes.dataset["diagnostics"]
        order = order_of("diagnostics of the episodes", episodes.diagnostic_names, self.diagnostic_names)
        return features, diagnostics if order is None else diagnostics.isel(diagnostic=order)

    def _features_of(self, episodes: Episodes) -> xr.DataArray:
        if self.design is None:
            features = episodes.dataset["features"]
            order = order_of("features of the episodes", episodes.feature_names, self.feature_names)
            return features if order is None else features.isel(feature=order)
        import xarray as xr

        from bayes_tacit.model.design import design_matrix

        coords = {"episode": episodes.dataset["episode"].values, "feature": list(self.feature_names)}
        return xr.DataArray(design_matrix(self.design, episodes), coords=coords, dims=("episode", "feature"))


def order_of(field: str, given: tuple[str, ...], wanted: tuple[str, ...]) -> list[int] | None:
    """Say where the wanted names are among the given ones; None if they are in place."""
    if given == wanted:
        return None
    if sorted(given) != sorted(wanted):
        raise InvalidDataError(f"{list(wanted)}, as in the fit", field=field, value=list(given))
    return [given.index(name) for name in wanted]


def _own(array: np.ndarray) -> np.ndarray:
    copy = np.array(array, dtype=float)
    copy.flags.writeable = False
    return copy


# How they are read out of a fit or a posterior.

SOURCE = "as sample_posterior and MapFit.to_datatree give it"

NEW_GROUPS = 0  # seed of the draws of new groups: the same for all who read a posterior


def as_draws(estimate: MapFit | xr.DataTree | Fitted) -> Fitted:
    """Read the parameters out of a fit or a posterior.

    Parameters
    ----------
    estimate
        A `MapFit`, or a tree with the group `posterior` (`w`, `gamma0`, `gamma`, `beta0`, `beta`, `s` over `chain` and
        `draw`), the group `constant_data` (`feature_mean`, `feature_scale`, and `w` where the weights were fixed) and
        the attributes `family` and `timing`. What was read already, such as a router, is given back.

    Examples
    --------
    >>> from bayes_tacit import fit_map, load_example
    >>> fitted = as_draws(fit_map(load_example()))
    >>> len(fitted.draws), fitted.diagnostic_names
    (1, ('repeat', 'uncertainty', 'stalled', 'invalid'))
    """
    import xarray as xr

    from bayes_tacit.estimates.map_fit import MapFit

    if isinstance(estimate, MapFit):
        return of_fit(estimate)
    if isinstance(estimate, xr.DataTree):
        return of_tree(estimate)
    if isinstance(estimate, Fitted):
        return estimate
    raise InvalidDataError("a MapFit or a posterior DataTree", field="fit", value=estimate)


def sample_coords(estimate: MapFit | xr.DataTree) -> dict[str, np.ndarray]:
    """Return the coordinates `chain` and `draw` of a posterior; none for a point estimate."""
    from bayes_tacit.estimates.map_fit import MapFit

    if isinstance(estimate, MapFit):
        return {}
    posterior = _group(estimate, "posterior")
    return {name: posterior[name].values for name in ("chain", "draw")}


def of_fit(fit: object) -> Fitted:
    """Read the parameters out of a fit."""
    from bayes_tacit.estimates.map_fit import MapFit

    if not isinstance(fit, MapFit):
        expected = "a MapFit, as fit_map gives it (Router.from_posterior takes a posterior)"
        raise InvalidDataError(expected, field="fit", value=fit)
    parameters: dict[str, Any] = {name: np.asarray(getattr(fit, name))[None] for name in PARAMETERS}
    return Fitted(
        draws=Draws(**parameters, family=family_named(fit.family), memory=fit.memory, clock=fit.clock),
        feature_names=fit.feature_names,
        feature_mean=np.asarray(fit.feature_mean),
        feature_scale=np.asarray(fit.feature_scale),
        diagnostic_names=_without_clock(fit.diagnostic_names, clock=fit.clock),
        timing=fit.timing,
        provenance=provenance("map", 1, fit.data_fingerprint, fit.seed),
        design=None if fit.design is None else Design.from_json(fit.design),
    )


def of_tree(tree: object) -> Fitted:
    """Read the parameters out of a posterior."""
    import xarray as xr

    from bayes_tacit.model.spec import settings_of

    if not isinstance(tree, xr.DataTree):
        expected = "a DataTree, as sample_posterior gives it (Router.from_fit takes a fit)"
        raise InvalidDataError(expected, field="tree", value=tree)
    posterior, constant = (_group(tree, name) for name in ("posterior", "constant_data"))
    settings = settings_of(tree)
    for name in ("family", "timing"):
        if name not in settings:
            raise InvalidDataError(f"{name!r} among them, {SOURCE}", field="attrs of the tree", value=list(tree.attrs))
    features = _names(constant, "feature") if "feature_mean" in constant or "feature_scale" in constant else ()
    by_feature = {name: _slopes(posterior, name, features) for name in ("gamma", "beta") if features}
    fixed, clock = "w" not in posterior, bool(settings.get("clock", False))
    diagnostics = _names(constant if fixed else posterior, "diagnostic")
    scalars = {name: _flat(posterior, name) for name in ("gamma0", "beta0", "s")}
    size = len(scalars["s"])
    learned = "rho" in posterior or settings.get("memory") == LEARNED
    spread = "delta" in posterior or settings.get("spread") == "features"
    given = _constant(constant, "w", "diagnostic")[None].repeat(size, axis=0) if fixed else None
    draws = Draws(
        w=_flat(posterior, "w", "diagnostic") if given is None else given,
        **scalars,
        gamma=by_feature.get("gamma", np.zeros((size, 0))),
        beta=by_feature.get("beta", np.zeros((size, 0))),
        family=family_named(settings["family"]),
        memory=_flat(posterior, "rho") if learned else float(settings.get("memory", 1.0)),
        clock=clock,
        delta=_slopes(posterior, "delta", features) if spread and features else None,
    )
    seed, method = settings.get("seed"), settings.get("inference_method")
    fitted = Fitted(
        draws=draws,
        feature_names=features,
        feature_mean=_constant(constant, "feature_mean", "feature") if features else np.zeros(0),
        feature_scale=_constant(constant, "feature_scale", "feature") if features else np.ones(0),
        diagnostic_names=_without_clock(diagnostics, clock=clock),
        timing=validate.choice("timing", settings["timing"], TIMINGS),
        provenance=provenance(
            method, len(draws), settings.get("data_fingerprint"), None if seed is None else int(seed)
        ),
        design=Design.from_json(settings["design"]) if "design" in settings else None,
    )
    return fitted if settings.get("groups") is None else _with_groups(fitted, str(settings["groups"]), posterior)


def _with_groups(fitted: Fitted, column: str, posterior: xr.Dataset) -> Fitted:
    """Add the intercepts of groups as features that are 1 in their group and 0 elsewhere, and that of a new group.

    The new group's is drawn from the spread, once for each draw of the posterior.
    """
    names = _names(posterior, "group")
    rng = np.random.default_rng(NEW_GROUPS)
    added: dict[str, Any] = {}
    for name in ("gamma", "beta"):
        spread, offset = _flat(posterior, f"{name}_spread"), _flat(posterior, f"{name}_offset", "group")
        new = rng.standard_normal(len(spread))
        added[name] = np.column_stack([getattr(fitted.draws, name), spread[:, None] * offset, spread * new])
    if (delta := fitted.draws.delta) is not None:
        added["delta"] = np.pad(delta, ((0, 0), (0, len(names) + 1)))
    own = tuple(Column(each, (Number(each),)) for each in fitted.feature_names)
    design = (fitted.design or Design("", own, {})).with_groups(column, names)
    return replace(
        fitted,
        draws=replace(fitted.draws, **added),
        design=design,
        feature_names=design.names,
        feature_mean=np.append(fitted.feature_mean, np.zeros(len(names) + 1)),
        feature_scale=np.append(fitted.feature_scale, np.ones(len(names) + 1)),
    )


def _without_clock(names: tuple[str, ...], *, clock: bool) -> tuple[str, ...]:
    if clock and names[-1:] != (CLOCK,):
        raise InvalidDataError(
            f"{CLOCK!r} last among them, {SOURCE}", field="diagnostics of the fit", value=list(names)
        )
    return names[:-1] if clock else names


def _group(tree: xr.DataTree, name: str) -> xr.Dataset:
    if name not in tree.children:
        raise InvalidDataError(f"a group {name!r}, {SOURCE}", field="groups of the tree", value=list(tree.children))
    return tree[name].to_dataset()


def _names(group: xr.Dataset, dim: str) -> tuple[str, ...]:
    if dim not in group.coords and group.sizes.get(dim, 1):
        raise InvalidDataError(f"the names of the {dim}s, {SOURCE}", field=f"coordinate {dim!r}", value=None)
    return tuple(group[dim].values.tolist()) if dim in group.coords else ()


def _flat(posterior: xr.Dataset, name: str, dim: str | None = None) -> np.ndarray:
    """Return a parameter's draws, (draw,) or (draw, name)."""
    dims = ("chain", "draw") if dim is None else ("chain", "draw", dim)
    if name not in posterior:
        expected = f"{name!r} among them, {SOURCE}"
        raise InvalidDataError(expected, field="variables of posterior", value=list(posterior.data_vars))
    array = posterior[name]
    if set(array.dims) != set(dims):
        raise InvalidDataError(f"{dims}", field=f"dims of posterior[{name!r}]", value=array.dims)
    if array.dtype.kind not in "fiub":
        raise InvalidDataError("numbers", field=f"posterior[{name!r}]", value=array.dtype)
    values = array.transpose(*dims).values.astype(float, copy=False)
    return values.reshape(values.shape[0] * values.shape[1], *values.shape[2:])


def _slopes(posterior: xr.Dataset, name: str, feature_names: tuple[str, ...]) -> np.ndarray:
    values = _flat(posterior, name, "feature")
    order = order_of("features of posterior", _names(posterior, "feature"), feature_names)
    return values if order is None else values[:, order]


def _constant(constant: xr.Dataset, name: str, dim: str) -> np.ndarray:
    if name not in constant or constant[name].dims != (dim,):
        expected = f"{name!r} with dim {dim!r} among them, {SOURCE}"
        raise InvalidDataError(expected, field="variables of constant_data", value=list(constant.data_vars))
    if constant[name].dtype.kind not in "fiub":
        raise InvalidDataError("numbers", field=name, value=constant[name].dtype)
    return constant[name].values.astype(float, copy=False)
