"""A start for any router: Cheap's chance as a point estimate, or as draws beside those of a posterior."""

from dataclasses import replace

import numpy as np
import pytest
from posteriors import random_posterior
from scipy import special

from bayes_tacit import Router
from bayes_tacit.policies import NEWTON, TaskRouter, start_from


def test_the_start_of_a_point_estimate_is_the_task_routers_model(example, example_fit):
    router = Router.from_fit(example_fit, alpha=0.3)
    router = replace(router, at_start=start_from(example, router, threshold=0.4, weight=2.0))
    pi = special.expit(
        example_fit.gamma0 + router.standardize(example.dataset["features"].values) @ np.asarray(example_fit.gamma)
    )
    expected = 2 * pi - TaskRouter().fit(example).probability(example)
    np.testing.assert_allclose(router.openings(example), expected, rtol=1e-12)
    assert ((expected >= 0.4) == (router.handoffs(example).values == 0)).all()
    assert 0 < (expected >= 0.4).mean() < 1


def test_draws_of_cheaps_chance_have_the_spread_that_the_curvature_says(rng):
    x = rng.normal(size=(400, 2))
    success = rng.uniform(size=400) < special.expit(0.5 + x @ [1.0, -0.5])
    fit = NEWTON.fit(("a", "b"), x, success)
    models = NEWTON.laplace(fit, x, 20_000, rng)
    drawn = np.array([[model.intercept, *model.slopes] for model in models])
    design = np.column_stack([np.ones(400), fit.standardization.apply(x)])
    p = fit.probability(x)
    hessian = (design.T * (p * (1 - p))) @ design + np.diag([0.0, 1.0, 1.0])
    np.testing.assert_allclose(drawn.mean(axis=0), [fit.intercept, *fit.slopes], atol=0.01)
    np.testing.assert_allclose(np.cov(drawn.T), np.linalg.inv(hessian), atol=0.05 * np.linalg.inv(hessian).max())


@pytest.mark.parametrize("rule", ["mean", 0.1])
def test_a_posterior_has_a_draw_of_cheaps_chance_for_each_of_its_own(example, rule, rng):
    router = Router.from_posterior(random_posterior(rng, example, draws=15), alpha=0.3, rule=rule)
    started = replace(router, at_start=start_from(example, router, threshold=0.5, seed=4))
    n = len(router.draws)
    assert started.at_start.slopes.shape == (n, len(router.feature_names))
    assert np.unique(started.at_start.intercept).size == n
    again = start_from(example, router, threshold=0.5, seed=4)
    np.testing.assert_array_equal(started.at_start.slopes, again.slopes)
    openings = started.openings(example)
    for row in range(0, len(example), 20):
        state = started.start(example.dataset["features"].values[row].tolist())
        assert state.opening.score == pytest.approx(openings[row], rel=1e-13)
        assert state.handoff == (openings[row] >= 0.5)
    assert len(started.thinned(7).draws) == len(started.thinned(7).at_start.intercept) == 7
