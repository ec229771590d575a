"""What other development tasks would have chosen, and remarks on what was chosen."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from policy_worlds import draw_tasks, world_of

from bayes_tacit.policies import Count, FirstAlarm, PureCheap, PureStrong, StepDeferral, Trim, compare
from bayes_tacit.policies.base import FittedPolicy
from bayes_tacit.router import Router, pure
from bayes_tacit.router.rule import Rule
from simulations.played import luck
from simulations.played.page import remarks

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


def test_the_section_shows_ranges_that_hold_what_was_chosen(experiment):
    head, words, table = luck.luck_section(experiment, "games")
    assert head == "## How far 25 games choose"
    assert "under 60% of what Pure Strong costs" in words
    assert table.count("\n| First Alarm |") == table.count("\n| Count |") == 1
    assert "Step Deferral" not in table


def test_remarks_are_made_where_numbers_do_not_show_what_they_come_to(experiment):
    (timing,) = remarks(experiment)
    assert timing.startswith("The TRIM analogue judges a step after it was taken")
    point = {"memory": 1.0, "alpha": 1e-9}
    searched = FittedPolicy("searched", pd.DataFrame([point]), lambda _: pure("cheap"))
    restarting = FittedPolicy("restarting", pd.DataFrame([point]), lambda _: Router(rule=Rule(), call="restart"))
    choices = {
        "First Alarm": SimpleNamespace(point={"alpha": 0.0}),
        "TACIT-Switch with memory": SimpleNamespace(point=point),
        "Forgetful": SimpleNamespace(point={"memory": 0.5, "alpha": 1e-9}),
        "Restarting": SimpleNamespace(point=point),
    }
    fitted = {**dict.fromkeys(choices, searched), "Restarting": restarting}
    alarm, plain = remarks(SimpleNamespace(comparison=SimpleNamespace(choices=choices, fitted=fitted)))
    assert "reached by every step" in alarm
    assert "(TACIT-Switch with memory)" in plain
    assert plain.endswith("next to nothing of risk is enough for it.")
