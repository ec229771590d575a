"""The recommendation: judged on tasks that were not chosen on, honest about chance, simple where it cannot tell."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from policy_worlds import draw_tasks, episodes_of, world_of

from bayes_tacit import Outcomes, StepCost, World
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.policies import FirstAlarm, PureCheap, PureStrong, TacitSwitch, TaskRouter
from bayes_tacit.policies.base import FittedPolicy
from bayes_tacit.policies.recommending import Named, cross_validate, families, name_one, posterior_means, recommend
from bayes_tacit.router import pure

CAP = 12.0
QUICK = [PureCheap(), TaskRouter(), FirstAlarm("risk"), FirstAlarm("doubt", name="Doubt"), TacitSwitch()]


@pytest.fixture(scope="module")
def training():
    return episodes_of(draw_tasks(1, 300))


@pytest.fixture(scope="module")
def development():
    return world_of(draw_tasks(2, 400))


@pytest.fixture(scope="module")
def result(training, development):
    return recommend(training, development, CAP, policies=QUICK)


@dataclass(frozen=True)
class Coin:
    """Succeeds or not by a coin of the candidate and the task; every candidate is as good as any other."""

    n_candidates: int
    name: str
    sees: str = "Nothing."
    decides: str = "Nothing."

    def fit(self, training):  # noqa: ARG002
        return FittedCoin(self.n_candidates, self.name)


class FittedCoin(FittedPolicy):
    def __init__(self, n_candidates, name):
        seeds = pd.DataFrame({"seed": np.arange(n_candidates, dtype=float)})
        super().__init__(name, seeds, lambda _: pure("cheap"))

    def outcomes(self, world, setting):
        ids = [int(str(one).split("-")[1]) for one in world.episodes.ids]
        heads = np.random.default_rng([int(setting["seed"]), len(self.name)]).integers(0, 2, 10_000)[ids]
        ones = np.ones(len(world))
        return Outcomes(heads, ones, ones, ones)

    def operating_points(self, world, settings=None):
        table = self.candidates if settings is None else settings
        return table.join(pd.DataFrame([self.outcomes(world, row).point() for _, row in table.iterrows()]))


def test_many_candidates_by_chance_do_not_look_better_than_they_are(training, development):
    """The best of 400 coins on 400 tasks is some 57% on them, and 50% on new ones; that is what is expected."""
    found = recommend(training, development, CAP, policies=[Coin(1, "one coin"), Coin(400, "the best coin")])
    best = found.table.set_index("policy").loc["the best coin"]
    assert best["development_success"] > 0.55
    assert abs(best["success"] - 0.5) < 0.06
    assert found.expected["success_lower"] < 0.5 < found.expected["success_upper"]


def test_no_task_is_judged_under_a_setting_that_was_chosen_on_it(development):
    looked_at = []

    class Watched(FittedCoin):
        def operating_points(self, world, settings=None):
            looked_at.append(set(world.episodes.ids.tolist()))
            return super().operating_points(world, settings)

        def outcomes(self, world, setting):
            judged.append(set(world.episodes.ids.tolist()))
            return super().outcomes(world, setting)

    judged: list[set] = []
    parts = cross_validate({"a": Watched(1, "a")}, development, CAP, folds=4, seed=1)
    chosen_on, judged_on = looked_at, judged[1::2]
    assert len(chosen_on) == len(judged_on) == 4
    everything = set(development.episodes.ids.tolist())
    for chosen, held_out in zip(chosen_on, judged_on, strict=True):
        assert chosen.isdisjoint(held_out)
        assert chosen | held_out == everything
    assert set.union(*judged_on) == everything
    assert len(parts.fold) == len(development)


def test_what_is_recommended_can_be_used(result, development):
    assert result.name in {policy.name for policy in QUICK}
    played = result.fitted.outcomes(development, result.setting).point()
    assert played["cost"] <= CAP * (1 + 1e-9)
    assert {name: result.choice.point[name] for name in played} == pytest.approx(played)


def test_probabilities_of_being_the_best_sum_to_one(result):
    table = result.table
    assert table["probability_best"].sum() == pytest.approx(1)
    assert (table["success_lower"] <= table["success"]).all()
    assert (table["success"] <= table["success_upper"]).all()
    row = table.set_index("policy").loc[result.name]
    assert row["ahead"] == row["ahead_lower"] == row["ahead_upper"] == 0


def test_it_is_the_same_again_and_goes_into_json(training, development, result):
    again = recommend(training, development, CAP, policies=QUICK)
    assert json.dumps(again.to_dict()) == json.dumps(result.to_dict())
    assert json.loads(json.dumps(result.to_dict()))["policy"] == result.name
    assert result.name in repr(result)


def test_a_policy_that_cannot_be_paid_or_fitted_is_left_out_with_the_reason(training, development):
    found = recommend(training, development, CAP, policies=[PureCheap(), PureStrong(), FirstAlarm()])
    assert found.name == "Pure Cheap"
    assert "lowest cost" in found.left_out["Pure Strong"]
    assert "diagnostic" in found.left_out["First Alarm"]


def test_without_any_policy_within_the_cap_it_says_why(training, development):
    with pytest.raises(InvalidDataError, match=r"a cap that some policy can keep \(Pure Strong: "):
        recommend(training, development, 1.0, policies=[PureStrong()])


def test_too_few_tasks_and_other_data_are_refused(training, development):
    with pytest.raises(InvalidDataError, match="number of development tasks is 19"):
        recommend(training, development.take(np.arange(19)), CAP)
    with pytest.raises(InvalidDataError, match="development"):
        recommend(training, training, CAP)
    with pytest.raises(InvalidDataError, match="different names"):
        recommend(training, development, CAP, policies=[PureCheap(), PureCheap()])


def two_that_differ_by(wins, losses, n):
    """Successes of two policies on n tasks: the second alone solves `wins` of them, the first alone `losses`."""
    success = np.zeros((2, n))
    success[:, : n // 2] = 1
    success[0, :wins] = 0
    success[1, wins : wins + losses] = 0
    return success


def test_the_simplest_is_named_where_the_data_cannot_tell():
    few = two_that_differ_by(6, 4, 60)  # +3.3 points, with a standard error of 5.3
    assert name_one(few) == Named(row=0, best=1, simplest=0)
    assert name_one(few, choose="best") == Named(row=1, best=1, simplest=0)
    # The same shares with a hundred times the tasks are known well enough, whichever is asked for.
    many = np.repeat(few, 100, axis=1)
    for choose in ("simplest", "best"):
        assert name_one(many, choose=choose) == Named(row=1, best=1, simplest=1)


def test_a_policy_more_than_one_standard_error_behind_is_not_within_it():
    behind = two_that_differ_by(6, 1, 60)  # +8.3 points, with a standard error of 4.3
    assert name_one(behind) == Named(row=1, best=1, simplest=1)


def test_where_the_best_is_asked_for_it_is_named_and_judged_and_the_doubt_is_said(training):
    few = world_of(draw_tasks(7, 40))
    simplest, best = (recommend(training, few, CAP, policies=QUICK, choose=choose) for choose in ("simplest", "best"))
    assert simplest.too_little
    assert best.too_little
    assert (simplest.name, best.name) == (best.simplest, simplest.best)
    assert best.name != best.simplest
    assert f"too few to tell whether {best.name} is better" in simplest.reason
    assert f"too few to tell it from {best.simplest}" in best.reason
    assert best.to_dict()["simplest"] == simplest.name
    # What to expect is that of the rule: the best of the other parts, not the simplest of them.
    assert best.expected != simplest.expected


def test_only_the_simplest_and_the_best_can_profile_memory_for(training, development):
    with pytest.raises(InvalidDataError, match="choose is 'cheapest'; expected 'simplest' or 'best'"):
        recommend(training, development, CAP, policies=QUICK, choose="cheapest")


def test_means_under_the_bayesian_bootstrap_have_the_spread_of_a_mean():
    values = np.random.default_rng(1).random((2, 400))
    draws = posterior_means(values, seed=2)
    np.testing.assert_allclose(draws.mean(axis=0), values.mean(axis=1), atol=0.003)
    np.testing.assert_allclose(draws.std(axis=0), values.std(axis=1) / 20, rtol=0.08)


def test_families_follow_what_the_world_knows(training, development):
    everything = [policy.name for policy in families(training, development)]
    assert len(set(everything)) == len(everything)
    assert {"Step Deferral (risk)", "Step Deferral by task (doubt)", "Tuned switch, restart"} <= set(everything)
    steps = development.counterfactuals.table()[3, :, 0]
    logs = World.from_restarts(development.episodes, strong_steps=steps, cost=StepCost(cheap=1, strong=3))
    from_logs = families(training, logs)
    assert not [policy.name for policy in from_logs if "Deferral" in policy.name]
    assert all(getattr(policy, "handoff", "restart") == "restart" for policy in from_logs)
