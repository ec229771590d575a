"""What routers give in a world: by every rule, by hand, and many thresholds at once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
from handoff_worlds import random_world
from hypothesis import given, settings
from hypothesis import strategies as st
from policy_worlds import COST as PLAYED_COST
from policy_worlds import draw_tasks, world_of
from routers import episodes_for, every_router, named, picked
from simulate import quietly

from bayes_tacit import Counterfactuals, Router, StepCost, World, operating_points
from bayes_tacit.data.timing import NEVER
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.router import Rule, rules
from bayes_tacit.router.rules import Chance

COST = StepCost(cheap=1, strong=3, one_off=0.5)


def world_for(episodes, seed: int) -> World:
    """Whatever may come of every handoff of these episodes."""
    rng = np.random.default_rng(seed)
    shape = (len(episodes), episodes.horizon)
    inside = np.arange(episodes.horizon) < episodes.n_steps[:, None]
    success = rng.integers(0, 2, shape).astype(float)
    success[:, 0] = episodes.dataset["strong_success"].values
    known = Counterfactuals.from_calls(
        episodes.ids,
        success=np.where(inside, success, np.nan),
        strong_calls=np.where(inside, rng.integers(1, 9, shape), np.nan),
        never_success=episodes.dataset["cheap_success"].values,
        cost=COST,
    )
    return World(episodes, known, COST)


def played(router: Router, world: World, row: int) -> tuple[float, float, float, float]:
    """Success, cost, and calls of each agent: one episode, decision by decision."""
    data, known = world.episodes.dataset, world.counterfactuals.dataset.isel(episode=row)
    n, discards = int(world.episodes.n_steps[row]), router.timing == "proposal"
    strong_alone = (float(known["success"][0]), float(known["strong_calls"][0]))
    state = router.start(data["features"].values[row].tolist())
    asked = 0

    def ended(success: float, cheap: float, strong: float) -> tuple[float, float, float, float]:
        return success, COST.cheap * cheap + COST.strong * strong + COST.one_off * asked, cheap, strong

    if state.handoff:
        return ended(strong_alone[0], 0, strong_alone[1])
    for t in range(n):
        left = discards or t + 1 < n
        decision = state.observe(data["diagnostics"].values[row, t, : len(router.diagnostic_names)].tolist())
        asked += router.rule.one_off * (decision.score is not None and left)
        if decision.handoff and left:
            at = t if discards else t + 1
            cheap = at + discards
            if decision.call == "restart":
                return ended(strong_alone[0], cheap, strong_alone[1])
            return ended(float(known["success"][at]), cheap, float(known["strong_calls"][at]))
    closing = state.finish()
    if closing is not None and closing.handoff:
        return ended(strong_alone[0], n, strong_alone[1])
    return ended(float(known["never_success"]), n, 0)


@given(every_router())
def test_outcomes_are_those_of_deciding_step_by_step(case):
    router, episodes = case
    world = world_for(episodes, 1)
    found = world.outcomes(router)
    expected = np.array([played(router, world, row) for row in range(len(episodes))]).T
    for name, values in zip(("success", "cost", "cheap_calls", "strong_calls"), expected, strict=True):
        np.testing.assert_allclose(getattr(found, name), values, rtol=1e-12, err_msg=name)


def others(router: Router, episodes, rng, same_start: bool) -> list[Router]:
    """The same rule at thresholds that its scores have, or nearly; in no order."""
    found = router.score(episodes)
    later = found.steps * np.exp(router.pace * np.arange(found.steps.shape[1]))
    later = later if found.closing is None else found.closing
    switch = router.policy == "tacit_switch"
    out = []
    for at in range(7):
        alpha = picked(later, rng, exact=at % 2 == 0, positive=switch, most=not router.pace)
        changes = {"alpha": alpha}
        if found.opening is not None and not same_start:
            changes["alpha_start"] = picked(found.opening, rng, exact=at % 2 == 0)
        out.append(replace(router, **changes))
    return out


@settings(max_examples=60)
@given(every_router(), st.integers(0, 1000), st.booleans())
def test_points_of_many_thresholds_are_averages_of_their_outcomes(case, seed, same_start):
    router, episodes = case
    world = world_for(episodes, 1)
    routers = [
        router,
        *others(router, episodes, np.random.default_rng(seed), same_start),
        replace(router, alpha=np.inf),
    ]
    points = world.points(routers)
    expected = pd.DataFrame([world.outcomes(one).point() for one in routers])
    pd.testing.assert_frame_equal(points, expected, check_exact=False, rtol=1e-12, atol=1e-12)


@dataclass(frozen=True, eq=False)
class Both(Rule):
    """The sum of all diagnostics, asked at each step, before the first one and at the end, where it counts double."""

    policy = "both"
    closes = True

    def begin(self, x):
        return {"sum": x.sum(axis=1)}

    def opening(self, state):
        return state["sum"]

    def step(self, state, u):
        total = state["sum"] + u.sum(axis=1)
        return {"sum": total}, total

    def closing(self, state):
        return 2 * state["sum"]


@given(
    st.integers(0, 10_000),
    st.sampled_from(["post_action", "proposal"]),
    st.sampled_from([0.5, 2.0, 4.25, 9.0]),
    st.sampled_from([0.5, 1.5, np.inf]),
    st.sampled_from([0.0, 0.1]),
)
def test_a_rule_that_asks_at_the_start_at_each_step_and_at_the_end_is_evaluated_as_it_decides(
    seed, timing, alpha, start, pace
):
    router = named(Both(), 1, 2, alpha=alpha, alpha_start=start, timing=timing, pace=pace, call="restart")
    episodes = episodes_for(router, seed)
    world = world_for(episodes, seed)
    expected = np.array([played(router, world, row) for row in range(len(episodes))]).T
    found = world.outcomes(router)
    np.testing.assert_array_equal(found.success, expected[0])
    np.testing.assert_allclose(found.cost, expected[1])
    some = [replace(router, alpha=level, alpha_start=first) for level in (alpha, 3.0) for first in (start, 1.0)]
    points = pd.DataFrame([world.outcomes(one).point() for one in some])
    pd.testing.assert_frame_equal(world.points(some), points, check_exact=False)


@pytest.mark.parametrize("call", ["strong", "restart"])
def test_thresholds_of_tasks_hold_for_handoffs_that_last_too(call):
    chance = Chance([0.0], [1.0], 0.0, [1.0])
    rule = rules.TaskSignal([0.25, 0.5, 1.0, 1.5], 1.5, chance, chance, [[0, 1], [0, 1]], [1.0, 0.0], 1.0)
    router = named(rule, 1, 1, alpha=0.1, call=call)
    episodes = episodes_for(router, 2, n=40)
    world = world_for(episodes, 2)
    expected = np.mean([played(router, world, row) for row in range(40)], axis=0)
    points = world.points([router, replace(router, alpha=9.0)])
    np.testing.assert_allclose(points["success"], expected[0])
    np.testing.assert_allclose(points["cost"], expected[1])


def test_routers_of_several_rules_keep_their_places():
    episodes = episodes_for(named(Rule(), 1, 1), 3, n=40)
    world = world_for(episodes, 3)
    task = named(rules.TaskChance(Chance([0.0], [1.0], 0.0, [1.0])), 1, 1)
    signal = named(rules.Signal(), 1, 1)
    mixed = [
        replace(signal, alpha=0.5), replace(task, alpha_start=0.4), replace(signal, alpha=1.0, call="restart"),
        replace(signal, alpha=1.5), replace(task, alpha_start=0.6), replace(signal, alpha=0.5, timing="proposal"),
    ]  # fmt: skip
    expected = pd.DataFrame([world.outcomes(one).point() for one in mixed])
    pd.testing.assert_frame_equal(world.points(mixed), expected, check_exact=False)
    assert expected["cost"].nunique() == len(mixed)


@pytest.mark.parametrize("timing", ["post_action", "proposal"])
def test_points_are_the_operating_points_of_the_scores(timing):
    world = random_world(4, n=200)
    router = named(rules.Signal(), 0, 1, timing=timing)
    inside = np.arange(world.scores.shape[1]) < world.episodes.n_steps[:, None]
    scored = np.where(inside, world.scores, np.nan)[:, :, None]
    changes = {"diagnostics": (("episode", "step", "diagnostic"), scored)}
    episodes = quietly(world.episodes.dataset.assign(changes).assign_coords(diagnostic=["u0"]))
    alphas = np.linspace(0.05, 1, 13)
    points = World(episodes, world.counterfactuals).points([replace(router, alpha=alpha) for alpha in alphas])
    expected = operating_points(world.scores, world.counterfactuals, alphas, timing)
    pd.testing.assert_frame_equal(points, expected[list(points)], check_exact=False)


# Single steps


@pytest.fixture(scope="module")
def replayed():
    return world_of(draw_tasks(2, 60))


def test_single_steps_are_played_at_each_tasks_own_threshold(replayed):
    chance = Chance([0.0, 0.0], [1.0, 1.0], 0.2, [0.8, -0.4])
    rule = rules.TaskSignal([0.2, 0.5, 0.9], 1.0, chance, chance, [[0, 1], [0, 1]], [1.5, 0.0], 1.0)
    router = Router(
        rule=rule, call="strong_once", feature_names=("x1", "x2"), diagnostic_names=("risk",), alpha_start=np.inf
    )
    own = router.score(replayed.episodes).thresholds
    assert len(np.unique(own)) == 4
    found = replayed.outcomes(router)
    for level in np.unique(own):
        same = replayed.outcomes(replace(router, rule=rules.Signal(), feature_names=(), alpha=level))
        np.testing.assert_array_equal(found.success[own == level], same.success[own == level])
        np.testing.assert_array_equal(found.cost[own == level], same.cost[own == level])
    started = replace(router, alpha_start=0.0)
    strong = replayed.episodes.dataset["strong_success"].values
    at_once = router.score(replayed.episodes).opening >= 0
    np.testing.assert_array_equal(replayed.outcomes(started).success[at_once], strong[at_once])
    points = replayed.points([router, started])
    expected = pd.DataFrame([replayed.outcomes(one).point() for one in (router, started)])
    pd.testing.assert_frame_equal(points, expected, check_exact=False)


def test_single_steps_need_a_world_that_replays_them(replayed):
    router = Router(rule=rules.Signal(), call="strong_once", diagnostic_names=("risk",), alpha=0.5)
    still = replace(replayed, single_steps=None)
    for ask in (lambda: still.outcomes(router), lambda: still.points([router, router])):
        with pytest.raises(
            InvalidDataError, match="single_steps of the world is None; expected a function that replays"
        ):
            ask()
    crooked = replace(replayed, single_steps=lambda *_: np.zeros((4, 1, 1)))
    with pytest.raises(InvalidDataError, match="shape of what the world's single_steps gives"):
        crooked.points([router])
    rows = np.arange(0, 60, 7)
    np.testing.assert_array_equal(replayed.take(rows).outcomes(router).cost, replayed.outcomes(router).cost[rows])


# What belongs together


def test_a_world_brings_counterfactuals_into_the_order_of_the_episodes(replayed):
    shuffled = Counterfactuals(replayed.counterfactuals.dataset.isel(episode=slice(None, None, -1)))
    again = World(replayed.episodes, shuffled, PLAYED_COST)
    assert again.counterfactuals.ids.tolist() == replayed.episodes.ids.tolist()
    np.testing.assert_array_equal(again.counterfactuals.table(), replayed.counterfactuals.table())
    assert replayed.counterfactuals is World(replayed.episodes, replayed.counterfactuals, PLAYED_COST).counterfactuals


def test_a_world_refuses_what_does_not_belong_together(replayed):
    known = replayed.counterfactuals
    other = world_of(draw_tasks(9, 5))
    with pytest.raises(InvalidDataError, match="an id of these"):
        World(replayed.episodes, other.counterfactuals, PLAYED_COST)
    renamed = known.dataset.assign_coords(episode=[f"other {name}" for name in replayed.episodes.ids])
    with pytest.raises(InvalidDataError, match="an id of these"):
        World(replayed.episodes, Counterfactuals(renamed), PLAYED_COST)
    with pytest.raises(InvalidDataError, match=r"episode '2-0', handoff 0: cost is .*with_cost"):
        World(replayed.episodes, known, StepCost(1, 5))
    flipped = Counterfactuals(known.dataset.assign(never_success=1 - known.dataset["never_success"]))
    with pytest.raises(InvalidDataError, match="never_success"):
        World(replayed.episodes, flipped, PLAYED_COST)
    for bad in ({"episodes": 3}, {"counterfactuals": None}, {"single_steps": "no"}, {"cost": 7}):
        given = {"episodes": replayed.episodes, "counterfactuals": known, "cost": PLAYED_COST} | bad
        with pytest.raises(InvalidDataError, match=next(iter(bad))):
            World(**given)


def test_a_world_of_restarts_does_not_say_what_comes_of_resuming(replayed):
    steps = replayed.counterfactuals.table()[3, :, 0]
    logs = World.from_restarts(replayed.episodes, strong_steps=steps, cost=PLAYED_COST)
    router = Router(rule=rules.Signal(), diagnostic_names=("risk",), alpha=0.5)
    for ask in (logs.outcomes, lambda one: logs.points([one])):
        with pytest.raises(InvalidDataError, match="paired rollouts do not say what comes of resuming"):
            ask(router)
    restart = replace(router, call="restart")
    np.testing.assert_allclose(logs.outcomes(restart).cost, replayed.outcomes(restart).cost)
    assert logs.handoffs("restart") is logs.counterfactuals
    assert (replayed.handoffs("restart").table()[0, :, NEVER] == replayed.counterfactuals.table()[0, :, NEVER]).all()
