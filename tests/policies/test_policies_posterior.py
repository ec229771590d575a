"""TACIT-Switch from a posterior: the same rule as the router's, in bounded memory."""

from __future__ import annotations

import numpy as np
import pytest
from policy_worlds import draw_tasks, episodes_of, world_of
from posteriors import random_posterior
from scipy import special

from bayes_tacit import Episodes, Router, fit_map, handoff_score, incidence, sample_posterior
from bayes_tacit.errors import EvidenceError, InvalidDataError
from bayes_tacit.policies import NEWTON, PosteriorTacitSwitch, TacitSwitch, TaskRouter, start_from


@pytest.fixture(scope="module")
def training() -> Episodes:
    return episodes_of(draw_tasks(1, 300))


@pytest.fixture(scope="module")
def tree(training):
    return random_posterior(np.random.default_rng(5), training, chains=3, draws=40)


@pytest.mark.parametrize("rule", ["mean", 0.1, 0.5, 0.93])
def test_scores_are_the_rule_applied_to_all_draws(training, tree, rule):
    everything = handoff_score(tree, training).stack(sample=("chain", "draw"))
    expected = everything.mean("sample") if rule == "mean" else everything.quantile(rule, "sample", skipna=False)
    scores = PosteriorTacitSwitch(rule, tree).fit(training).scores(training)
    np.testing.assert_allclose(scores, expected.values, rtol=1e-12)


@pytest.mark.parametrize("rule", ["mean", 0.25])
@pytest.mark.parametrize("draws", [1000, 30])
def test_decisions_are_those_of_the_router_that_an_agent_runs(training, tree, rule, draws):
    policy = PosteriorTacitSwitch(rule, tree, draws=draws).fit(training)
    setting = policy.candidates.iloc[60]
    router, episodes = policy.router(setting), episodes_of(draw_tasks(7, 40))
    assert len(router.rule.s) == min(draws, 120)
    assert played(router, episodes) == policy.handoffs(episodes, setting).tolist()
    assert played(router, episodes) == router.handoffs(episodes).values.tolist()
    assert len(set(played(router, episodes))) > 2


def played(router, episodes: Episodes) -> list[int]:
    """Run every episode through the router, step by step; give the step from which Strong acts."""
    out = []
    for row, n_steps in enumerate(episodes.n_steps):
        state = router.start(episodes.dataset["features"].values[row].tolist())
        handoff = -1
        for step in range(n_steps):
            decision = state.observe(episodes.dataset["diagnostics"].values[row, step].tolist())
            if decision.handoff:
                handoff = step + (router.timing == "post_action")
                break
        out.append(handoff)
    return out


def test_one_draw_is_the_fit_itself(training):
    fit = fit_map(training, restarts=1)
    world = world_of(draw_tasks(8, 50))
    by_fit = TacitSwitch(estimator=lambda _: fit).fit(training)
    for rule in ("mean", 0.3):
        by_draw = PosteriorTacitSwitch(rule, fit.to_datatree()).fit(training)
        np.testing.assert_array_equal(by_draw.candidates, by_fit.candidates)
        np.testing.assert_array_equal(by_draw.operating_points(world), by_fit.operating_points(world))


def test_a_lower_quantile_hands_off_later_at_the_same_threshold(training, tree):
    low, high = (PosteriorTacitSwitch(rule, tree).fit(training) for rule in (0.1, 0.9))
    for alpha in (0.1, 0.3, 0.5):
        late, early = (policy.handoffs(training, {"alpha": alpha}) for policy in (low, high))
        both = late >= 0
        assert (early[both] >= 0).all()
        assert (early[both] <= late[both]).all()
        assert (early >= 0).sum() > both.sum()


def test_the_posterior_is_sampled_with_the_options(example):
    options = {"draws": 60, "tune": 150, "chains": 2, "seed": 3, "progress": False}
    here = PosteriorTacitSwitch(options=options).fit(example)
    given = PosteriorTacitSwitch(posterior=sample_posterior(example, **options)).fit(example)
    np.testing.assert_array_equal(here.candidates, given.candidates)
    assert here.estimate.posterior.sizes["draw"] == 60


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rule": "median"}, "rule"),
        ({"rule": 1.0}, "rule"),
        ({"draws": 0}, "draws"),
        ({"posterior": len, "options": {"seed": 1}}, "options"),
        ({"candidates": [0.1]}, "candidates"),
    ],
)
def test_bad_settings_are_refused_at_once(settings, message):
    with pytest.raises(InvalidDataError, match=message):
        PosteriorTacitSwitch(**settings)


# A start beside a router


def test_the_start_of_a_point_estimate_is_the_task_routers_model(example, example_fit):
    router = Router.from_fit(example_fit, alpha=0.3)
    router = start_from(example, router, threshold=0.4, weight=2.0)
    pi = special.expit(
        example_fit.gamma0
        + ((example.dataset["features"].values - router.rule.mean) / router.rule.scale) @ example_fit.gamma
    )
    expected = 2 * pi - 1 + TaskRouter().fit(example).router({"alpha": 0.5}).score(example).opening
    np.testing.assert_allclose(router.score(example).opening, expected, rtol=1e-12)
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
    started = start_from(example, router, threshold=0.5, seed=4)
    n, start = len(router.rule.s), started.rule.start
    assert start.slopes.shape == (n, len(router.feature_names))
    assert np.unique(start.intercept).size == n
    again = start_from(example, router, threshold=0.5, seed=4)
    np.testing.assert_array_equal(start.slopes, again.rule.start.slopes)
    openings = started.score(example).opening
    for row in range(0, len(example), 20):
        state = started.start(example.dataset["features"].values[row].tolist())
        assert state.opening.score == pytest.approx(openings[row], rel=1e-13)
        assert state.handoff == (openings[row] >= 0.5)


def hopeless(seed: int) -> Episodes:
    """Tasks that Strong solves the less often the more Cheap's rollout has shown at its end."""
    episodes, rng = episodes_of(draw_tasks(seed, 600)), np.random.default_rng(seed)
    total = episodes.dataset["diagnostics"].sum(["step", "diagnostic"]).values
    strong = rng.random(600) < special.expit(total.mean() - total)
    due = strong & ~episodes.dataset["cheap_success"]
    windows = {name: episodes.dataset[name].where(due) for name in ("window_start", "window_end")}
    return Episodes(episodes.dataset.assign(strong_success=("episode", strong), **windows))


@pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")
@pytest.mark.parametrize("options", [{"memory": 0.8}, {}])
def test_landmark_incidence_learns_from_the_rollout_what_the_features_do_not_say(options):
    training, test = hopeless(3), hopeless(4)
    landmark = TacitSwitch(options=options, landmark=True).fit(training)
    plain = incidence(landmark.estimate, test)
    due = handoff_score(landmark.estimate, test) / plain
    router = landmark.router(landmark.candidates.iloc[50])
    pi = np.full(due.shape, np.nan)
    for row, n_steps in enumerate(test.n_steps):
        state = router.start(test.dataset["features"].values[row].tolist())
        for step in range(n_steps):
            pi[row, step] = state.observe(test.dataset["diagnostics"].values[row, step].tolist()).pi
    np.testing.assert_allclose(landmark.scores(test), pi * due.values, atol=1e-12)
    last, strong = pi[np.arange(600), test.n_steps - 1], test.dataset["strong_success"].values
    wrong = [-np.log(np.where(strong, p, 1 - p)).mean() for p in (last, plain.values)]
    assert wrong[0] < wrong[1] - 0.05
    assert (np.diff(landmark.scores(test), axis=1) < 0).any(), "such a score may fall"
    assert played(router, test) == router.handoffs(test).values.tolist()


@pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")
def test_landmark_incidence_needs_both_of_strongs_outcomes(training):
    always = Episodes(training.dataset.assign(strong_success=("episode", np.ones(len(training), dtype=bool))))
    fit = fit_map(training)
    with pytest.raises(EvidenceError, match="Strong succeeds in 300 of 300 training rollouts; expected both"):
        TacitSwitch(lambda _: fit, landmark=True).fit(always)
