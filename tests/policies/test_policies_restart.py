"""Policies whose handoff restarts the task, against a world that is played step by step in plain Python."""

from __future__ import annotations

import pytest
from policy_worlds import COST, draw_tasks, episodes_of, pure_cheap, pure_strong, world_of
from test_policies import TASKS, TRAINING_TASKS, assert_same, score, together

from bayes_tacit import World
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.policies import Cascade, Count, FirstAlarm, Landmark, PrefixRouter, TacitSwitch, TaskRouter

FIT = {"ridge": 0.01, "restarts": 2}


@pytest.fixture(scope="module")
def training():
    return episodes_of(TRAINING_TASKS)


@pytest.fixture(scope="module")
def world():
    return world_of(TASKS)


@pytest.fixture(scope="module")
def logs(world):
    """The same tasks, of which nothing is known but both rollouts."""
    steps = [pure_strong(task).strong_calls for task in TASKS]
    return World.from_restarts(world.episodes, strong_steps=steps, cost=COST)


def restart_at(task, step, discarded=0):
    """Cheap plays up to a step, then Strong plays the task from its start."""
    cheap = pure_cheap(task)
    return together(type(cheap)(0, step + discarded, 0, []), pure_strong(task))


@pytest.mark.parametrize("timing", ["post_action", "proposal"])
def test_first_alarm_can_restart_the_task(training, world, logs, timing):
    fitted = FirstAlarm("risk", timing=timing, handoff="restart", n_candidates=21).fit(training)

    def brute(task, setting):
        cheap = pure_cheap(task)
        for step, risk in enumerate(cheap.risks):
            if risk[0] >= setting["alpha"]:
                if timing == "proposal":
                    return restart_at(task, step, discarded=1)
                # After the last action the rollout has ended, and its result stands.
                return (cheap, cheap.cost()) if step + 1 == len(cheap.risks) else restart_at(task, step + 1)
        return cheap, cheap.cost()

    assert_same(fitted, world, brute)
    assert_same(fitted, logs, brute)


def test_tacit_switch_can_restart_the_task(training, world, logs):
    fitted = TacitSwitch(options=FIT, handoff="restart", candidates="switch_rates").fit(training)

    def brute(task, setting):
        cheap = pure_cheap(task)
        for step in range(len(cheap.risks) - 1):
            if score(fitted.estimate, task, cheap.risks[: step + 1]) >= setting["alpha"]:
                return restart_at(task, step + 1)
        return cheap, cheap.cost()

    assert_same(fitted, world, brute)
    assert_same(fitted, logs, brute)


@pytest.mark.parametrize("policy", [TaskRouter(), PrefixRouter(n_candidates=11), Cascade(n_candidates=11)])
def test_policies_that_never_resume_need_nothing_but_both_rollouts(training, world, logs, policy):
    fitted = policy.fit(training)
    known, from_logs = (fitted.operating_points(one) for one in (world, logs))
    for name in ("success", "cost", "strong_share", "intervention_rate"):
        assert known[name].tolist() == pytest.approx(from_logs[name].tolist(), rel=1e-12)


def test_a_policy_that_resumes_says_that_logs_do_not_know(training, logs):
    for policy in (FirstAlarm("risk"), Count(), Landmark(), TacitSwitch(options=FIT)):
        with pytest.raises(InvalidDataError, match="paired rollouts do not say what comes of resuming"):
            policy.fit(training).operating_points(logs)
    for policy in (FirstAlarm, Count, Landmark, TacitSwitch):
        with pytest.raises(InvalidDataError, match="handoff is 'again'"):
            policy(handoff="again")


def test_restarting_costs_more_than_resuming_at_the_same_steps(training):
    world = world_of(draw_tasks(8, 80))
    resumed, restarted = (FirstAlarm("risk", handoff=kind).fit(training) for kind in ("resume", "restart"))
    alpha = {"alpha": 0.9}
    assert (resumed.handoffs(world.episodes, alpha) == restarted.handoffs(world.episodes, alpha)).all()
    assert restarted.outcomes(world, alpha).cost.mean() > resumed.outcomes(world, alpha).cost.mean()
