"""Logs of sessions that were really served: conversations with good and bad turns, by the gateway's own core."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
from talks import TASK, TOOLS, tacit, talk

from bayes_tacit import Router
from bayes_tacit.gateway import Engine, Identity, Reply, SessionLog, Sessions, Usage
from bayes_tacit.logs.extractor import FLAGS
from bayes_tacit.router.files import Ranges


def trained(quantiles: tuple[float, ...] = (0, 0, 0, 0, 1, 1, 1)) -> Router:
    """TACIT-Switch that knows its training data: signs in a quarter to half of all steps, prompts of 30 to 60."""
    ranges = Ranges(
        {"prompt_length": (30, 31, 35, 40, 45, 58, 60), "n_tools": (1,) * 7}, dict.fromkeys(FLAGS, quantiles)
    )
    return replace(tacit(), ranges=ranges)


def ticking() -> Iterator[float]:
    """A clock that gives every line its own second."""
    return map(float, count(1_700_000_000, 40))


def serve(
    path: Path,
    router: Router,
    rng: np.random.Generator,
    sessions: int,
    *,
    shadow: Router | None = None,
    longest: int = 10,
    bad: float = 0.4,
) -> None:
    """Serve so many sessions, and post an outcome for most of them."""
    ticks = ticking()
    served = Sessions(Engine(router, shadow), log=SessionLog(path, clock=lambda: next(ticks)))
    for number in range(sessions):
        who = Identity("", f"task-{number}", "test")
        often = rng.uniform(0, 2 * bad)
        turns = "".join("!" if rng.random() < often else "." for _ in range(rng.integers(2, longest)))
        latched = False
        for length in range(len(turns) + 1):
            ticket = served.begin(who, talk(turns[:length], _task(number)), TOOLS)
            latched = ticket.ruling.latched
            reply = Reply(usage=Usage(prompt=100 * (length + 1), completion=10))
            served.replied(ticket, ticket.ruling.side, reply, seconds=0.1)
        if rng.random() < 0.9:
            served.outcome("", who.session, {"success": bool(rng.random() < (0.8 if latched else 1 - often))})


def _task(number: int) -> list[dict[str, str]]:
    return [TASK[0], {"role": "user", "content": "How many rows has t" + "?" * (number % 20 + 1)}]
