"""Fitted on training data, chosen on development data, evaluated once on test data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from policy_worlds import COST, draw_tasks, episodes_of, pure_cheap, pure_strong, world_of

from bayes_tacit import Episodes
from bayes_tacit.decisions import selection
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.policies import (
    Cascade,
    FirstAlarm,
    PrefixRouter,
    PureCheap,
    PureStrong,
    StepDeferral,
    TacitSwitch,
    TaskRouter,
    World,
    compare,
    success_cost_curve,
)
from models.mechanism import FULL, RISK_ONLY, X_ONLY, without_features, without_risk_values

POLICIES = (
    PureCheap(),
    TaskRouter(),
    StepDeferral("risk", n_candidates=21),
    PrefixRouter(),
    Cascade(),
    FirstAlarm("risk"),
    TacitSwitch(options={"restarts": 1}),
    PureStrong(),
)
CAP = 9.5
DEVELOPMENT_TASKS, TEST_TASKS = draw_tasks(11, 100), draw_tasks(12, 150)


@pytest.fixture(scope="module")
def training() -> Episodes:
    return episodes_of(draw_tasks(1, 300))


@pytest.fixture(scope="module")
def development() -> World:
    return world_of(DEVELOPMENT_TASKS)


@pytest.fixture(scope="module")
def test_world() -> World:
    return world_of(TEST_TASKS)


@pytest.fixture(scope="module")
def result(training, development, test_world):
    return compare(POLICIES, training, development, test_world, CAP)


def test_the_choice_is_the_best_within_the_cap_on_development_data(result, training, development, test_world):
    table = result.table.set_index("policy")
    assert table.index.tolist() == [policy.name for policy in POLICIES]
    for policy in POLICIES[1:-1]:
        fitted = policy.fit(training)
        best = None
        for _, setting in fitted.candidates.iterrows():
            outcomes = fitted.outcomes(development, setting)
            success, cost = outcomes.success.mean(), outcomes.cost.mean()
            if cost <= CAP and (best is None or (success, -round(cost, 9)) > (best[0], -round(best[1], 9))):
                best = success, cost
        row = table.loc[policy.name]
        assert (row["development_success"], row["development_cost"]) == pytest.approx(best)
        frozen = fitted.outcomes(test_world, result.choices[policy.name].point)
        for name, value in frozen.point().items():
            assert row[name] == value
        np.testing.assert_array_equal(result.outcomes[policy.name].success, frozen.success)


def test_what_is_fitted_already_is_not_fitted_again(result, training, development, test_world):
    mixed = [policy if at % 2 else result.fitted[policy.name] for at, policy in enumerate(POLICIES)]
    again = compare(mixed, training, development, test_world, CAP)
    pd.testing.assert_frame_equal(again.table, result.table)
    assert [again.fitted[one.name] is result.fitted[one.name] for one in POLICIES] == [True, False] * 4
    fitted = compare(result.fitted.values(), None, development, test_world, CAP)
    pd.testing.assert_frame_equal(fitted.table, result.table)
    with pytest.raises(InvalidDataError, match="training is None; expected Episodes, to fit Task Router"):
        compare([result.fitted["Pure Cheap"], TaskRouter()], None, development, test_world, CAP)


def test_pure_policies_are_references_that_need_not_meet_the_cap(result):
    table = result.table.set_index("policy")
    for name, play in (("Pure Cheap", pure_cheap), ("Pure Strong", pure_strong)):
        played = [play(task) for task in TEST_TASKS]
        assert table.loc[name, "success"] == pytest.approx(np.mean([one.success for one in played]))
        assert table.loc[name, "cost"] == pytest.approx(np.mean([one.cost() for one in played]))
    assert table.loc["Pure Strong", "development_cost"] > CAP
    assert (table.drop("Pure Strong")["development_cost"] <= CAP).all()


def test_gains_are_paired_by_task(result):
    gains = result.gains("TACIT-Switch", resamples=200).set_index("over")
    assert "TACIT-Switch" not in gains.index
    ours = result.outcomes["TACIT-Switch"]
    for name, theirs in result.outcomes.items():
        if name == "TACIT-Switch":
            continue
        row = gains.loc[name]
        assert row["success_difference"] == pytest.approx(ours.success.mean() - theirs.success.mean())
        expected = selection.bootstrap(ours, theirs, resamples=200)
        for end in ("lower", "upper"):
            for what in ("success_difference", "cost_difference"):
                assert row[f"{what}_{end}"] == expected.loc[what, end]
    with pytest.raises(InvalidDataError, match="policy is 'Oracle'"):
        result.gains("Oracle")


def test_no_candidate_within_the_cap_names_the_policy_and_the_lowest_cost(training, development, test_world):
    lowest = Cascade().fit(training).operating_points(development)["cost"].min()
    with pytest.raises(InvalidDataError, match=rf"policy 'Cascade': cap is 2.0; expected at least {lowest:.6g}"):
        compare([PureStrong(), Cascade()], training, development, test_world, 2)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_a_curve_chooses_at_each_cap_as_a_comparison_does(policy, training, development, test_world):
    fitted = policy.fit(training)
    costs = fitted.operating_points(development)["cost"]
    caps = [costs.min() - 0.01, costs.min(), *np.linspace(7, 20, 6), 9.5, costs.max()]
    curve = success_cost_curve(fitted, development, test_world, caps)
    assert curve["cap"].tolist() == caps
    for _, row in curve.iterrows():
        if row["cap"] < costs.min():
            assert row.drop("cap").isna().all()
            continue
        choice = selection.choose(fitted.operating_points(development), row["cap"])
        assert (row["development_success"], row["development_cost"]) == (choice.success, choice.cost)
        for name in fitted.candidates:
            assert row[name] == choice.point[name] or np.isnan(row[name])
        for name, value in fitted.outcomes(test_world, choice.point).point().items():
            assert row[name] == pytest.approx(value)
    found = curve.dropna(subset=["success"]).sort_values("cap")
    assert found["development_success"].is_monotonic_increasing


def test_ablations_are_the_same_policy_on_less_information(development):
    training, world = one_diagnostic(episodes_of(draw_tasks(1, 300))), development
    small = World(one_diagnostic(world.episodes), world.counterfactuals, COST)
    full = TacitSwitch(estimator=FULL.fit).fit(training)
    x_only = TacitSwitch(estimator=X_ONLY.fit, view=without_risk_values, name="x-only").fit(training)
    risk_only = TacitSwitch(estimator=RISK_ONLY.fit, view=without_features, name="risk-only").fit(training)
    assert full.estimate.feature_names == ("x1", "x2")
    assert risk_only.estimate.feature_names == ()
    scores = x_only.scores(small.episodes)
    same_features = small.episodes.dataset.copy(deep=True)
    same_features["diagnostics"] = same_features["diagnostics"] * 3 + 1
    np.testing.assert_array_equal(scores, x_only.scores(Episodes(same_features)))
    moved = small.episodes.dataset.copy(deep=True)
    moved["features"] = -moved["features"]
    for policy, unchanged in ((x_only, False), (risk_only, True), (full, False)):
        again = policy.scores(Episodes(moved))
        assert np.array_equal(again, policy.scores(small.episodes), equal_nan=True) == unchanged


def one_diagnostic(episodes: Episodes) -> Episodes:
    return Episodes(episodes.dataset.isel(diagnostic=[0]))


def test_bad_comparisons_are_refused(training, development, test_world):
    cases = [
        (([], training, development, test_world), "at least one policy"),
        (([TaskRouter(), TaskRouter()], training, development, test_world), "different names"),
        (([TaskRouter()], development, development, test_world), "training is"),
        (([TaskRouter()], training, training, test_world), "development is"),
        (([TaskRouter()], training, development, training), "test is"),
    ]
    for arguments, message in cases:
        with pytest.raises(InvalidDataError, match=message):
            compare(*arguments, cap=CAP)
    with pytest.raises(InvalidDataError, match="policy 'Task Router': cap"):
        compare([TaskRouter()], training, development, test_world, cap=-1)
    with pytest.raises(InvalidDataError, match="single_steps of the world is None"):
        compare([StepDeferral("risk")], training, world_of(DEVELOPMENT_TASKS, replayed=False), test_world, CAP)
