"""A posterior in a second: normal around the penalized estimate (Laplace), for bands and for what to collect next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Unpack

import numpy as np
import xarray as xr

from bayes_tacit import validate
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.estimates.map_fit import fit_map
from bayes_tacit.estimates.map_result import MapFit
from bayes_tacit.estimates.mixture import MixtureObjective
from bayes_tacit.estimates.objective import minimize_newton
from bayes_tacit.estimates.posterior import constant_data
from bayes_tacit.model.evidence import collect_evidence
from bayes_tacit.model.likelihood import Table, model_data, records_in
from bayes_tacit.model.priors import PaperPrior, prior_to_json
from bayes_tacit.model.spec import ModelSettings, ModelSpec, spec_from
from bayes_tacit.model.strata import Noise

DIMENSIONS = {"w": "diagnostic", "gamma": "feature", "beta": "feature", "lucky_slope": "feature", "lateness": "delay"}

WIDEST = 2.0
"""Standard deviation at most, along a direction of the optimizer's coordinates: logits, and slopes over s."""


@dataclass(frozen=True, eq=False)
class Approximation:
    """A fit with draws around it.

    Attributes
    ----------
    fit
        The penalized estimate.
    objective
        What it minimizes, over the records of the episodes.
    points
        Draws in the objective's coordinates, (draw, coordinate).
    table
        The data, as the model carries them.
    """

    fit: MapFit
    objective: MixtureObjective
    points: np.ndarray
    table: Table

    @cached_property
    def parameters(self) -> dict[str, np.ndarray]:
        """Draws of every parameter, on standardized features and diagnostics in their own units."""
        rows = [self.objective.parameters(point) for point in self.points]
        found = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
        for name in ("gamma", "beta"):
            whole = np.zeros((len(rows), len(self.objective.varying)))
            whole[:, self.objective.varying] = found[name]
            found[name] = whole
        w = np.zeros((len(rows), len(self.fit.w)))
        w[:, self.objective.active if self.fit.spec.weights is None else slice(None)] = found["w"]
        return found | {"w": w if self.fit.spec.weights is None else np.broadcast_to(self.fit.w, w.shape)}

    @cached_property
    def tree(self) -> xr.DataTree:
        """The draws in the shape of a posterior with one chain."""
        found = self.parameters
        for name in ("lateness", "lucky_slope"):
            if parts := [found[key] for key in found if key.startswith(f"{name}[")]:
                found = found | {name: np.stack(parts, axis=1)}
        evidence = self.objective.evidence
        labels: dict[str, list[Any]] = {
            "diagnostic": list(evidence.diagnostic_names),
            "feature": list(evidence.feature_names),
        }
        labels["delay"] = list(records_in(evidence).noise.delays)
        if "w" in self.table:
            found = {name: values for name, values in found.items() if name != "w"}
        kept = {name: values for name, values in found.items() if "[" not in name}
        kept = {name: values for name, values in kept.items() if values.shape[1:] != (0,)}
        dims = {name: ["chain", "draw", *([DIMENSIONS[name]] if name in DIMENSIONS else [])] for name in kept}
        used = {DIMENSIONS[name] for name in kept if name in DIMENSIONS}
        coords = {name: values for name, values in labels.items() if name in used}
        posterior = xr.Dataset({name: (dims[name], values[None]) for name, values in kept.items()}, coords=coords)
        posterior = posterior.assign_coords(chain=[0], draw=np.arange(len(self.points)))
        constant = constant_data(evidence, self.table)
        out = xr.DataTree.from_dict({"posterior": posterior, "constant_data": constant})
        out.attrs = self.fit.to_datatree().attrs | {"inference_method": "laplace"}
        out.attrs["prior"] = prior_to_json(PaperPrior(self.fit.ridge))
        return out


def approximate(
    episodes: Episodes,
    draws: int = 1000,
    *,
    spec: ModelSpec | None = None,
    ridge: float = 0.01,
    seed: int = 0,
    restarts: int = 2,
    **settings: Unpack[ModelSettings],
) -> Approximation:
    """Fit the model, and draw from the normal distribution that its curvature gives.

    Episodes are read as records (`bayes_tacit.model.strata`), exact ones too. A direction of which the data say almost
    nothing is held to a standard deviation of two.
    """
    draws, seed = validate.whole("draws", draws, 2, 100_000), validate.whole("seed", seed, 0)
    model = spec_from(spec, settings)
    model = model if model.noise is not None else replace(model, noise=Noise())
    fit = fit_map(episodes, spec=model, ridge=ridge, seed=seed, restarts=restarts)
    evidence = collect_evidence(episodes, fit.spec).settle_zero_mass().refuse_gaps()
    objective = MixtureObjective.of(evidence, ridge)
    newton = partial(minimize_newton, tolerance=1e-9, max_iterations=100)
    optimum = newton(objective.derivatives, objective.point_of(fit))
    curvature, directions = np.linalg.eigh(objective.evidence.n * optimum.derivatives.hessian)
    root = directions / np.sqrt(np.maximum(curvature, 1 / WIDEST**2))
    points = optimum.point + np.random.default_rng(seed).normal(size=(draws, len(optimum.point))) @ root.T
    inverse_scale = objective.parts(np.arange(len(optimum.point)))[1][-1]
    points[:, inverse_scale] = np.maximum(points[:, inverse_scale], 0.05 * optimum.point[inverse_scale])
    return Approximation(fit, objective, points, model_data(episodes, evidence, None))


def approximate_posterior(episodes: Episodes, draws: int = 1000, **options: Any) -> xr.DataTree:  # noqa: ANN401
    """Return draws from a normal approximation of the posterior, in the shape that `sample_posterior` gives them.

    It takes about as long as `fit_map`. Scores, bands, routers and `compare_models` take it, but no check of a sampler.
    Bands are about right with some hundred records; with few, or where a rate is at the edge of what it can be, sample.

    Parameters
    ----------
    episodes
        Training episodes.
    draws
        How many draws.
    **options
        `ridge`, `seed`, `restarts`, and what the model is, as `fit_map` takes it.

    Examples
    --------
    >>> from bayes_tacit import approximate_posterior, credible_band, load_example
    >>> episodes = load_example()
    >>> band = credible_band(approximate_posterior(episodes), episodes)
    >>> band["mean"].sel(episode="task-0001").values[8:12].round(2)
    array([0.33, 0.49, 0.52, 0.63])
    """
    return approximate(episodes, draws, **options).tree
