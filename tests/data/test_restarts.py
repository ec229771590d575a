"""What comes of a restart, compared with one that is counted step by step in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from handoff_worlds import random_world
from policy_worlds import COST, draw_tasks, pure_strong, world_of
from simulate import quietly

from bayes_tacit import Counterfactuals, LoggedCost, StepCost, World
from bayes_tacit.errors import InvalidDataError

NAMES = ("success", "cost", "cheap_calls", "strong_calls")


def carrying(episodes, **variables):
    """The same episodes, with more variables carried along."""
    dims = {1: ("episode",), 2: ("episode", "step")}
    return quietly(episodes.dataset.assign({n: (dims[np.ndim(v)], np.asarray(v)) for n, v in variables.items()}))


def by_hand(episodes, strong_steps, cheap_price, strong_price):
    """The four numbers (episode, handoff) of each restart, with never at the end."""
    out = np.full((4, len(episodes), episodes.horizon + 1), np.nan)
    cheap, strong = (episodes.dataset[f"{name}_success"].values for name in ("cheap", "strong"))
    for i, n in enumerate(episodes.n_steps.tolist()):
        paid = 0.0
        for t in range(episodes.horizon + 1):
            if t < n:
                out[:, i, t] = strong[i], paid + strong_price[i], t, strong_steps[i]
                paid += cheap_price[i][t]
        out[:, i, n:] = np.array([cheap[i], paid, n, 0])[:, None]
    return out


@pytest.mark.parametrize("seed", range(5))
def test_a_restart_ends_as_strongs_rollout_and_costs_the_cheap_steps_before_it_and_all_of_strongs(seed):
    episodes = random_world(seed, 40).episodes
    steps = episodes.dataset["strong_steps"].values
    found = Counterfactuals.from_restarts(episodes, strong_steps="strong_steps", cost=StepCost(1.5, 4))
    expected = by_hand(episodes, steps, np.full((40, episodes.horizon), 1.5), 4.0 * steps)
    np.testing.assert_allclose(found.table(), expected, rtol=1e-14)
    assert found.handoff == "restart"
    same = Counterfactuals.from_restarts(episodes, strong_steps=steps, cost=StepCost(1.5, 4))
    np.testing.assert_array_equal(same.table(), found.table())


def test_real_prices_by_step_are_added_up_and_a_rollouts_price_is_spread_over_its_steps(rng):
    episodes = random_world(7, 30).episodes
    inside = np.arange(episodes.horizon) < episodes.n_steps[:, None]
    by_step = np.where(inside, rng.random(inside.shape) * 100, np.nan)
    strong, whole = rng.random(30) * 1000, rng.random(30) * 50
    episodes = carrying(episodes, tokens=by_step, whole=whole, strong_tokens=strong)
    steps = episodes.dataset["strong_steps"].values
    found = Counterfactuals.from_restarts(
        episodes, strong_steps="strong_steps", cost=LoggedCost("tokens", "strong_tokens")
    )
    np.testing.assert_allclose(found.table(), by_hand(episodes, steps, by_step, strong), rtol=1e-12)
    spread = Counterfactuals.from_restarts(episodes, strong_steps=steps, cost=LoggedCost(whole, strong))
    even = np.repeat((whole / episodes.n_steps)[:, None], episodes.horizon, axis=1)
    np.testing.assert_allclose(spread.table(), by_hand(episodes, steps, even, strong), rtol=1e-12)
    np.testing.assert_array_equal(spread.pure_cheap.cost, whole)
    # A discarded proposal is one more Cheap call, at the price of the step at which it was made.
    late = np.minimum(1, episodes.n_steps - 1)
    rows = np.arange(30)
    with_proposal = found.outcomes_at(late, discards_proposal=True).cost
    np.testing.assert_allclose(with_proposal - found.outcomes_at(late).cost, by_step[rows, late])


def test_a_table_of_resumed_handoffs_gives_the_same_restarts_as_the_logs_do():
    tasks = draw_tasks(4, 50)
    world = world_of(tasks)
    steps = np.array([pure_strong(task).strong_calls for task in tasks])
    expected = Counterfactuals.from_restarts(world.episodes, strong_steps=steps, cost=COST)
    for found in (world.counterfactuals.restarted(COST), world.counterfactuals.restarted(), world.handoffs("restart")):
        assert found.handoff == "restart"
        np.testing.assert_allclose(found.table(), expected.table(), rtol=1e-14)
        np.testing.assert_allclose(
            found.table(discards_proposal=True), expected.table(discards_proposal=True), rtol=1e-14
        )
    assert world.handoffs("resume") is world.counterfactuals
    assert not np.array_equal(world.counterfactuals.table()[0], expected.table()[0])


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".nc"])
@pytest.mark.parametrize("kind", ["resume", "restart"])
def test_files_keep_the_kind_of_handoff(tmp_path, suffix, kind):
    table = random_world(3).counterfactuals
    table = table if kind == "resume" else table.restarted()
    table.write(tmp_path / f"table{suffix}")
    again = Counterfactuals.read(tmp_path / f"table{suffix}")
    assert again.handoff == kind
    assert again.select(again.ids[:3]).handoff == again.with_cost(StepCost(2, 9)).handoff == kind
    np.testing.assert_array_equal(again.table(), table.table())


def test_a_table_with_two_kinds_or_an_unknown_one_is_refused():
    frame = random_world(3).counterfactuals.to_frame()
    frame["kind"] = np.where(np.arange(len(frame)) % 2, "resume", "restart")
    with pytest.raises(InvalidDataError, match="one of them in all rows"):
        Counterfactuals.from_frame(frame)
    with pytest.raises(InvalidDataError, match="handoff is 'again'"):
        Counterfactuals.from_frame(frame.assign(kind="again"))


def test_a_world_of_logs_says_that_it_does_not_know_what_resuming_gives():
    episodes = random_world(2).episodes
    world = World.from_restarts(episodes, strong_steps="strong_steps", cost=StepCost(1, 3))
    assert world.handoffs("restart") is world.counterfactuals
    assert "restarts only" in repr(world)
    with pytest.raises(InvalidDataError, match="paired rollouts do not say what comes of resuming"):
        world.handoffs("resume")
    with pytest.raises(InvalidDataError, match="handoff is 'redo'"):
        world.handoffs("redo")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"strong_steps": None}, "strong_steps is None; expected the steps of Strong's rollouts"),
        ({"strong_steps": "steps"}, "carried variable is 'steps'"),
        ({"strong_steps": np.ones(3)}, r"shape of strong_steps is \(3,\)"),
        ({"strong_steps": np.r_[np.ones(29), 0]}, "episode 'task-29': strong_steps is 0.0; expected a finite number"),
        ({"cost": LoggedCost(np.full((30, 6), -1.0), np.ones(30))}, "task-0.*step 0.*-1.0; expected a finite number"),
        ({"cost": LoggedCost(np.ones(30), np.ones((30, 6)))}, "shape of the cost of Strong"),
        ({"cost": 3}, "cost is 3"),
    ],
)
def test_what_cannot_be_steps_or_prices_is_refused_by_name(changes, message):
    episodes = carrying(random_world(2).episodes, text=np.array(["a"] * 30))
    with pytest.raises(InvalidDataError, match=message):
        Counterfactuals.from_restarts(episodes, **{"strong_steps": "strong_steps", "cost": StepCost(1, 3)} | changes)


def test_a_table_without_prices_of_cheap_steps_says_what_a_restart_needs():
    table = Counterfactuals(random_world(2).counterfactuals.dataset.drop_vars("proposal_cost"))
    with pytest.raises(InvalidDataError, match="proposal_cost"):
        table.restarted()
    assert table.restarted(StepCost(1, 3)).handoff == "restart"
