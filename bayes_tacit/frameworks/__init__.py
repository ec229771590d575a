"""The gateway's engine inside agent frameworks, one file each, and what these share; each needs the extra it names."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypedDict

from bayes_tacit.data.timing import Handoff
from bayes_tacit.errors import MissingDependencyError
from bayes_tacit.gateway import (
    Engine,
    MemoryStore,
    Plan,
    Prices,
    Reply,
    SessionLog,
    Sessions,
    SessionState,
    Store,
    Ticket,
)
from bayes_tacit.router import Router


def without(framework: str, extra: str, error: ImportError) -> MissingDependencyError:
    """Return the error to raise where a framework cannot be imported."""
    said = f"the adapter of {framework} cannot import it ({error}): install bayes_tacit[{extra}]"
    return MissingDependencyError(said)


_held: ContextVar[SessionState | None] = ContextVar("tacit session", default=None)


@contextmanager
def holding(kept: SessionState) -> Iterator[None]:
    """Let `Borrowed` give this session while the block runs, in this thread or task alone."""
    before = _held.set(kept)
    try:
        yield
    finally:
        _held.reset(before)


class Borrowed(MemoryStore):
    """Gives the session that is held, whatever it is called; keeps nothing.

    Examples
    --------
    >>> store, kept = Borrowed(), SessionState()
    >>> with holding(kept):
    ...     store.get("", "any")[1] is kept
    True
    """

    def get(self, scope: str, session: str) -> tuple[int, SessionState] | None:  # noqa: ARG002  as `Store` has it
        """Return the session that is held."""
        kept = _held.get()
        return None if kept is None else (0, kept)

    def put(self, scope: str, session: str, kept: SessionState, version: int) -> bool:  # noqa: ARG002
        """Leave the session with who holds it."""
        return True


class Options(TypedDict, total=False):
    """What all adapters take beside a router and two models, as `Engine` and `Sessions` have it."""

    shadow: Router | None
    canary: Router | None
    handoff: Handoff | None
    store: Store | None
    log: SessionLog | None
    prices: Prices | None
    plan: Plan | None


def sessions_of(router: Router, options: Options, store: Store | None = None) -> Sessions:
    """Return the sessions of an adapter."""
    about: dict[str, Any] = dict(options)
    deciding = {name: about.pop(name) for name in ("shadow", "canary", "handoff") if name in about}
    return Sessions(Engine(router, **deciding), **({**about, "store": store} if store is not None else about))


FAILED = 500
"""Status in the log of a call that raised an error and has none."""


@dataclass
class Call:
    """A call that is made, and what is kept of its reply."""

    reply: Reply | None = None


@contextmanager
def recording(sessions: Sessions, ticket: Ticket) -> Iterator[Call]:
    """Record at the block's end the reply that the call was given there, or what ended it."""
    call, began = Call(), time.perf_counter()
    try:
        yield call
    except Exception as failure:
        record_end(sessions, ticket, began, call.reply, failure)
        raise
    record_end(sessions, ticket, began, call.reply)


def record_end(
    sessions: Sessions, ticket: Ticket, began: float, reply: Reply | None, failure: Exception | None = None
) -> None:
    """Record a call that began at `began` (`time.perf_counter`): its reply, or what ended it."""
    status = getattr(failure, "status_code", None)
    failed = status if isinstance(status, int) else FAILED
    fault = None if failure is None else type(failure).__name__
    seconds = time.perf_counter() - began
    status = 200 if failure is None else failed
    sessions.replied(ticket, ticket.ruling.side, reply, status=status, seconds=seconds, fault=fault)
