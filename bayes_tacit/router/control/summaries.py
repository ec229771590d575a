"""What is remembered of an episode's diagnostics: a few numbers for each, whatever its length."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass
class Summaries:
    """Number of steps so far, and of each diagnostic the sum, the highest and the latest value.

    Attributes
    ----------
    names
        The diagnostics; none before the first step takes all that it gets.

    Examples
    --------
    >>> seen = Summaries(("risk",))
    >>> for risk in (0.5, 0.25):
    ...     seen.add({"risk": risk})
    >>> seen.by_name()
    {'total risk': 0.75, 'mean risk': 0.375, 'highest risk': 0.5, 'last risk': 0.25}
    """

    names: tuple[str, ...] = ()
    steps: int = field(default=0, init=False)
    total: dict[str, float] = field(default_factory=dict, init=False)
    highest: dict[str, float] = field(default_factory=dict, init=False)
    last: dict[str, float] = field(default_factory=dict, init=False)

    def add(self, values: Mapping[str, float]) -> None:
        """Add a step, one term after the other as a whole table of episodes is."""
        if not self.names:
            self.names = tuple(values)
        for name in self.names:
            value = values[name]
            self.total[name] = self.total[name] + value if self.steps else value
            self.highest[name] = max(self.highest[name], value) if self.steps else value
            self.last[name] = value
        self.steps += 1

    def by_name(self) -> dict[str, float]:
        """Give all summaries, each with its word before the name."""
        mean = {name: total / self.steps for name, total in self.total.items()}
        words = {"total": self.total, "mean": mean, "highest": self.highest, "last": self.last}
        return {f"{word} {name}": value for word, values in words.items() for name, value in values.items()}

    def memory(self) -> tuple[float, ...]:
        """Give everything as numbers."""
        return (float(self.steps), *self.total.values(), *self.highest.values(), *self.last.values())

    def recall(self, memory: tuple[float, ...]) -> None:
        """Go on from what `memory` gave, for the same names."""
        steps, *rest = memory
        self.steps = int(steps)
        size = len(rest) // 3
        for place, known in enumerate((self.total, self.highest, self.last)):
            known.update(zip(self.names, rest[place * size : (place + 1) * size], strict=self.steps > 0))
