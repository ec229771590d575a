"""Fitted parameters with what is needed to apply them to episodes; NumPy is all that it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bayes_tacit import validate
from bayes_tacit.data.timing import TIMINGS, Timing
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.model.design import Design
from bayes_tacit.model.memory import CLOCK
from bayes_tacit.scores.core import PARAMETERS, Draws
from bayes_tacit.scores.provenance import check_provenance, provenance

if TYPE_CHECKING:
    import xarray as xr

    from bayes_tacit.data.episodes import Episodes

DRAWS = 1000
"""Draws of a posterior that a router keeps at most, unless it is told otherwise."""


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
        settled = {
            "diagnostic_names": validate.names("diagnostics", self.diagnostic_names),
            "feature_names": validate.names("features", self.feature_names),
            "feature_mean": _own(self.feature_mean),
            "feature_scale": _own(self.feature_scale),
            "draws": _own_draws(self.draws),
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
        n, d, p = len(np.atleast_1d(self.draws.s)), len(self.weight_names), len(self.feature_names)
        if d == 0 or n == 0:
            raise InvalidDataError(
                "at least one", field="number of diagnostics" if d == 0 else "number of draws", value=0
            )
        validate.finite("feature mean", self.feature_mean, (p,))
        validate.finite("feature scale", self.feature_scale, (p,))
        validate.positive("feature scale", self.feature_scale)
        for name in PARAMETERS:
            validate.finite(name, getattr(self.draws, name), shape_of(name, n, d, p))
        memory = np.atleast_1d(self.draws.memory)
        if np.ndim(self.draws.memory):
            validate.finite("memory", memory, (n,))
        if not ((memory >= 0) & (memory <= 1)).all():
            raise InvalidDataError("numbers from 0 to 1", field="memory", value=memory.tolist())
        validate.simplex("w", self.draws.w)
        validate.positive("s", self.draws.s)

    @property
    def weight_names(self) -> tuple[str, ...]:
        """Names of the weights: those of the diagnostics, and the clock's if there is one."""
        return (*self.diagnostic_names, CLOCK) if self.draws.clock else self.diagnostic_names

    def thinned(self, most: int = DRAWS) -> Self:
        """Keep at most so many draws, taken at even distances from all of them."""
        most = validate.whole("draws", most, 1)
        return self if most >= len(self.draws) else replace(self, draws=self.draws.thinned(most))

    def standardize(self, features: np.ndarray) -> np.ndarray:
        """Standardize raw features (..., feature) as the fit did; columns beyond its features are left out."""
        return (features[..., : len(self.feature_mean)] - self.feature_mean) / self.feature_scale

    def columns_of(self, episodes: Episodes) -> tuple[xr.DataArray, xr.DataArray]:
        """Give the episodes' features and diagnostics in the fit's order of names."""
        from bayes_tacit.data.episodes import Episodes

        if not isinstance(episodes, Episodes):
            raise InvalidDataError("Episodes", field="episodes", value=episodes)
        features, diagnostics = self._features_of(episodes), episodes.dataset["diagnostics"]
        order = order_of("diagnostics of the episodes", episodes.diagnostic_names, self.diagnostic_names)
        if order is not None:
            diagnostics = diagnostics.isel(diagnostic=order)
        return features, diagnostics

    @property
    def n_ungrouped(self) -> int:
        """How many of the features are not intercepts of groups."""
        if self.design is None or self.design.groups is None:
            return len(self.feature_names)
        return len(self.feature_names) - len(self.design.levels[self.design.groups]) - 1

    def _features_of(self, episodes: Episodes) -> xr.DataArray:
        if self.design is None:
            features = episodes.dataset["features"]
            order = order_of("features of the episodes", episodes.feature_names, self.feature_names)
            return features if order is None else features.isel(feature=order)
        import xarray as xr

        from bayes_tacit.model.design import design_matrix

        coords = {"episode": episodes.dataset["episode"].values, "feature": list(self.feature_names)}
        return xr.DataArray(design_matrix(self.design, episodes), coords=coords, dims=("episode", "feature"))


def shape_of(parameter: str, draws: int, weights: int, features: int) -> tuple[int, ...]:
    """Give the shape of a parameter's array.

    Examples
    --------
    >>> shape_of("w", draws=1000, weights=4, features=2), shape_of("s", draws=1000, weights=4, features=2)
    ((1000, 4), (1000,))
    """
    columns = {"w": (weights,), "gamma": (features,), "beta": (features,)}
    return (draws, *columns.get(parameter, ()))


def order_of(field: str, given: tuple[str, ...], wanted: tuple[str, ...]) -> list[int] | None:
    """Say where the wanted names are among the given ones; None if they are in place."""
    if given == wanted:
        return None
    if sorted(given) != sorted(wanted):
        raise InvalidDataError(f"{list(wanted)}, as in the fit", field=field, value=list(given))
    return [given.index(name) for name in wanted]


def _own_draws(draws: Draws) -> Draws:
    parameters: dict[str, Any] = {name: _own(getattr(draws, name)) for name in PARAMETERS}
    memory = _own(draws.memory) if isinstance(draws.memory, np.ndarray) else float(draws.memory)
    return replace(draws, **parameters, memory=memory)


def _own(array: np.ndarray) -> np.ndarray:
    copy = np.array(array, dtype=float)
    copy.flags.writeable = False
    return copy
