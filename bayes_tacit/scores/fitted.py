"""A fit or a posterior, brought into the one form that scores are computed from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import TIMINGS, Timing
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.estimates.map_fit import MapFit
from bayes_tacit.model.families import family_named
from bayes_tacit.model.memory import CLOCK
from bayes_tacit.scores.core import Draws
from bayes_tacit.validate import choice, sums_to_one

SOURCE = "as sample_posterior and MapFit.to_datatree give it"


@dataclass(frozen=True)
class Fitted:
    """Draws of the parameters, with what is needed to apply them to episodes.

    Attributes
    ----------
    draws
        The parameters; all chains one after the other.
    chain, draw
        Coordinates of the draws; None for a point estimate.
    feature_names, feature_mean, feature_scale
        The features and the standardization that the fit was made with.
    diagnostic_names
        The diagnostics, in the order of the weights; the clock, which is last if there is one, is not among them.
    timing
        When the router looks, "post_action" or "proposal".
    """

    draws: Draws
    chain: np.ndarray | None
    draw: np.ndarray | None
    feature_names: tuple[str, ...]
    feature_mean: np.ndarray
    feature_scale: np.ndarray
    diagnostic_names: tuple[str, ...]
    timing: Timing

    @property
    def sample_coords(self) -> dict[str, np.ndarray]:
        """Coordinates `chain` and `draw`; none for a point estimate."""
        return {} if self.chain is None or self.draw is None else {"chain": self.chain, "draw": self.draw}

    @property
    def weight_names(self) -> tuple[str, ...]:
        """Names of the weights: those of the diagnostics, and the clock's if there is one."""
        return (*self.diagnostic_names, CLOCK) if self.draws.clock else self.diagnostic_names

    def standardize(self, features: np.ndarray) -> np.ndarray:
        """Standardize raw features (..., feature) as the fit did; columns beyond its features are left out."""
        return (features[..., : len(self.feature_mean)] - self.feature_mean) / self.feature_scale

    def columns_of(self, episodes: Episodes) -> tuple[xr.DataArray, xr.DataArray]:
        """Give the episodes' features and diagnostics in the fit's order of names."""
        if not isinstance(episodes, Episodes):
            raise InvalidDataError("Episodes", field="episodes", value=episodes)
        features, diagnostics = episodes.dataset["features"], episodes.dataset["diagnostics"]
        order = _order("features of the episodes", episodes.feature_names, self.feature_names)
        if order is not None:
            features = features.isel(feature=order)
        order = _order("diagnostics of the episodes", episodes.diagnostic_names, self.diagnostic_names)
        if order is not None:
            diagnostics = diagnostics.isel(diagnostic=order)
        return features, diagnostics


def as_draws(fit_or_tree: MapFit | xr.DataTree) -> Fitted:
    """Read the parameters out of a fit or a posterior.

    Parameters
    ----------
    fit_or_tree
        A `MapFit`, or a tree with the group `posterior` (`w`, `gamma0`, `gamma`, `beta0`, `beta`, `s` over `chain` and
        `draw`), the group `constant_data` (`feature_mean`, `feature_scale`, and `w` where the weights were fixed) and
        the attributes `family` and `timing`.

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
    if isinstance(fit_or_tree, MapFit):
        return _of_fit(fit_or_tree)
    if isinstance(fit_or_tree, xr.DataTree):
        return _of_tree(fit_or_tree)
    raise InvalidDataError("a MapFit or a posterior DataTree", field="fit", value=fit_or_tree)


def _of_fit(fit: MapFit) -> Fitted:
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
        chain=None,
        draw=None,
        feature_names=fit.feature_names,
        feature_mean=np.asarray(fit.feature_mean),
        feature_scale=np.asarray(fit.feature_scale),
        diagnostic_names=_without_clock(fit.diagnostic_names, clock=fit.clock),
        timing=fit.timing,
    )


def _of_tree(tree: xr.DataTree) -> Fitted:
    posterior, constant = (_group(tree, name) for name in ("posterior", "constant_data"))
    for name in ("family", "timing"):
        if name not in tree.attrs:
            raise InvalidDataError(f"{name!r} among them, {SOURCE}", field="attrs of the tree", value=list(tree.attrs))
    feature_names = _names(constant, "feature") if "feature_mean" in constant else ()
    by_feature = {name: _slopes(posterior, name, feature_names) for name in ("gamma", "beta") if feature_names}
    fixed = "w" not in posterior
    clock = bool(tree.attrs.get("clock", False))
    diagnostic_names = _names(constant if fixed else posterior, "diagnostic")
    scalars = {name: _flat(posterior, name) for name in ("gamma0", "beta0", "s")}
    size = len(scalars["s"])
    w = np.broadcast_to(_constant(constant, "w", "diagnostic"), (size, len(diagnostic_names))) if fixed else None
    draws = Draws(
        w=_flat(posterior, "w", "diagnostic") if w is None else w,
        **scalars,
        gamma=by_feature.get("gamma", np.zeros((size, 0))),
        beta=by_feature.get("beta", np.zeros((size, 0))),
        family=family_named(tree.attrs["family"]),
        memory=float(tree.attrs.get("memory", 1.0)),
        clock=clock,
    )
    _check_values(draws)
    return Fitted(
        draws=draws,
        chain=posterior["chain"].values,
        draw=posterior["draw"].values,
        feature_names=feature_names,
        feature_mean=_constant(constant, "feature_mean", "feature") if feature_names else np.zeros(0),
        feature_scale=_constant(constant, "feature_scale", "feature") if feature_names else np.ones(0),
        diagnostic_names=_without_clock(diagnostic_names, clock=clock),
        timing=choice("timing", tree.attrs["timing"], TIMINGS),
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
    order = _order("features of posterior", _names(posterior, "feature"), feature_names)
    return values if order is None else values[:, order]


def _constant(constant: xr.Dataset, name: str, dim: str) -> np.ndarray:
    if name not in constant or constant[name].dims != (dim,):
        expected = f"{name!r} with dim {dim!r} among them, {SOURCE}"
        raise InvalidDataError(expected, field="variables of constant_data", value=list(constant.data_vars))
    return constant[name].values.astype(float, copy=False)


def _check_values(draws: Draws) -> None:
    """Refuse draws that no posterior of this model has, such as those of a chain that failed."""
    if not len(draws):
        raise InvalidDataError("at least one draw", field="draws", value=0)
    for name in ("w", "gamma0", "gamma", "beta0", "beta", "s"):
        values = getattr(draws, name)
        if not np.isfinite(values).all():
            raise InvalidDataError("finite draws", field=name, value=float(values[~np.isfinite(values)][0]))
    if (draws.s <= 0).any():
        raise InvalidDataError("positive draws", field="s", value=float(draws.s.min()))
    if (draws.w < 0).any() or not sums_to_one(draws.w.sum(axis=1)).all():
        worst = int(np.abs(draws.w.clip(min=0).sum(axis=1) - 1).argmax())
        raise InvalidDataError("nonnegative weights that sum to 1", field="w", value=draws.w[worst].tolist())


def _order(field: str, given: tuple[str, ...], wanted: tuple[str, ...]) -> list[int] | None:
    """Say where the wanted names are among the given ones; None if they are in place."""
    if given == wanted:
        return None
    if sorted(given) != sorted(wanted):
        raise InvalidDataError(f"{list(wanted)}, as in the fit", field=field, value=list(given))
    return [given.index(name) for name in wanted]
