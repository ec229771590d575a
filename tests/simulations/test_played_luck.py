"""What other development tasks would have chosen."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from policy_worlds import draw_tasks, world_of

from bayes_tacit.policies import Count, FirstAlarm, PureCheap, PureStrong, StepDeferral, Trim, compare
from simulations.played import luck
from simulations.played.page import luck_table

SHARE = 0.6


@pytest.fixture(scope="module")
def experiment():
    training, development, test = (world_of(draw_tasks(seed, n)) for seed, n in ((1, 60), (2, 25), (3, 40)))
    policies = [
        PureCheap(),
        FirstAlarm("risk", name="First Alarm"),
        Count(),
        StepDeferral("doubt", timing="proposal"),
        Trim(unmarked="due"),
        PureStrong(),
    ]
    cap = SHARE * float(development.counterfactuals.pure_strong.cost.mean())
    comparison = compare(policies, training.episodes, development, test, cap)
    return SimpleNamespace(development=development, test=test, comparison=comparison, share=SHARE)


def test_rules_with_a_threshold_alone_are_chosen_again(experiment):
    found = luck.chosen_again(experiment, resamples=30)
    assert list(found) == ["First Alarm", "Count"]
    fitted, development, test = experiment.comparison.fitted["First Alarm"], experiment.development, experiment.test
    drawn = np.random.default_rng(0).integers(len(development), size=(30, len(development)))
    on, tested = (
        [fitted.outcomes(world, {"alpha": alpha}) for alpha in fitted.candidates["alpha"]]
        for world in (development, test)
    )
    strong = development.counterfactuals.pure_strong.cost
    for rows, again in zip(drawn, found["First Alarm"].to_dict("records"), strict=True):
        cap = SHARE * sum(strong[row] for row in rows) / len(rows)
        ranked = [
            (-one.success[rows].mean(), one.cost[rows].mean(), (one.strong_calls[rows] > 0).mean())
            for one in on
            if one.cost[rows].mean() <= cap
        ]
        best = on[int(again["setting"])]
        said = (-best.success[rows].mean(), best.cost[rows].mean(), (best.strong_calls[rows] > 0).mean())
        np.testing.assert_allclose(said, min(ranked), rtol=1e-9)
        assert again["success"] == tested[int(again["setting"])].success.mean()
        assert again["cost"] == tested[int(again["setting"])].cost.mean()
    assert len(set(found["First Alarm"]["setting"])) > 1


def test_the_same_tasks_choose_the_same_and_a_cap_below_everything_leaves_cheap_alone(experiment):
    fitted, development, test = experiment.comparison.fitted["Count"], experiment.development, experiment.test
    same = np.arange(len(development))[None]
    cap = experiment.comparison.cap
    for caps in (np.array([cap]), np.array([1e-3])):
        (again,) = luck._again(fitted, development, test, same, caps).to_dict("records")
        if caps[0] == cap:
            assert fitted.candidates["alpha"][again["setting"]] == fitted.choose(development, cap).alpha
        else:
            assert again["setting"] == -1
            assert again["success"] == test.counterfactuals.pure_cheap.success.mean()


def test_the_table_shows_policies_with_a_threshold_alone(experiment):
    table = luck_table(experiment, "games")
    assert table.count("\n| First Alarm |") == table.count("\n| Count |") == 1
    assert "Step Deferral" not in table
