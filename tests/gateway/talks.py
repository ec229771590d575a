"""Conversations as a client sends them again and again, and routers that look at nothing but messages."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
from routers import random_router

from bayes_tacit import Router
from bayes_tacit.logs.extractor import FLAGS
from bayes_tacit.router import Rule, pure
from bayes_tacit.router.rule import CALL_OF
from bayes_tacit.router.rules import Chance, Ended, Prefix, Signal, Signs, TaskChance, TwoChances

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


def watching(rule: Rule, *features: str, names: tuple[str, ...] = ("tool_error",), **settings: Any) -> Router:
    """A router of a rule that looks at one diagnostic of messages."""
    return Router(rule=rule, feature_names=features, diagnostic_names=names, **settings)


def alarm(alpha: float, name: str = "tool_error", *features: str, **settings: Any) -> Router:
    """Hands off where a diagnostic is high."""
    return watching(Signal(), *features, names=(name,), alpha=alpha, **settings)


def counting(signs: int = 2, handoff: str = "resume") -> Router:
    """Hands off at so many tool errors, one of which every bad turn has."""
    return watching(Signs([0.5]), alpha=float(signs), call=CALL_OF[handoff])


def tacit(draws: int = 1, **settings: Any) -> Router:
    """TACIT-Switch on all that messages show."""
    router = random_router(1, draws=draws, diagnostics=len(FLAGS), features=2, alpha=0.4, **settings)
    rule = replace(router.rule, mean=np.array([40.0, 1.0]), scale=np.array([10.0, 1.0]))
    return replace(router, rule=rule, diagnostic_names=FLAGS, feature_names=("prompt_length", "n_tools"))


def all_routers() -> dict[str, Router]:
    """One of every kind that looks at messages alone."""
    chance = Chance([40.0], [10.0], 0.0, [1.0])
    errors = Chance([1.0], [1.0], 0.0, [-3.0])
    seen = Chance([40.0, 2.0, 0.0, 0.0, 0.0], [10.0, 1.0, 1.0, 1.0, 1.0], 0.0, [1.0, -3.0, 0.0, 0.0, 0.0])
    sure = Chance([0.0] * 5, [1.0] * 5, 4.0, [0.0] * 5)
    prefix = Chance([0.0, 0.0], [1.0, 1.0], 1.0, [-1.0, -1.0])
    return {
        "tacit_switch": tacit(),
        "posterior": tacit(50),
        "forgetting": tacit(memory=0.6, clock=True),
        "pure_cheap": pure("cheap"),
        "pure_strong": pure("strong"),
        "task_router": Router(rule=TaskChance(chance), alpha_start=0.6, feature_names=("prompt_length",)),
        "first_alarm": alarm(0.5),
        "step_deferral": alarm(0.5, call="strong_once"),
        "count": counting(3),
        "landmark": watching(TwoChances(seen, sure), "prompt_length", alpha=0.4),
        "prefix_router": watching(Prefix(2, prefix), alpha=0.6, call="restart"),
        "cascade": watching(Ended(("total",), errors), alpha=0.5, call="restart"),
    }
