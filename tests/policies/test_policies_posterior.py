"""TACIT-Switch from a posterior: the same rule as the router's, in bounded memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import xarray as xr
from policy_worlds import draw_tasks, episodes_of, world_of
from posteriors import random_posterior

from bayes_tacit import Episodes, fit_map, handoff_score, sample_posterior
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.policies import PosteriorTacitSwitch, TacitSwitch
from bayes_tacit.scores import decisive
from bayes_tacit.scores.sources import as_draws


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
    assert len(router.draws) == min(draws, 120)
    assert played(router, episodes) == policy.handoffs(episodes, setting).tolist()
    assert played(router, episodes) == router.handoffs(episodes).values.tolist()
    assert len(set(played(router, episodes))) > 2


@pytest.mark.parametrize("timing", ["post_action", "proposal"])
def test_decisions_of_a_fit_are_those_of_its_router(training, timing):
    policy = TacitSwitch(options={"restarts": 1, "timing": timing}).fit(training)
    setting = policy.candidates.iloc[60]
    episodes = episodes_of(draw_tasks(7, 40))
    assert played(policy.router(setting), episodes) == policy.handoffs(episodes, setting).tolist()


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


def test_results_do_not_depend_on_the_size_of_the_blocks(training, tree, monkeypatch):
    policy = PosteriorTacitSwitch(0.4, tree).fit(training)
    whole = policy.scores(training)
    monkeypatch.setattr(decisive, "GROUP", 3000)
    monkeypatch.setattr(decisive, "BLOCK", 200)
    np.testing.assert_array_equal(policy.scores(training), whole)


def test_memory_stays_far_below_all_draws_of_all_episodes(training):
    tree = random_posterior(np.random.default_rng(5), training, chains=2, draws=500)
    fitted = as_draws(tree)
    features, diagnostics = (xr.concat([array] * 8, "episode") for array in fitted.columns_of(training))
    everything = diagnostics.shape[0] * diagnostics.shape[1] * 1000 * 8
    tracemalloc.start()
    scores = decisive.scores_under(fitted, "mean", features, diagnostics, np.tile(training.n_steps, 8))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert scores.shape == diagnostics.shape[:2]
    assert peak < everything / 5


def test_the_posterior_is_sampled_with_the_options(example):
    options = {"draws": 60, "tune": 150, "chains": 2, "seed": 3, "progress": False}
    here = PosteriorTacitSwitch(options=options).fit(example)
    given = PosteriorTacitSwitch(posterior=sample_posterior(example, **options)).fit(example)
    np.testing.assert_array_equal(here.candidates, given.candidates)
    assert here.estimate.posterior.sizes["draw"] == 60


def test_a_posterior_is_made_from_what_the_view_shows(training, tree):
    asked = []

    def posterior(episodes: Episodes):
        asked.append(episodes)
        return tree

    def view(episodes: Episodes) -> Episodes:
        return Episodes(episodes.dataset.assign(features=2 * episodes.dataset["features"]))

    fitted = PosteriorTacitSwitch(posterior=posterior, view=view).fit(training)
    (seen,) = asked
    np.testing.assert_array_equal(seen.dataset["features"], 2 * training.dataset["features"])
    assert seen.outcomes.tolist() == training.outcomes.tolist()
    expected = PosteriorTacitSwitch(posterior=tree).fit(training).scores(seen)
    np.testing.assert_array_equal(fitted.scores(training), expected)


def test_names_come_from_the_rule():
    assert PosteriorTacitSwitch().name == "TACIT-Switch, posterior mean"
    assert PosteriorTacitSwitch(0.1).name == "TACIT-Switch, posterior 0.1 quantile"
    assert PosteriorTacitSwitch(0.1, name="cautious").name == "cautious"


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


def test_what_is_no_posterior_is_refused(training, tree):
    with pytest.raises(InvalidDataError, match="posterior DataTree"):
        PosteriorTacitSwitch(posterior=lambda _: 3).fit(training)
    fitted = PosteriorTacitSwitch(posterior=tree).fit(training)
    other = Episodes(training.dataset.rename_vars({"nll": "extra"}).assign_coords(diagnostic=["risk", "other"]))
    with pytest.raises(InvalidDataError, match="'doubt' among them"):
        fitted.scores(other)
