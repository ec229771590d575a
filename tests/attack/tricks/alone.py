"""A trick that takes a call of its own, and how that call may end."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Trick:
    """Code, the ends that are right for it, and what its output must not say."""

    code: str
    ends: tuple[str, ...] = ("ran", "raised", "killed", "stopped")
    seconds: float = 20.0
    says: str = ""
