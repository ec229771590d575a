"""Conversations as a client sends them again and again, and routers that look at nothing but messages."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
from routers import random_router

from bayes_tacit import Router
from bayes_tacit.logs.extractor import FLAGS
from bayes_tacit.router import PolicyRouter
from bayes_tacit.router.control import (
    CascadeController,
    Chance,
    CountController,
    FirstAlarmController,
    LandmarkController,
    PrefixRouterController,
    PureController,
    StepDeferralController,
    TaskRouterController,
)

TASK = [{"role": "system", "content": "You answer with SQL."}, {"role": "user", "content": "How many rows has t?"}]
TOOLS = [{"type": "function", "function": {"name": "sql", "parameters": {"type": "object"}}}]


def turn(number: int, *, bad: bool = False, identity: str | None = None, **more: Any) -> list[dict[str, Any]]:
    """A turn with one call and its answer: a new query, or the same wrong one."""
    name = f"call_{number}" if identity is None else identity
    query = "SELECT" if bad else f"SELECT {number}"
    call = {"id": name, "type": "function", "function": {"name": "sql", "arguments": json.dumps({"query": query})}}
    said = "Error: incomplete input" if bad else f"[({number},)]"
    return [
        {"role": "assistant", "content": None, "tool_calls": [call], **more},
        {"role": "tool", "tool_call_id": name, "content": said},
    ]


def talk(turns: str, task: list[dict[str, Any]] = TASK) -> list[dict[str, Any]]:
    """A conversation with a good turn for each "." and a bad one for each "!"."""
    messages = list(task)
    for number, kind in enumerate(turns):
        messages += turn(number, bad=kind == "!")
    return messages


def counting(signs: int = 2, **settings: Any) -> PolicyRouter:
    """Hands off at so many tool errors, one of which every bad turn has."""
    return PolicyRouter(CountController({"tool_error": 0.5}, float(signs), **settings), (), ("tool_error",))


def tacit(draws: int = 1, **settings: Any) -> Router:
    """TACIT-Switch on all that messages show."""
    router = random_router(1, draws=draws, diagnostics=len(FLAGS), features=2, alpha=0.4, **settings)
    return replace(
        router,
        diagnostic_names=FLAGS,
        feature_names=("prompt_length", "n_tools"),
        feature_mean=np.array([40.0, 1.0]),
        feature_scale=np.array([10.0, 1.0]),
    )


def all_routers() -> dict[str, Router | PolicyRouter]:
    """One of every kind that a file can hold and that looks at messages alone."""
    chance = Chance(("prompt_length",), (40.0,), (10.0,), 0.0, (1.0,))
    errors = Chance(("total tool_error",), (1.0,), (1.0,), 0.0, (-3.0,))
    prefix = Chance(("tool_error[0]", "tool_error[1]"), (0.0, 0.0), (1.0, 1.0), 1.0, (-1.0, -1.0))
    one = ("tool_error",)
    return {
        "tacit_switch": tacit(),
        "posterior": tacit(50),
        "forgetting": tacit(memory=0.6, clock=True),
        "pure_cheap": PolicyRouter(PureController("cheap")),
        "pure_strong": PolicyRouter(PureController("strong")),
        "task_router": PolicyRouter(TaskRouterController(chance, 0.4), ("prompt_length",)),
        "first_alarm": PolicyRouter(FirstAlarmController(0.5, "tool_error"), (), one),
        "step_deferral": PolicyRouter(StepDeferralController(0.5, "tool_error"), (), one),
        "count": counting(3),
        "landmark": PolicyRouter(LandmarkController(one, errors, chance, 0.4), ("prompt_length",), one),
        "prefix_router": PolicyRouter(PrefixRouterController(2, prefix, 0.4, diagnostics=one), (), one),
        "cascade": PolicyRouter(CascadeController(errors, 0.5, diagnostics=one), (), one),
    }
