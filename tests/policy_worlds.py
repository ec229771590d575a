"""A small agent-like world in plain Python, played step by step; policies are compared with what is played in it."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from simulate import quietly

from bayes_tacit import Counterfactuals, Episodes, StepCost
from bayes_tacit.data.frames import dataset_from_frames
from bayes_tacit.policies import World
from bayes_tacit.router import Router, rules

HORIZON = 7
GOAL = 4
COST = StepCost(cheap=1, strong=3, one_off=0.5)
DIAGNOSTICS = ("risk", "doubt")
FEATURES = ("x1", "x2")


@dataclass
class Task:
    """A task with all its luck, by step: two policies that do the same on it get the same."""

    name: str
    x: list[float]
    difficulty: float
    luck: list[float]
    drift: list[float]
    noise: list[list[float]]


@dataclass
class Played:
    success: int
    cheap_calls: int
    strong_calls: int
    risks: list[list[float]]
    """Diagnostics after each step of Cheap's, and None after one of Strong's."""

    def cost(self, heads: int = 0) -> float:
        return COST.cheap * self.cheap_calls + COST.strong * self.strong_calls + COST.one_off * heads


def draw_tasks(seed: int, n: int) -> list[Task]:
    rng = random.Random(seed)
    tasks = []
    for number in range(n):
        difficulty = rng.gauss(0, 1)
        tasks.append(
            Task(
                name=f"{seed}-{number}",
                x=[0.5 * difficulty + rng.gauss(0, 1), 3 + 2 * rng.gauss(0, 1)],
                difficulty=difficulty,
                luck=[rng.random() for _ in range(HORIZON)],
                drift=[rng.random() for _ in range(HORIZON)],
                noise=[[rng.expovariate(4), rng.expovariate(2)] for _ in range(HORIZON)],
            )
        )
    return tasks


def play(task: Task, strong_acts: Callable[[list[list[float] | None]], bool]) -> Played:
    """Play a task; before each step the policy says, from the diagnostics so far, whether Strong takes it."""
    lost, right, cheap, strong, seen = False, 0, 0, 0, []
    for step in range(HORIZON):
        if strong_acts(seen):
            strong += 1
            lost = lost and task.drift[step] > 0.5
            right += task.luck[step] < (0.4 if lost else 0.7)
            seen.append(None)
        else:
            cheap += 1
            lost = lost or task.drift[step] < 0.15 + 0.1 * max(0.0, task.difficulty)
            right += task.luck[step] < (0.25 if lost else 0.8)
            seen.append([level + (0.8 if lost else 0.0) for level in task.noise[step]])
        if right == GOAL:
            break
    return Played(int(right == GOAL), cheap, strong, seen)


def pure_cheap(task: Task) -> Played:
    return play(task, lambda _: False)


def pure_strong(task: Task) -> Played:
    return play(task, lambda _: True)


def hand_off_at(task: Task, step: int) -> Played:
    return play(task, lambda seen: len(seen) >= step)


def defer(task: Task, diagnostic: int, threshold: float) -> Played:
    return play(task, lambda seen: bool(seen) and seen[-1] is not None and seen[-1][diagnostic] >= threshold)


def defer_by(task: Task, router: Router, threshold: float) -> Played:
    """Strong takes the step after one whose score under the router's rule reaches a threshold."""
    rule = router.rule
    known = dict(zip(FEATURES, task.x, strict=True))
    x = [known[name] for name in router.feature_names]

    def high(seen: list[list[float] | None]) -> bool:
        if not seen or seen[-1] is None:
            return False
        risk, doubt = seen[-1]
        numbers = {"risk": risk, "doubt": doubt, "nll": 2 * doubt + 0.1}
        u = [numbers[name] for name in router.diagnostic_names]
        if isinstance(rule, rules.StepChance):
            return chance_of(rule.wrong, x + u) >= threshold
        return u[0] >= threshold

    return play(task, high)


def chance_of(model: rules.Chance, columns: list[float]) -> float:
    """A logistic probability, by the letter."""
    terms = zip(model.slopes.tolist(), columns, model.mean.tolist(), model.scale.tolist(), strict=True)
    return 1 / (1 + math.exp(-model.intercept - sum(b * (x - m) / s for b, x, m, s in terms)))


def episodes_of(tasks: list[Task]) -> Episodes:
    rows, steps = [], []
    for task in tasks:
        cheap, strong = pure_cheap(task), pure_strong(task)
        marked = strong.success > cheap.success
        start = next((t for t, risk in enumerate(cheap.risks) if risk[0] > 0.8), len(cheap.risks) - 1)
        rows.append(
            {
                "episode": task.name,
                "cheap_success": cheap.success,
                "strong_success": strong.success,
                "window_start": start if marked else None,
                "window_end": start if marked else None,
                "x1": task.x[0],
                "x2": task.x[1],
                "tool": int(task.difficulty > 0.5),
                "label": "text",
            }
        )
        steps += [
            {"episode": task.name, "step": t, "risk": risk[0], "doubt": risk[1], "nll": 2 * risk[1] + 0.1}
            for t, risk in enumerate(cheap.risks)
        ]
    return quietly(dataset_from_frames(pd.DataFrame(rows), pd.DataFrame(steps), list(FEATURES), list(DIAGNOSTICS)))


def world_of(tasks: list[Task], *, replayed: bool = True) -> World:
    rows = []
    for task in tasks:
        cheap = pure_cheap(task)
        steps = [*range(len(cheap.risks)), None]
        for step in steps:
            played = cheap if step is None else hand_off_at(task, step)
            rows.append(
                {
                    "episode": task.name,
                    "handoff": step,
                    "success": played.success,
                    "cheap_calls": played.cheap_calls,
                    "strong_calls": played.strong_calls,
                }
            )

    def single_steps(router: Router, thresholds: np.ndarray) -> np.ndarray:
        # A threshold is reached by what equals it but for rounding.
        lower = (thresholds * (1 - 1e-9)).tolist()
        played = [[defer_by(task, router, alpha) for task in tasks] for alpha in lower]
        read = (lambda one: one.success, Played.cost, lambda one: one.cheap_calls, lambda one: one.strong_calls)
        return np.array([[[of(one) for one in row] for row in played] for of in read], dtype=float)

    counterfactuals = Counterfactuals.from_frame(pd.DataFrame(rows), cost=COST)
    return World(episodes_of(tasks), counterfactuals, COST, single_steps if replayed else None)
