"""A store for sessions that a framework keeps itself, in its own state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

from bayes_tacit.gateway import Kept

_held: ContextVar[Kept | None] = ContextVar("tacit session", default=None)


@contextmanager
def holding(kept: Kept) -> Iterator[None]:
    """Let `Borrowed` give this session while the block runs, in this thread or task alone."""
    before = _held.set(kept)
    try:
        yield
    finally:
        _held.reset(before)


class Borrowed:
    """Gives the session that is held, whatever it is called; keeps nothing.

    Examples
    --------
    >>> store, kept = Borrowed(), Kept()
    >>> with holding(kept), store.opened("", "any") as same:
    ...     same is kept
    True
    """

    def opened(self, scope: str, session: str) -> AbstractContextManager[Kept]:  # noqa: ARG002  as `Store` has it
        """Give the session that is held; a new one if none is."""
        return nullcontext(_held.get() or Kept())

    def found(self, scope: str, session: str) -> Kept | None:  # noqa: ARG002
        """Give the session that is held."""
        return _held.get()

    def beginning(self, scope: str, start: str) -> list[tuple[str, Kept]]:  # noqa: ARG002
        """Give nothing: it is known which session a request belongs to."""
        return []

    def count(self) -> int:
        """Count the sessions that are kept here: none."""
        return 0

    def close(self) -> None:
        """Let go of nothing."""
