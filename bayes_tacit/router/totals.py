"""What accumulates over an episode, and what a scorer makes of it."""

from __future__ import annotations

from typing import Any

from bayes_tacit.errors import InvalidDataError

Total = tuple[float, ...]
"""What accumulates over an episode."""

Scored = tuple[Any, float, float, float, float | None, float | None]
"""State after a checkpoint; its risk, cumulative risk, score, and the ends of the band."""


def overflow(cumulative: float) -> InvalidDataError:
    """Say that the cumulative risk is no number any more."""
    return InvalidDataError(
        "diagnostics whose sum over the episode is finite", field="cumulative risk", value=cumulative
    )
