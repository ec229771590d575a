"""A fit or a posterior, brought into the one form that scores are computed from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from bayes_tacit.data.timing import TIMINGS
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.estimates.map_fit import MapFit
from bayes_tacit.model.design import Column, Design, Number
from bayes_tacit.model.families import family_named
from bayes_tacit.model.memory import CLOCK
from bayes_tacit.model.spec import settings_of
from bayes_tacit.scores.core import Draws
from bayes_tacit.scores.fitted import Fitted, order_of
from bayes_tacit.scores.provenance import provenance
from bayes_tacit.validate import choice

SOURCE = "as sample_posterior and MapFit.to_datatree give it"

NEW_GROUPS = 0
"""Seed of the draws of new groups: the same for all who read a posterior."""


def as_draws(estimate: MapFit | xr.DataTree | Fitted) -> Fitted:
    """Read the parameters out of a fit or a posterior.

    Parameters
    ----------
    estimate
        A `MapFit`, or a tree with the group `posterior` (`w`, `gamma0`, `gamma`, `beta0`, `beta`, `s` over `chain` and
        `draw`), the group `constant_data` (`feature_mean`, `feature_scale`, and `w` where the weights were fixed) and
        the attributes `family` and `timing`. What was read already, such as a router, is given back.

    Raises
    ------
    InvalidDataError
        If the tree is another model's.

    Examples
    --------
    >>> from bayes_tacit import fit_map, load_example
    >>> fitted = as_draws(fit_map(load_example()))
    >>> len(fitted.draws), fitted.diagnostic_names
    (1, ('repeat', 'uncertainty', 'stalled', 'invalid'))
    """
    if isinstance(estimate, MapFit):
        return of_fit(estimate)
    if isinstance(estimate, xr.DataTree):
        return of_tree(estimate)
    if isinstance(estimate, Fitted):
        return estimate
    raise InvalidDataError("a MapFit or a posterior DataTree", field="fit", value=estimate)


def sample_coords(estimate: MapFit | xr.DataTree) -> dict[str, np.ndarray]:
    """Give the coordinates `chain` and `draw` of a posterior; none for a point estimate."""
    if isinstance(estimate, MapFit):
        return {}
    posterior = _group(estimate, "posterior")
    return {name: posterior[name].values for name in ("chain", "draw")}


def of_fit(fit: object) -> Fitted:
    """Read the parameters out of a fit."""
    if not isinstance(fit, MapFit):
        expected = "a MapFit, as fit_map gives it (Router.from_posterior takes a posterior)"
        raise InvalidDataError(expected, field="fit", value=fit)
    draws = Draws(
        w=np.asarray(fit.w)[None],
        gamma0=np.array([fit.gamma0]),
        gamma=np.asarray(fit.gamma)[None],
        beta0=np.array([fit.beta0]),
        beta=np.asarray(fit.beta)[None],
        s=np.array([fit.s]),
        family=family_named(fit.family),
        memory=fit.memory,
        clock=fit.clock,
    )
    return Fitted(
        draws=draws,
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
    if not isinstance(tree, xr.DataTree):
        expected = "a DataTree, as sample_posterior gives it (Router.from_fit takes a fit)"
        raise InvalidDataError(expected, field="tree", value=tree)
    posterior, constant = (_group(tree, name) for name in ("posterior", "constant_data"))
    settings = settings_of(tree)
    for name in ("family", "timing"):
        if name not in settings:
            raise InvalidDataError(f"{name!r} among them, {SOURCE}", field="attrs of the tree", value=list(tree.attrs))
    feature_names = _names(constant, "feature") if "feature_mean" in constant else ()
    by_feature = {name: _slopes(posterior, name, feature_names) for name in ("gamma", "beta") if feature_names}
    fixed = "w" not in posterior
    clock = bool(settings.get("clock", False))
    diagnostic_names = _names(constant if fixed else posterior, "diagnostic")
    scalars = {name: _flat(posterior, name) for name in ("gamma0", "beta0", "s")}
    size = len(scalars["s"])
    w = np.broadcast_to(_constant(constant, "w", "diagnostic"), (size, len(diagnostic_names))) if fixed else None
    draws = Draws(
        w=_flat(posterior, "w", "diagnostic") if w is None else w,
        **scalars,
        gamma=by_feature.get("gamma", np.zeros((size, 0))),
        beta=by_feature.get("beta", np.zeros((size, 0))),
        family=family_named(settings["family"]),
        memory=_flat(posterior, "rho") if "rho" in posterior else float(settings.get("memory", 1.0)),
        clock=clock,
    )
    seed = settings.get("seed")
    fitted = Fitted(
        draws=draws,
        feature_names=feature_names,
        feature_mean=_constant(constant, "feature_mean", "feature") if feature_names else np.zeros(0),
        feature_scale=_constant(constant, "feature_scale", "feature") if feature_names else np.ones(0),
        diagnostic_names=_without_clock(diagnostic_names, clock=clock),
        timing=choice("timing", settings["timing"], TIMINGS),
        provenance=provenance(
            settings.get("inference_method"),
            len(draws),
            settings.get("data_fingerprint"),
            None if seed is None else int(seed),
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
    """Give a parameter's draws, (draw,) or (draw, name)."""
    dims = ("chain", "draw") if dim is None else ("chain", "draw", dim)
    if name not in posterior:
        expected = f"{name!r} among them, {SOURCE}"
        raise InvalidDataError(expected, field="variables of posterior", value=list(posterior.data_vars))
    array = posterior[name]
    if set(array.dims) != set(dims):
        raise InvalidDataError(f"{dims}", field=f"dims of posterior[{name!r}]", value=array.dims)
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
    return constant[name].values.astype(float, copy=False)
