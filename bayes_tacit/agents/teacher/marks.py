"""A teacher's mark: the earliest range of checkpoints at which handing off was due, and the best one in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bayes_tacit import validate
from bayes_tacit.errors import InvalidDataError

Evidence = Literal["one_step", "range"]
"""What a mark says about the threshold: that it is crossed at the recommended checkpoint, or somewhere in the range."""


@dataclass(frozen=True)
class Mark:
    """A range of checkpoints after an action, counted from 0 with both ends included, and the one recommended.

    A mark at t means: hand off after Cheap's action t and its result, before action t + 1.

    Examples
    --------
    >>> mark = Mark(start=3, end=6, recommended=4)
    >>> mark.window("one_step"), mark.window("range")
    ((4, 4), (3, 6))
    """

    start: int
    end: int
    recommended: int

    def __post_init__(self) -> None:
        """Check the order."""
        for name in ("start", "end", "recommended"):
            validate.whole(f"{name} of the mark", getattr(self, name), 0)
        if not self.start <= self.recommended <= self.end:
            raise InvalidDataError(
                "start <= recommended <= end", field="mark", value=(self.start, self.recommended, self.end)
            )

    def window(self, evidence: Evidence) -> tuple[int, int]:
        """Give the window for `Episodes`."""
        if validate.choice("evidence", evidence, ("one_step", "range")) == "one_step":
            return self.recommended, self.recommended
        return self.start, self.end

    def check(self, n_steps: int, episode: str) -> None:
        """Refuse a mark that is not inside a rollout of so many checkpoints."""
        if self.end >= n_steps:
            raise InvalidDataError(
                f"at most {n_steps - 1}, the last checkpoint of the Cheap rollout",
                episode=episode,
                field="end of the mark",
                value=self.end,
            )
