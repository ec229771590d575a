"""Tuned policies: where the search begins they are the plain ones, and what they tune keeps to the budget."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from policy_worlds import draw_tasks, episodes_of, world_of
from simulate import quietly

from bayes_tacit import Router, operating_points
from bayes_tacit.data.costs import StepCost
from bayes_tacit.data.counterfactuals import Counterfactuals
from bayes_tacit.data.visible import Visible
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.policies import StepDeferral, TacitSwitch
from bayes_tacit.scores.core import score
from simulations.tuned import (
    PLAIN,
    TRIED,
    Learner,
    Scoring,
    TunedDeferral,
    TunedSwitch,
    frontier_of,
    gains,
    search,
)

FIT = {"ridge": 0.01, "restarts": 2}
CAP = 12.0


@pytest.fixture(scope="module")
def training():
    return episodes_of(draw_tasks(1, 300))


@pytest.fixture(scope="module")
def development():
    return world_of(draw_tasks(2, 250))


@pytest.fixture(scope="module")
def learner():
    return Learner(FIT)


@pytest.fixture(scope="module")
def learned(learner, training):
    return learner(training)


@pytest.fixture(scope="module")
def switch(training, learner):
    return TunedSwitch(learner=learner).fit(training)


@pytest.fixture(scope="module")
def deferral(training):
    return TunedDeferral("risk", n_levels=21).fit(training)


def random_counterfactuals(rng: np.random.Generator, n: int, horizon: int) -> Counterfactuals:
    lengths = rng.integers(1, horizon + 1, n)
    lengths[0] = horizon
    inside = np.arange(horizon) < lengths[:, None]
    return Counterfactuals.from_calls(
        np.arange(n),
        success=np.where(inside, rng.integers(0, 2, (n, horizon)), np.nan),
        strong_calls=np.where(inside, rng.integers(1, 9, (n, horizon)), np.nan),
        never_success=rng.integers(0, 2, n),
        cost=StepCost(cheap=1, strong=3),
    )


@given(st.integers(0, 10_000), st.sampled_from(["post_action", "proposal"]))
def test_the_frontier_is_what_each_of_its_thresholds_gives(seed, timing):
    rng = np.random.default_rng(seed)
    known = random_counterfactuals(rng, int(rng.integers(1, 12)), 4)
    # Few values, so that many are equal.
    scores = rng.integers(0, 6, (len(known), 4)) / 5
    scores[np.arange(4) >= known.n_steps[:, None]] = np.nan
    table = known.table(discards_proposal=timing == "proposal")
    front = frontier_of(scores, known.n_steps, table, timing)
    points = operating_points(scores, known, front.alpha[:0:-1], timing) if len(front.alpha) > 1 else None
    assert front.success[0] == pytest.approx(known.pure_cheap.success.mean())
    assert front.cost[0] == pytest.approx(known.pure_cheap.cost.mean())
    if points is not None:
        np.testing.assert_allclose(front.success[:0:-1], points["success"])
        np.testing.assert_allclose(front.cost[:0:-1], points["cost"])


@given(st.integers(0, 1_000))
def test_no_threshold_of_the_frontier_is_near_a_score(seed):
    rng = np.random.default_rng(seed)
    known = random_counterfactuals(rng, 8, 4)
    scores = rng.random((8, 4))
    front = frontier_of(scores, known.n_steps, known.table(), "post_action")
    assert (np.diff(front.alpha) < 0).all()
    for alpha in front.alpha[1:]:
        assert ((scores * (1 + 1e-12) >= alpha) == (scores * (1 - 1e-12) >= alpha)).all()


@pytest.mark.parametrize("alpha", [0.05, 0.2, 0.5])
def test_with_plain_numbers_it_is_tacit_switch(training, development, switch, alpha):
    plain = TacitSwitch(options=FIT).fit(training)
    ours, theirs = (one.outcomes(development, {"alpha": alpha}) for one in (switch, plain))
    np.testing.assert_array_equal(ours.success, theirs.success)
    np.testing.assert_array_equal(ours.cost, theirs.cost)
    assert theirs.strong_calls.sum() > 0


def test_what_is_tuned_is_a_model_of_the_same_kind(development, learned):
    """The scores are those of a point estimate with other parameters, which a router can carry."""
    rng = np.random.default_rng(1)
    seen = Visible.of(development.episodes)
    for _ in range(20):
        numbers = {name: float(rng.choice(values)) for name, values in TRIED.items()}
        numbers["memory"] = float(rng.choice(list(learned.fits)))
        fit, draws = learned.fits[numbers["memory"]], learned.draws(numbers)
        assert draws.w.sum() == pytest.approx(1)
        x = (seen.features - fit.feature_mean) / fit.feature_scale
        risk = draws.cumulative_risk(seen.diagnostics)[:, :, 0]
        q = score(draws.incidence(x), draws.location(x), draws.s, risk, draws.family)
        paced = q * np.exp(numbers["pace"] * np.arange(q.shape[1]))
        np.testing.assert_allclose(Scoring(learned, seen).paced(numbers), paced, rtol=1e-9)


def test_the_score_of_the_start_is_the_gain_in_success_from_features_alone(development, learned):
    seen = Visible.of(development.episodes)
    numbers = dict(PLAIN) | {"start_weight": 2.0}
    fit, cheap = learned.fits[1.0], learned.cheap
    x = (seen.features - fit.feature_mean) / fit.feature_scale
    strong = 1 / (1 + np.exp(-(fit.gamma0 + x @ fit.gamma)))
    expected = 2 * strong - cheap.probability(seen.features)
    np.testing.assert_allclose(Scoring(learned, seen).start(numbers), expected)


@pytest.mark.parametrize("handoff", ["resume", "restart"])
def test_what_is_chosen_keeps_to_the_cap_and_is_no_worse_than_where_it_began(training, development, handoff):
    fitted = TunedSwitch(learner=Learner(FIT), handoff=handoff).fit(training)
    plain = TacitSwitch(options=FIT, handoff=handoff).fit(training)
    choice = fitted.choose(development, CAP)
    played = fitted.outcomes(development, choice.point).point()
    assert played["cost"] <= CAP * (1 + 1e-9)
    assert {name: choice.point[name] for name in played} == pytest.approx(played)
    # The search averages over budgets around the cap, so at the cap itself it may lose a task or two.
    assert played["success"] >= plain.choose(development, CAP).success - 0.02


def test_a_start_gives_strong_the_task_at_the_price_of_pure_strong(development, switch):
    setting = {"alpha": np.inf, "start": -1e9}
    ours, strong = switch.outcomes(development, setting), development.counterfactuals.pure_strong
    np.testing.assert_array_equal(ours.cost, strong.cost)
    np.testing.assert_array_equal(ours.success, strong.success)


def test_a_discarded_first_proposal_is_charged_and_a_start_is_not(training, development):
    fitted = TunedSwitch(learner=Learner(FIT | {"timing": "proposal"})).fit(training)
    alpha = np.nextafter(0, 1)
    crossed = fitted.handoffs(development.episodes, {"alpha": alpha}) == 0
    later = fitted.outcomes(development, {"alpha": alpha})
    started = fitted.outcomes(development, {"alpha": alpha, "start": -1e9})
    assert crossed.sum() > 50
    np.testing.assert_allclose(later.cost[crossed] - started.cost[crossed], 1.0)


def test_policies_that_share_a_learner_learn_once(training):
    learner = Learner(FIT)
    first = learner(training)
    TunedSwitch(("memory",), learner).fit(training)
    assert learner(training) is first
    assert learner(episodes_of(draw_tasks(9, 200))) is not first


def test_only_what_is_searched_changes(training, development):
    choice = TunedSwitch(("memory",), Learner(FIT)).fit(training).choose(development, CAP)
    for name, value in PLAIN.items():
        assert name == "memory" or choice.point[name] == value


def test_a_cap_below_every_cost_is_refused_with_the_lowest(development, switch, deferral):
    lowest = development.counterfactuals.pure_cheap.cost.mean()
    for fitted in (switch, deferral):
        with pytest.raises(InvalidDataError, match=r"cap is 0\.5; expected at least"):
            fitted.choose(development, 0.5)
    assert lowest > 0.5


def test_unknown_numbers_and_those_that_are_searched_are_refused():
    with pytest.raises(InvalidDataError, match="searched"):
        TunedSwitch(("memry",))
    with pytest.raises(InvalidDataError, match="memory"):
        Learner({"memory": 0.5})


def test_a_gain_by_chance_moves_nothing():
    rng = np.random.default_rng(0)
    moved = 0
    for _ in range(200):
        noise = {value: rng.integers(0, 2, 50).astype(float) for value in (0.0, 1.0)}
        found, _ = search({"a": 0.0}, {"a": (0.0, 1.0)}, lambda some, noise=noise: noise[some["a"]])
        moved += found["a"] != 0.0
    # Half would move without a guard; beyond half a standard error it is some 31%.
    assert 0.2 < moved / 200 < 0.42
    assert not gains(np.array([1.0, 0.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0, 0.0]))


def test_deferral_by_task_begins_as_step_deferral(training, development, deferral):
    plain = StepDeferral("risk").fit(training)
    for level in (3, 10, 18):
        setting = deferral.candidates.iloc[level]
        ours = deferral.outcomes(development, setting)
        theirs = plain.outcomes(development, {"alpha": deferral.router(setting).rule.levels[level]})
        np.testing.assert_array_equal(ours.success, theirs.success)
        np.testing.assert_array_equal(ours.cost, theirs.cost)


def test_the_timing_of_deferral_by_task_is_its_routers(training, deferral):
    setting = deferral.candidates.iloc[3]
    assert deferral.router(setting).timing == "post_action"
    proposing = TunedDeferral("risk", n_levels=21, timing="proposal").fit(training)
    assert proposing.router(setting).timing == "proposal"
    with pytest.raises(InvalidDataError, match="timing is 'later'"):
        TunedDeferral("risk", timing="later")


def test_deferral_by_task_keeps_to_the_cap(development, deferral):
    choice = deferral.choose(development, CAP)
    assert deferral.outcomes(development, choice.point).cost.mean() <= CAP * (1 + 1e-9)


def test_outcomes_do_not_reach_decisions(development, switch, deferral, learned):
    rng = np.random.default_rng(3)
    dataset = development.episodes.dataset.copy(deep=True)
    n = len(development)
    dataset["cheap_success"] = ("episode", rng.random(n) < 0.5)
    dataset["strong_success"] = ("episode", rng.random(n) < 0.5)
    for name in ("window_start", "window_end"):
        dataset[name] = ("episode", np.full(n, np.nan))
    scrambled = quietly(dataset)
    setting = {"alpha": 0.1, "memory": next(iter(learned.fits)), "pace": 0.1, "start": 0.4, "cheap": 0.3}
    np.testing.assert_array_equal(switch.handoffs(development.episodes, setting), switch.handoffs(scrambled, setting))
    shifted = {"level": 10.0, "cheap": 5.0, "strong": -3.0, "start_weight": 1.0}
    router = deferral.router(shifted)
    found = [router.score(one).thresholds for one in (development.episodes, scrambled)]
    np.testing.assert_array_equal(*found)


SETTINGS = [
    {"alpha": 0.3},
    {"alpha": 0.35, "memory": 0.5, "pace": 0.2, "clock": 0.1, "incidence": 1.5, "location": 0.5, "cheap": 0.3},
    {"alpha": 1.3, "memory": 0.0, "pace": 0.3, "start": 0.1, "start_weight": 2.0},
    {"alpha": 0.2, "memory": 1.0, "pace": -0.2, "clock": 0.2, "start": -0.1, "start_weight": 0.5},
    {"alpha": np.inf, "start": 0.0},
    {"alpha": np.inf},
]


@pytest.mark.parametrize("place", range(len(SETTINGS) + 1))
def test_the_router_of_a_setting_hands_off_where_the_policy_does(switch, development, place):
    setting = SETTINGS[place] if place < len(SETTINGS) else switch.choose(development, CAP).point
    episodes = development.episodes
    router = Router.from_json(switch.router(setting).to_json())
    expected = switch.handoffs(episodes, setting)
    np.testing.assert_array_equal(router.handoffs(episodes).values, expected)
    for row in range(0, len(episodes), 5):
        state = router.start(episodes.dataset["features"].values[row].tolist())
        for u in episodes.dataset["diagnostics"].values[row, : episodes.n_steps[row]]:
            state.observe(u.tolist())
        step = -1 if state.handoff_step is None else state.handoff_step + 1
        assert step == expected[row]


def test_the_start_is_the_same_on_features_that_are_standardized_otherwise(learned, development):
    numbers = dict(PLAIN) | {"start_weight": 1.5}
    own = learned.cheap.standardization
    moved = replace(own, mean=own.mean + 1.0, scale=own.scale * 2)
    shift = learned.cheap.slopes * (moved.mean - own.mean) / own.scale
    slopes = learned.cheap.slopes * 2
    other = replace(
        learned.cheap, standardization=moved, intercept=learned.cheap.intercept + shift.sum(), slopes=slopes
    )
    fitted = learned.fitted(numbers)
    router = Router.of(fitted, 0.3, start=replace(learned, cheap=other).start(numbers), alpha_start=0.1)
    expected = Scoring(learned, Visible.of(development.episodes)).start(numbers)
    np.testing.assert_allclose(router.score(development.episodes).opening, expected, rtol=1e-12)


def test_a_tuned_policys_router_plays_its_own_start(switch, development):
    router = switch.router({"alpha": 0.3, "start": -1.0})
    features = dict.fromkeys(development.episodes.feature_names, 0.0)
    assert (router.policy, router.start(features).opening.call) == ("tacit_switch", "strong")
