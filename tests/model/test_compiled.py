"""The compiled density is the PyMC model's, in value and gradient, wherever it stands in for it."""

from __future__ import annotations

import numpy as np
import pytest
from pytensor.compile.mode import get_mode
from simulate import simulate_model

from bayes_tacit import Episodes, WeaklyInformativePrior
from bayes_tacit.model.build import state_model
from bayes_tacit.model.compiled import FAMILIES, compiles, density_of
from bayes_tacit.model.evidence import Evidence, collect_evidence
from bayes_tacit.model.likelihood import CrossingSteps, model_data

PRIOR = WeaklyInformativePrior(0.9, 1.2, 1.4, 0.6, 0.5, 0.8, 0.7)
MODELS = {
    **{family: {"family": family} for family in FAMILIES},
    "weights fixed": {"weights": [0.1, 0.2, 0.3, 0.4]},
    "memory and clock, a formula": {"memory": 0.7, "clock": True, "features": "x0:x1 + bs(x2, df=4)"},
}


@pytest.fixture(scope="module")
def episodes() -> Episodes:
    return simulate_model(np.random.default_rng(8), 150)


def both_at(episodes: Episodes, evidence: Evidence, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Value and gradient at points, one row each: ours, and PyMC's."""
    crossing = CrossingSteps(episodes, evidence)
    table = model_data(episodes, evidence, crossing)
    model = state_model(evidence, PRIOR, crossing, table)
    density = density_of(evidence, PRIOR, float(table["typical_log_threshold"][1]))
    order = [model[name] for name in ("gamma0", "beta0", "s", "gamma", "beta", "w") if model[name] in model.free_RVs]
    start = model.initial_point()
    shapes = {(name := model.rvs_to_values[each].name): np.shape(start[name]) for each in order}
    # With the rewrites that nutpie asks for: log(1 - sigmoid) loses its digits where the graph is taken as it stands.
    mode = get_mode("FAST_COMPILE").including("canonicalize", "stabilize", "specialize")
    value, slope = model.compile_logp(mode=mode), model.compile_dlogp(order, mode=mode)
    ours, theirs = [], []
    for point in points[:, : density.size]:
        parts = np.split(point, np.cumsum([int(np.prod(shape)) for shape in shapes.values()])[:-1])
        named = {name: part.reshape(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}
        one, gradient = density(point)
        ours.append([one, *gradient])
        theirs.append([value(named), *slope(named)])
    return np.array(ours), np.array(theirs)


@pytest.mark.parametrize("name", MODELS)
def test_value_and_gradient_are_pymcs_near_and_far(episodes, name):
    rng = np.random.default_rng(3)
    points = np.concatenate([scale * rng.standard_normal((12, 60)) for scale in (0.3, 1.0, 2.5)])
    evidence = collect_evidence(episodes, **MODELS[name]).settle_zero_mass()
    assert compiles(evidence, PRIOR)
    ours, theirs = both_at(episodes, evidence, points)
    assert np.isfinite(theirs).all()
    size = np.abs(theirs).max(axis=1, keepdims=True)
    assert (np.abs(ours - theirs) / size).max() < 1e-10
