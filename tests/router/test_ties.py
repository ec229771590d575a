"""A threshold that is an observed score decides the same for a table of episodes and for one checkpoint at a time."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from bayes_tacit.router.decision import OPENING
from bayes_tacit.scores.crossings import first_crossings
from routers import random_router
from simulate import quietly

from bayes_tacit import Counterfactuals, Router, StepCost
from bayes_tacit.data.frames import dataset_from_frames
from bayes_tacit.decisions.selection import operating_points, target_switch_rates

RULES = {"point": (1, "mean"), "mean": (40, "mean"), "a tenth": (40, 0.1), "another quantile": (40, 0.73)}
MEMORIES = {"all kept": (1.0, False), "fading": (0.6, False), "clock": (0.6, True), "learned": ("by draw", True)}
TASKS, STEPS = 10, 8
X = [f"x{j}" for j in range(2)]
U = [f"u{j}" for j in range(3)]


@cache
def rollouts() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(8)
    return rng.normal(size=(TASKS, 2)), rng.gamma(0.5, 0.6, size=(TASKS, STEPS, 3))


@cache
def episodes():
    x, u = rollouts()
    tasks = pd.DataFrame(x, columns=X).assign(episode=range(TASKS), cheap_success=True, strong_success=True)
    steps = pd.DataFrame(u.reshape(-1, 3), columns=U)
    steps = steps.assign(episode=np.repeat(range(TASKS), STEPS), step=np.tile(range(STEPS), TASKS))
    tasks = tasks.assign(window_start=np.nan, window_end=np.nan)
    return quietly(dataset_from_frames(tasks, steps, X, U))


def online(router: Router, task: int) -> int:
    """The step from which Strong acts, found by an agent; -1 for never."""
    x, u = rollouts()
    state = router.start(x[task].tolist())
    for values in u[task].tolist():
        state.observe(values)
    step = state.handoff_step
    return -1 if step is None else 0 if step == OPENING else step + 1


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("rule", RULES)
def test_alpha_at_a_score_of_the_table_is_reached_by_that_score_online(rule, memory):
    (draws, by), (kept, clock) = RULES[rule], MEMORIES[memory]
    kept = 0.3 if draws == 1 and kept == "by draw" else kept
    for seed, pace in ((1, 0.0), (2, 0.3)):
        plain = random_router(seed, draws=draws, rule=by, memory=kept, clock=clock, pace=pace)
        scores = plain.scores(episodes()).values * np.exp(pace * np.arange(STEPS))
        for task in range(TASKS):
            step = (3 * task) % STEPS
            router = replace(plain, alpha=float(scores[task, step]))
            found = router.handoffs(episodes()).values
            assert found[task] <= step + 1
            assert online(router, task) == found[task]


@pytest.mark.parametrize("rule", RULES)
def test_a_start_at_a_difference_of_the_table_is_reached_online(rule):
    draws, by = RULES[rule]
    plain = random_router(3, draws=draws, rule=by, alpha=0.999, started=True)
    for task, threshold in enumerate(plain.openings(episodes()).tolist()):
        router = replace(plain, at_start=replace(plain.at_start, threshold=threshold))
        assert router.handoffs(episodes()).values[task] == 0 == online(router, task)


def test_a_billionth_below_is_reached_and_a_millionth_is_not():
    scores = np.array([[0.1, 0.3 * (1 - 1e-12)], [0.1, 0.3 * (1 - 1e-6)]])
    assert first_crossings(scores, 0.3).tolist() == [1, -1]
    assert first_crossings(scores, np.inf).tolist() == [-1, -1]
    never = Counterfactuals.from_calls(
        ["a", "b"], success=[[1, 1], [1, 1]], strong_calls=[[2, 1], [2, 1]], never_success=[0, 0], cost=StepCost(1, 3)
    )
    assert operating_points(scores, never, [0.3], "proposal")["intervention_rate"].tolist() == [0.5]


def test_what_hands_nothing_off_is_not_reached_by_rounding():
    rates = target_switch_rates([[0.5, 1 - 1e-15], [0.1, 0.2]], [0.0, 0.5], quantiles=[], timing="proposal")
    assert rates.alpha.tolist() == [1 - 1e-15, np.inf]
