"""How a call of a framework ended, told to the sessions in one way."""

from __future__ import annotations

import time

from bayes_tacit.gateway import Reply, Sessions, Ticket

FAILED = 500
"""Status in the log of a call that raised an error and has none."""


def record_end(
    sessions: Sessions, ticket: Ticket, began: float, reply: Reply | None, failure: Exception | None = None
) -> None:
    """Tell the sessions of a call that began at `began` (`time.perf_counter`): its reply, or what ended it."""
    status = getattr(failure, "status_code", None)
    failed = status if isinstance(status, int) else FAILED
    sessions.replied(
        ticket,
        ticket.ruling.side,
        reply,
        status=200 if failure is None else failed,
        seconds=time.perf_counter() - began,
        fault=None if failure is None else type(failure).__name__,
    )
