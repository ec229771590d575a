import numpy as np
import pandas as pd
import pytest
import xarray as xr
from handoff_worlds import random_world
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from bayes_tacit import Counterfactuals, Outcomes, StepCost, choose, operating_points
from bayes_tacit.data.timing import NEVER, handoff_steps
from bayes_tacit.decisions.selection import (
    Candidates,
    bootstrap,
    efficient_frontier,
    first_crossings,
    fixed_grid,
    score_quantiles,
    target_switch_rates,
)
from bayes_tacit.errors import InvalidDataError

NAN = np.nan
FEW = st.integers(0, 3)
SCORES = arrays(float, st.tuples(st.integers(1, 6), st.integers(1, 8)), elements=st.floats(0, 1))
TABLES = st.lists(st.tuples(FEW, FEW, FEW, FEW, FEW), min_size=1, max_size=12)
"""Tables with few values, so that ties of every kind are common."""


def table_from(rows):
    table = pd.DataFrame(rows, columns=["success", "cost", "intervention_rate", "target", "alpha"])
    return table.assign(success=table["success"] / 3, intervention_rate=table["intervention_rate"] / 3)


# Crossings


def test_a_crossing_after_an_action_gives_strong_the_next_one():
    np.testing.assert_array_equal(handoff_steps([0, 1, 7], "post_action"), [1, 2, 8])


def test_a_crossing_at_a_proposal_gives_strong_that_step():
    np.testing.assert_array_equal(handoff_steps([0, 1, 7], "proposal"), [0, 1, 7])


@pytest.mark.parametrize("timing", ["post_action", "proposal"])
@pytest.mark.parametrize("never", [-1, np.nan])
def test_no_crossing_is_no_handoff(timing, never):
    np.testing.assert_array_equal(handoff_steps([never, never], timing), [NEVER, NEVER])


def test_a_score_crosses_where_it_first_reaches_alpha():
    scores = [[0.1, 0.3, 0.3, 0.9], [0.1, 0.2, np.nan, np.nan]]
    np.testing.assert_array_equal(first_crossings(scores, 0.3), [1, NEVER])
    np.testing.assert_array_equal(first_crossings(scores, [0.1, 0.2, 1]), [[0, 0], [1, 1], [NEVER, NEVER]])


@settings(deadline=None)
@given(SCORES, st.floats(0, 1), st.floats(0, 1))
def test_lowering_alpha_never_delays_a_handoff(scores, one, other):
    high, low = max(one, other), min(one, other)
    later, earlier = first_crossings(scores, [high, low])
    assert (earlier[later != NEVER] != NEVER).all()
    assert (earlier <= later)[later != NEVER].all()


@settings(deadline=None)
@given(SCORES, st.floats(0, 1))
def test_nothing_before_a_crossing_reaches_alpha(scores, alpha):
    for row, crossing in zip(scores, first_crossings(scores, alpha), strict=True):
        before = row if crossing == NEVER else row[:crossing]
        assert (before < alpha).all()
        assert crossing == NEVER or row[crossing] >= alpha


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: handoff_steps([1], "later"), "timing is 'later'; expected 'post_action' or 'proposal'"),
        (lambda: handoff_steps([1.5], "proposal"), "crossings is 1.5; expected whole numbers >= 0"),
        (lambda: handoff_steps([-2], "proposal"), "crossings is -2.0; expected whole numbers >= 0"),
        (lambda: handoff_steps([np.inf], "proposal"), "crossings is inf; expected whole numbers >= 0"),
        (lambda: handoff_steps(["x"], "proposal"), r"crossings is \['x'\]; expected whole numbers"),
        (lambda: first_crossings([[0.1]], np.nan), "alpha is nan; expected a number"),
        (lambda: first_crossings([0.1], 0.1), r"shape of scores is \(1,\); expected \(episode, step\)"),
        (lambda: first_crossings([["x"]], 0.1), r"scores is \[\['x'\]\]; expected numbers"),
        (lambda: first_crossings([[0.1, 0.2], [np.nan, 0.1]], 0.1), "row 1, step 0: score is nan; expected a finite"),
        (lambda: first_crossings([[np.nan, np.nan]], 0.1), "row 0, step 0: score is nan"),
        (lambda: first_crossings([[0.1, np.inf]], 0.1), "row 0, step 1: score is inf"),
        (
            lambda: first_crossings(xr.DataArray(np.zeros((1, 1, 1)), dims=("draw", "episode", "step")), 0.1),
            "dims of scores is .*expected .* take the mean or a quantile",
        ),
    ],
)
def test_what_is_no_score_or_step_is_refused(make, message):
    with pytest.raises(InvalidDataError, match=message):
        make()


# Candidates


def test_the_fixed_grid_is_the_papers():
    assert fixed_grid().alpha.tolist() == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    assert fixed_grid(0.5, 0.5, n=3).alpha.tolist() == [0.5]


def test_quantiles_are_of_the_scores_of_all_checkpoints():
    scores = np.full((2, 3), NAN)
    scores[0], scores[1, :2] = [0.1, 0.2, 0.3], [0.4, 0.9]
    np.testing.assert_allclose(score_quantiles(scores, n=5).alpha, [0.1, 0.2, 0.3, 0.4, 0.9])
    np.testing.assert_allclose(score_quantiles(scores, n=3).alpha, [0.1, 0.3, 0.9])


def test_equal_quantiles_count_once_and_no_candidate_is_zero():
    scores = [[0.0, 0.0, 0.0, 0.2, 0.5]]
    np.testing.assert_allclose(score_quantiles(scores, n=5).alpha, [0.2, 0.5])
    np.testing.assert_allclose(score_quantiles(scores, n=5, above=-np.inf).alpha, [0.0, 0.2, 0.5])


WORKED = np.array(
    [
        [0.10, 0.50, 0.60, NAN],
        [0.10, 0.20, 0.30, 0.40],
        [0.05, 0.10, NAN, NAN],
        [0.20, 0.30, NAN, NAN],
        [0.10, 0.15, 0.20, 0.70],
    ]
)
"""Highest scores before the last action: .50, .30, .05, .20, .20; at proposals: .60, .40, .10, .30, .70."""


def test_thinning_keeps_both_ends_and_even_ranks():
    scores = np.repeat(np.arange(1, 21)[:, None] / 40, 2, axis=1)
    rates = np.arange(21) / 20
    every = target_switch_rates(scores, rates, quantiles=[], n=21)
    assert len(every) == 21
    thinned = target_switch_rates(scores, rates, quantiles=[], n=6)
    assert thinned.target.tolist() == every.target[[0, 4, 8, 12, 16, 20]].tolist()
    assert thinned.target.tolist() == [1.0, 0.8, 0.6, 0.4, 0.2, 0.0]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 12), st.sampled_from(["post_action", "proposal"]))
def test_target_rates_are_distinct_policies_with_both_ends(seed, n, timing):
    scores = random_world(seed, n=12).scores
    candidates = target_switch_rates(scores, n=n, timing=timing)
    every = target_switch_rates(scores, n=1000, timing=timing)
    assert 1 <= len(candidates) <= n
    assert (candidates.alpha[0], candidates.alpha[-1]) == (every.alpha[0], every.alpha[-1])
    length = np.count_nonzero(~np.isnan(scores), axis=1)
    handoffs = handoff_steps(first_crossings(scores, every.alpha), timing)
    handoffs[handoffs == length] = NEVER
    assert len(np.unique(handoffs, axis=0)) == len(every)
    assert (handoffs[-1] == NEVER).all()


def test_a_billionth_below_a_threshold_is_reached_and_a_millionth_is_not():
    scores = np.array([[0.1, 0.3 * (1 - 1e-12)], [0.1, 0.3 * (1 - 1e-6)]])
    assert first_crossings(scores, 0.3).tolist() == [1, -1]
    assert first_crossings(scores, np.inf).tolist() == [-1, -1]
    known = Counterfactuals.from_calls(
        ["a", "b"], success=[[1, 1], [1, 1]], strong_calls=[[2, 1], [2, 1]], never_success=[0, 0], cost=StepCost(1, 3)
    )
    assert operating_points(scores, known, [0.3], "proposal")["intervention_rate"].tolist() == [0.5]
    # What is to hand nothing off is not reached by rounding.
    rates = target_switch_rates([[0.5, 1 - 1e-15], [0.1, 0.2]], [0.0, 0.5], quantiles=[], timing="proposal")
    assert rates.alpha.tolist() == [1 - 1e-15, np.inf]


def test_a_rate_of_zero_is_never_also_where_a_score_is_one():
    assert target_switch_rates([[1.0, 1.0], [0.5, 0.5]], [0, 0.5], quantiles=[]).alpha.tolist() == [1.0, np.inf]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Candidates([]), r"alpha is \[\]; expected a list of at least one number"),
        (lambda: Candidates([NAN]), r"alpha is \[nan\]; expected numbers"),
        (lambda: Candidates(["x"]), r"alpha is \['x'\]; expected a list of numbers"),
        (lambda: Candidates([0.1, 0.2], [0.5]), "number of targets is 1; expected 2, one for each alpha"),
        (lambda: fixed_grid(0), "lowest is 0; expected a number above 0 and at most 1"),
        (lambda: fixed_grid(0.5, 0.4), "highest is 0.4; expected a number from 0.5 to 1"),
        (lambda: fixed_grid(n=0), "n is 0; expected a whole number >= 1"),
        (lambda: score_quantiles([[0.1]], n=1), "n is 1; expected a whole number >= 2"),
        (lambda: score_quantiles([[0.0, 0.0]]), "largest score is 0.0; expected a score above 0"),
        (lambda: score_quantiles([0.1]), "shape of scores"),
        (lambda: target_switch_rates(WORKED, [1.5]), r"rates is \[1.5\]; expected numbers from 0 to 1"),
        (lambda: target_switch_rates(WORKED, [0.5], quantiles=[-1]), r"quantiles is \[-1.0\]; expected numbers from"),
        (lambda: target_switch_rates(WORKED, [], quantiles=[]), r"rates is \[\]; expected at least one"),
        (lambda: target_switch_rates(WORKED, n=1), "n is 1; expected a whole number >= 2"),
        (lambda: target_switch_rates(WORKED, timing="x"), "timing is 'x'"),
    ],
)
def test_what_is_no_candidate_is_refused(make, message):
    with pytest.raises(InvalidDataError, match=message):
        make()


# Operating points


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["post_action", "proposal"]))
def test_points_are_averages_over_episodes_run_one_by_one(seed, timing):
    world = random_world(seed, n=8)
    alphas = [0.2, 0.5, 0.9]
    points = operating_points(world.scores, world.counterfactuals, alphas, timing)
    cells, n_steps = world.counterfactuals.dataset, world.counterfactuals.n_steps
    for alpha, point in zip(alphas, points.itertuples(), strict=True):
        success, cheap, strong = [], [], []
        for i, n in enumerate(n_steps):
            k = next((t + (timing == "post_action") for t in range(n) if world.scores[i, t] >= alpha), n)
            cell = cells.isel(episode=i)
            success.append(float(cell["success"][k] if k < n else cell["never_success"]))
            cheap.append(k + (timing == "proposal" and k < n))
            strong.append(float(cell["strong_calls"][k]) if k < n else 0)
        assert point.success == pytest.approx(np.mean(success))
        assert point.cost == pytest.approx(np.mean(cheap) + 3 * np.mean(strong))
        assert point.strong_share == pytest.approx(sum(strong) / (sum(cheap) + sum(strong)))
        assert point.intervention_rate == pytest.approx(np.mean(np.array(strong) > 0))


def test_labelled_scores_are_matched_by_id():
    world = random_world(7)
    order = np.random.default_rng(1).permutation(len(world.scores))
    coords = {"episode": world.counterfactuals.ids[order]}
    labelled = xr.DataArray(world.scores[order], dims=("episode", "step"), coords=coords)
    expected = operating_points(world.scores, world.counterfactuals, fixed_grid(), "post_action")
    got = operating_points(labelled, world.counterfactuals, fixed_grid(), "post_action")
    pd.testing.assert_frame_equal(got, expected)
    some = operating_points(labelled[:3], world.counterfactuals, fixed_grid(), "post_action")
    chosen = world.counterfactuals.select(coords["episode"][:3])
    pd.testing.assert_frame_equal(some, operating_points(labelled.values[:3], chosen, fixed_grid(), "post_action"))


def test_scores_that_do_not_fit_the_counterfactuals_are_refused():
    world = random_world(7)
    run = lambda scores: operating_points(scores, world.counterfactuals, [0.5], "post_action")  # noqa: E731
    with pytest.raises(InvalidDataError, match="number of episodes in scores is 29; expected 30"):
        run(world.scores[1:])
    with pytest.raises(InvalidDataError, match=r"episode 'task-\d+': number of scores is .*its n_steps"):
        run(world.scores[::-1])
    with pytest.raises(InvalidDataError, match="episode 'x': episode is 'x'; expected an id of these 30"):
        run(xr.DataArray(world.scores[:1], dims=("episode", "step"), coords={"episode": ["x"]}))
    with pytest.raises(InvalidDataError, match="timing is 'x'"):
        operating_points(world.scores, world.counterfactuals, [0.5], "x")


# The choice


def test_success_within_the_cap_decides():
    points = {"success": [0.9, 0.8, 0.7], "cost": [11, 10, 1]}
    assert choose(points, 10).position == 1
    assert choose(points, 11).position == 0
    assert choose(points, 9.9).position == 2


@pytest.mark.parametrize(
    ("columns", "position"),
    [
        ({"cost": [9, 8], "intervention_rate": [0.1, 0.2], "target": [0.1, 0.2], "alpha": [0.9, 0.1]}, 1),
        ({"cost": [9, 9], "intervention_rate": [0.2, 0.1], "target": [0.1, 0.2], "alpha": [0.9, 0.1]}, 1),
        ({"cost": [9, 9], "intervention_rate": [0.2, 0.2], "target": [0.2, 0.1], "alpha": [0.9, 0.1]}, 1),
        ({"cost": [9, 9], "intervention_rate": [0.2, 0.2], "target": [0.2, 0.2], "alpha": [0.1, 0.9]}, 1),
        ({"cost": [9, 9], "intervention_rate": [0.2, 0.2], "target": [0.2, 0.2], "alpha": [0.9, 0.9]}, 0),
        ({"cost": [9, 9], "target": [NAN, 0.2]}, 1),
        ({"cost": [9, 9], "target": [NAN, NAN], "alpha": [0.1, 0.9]}, 1),
        ({"cost": [9, 9]}, 0),
    ],
)
def test_ties_are_broken_in_order(columns, position):
    choice = choose({"success": [0.5, 0.5], **columns}, 10)
    assert choice.position == position
    assert choice.n_tied == 2


@settings(deadline=None)
@given(TABLES, st.integers(0, 3))
def test_the_choice_is_the_best_by_brute_force(rows, cap):
    table = table_from(rows)
    within = [i for i, row in enumerate(rows) if row[1] <= cap]
    if not within:
        with pytest.raises(InvalidDataError, match=f"expected at least {table['cost'].min()}, the lowest cost"):
            choose(table, cap)
        return
    key = lambda i: (-rows[i][0], rows[i][1], rows[i][2], rows[i][3], -rows[i][4], i)  # noqa: E731
    choice = choose(table, cap)
    assert choice.position == min(within, key=key)
    assert choice.n_within == len(within)
    assert choice.point == table.iloc[choice.position].to_dict()
    assert choose(table.to_dict("list"), cap).position == choice.position


def test_rounding_neither_breaks_a_tie_nor_the_cap():
    third = 0.1 + 0.2
    assert third > 0.3
    assert choose({"success": [0.3, third], "cost": [1, 2]}, 5).position == 0
    assert choose({"success": [0.5], "cost": [third]}, 0.3).position == 0


@pytest.mark.parametrize(
    ("points", "cap", "message"),
    [
        ({"success": [1, 1], "cost": [4.25, 5]}, 3, "cap is 3.0; expected at least 4.25, the lowest cost of the 2"),
        ({"success": [1], "cost": [4]}, -1, "cap is -1; expected a finite number >= 0"),
        ({"success": [1], "cost": [4]}, np.inf, "cap is inf; expected a finite number >= 0"),
        ({"success": [1]}, 3, r"columns of the points is \['success'\]; expected a column 'cost'"),
        ({"success": [1, NAN], "cost": [1, 1]}, 3, "row 1: success is nan; expected a number"),
        ({"success": ["x"], "cost": [1]}, 3, r"success is \['x'\]; expected numbers"),
        ({"success": [1, 2], "cost": [1]}, 3, "points is .*; expected columns of one length"),
        ({"success": [], "cost": []}, 3, r"points is \[\]; expected at least one candidate"),
        ([1], 3, r"points is \[1\]; expected a table of operating points"),
    ],
)
def test_what_cannot_be_chosen_from_is_refused(points, cap, message):
    with pytest.raises(InvalidDataError, match=message):
        choose(points, cap)


@settings(deadline=None)
@given(TABLES)
def test_the_frontier_is_what_no_other_point_beats(rows):
    table = table_from(rows)
    frontier = efficient_frontier(table)
    pairs = list(zip(table["success"], table["cost"], strict=True))
    unbeaten = {(s, c) for s, c in pairs if not any(s2 >= s and c2 <= c and (s2 > s or c2 < c) for s2, c2 in pairs)}
    kept = list(zip(frontier["success"], frontier["cost"], strict=True))
    assert sorted(kept, key=lambda pair: pair[1]) == kept
    assert len(kept) == len(set(kept))
    assert set(kept) == unbeaten
    for cap in range(4):
        if (table["cost"] <= cap).any():
            chosen = choose(table, cap)
            assert (chosen.success, chosen.cost) in unbeaten


# The bootstrap


def outcomes(success, cost):
    return Outcomes(success, cost, cheap_calls=np.ones(len(success)), strong_calls=np.ones(len(success)))


def test_the_interval_of_a_success_rate_is_the_binomial_one():
    success = np.repeat([1, 0], [49, 18])
    table = bootstrap(outcomes(success, np.ones(67)), seed=3)
    exact = stats.binom.ppf([0.025, 0.975], 67, 49 / 67) / 67
    np.testing.assert_allclose(table.loc["success", ["lower", "upper"]].astype(float), exact, atol=0.5 / 67 + 1e-12)
    assert table.loc["success", "estimate"] == 49 / 67
    assert table.loc["cost"].tolist() == [1, 1, 1]


def test_differences_are_paired_by_task(rng):
    cost = rng.gamma(4, 2, 60)
    success = rng.integers(0, 2, 60)
    table = bootstrap(outcomes(success, cost + 3), outcomes(success, cost), seed=1)
    np.testing.assert_allclose(table.loc["cost_difference"].astype(float), 3)
    assert table.loc["success_difference"].tolist() == [0, 0, 0]
    assert table.loc["cost", "upper"] - table.loc["cost", "lower"] > 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bootstrap(outcomes([1], [1]), outcomes([1, 1], [1, 1])), "episodes of the baseline is 2; expected 1"),
        (lambda: bootstrap([1]), r"outcomes is \[1\]; expected Outcomes"),
        (lambda: bootstrap(outcomes([1], [1]), 3), "baseline is 3; expected Outcomes"),
        (lambda: bootstrap(outcomes([1], [1]), resamples=0), "resamples is 0; expected a whole number >= 1"),
        (lambda: bootstrap(outcomes([1], [1]), probability=1), "probability is 1; expected a number between 0 and 1"),
        (lambda: bootstrap(outcomes([1], [1]), seed=-1), "seed is -1; expected a whole number >= 0"),
    ],
)
def test_a_wrong_bootstrap_is_refused(make, message):
    with pytest.raises(InvalidDataError, match=message):
        make()


# The figure


# Baselines


def test_any_policy_is_chosen_by_its_outcomes_alone():
    table = Counterfactuals.from_calls(
        ["a", "b"], success=[[1], [1]], strong_calls=[[5], [5]], never_success=[0, 1], cost=StepCost(1, 3)
    )
    policies = {"cheap": table.pure_cheap, "strong": table.pure_strong, "router": table.outcomes_at([0, -1])}
    points = pd.DataFrame([policy.point() for policy in policies.values()])
    assert list(policies)[choose(points, cap=10).position] == "router"
    assert list(policies)[choose(points, cap=7).position] == "cheap"
