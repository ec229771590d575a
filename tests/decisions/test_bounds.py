import numpy as np
import pytest
from handoff_worlds import BUDGET, COST, random_world
from hypothesis import given, settings
from hypothesis import strategies as st
from simulate import quietly

from bayes_tacit import StepCost, bounds_from_logs, operating_points, suggest_alpha
from bayes_tacit.data.timing import NEVER, handoff_steps
from bayes_tacit.decisions.bounds import ASSUMPTIONS
from bayes_tacit.decisions.selection import first_crossings
from bayes_tacit.errors import InvalidDataError

ALPHAS = np.linspace(0.05, 1, 7)
TIMINGS = st.sampled_from(["post_action", "proposal"])


def bounds_of(world, timing="post_action", alphas=ALPHAS, **settings):
    given = {"cost": COST, "step_budget": BUDGET, "strong_steps": "strong_steps"} | settings
    return bounds_from_logs(world.scores, world.episodes, alphas, timing, **given)


def truth_of(world, timing, alphas=ALPHAS):
    return operating_points(world.scores, world.counterfactuals, alphas, timing)


def assert_contains(table, truth):
    for name in ("success", "cost"):
        assert (table[f"{name}_low"] <= truth[name] + 1e-12).all()
        assert (table[f"{name}_high"] >= truth[name] - 1e-12).all()


# What bounds are


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), TIMINGS)
def test_certain_bounds_contain_the_truth_whatever_it_is(seed, timing):
    world = random_world(seed)
    bounds, truth = bounds_of(world, timing), truth_of(world, timing)
    assert_contains(bounds.certain, truth)
    np.testing.assert_allclose(bounds.certain["intervention_rate"], truth["intervention_rate"])


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), TIMINGS)
def test_narrowed_bounds_contain_the_truth_where_the_assumptions_hold(seed, timing):
    world = random_world(seed, obedient=True)
    assert_contains(bounds_of(world, timing).narrowed, truth_of(world, timing))


@pytest.mark.parametrize("timing", ["post_action", "proposal"])
def test_certain_bounds_are_reached_so_no_log_could_narrow_them(timing):
    for seed in range(10):
        worst, best = (random_world(seed, middle=middle) for middle in ("worst", "best"))
        bounds = bounds_of(worst, timing).certain
        np.testing.assert_allclose(bounds["success_low"], truth_of(worst, timing)["success"])
        np.testing.assert_allclose(bounds["cost_high"], truth_of(worst, timing)["cost"])
        np.testing.assert_allclose(bounds["success_high"], truth_of(best, timing)["success"])
        np.testing.assert_allclose(bounds["cost_low"], truth_of(best, timing)["cost"])


def test_where_nothing_is_handed_off_all_is_known():
    world = random_world(1)
    row = bounds_of(world, alphas=[2.0]).certain.iloc[0]
    pure = world.counterfactuals.pure_cheap.point()
    assert row["success_low"] == row["success_high"] == pure["success"]
    assert row["cost_low"] == row["cost_high"] == pure["cost"]
    assert row["known"] == 1


def test_the_first_proposal_discarded_is_strongs_own_rollout_and_one_more_call():
    world = random_world(1)
    row = bounds_of(world, "proposal", alphas=[0.0]).certain.iloc[0]
    pure = world.counterfactuals.pure_strong.point()
    assert row["success_low"] == row["success_high"] == pure["success"]
    np.testing.assert_allclose([row["cost_low"], row["cost_high"]], pure["cost"] + COST.cheap)
    unknown_length = bounds_of(world, "proposal", alphas=[0.0], strong_steps=None).certain.iloc[0]
    assert unknown_length["success_low"] == unknown_length["success_high"]
    assert unknown_length["cost_low"] == COST.cheap + COST.strong
    assert unknown_length["cost_high"] == COST.cheap + BUDGET * COST.strong


@pytest.mark.parametrize("timing", ["post_action", "proposal"])
def test_each_assumption_narrows_what_it_says_and_nothing_else(timing):
    world = random_world(11, n=200)
    episodes, n_steps = world.episodes, world.episodes.n_steps
    handoff = handoff_steps(first_crossings(world.scores, 0.6), timing)
    between = (handoff != NEVER) & (handoff > 0) & (handoff < n_steps)
    end = episodes.dataset["window_end"].values
    expected = {
        "window": ("success_low", between & (episodes.outcomes == "01") & (handoff <= end + 1)),
        "both_succeed": ("success_low", between & (episodes.outcomes == "11")),
        "both_fail": ("success_high", between & (episodes.outcomes == "00")),
    }
    for name, (side, concerned) in expected.items():
        bounds = bounds_of(world, timing, alphas=[0.6], assumptions=[name])
        change = (bounds.narrowed - bounds.certain).iloc[0]
        assert concerned.any()
        assert change[side] == pytest.approx(concerned.mean() if side == "success_low" else -concerned.mean())
        assert change.drop([side, "known"]).eq(0).all()
        assert bounds.assumptions == {name: ASSUMPTIONS[name]}


def test_a_handoff_after_the_window_stays_open():
    world = random_world(11, n=1500)
    handoff = handoff_steps(first_crossings(world.scores, 0.8), "post_action")
    late = (handoff > world.episodes.dataset["window_end"].values + 1) & (handoff < world.episodes.n_steps)
    bounds = bounds_from_logs(
        world.scores[late], world.episodes.take(late), [0.8], "post_action", cost=COST, step_budget=BUDGET
    )
    assert late.sum() > 3
    assert bounds.narrowed.loc[0, ["success_low", "success_high"]].tolist() == [0, 1]


def test_strongs_own_length_bounds_the_cost_where_there_is_no_budget():
    world = random_world(5, obedient=True)
    bounds = bounds_of(world, step_budget=None)
    assert np.isinf(bounds.certain["cost_high"].iloc[0])
    assert_contains(bounds.certain, truth_of(world, "post_action"))
    assert np.isfinite(bounds.narrowed["cost_high"]).all()
    assert_contains(bounds.narrowed, truth_of(world, "post_action"))
    assert "strong_length" not in bounds_of(world, strong_steps=None).assumptions


# The suggestion


def test_the_suggestion_has_the_highest_lower_bound_of_success_within_the_cap():
    for seed in range(20):
        bounds = bounds_of(random_world(seed))
        table = bounds.narrowed
        cap = float(np.median(table["cost_high"]))
        suggestion = suggest_alpha(bounds, cap)
        within = table[table["cost_high"] <= cap]
        assert suggestion.bounds["success_low"] == within["success_low"].max()
        assert suggestion.bounds["cost_high"] <= cap
        best = within[within["success_low"] == within["success_low"].max()]
        assert suggestion.bounds["cost_high"] == best["cost_high"].min()
        assert suggestion.beats_cheap == (suggestion.bounds["success_low"] > bounds.cheap_success)


def test_without_assumptions_the_suggestion_is_to_hand_off_as_little_as_possible(example, example_fit):
    from bayes_tacit import handoff_score

    scores = handoff_score(example_fit, example)
    bounds = bounds_from_logs(scores, example, [0.1, 0.3, 0.9, 1], "post_action", cost=StepCost(1, 3), step_budget=30)
    suggestion = suggest_alpha(bounds, 100, using="certain")
    assert suggestion.alpha == 1
    assert not suggestion.beats_cheap
    assert "these bounds do not show that handing off at this alpha is better" in str(suggestion)
    assert "Nothing is assumed" in str(suggestion)


def test_the_reasons_state_each_assumption_and_the_numbers():
    bounds = bounds_of(random_world(2))
    suggestion = suggest_alpha(bounds, 100)
    text = str(suggestion)
    for name, statement in ASSUMPTIONS.items():
        assert f"Assumed ({name}): {statement}" in text
    assert f"between {suggestion.bounds['success_low']:.1%} and {suggestion.bounds['success_high']:.1%}" in text
    assert f"Never handing off succeeds in {bounds.cheap_success:.1%}" in text
    certain = bounds.certain[bounds.certain["alpha"] == suggestion.alpha].iloc[0]
    assert f"success is between {certain['success_low']:.1%} and {certain['success_high']:.1%}, cost" in text
    assert f"Strong from the start succeeded in {bounds.strong_success:.1%}, at a cost of" in text
    assert repr(bounds).startswith("<Bounds: 7 thresholds on 30 logged episodes; narrowed by window, both_succeed")


def test_the_cost_of_pure_strong_is_exact_where_its_lengths_are_known_and_bounded_otherwise():
    world = random_world(3)
    known, unknown = bounds_of(world), bounds_of(world, strong_steps=None)
    exact = float(world.counterfactuals.pure_strong.cost.mean())
    assert known.strong_cost_low == known.strong_cost_high == pytest.approx(exact)
    assert unknown.strong_cost_low <= exact <= unknown.strong_cost_high


# What is refused


def test_lengths_of_strong_rollouts_are_checked():
    world = random_world(2, n=4)
    for value in (0, 1.5, np.nan):
        lengths = world.episodes.dataset["strong_steps"].values.astype(float).copy()
        lengths[2] = value
        episodes = quietly(world.episodes.dataset.assign(strong_steps=("episode", lengths)))
        with pytest.raises(InvalidDataError, match=r"episode 'task-2': strong_steps is .*expected a whole number >= 1"):
            bounds_from_logs(world.scores, episodes, ALPHAS, "proposal", cost=COST, strong_steps="strong_steps")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"step_budget": None, "strong_steps": None}, "step_budget is None; expected a step budget, or strong_steps"),
        ({"step_budget": 5}, "step_budget is 5; expected at least 9, the longest rollout"),
        ({"step_budget": 5, "strong_steps": None}, "step_budget is 5; expected at least 6, the longest rollout"),
        ({"step_budget": 9.5}, "step_budget is 9.5; expected a whole number >= 1"),
        ({"strong_steps": "length"}, "strong_steps is 'length'; expected the name of a variable"),
        ({"strong_steps": "cheap_success"}, "strong_steps is 'cheap_success'; expected the name of a variable"),
        ({"assumptions": ["hope"]}, "assumption is 'hope'; expected 'window' or"),
        ({"assumptions": "window"}, "assumptions is 'window'; expected a list of names"),
        ({"assumptions": ["strong_length"], "strong_steps": None}, "strong_steps is None; expected strong_steps"),
        ({"timing": "later"}, "timing is 'later'"),
        ({"alphas": []}, "alpha is .*; expected a list of at least one number"),
    ],
)
def test_wrong_settings_are_refused(changes, message):
    with pytest.raises(InvalidDataError, match=message):
        bounds_of(random_world(2), **changes)


def test_scores_with_other_ids_are_refused(example, example_fit):
    from bayes_tacit import handoff_score

    scores = handoff_score(example_fit, example)[::-1]
    with pytest.raises(InvalidDataError, match="episode 0 of the scores is 'task-1199'; expected 'task-0000'"):
        bounds_from_logs(scores, example, [0.3], "post_action", cost=COST, step_budget=30)


def test_a_cap_that_nothing_meets_for_certain_is_refused():
    bounds = bounds_of(random_world(2), step_budget=None)
    lowest = bounds.narrowed["cost_high"].min()
    with pytest.raises(InvalidDataError, match=f"cap is 0.0; expected at least {lowest:.6g}, the lowest upper bound"):
        suggest_alpha(bounds, 0)
    with pytest.raises(InvalidDataError, match="upper bound of the cost is inf; expected finite for some alpha"):
        suggest_alpha(bounds, 100, using="certain")
    with pytest.raises(InvalidDataError, match="using is 'luck'; expected 'narrowed' or 'certain'"):
        suggest_alpha(bounds, 100, using="luck")
    with pytest.raises(InvalidDataError, match="cap is nan; expected a finite number"):
        suggest_alpha(bounds, np.nan)
