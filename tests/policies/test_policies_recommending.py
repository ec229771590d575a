"""The recommendation on all tasks: honest on tasks left out, beside the coin flip, within the budget."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from test_policies_value import COST, STEPS, tasks, world_of

from bayes_tacit import Episodes, Router, World
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.policies import (
    ByValue,
    Cascade,
    Count,
    CrossFit,
    FirstAlarm,
    PureCheap,
    PureStrong,
    contest,
    recommend,
)
from bayes_tacit.policies.recommending import COIN, held_fit
from bayes_tacit.router.rule import reached_from

pytestmark = pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")
CAP = 13.0


def tried(world):
    return [PureCheap(), PureStrong(), FirstAlarm("sign", handoff="restart"), ByValue(world.counterfactuals)]


def blank(seed, n=300):
    """Tasks of which nothing says anything."""
    episodes = tasks(seed, n)
    dataset = episodes.dataset.copy(deep=True)
    dataset["diagnostics"] = ("episode", "step", "diagnostic"), np.random.default_rng(seed).random((n, STEPS, 2))
    return world_of(Episodes(dataset))


def blurred(seed, n):
    """Tasks whose sign is wrong for two in five."""
    episodes = tasks(seed, n)
    dataset = episodes.dataset.copy(deep=True)
    wrong = np.random.default_rng(seed).random(n) < 0.4
    sign = dataset["diagnostics"].values[:, :, 0]
    dataset["diagnostics"].values[:, :, 0] = np.where(wrong[:, None], 1 - sign, sign)
    return Episodes(dataset)


def test_what_is_expected_is_what_new_tasks_give(tmp_path):
    world, new = world_of(tasks(0, 400)), world_of(tasks(1, 3000))
    advice = recommend(world, CAP, policies=tried(world))
    assert advice.gain
    advice.router.save(tmp_path / "router.json")
    got = new.outcomes(Router.load(tmp_path / "router.json")).point()
    assert advice.expected["success_lower"] < got["success"] < advice.expected["success_upper"]
    assert advice.expected["cost_lower"] < got["cost"] < advice.expected["cost_upper"]
    ends = [one.point() for one in (new.counterfactuals.pure_cheap, new.counterfactuals.pure_strong)]
    share = (got["cost"] - ends[0]["cost"]) / (ends[1]["cost"] - ends[0]["cost"])
    above = got["success"] - ends[0]["success"] - share * (ends[1]["success"] - ends[0]["success"])
    assert above == pytest.approx(advice.expected["above_coin"], abs=0.05)
    assert above > 0.15


def test_where_nothing_tells_nothing_is_named():
    """Of many thresholds on noise some look good on the tasks that they were chosen on."""
    found = [recommend(world := blank(seed), CAP, policies=tried(world), folds=3) for seed in range(5)]
    assert sum(advice.gain for advice in found) <= 1
    nothing = next(advice for advice in found if not advice.gain)
    assert (nothing.name, nothing.router.policy) == ("Pure Cheap", "pure_cheap")
    assert "Nothing to gain here" in repr(nothing)


def test_the_coin_flip_stands_in_the_table_and_gains_nothing():
    world = world_of(tasks(0, 300))
    found = recommend(world, CAP, policies=tried(world), folds=3)
    table = found.table.set_index("policy")
    assert abs(table.loc[COIN, "above_coin"]) < 1e-12
    assert table.loc[COIN, "cost"] == pytest.approx(CAP)
    assert "no setting is within the cap" in table.loc["Pure Strong", "reason"]
    json.dumps(found.to_dict(), allow_nan=False)


def test_no_task_is_judged_by_a_fit_or_a_threshold_that_saw_it():
    seen = []

    class Watched(Count):
        def fit(self, training):
            seen.append(set(training.ids.tolist()))
            return super().fit(training)

    world = world_of(tasks(0, 120))
    CrossFit.of(world, [Watched(handoff="restart")], folds=4)
    everything = set(world.episodes.ids.tolist())
    assert seen[0] == everything
    assert [len(part) for part in seen[1:]] == [90] * 4
    assert set.union(*(everything - part for part in seen[1:])) == everything


def test_with_confidence_new_tasks_keep_the_cap():
    kept = []
    for seed in range(12):
        world, new = world_of(tasks(seed, 150)), world_of(tasks(100 + seed, 2000))
        advice = recommend(world, CAP, confidence=0.9, policies=[ByValue(world.counterfactuals)], folds=4)
        kept.append(new.outcomes(advice.router).cost.mean() <= CAP)
    assert np.mean(kept) >= 0.75


def test_a_value_of_success_takes_the_place_of_a_cap():
    world = world_of(tasks(0, 400))
    cheap, dear = (recommend(world, value=value, policies=tried(world), folds=3) for value in (1.0, 1000.0))
    assert cheap.expected["cost"] < dear.expected["cost"]
    assert dear.to_dict()["cap"] is None
    fits = CrossFit.of(world, tried(world), folds=3)
    for value in (0.5, 2.0, 5.0, 20.0, 200.0):
        advice = fits.recommend(value=value)
        rows = advice.table.set_index("policy")
        net = value * rows["success"] - rows["cost"]
        pure = [value * success - cost for success, cost in fits.pure.mean(axis=2)]
        assert net[advice.name] >= max(pure) - 1e-9
        assert net["Coin flip"] == pytest.approx(max(pure))
    with pytest.raises(InvalidDataError, match="one of cap and value"):
        recommend(world, CAP, value=1.0)
    with pytest.raises(InvalidDataError, match="the lowest cost of what was tried"):
        recommend(world, 0.5, policies=tried(world))


def test_rollouts_of_a_task_stay_together():
    episodes = tasks(0, 60)
    names = [f"t{number // 3}" for number in range(60)]
    world = world_of(Episodes(episodes.dataset.assign(task=("episode", np.array(names, dtype=object)))))
    seen = []

    class Watched(Count):
        def fit(self, training):
            seen.append(set(training.dataset["task"].values.tolist()))
            return super().fit(training)

    CrossFit.of(world, [Watched(handoff="restart")], folds=5)
    assert all(len(part) == 16 for part in seen[1:])


def test_what_each_router_gives_is_what_it_gives_alone():
    world = world_of(tasks(3, 50))
    fitted = ByValue(world.counterfactuals).fit(world.episodes)
    routers = [fitted.make(row) for _, row in fitted.candidates.iloc[::10].iterrows()]
    both = world.each(routers)
    for row, router in enumerate(routers):
        alone = world.outcomes(router)
        np.testing.assert_array_equal(both[:, row], [alone.success, alone.cost])
    assert reached_from(1.0) < 1


def test_tacit_switch_has_an_estimate_where_every_window_can_be_met_exactly():
    """A sign that tells failure without error: the paper's likelihood has no optimum there."""
    episodes = tasks(0, 200)
    fit = held_fit(episodes, unmarked="due", restarts=2)
    assert fit.converged
    assert 0 < fit.s < 10
    assert any(
        policy.name == "TACIT-Switch"
        for policy in contest(World.from_restarts(episodes, strong_steps=np.full(200, STEPS), cost=COST))
    )
    assert isinstance(episodes.to_frames()[0], pd.DataFrame)


def test_a_single_task_keeps_its_limit_in_tables_and_online():
    """A restart costs 20 after a Cheap step each, so 22 is kept up to step 2."""
    world = world_of(tasks(0, 200))
    tried = [PureCheap(), Count(handoff="restart"), FirstAlarm("spare", handoff="restart"), Cascade()]
    free, held = (recommend(world, CAP, policies=tried, at_most=most, folds=3) for most in (None, 22))
    assert world.outcomes(free.router).cost.max() > 22
    assert world.outcomes(held.router).cost.max() <= 22
    assert held.router.last_handoff == 2
    router = replace(Router.from_json(held.router.to_json()), alpha=1.0)
    for given, calls in (([0, 0, 0, 9], ["cheap"] * 4), ([0, 9], ["cheap", "restart"])):
        state = router.start()
        assert [state.observe({"sign": one, "spare": one}).call for one in given] == calls
    with pytest.raises(InvalidDataError, match="expected at least 20, what Strong alone costs"):
        recommend(world, CAP, policies=tried, at_most=10)


def test_policies_can_be_fitted_elsewhere():
    world, other = world_of(tasks(0, 100)), tasks(1, 100)
    found = recommend(world, CAP, training=other, policies=[Count(handoff="restart")])
    assert found.gain
    again = recommend(world, CAP, policies=[Count(handoff="restart").fit(other)])
    assert found.to_dict() == again.to_dict()


def test_more_tasks_are_asked_for_where_a_gain_does_not_show_yet():
    """A sign that is right three times in four, and 60 tasks."""
    counts = [
        recommend(world_of(blurred(seed, 60)), CAP, policies=[Count(handoff="restart")], folds=5) for seed in range(6)
    ]
    some = [advice.needed for advice in counts if not advice.gain and advice.needed]
    assert some
    assert all(needed > 60 for needed in some)
    assert "a gain would show" in next(advice for advice in counts if advice.needed).reason


def test_another_policy_than_one_by_value_is_named_only_where_it_is_clearly_ahead():
    """A sign that tells failure: the count of it is as good as its price, and no better."""
    world = world_of(tasks(0, 300))
    rules = [PureCheap(), Count(handoff="restart"), FirstAlarm("sign", handoff="restart")]
    assert recommend(world, CAP, policies=[*rules, ByValue(world.counterfactuals)], folds=3).name == "Advantage"
    assert recommend(world, CAP, policies=rules, folds=3).name in ("Count", "First Alarm")


def test_where_nothing_gains_the_better_agent_within_the_budget_is_written():
    world = blank(0)
    dear, cheap = (recommend(world, cap, policies=tried(world), folds=3) for cap in (1000.0, CAP))
    assert (dear.gain, dear.name, dear.router.policy) == (False, "Pure Strong", "pure_strong")
    assert cheap.name == "Pure Cheap"
