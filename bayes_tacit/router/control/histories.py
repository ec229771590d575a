"""Controllers that look at all that Cheap has shown so far, at each of its checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from bayes_tacit import validate
from bayes_tacit.data.timing import DEFAULT_HANDOFF, DEFAULT_TIMING, HANDOFFS, TIMINGS, Handoff, Timing
from bayes_tacit.router.control.pilot import Checkpoint, Choice, GoingOn, Pilot, chosen
from bayes_tacit.router.control.summaries import Summaries
from bayes_tacit.router.decision import STRONG_BY
from bayes_tacit.scores.ties import reached_from

LOG_STEPS = "log steps"
"""The column with log(1 + t)."""


@dataclass(frozen=True)
class CountController:
    """Hands off for good once the number of signs so far is at least a threshold.

    Attributes
    ----------
    levels
        By diagnostic, the value above which a step shows a sign.
    threshold
        Of the number of signs, added over diagnostics and steps.
    timing
        With "post_action" Strong takes the next action; with "proposal" it acts in place of the proposal.
    handoff
        Whether Strong resumes from Cheap's state or restarts the task.

    Examples
    --------
    >>> pilot = CountController({"repeat": 0.5, "invalid": 0.1}, threshold=2).begin({}, "task-1")
    >>> [pilot.checkpoint(Checkpoint({"repeat": 1.0, "invalid": 0.0})).call for _ in range(2)]
    ['cheap', 'strong']
    """

    levels: Mapping[str, float]
    threshold: float
    timing: Timing = DEFAULT_TIMING
    handoff: Handoff = DEFAULT_HANDOFF
    name: str = "count"

    def __post_init__(self) -> None:
        """Check the settings."""
        _check(self.threshold, self.timing, self.handoff)

    def begin(self, features: Mapping[str, float], episode: str) -> Pilot:  # noqa: ARG002
        """Begin an episode."""
        return _Counting(self, episode)


@dataclass(frozen=True)
class LandmarkController:
    """Hands off for good where Cheap's chance to fail times Strong's to succeed is at least a threshold.

    Attributes
    ----------
    diagnostics
        The diagnostics that it looks at.
    cheap, strong
        Give the probabilities that each succeeds, from the task's features, of each diagnostic the sum so far (`total
        risk`), the latest (`last risk`) and the highest value (`highest risk`), and `log steps`. Such as a `Chance`.
    threshold
        Of the product.
    timing, handoff
        As for `CountController`.

    Examples
    --------
    >>> chances = lambda known: 1 - known["highest risk"], lambda _: 0.9
    >>> pilot = LandmarkController(("risk",), *chances, threshold=0.5).begin({}, "task-1")
    >>> [pilot.checkpoint(Checkpoint({"risk": risk})).call for risk in (0.1, 0.6)]
    ['cheap', 'strong']
    """

    diagnostics: tuple[str, ...]
    cheap: Callable[[Mapping[str, float]], float]
    strong: Callable[[Mapping[str, float]], float]
    threshold: float
    timing: Timing = DEFAULT_TIMING
    handoff: Handoff = DEFAULT_HANDOFF
    name: str = "landmark"

    def __post_init__(self) -> None:
        """Check the settings."""
        _check(self.threshold, self.timing, self.handoff)

    def begin(self, features: Mapping[str, float], episode: str) -> Pilot:
        """Begin an episode."""
        return _Landmarks(self, features, episode)


@dataclass
class _Counting(GoingOn):
    policy: CountController
    episode: str
    signs: int = field(default=0, init=False)

    def checkpoint(self, checkpoint: Checkpoint) -> Choice:
        levels = self.policy.levels
        values = chosen(checkpoint.diagnostics, tuple(levels), "diagnostics", self.episode)
        self.signs += sum(values[name] > level for name, level in levels.items())
        reached = self.signs >= reached_from(self.policy.threshold)
        return Choice(STRONG_BY[self.policy.handoff] if reached else "cheap", facts={"signs": self.signs})

    def memory(self) -> tuple[float, ...]:
        return (float(self.signs),)

    def recall(self, memory: tuple[float, ...]) -> None:
        self.signs = int(memory[0])


class _Landmarks(GoingOn):
    def __init__(self, policy: LandmarkController, features: Mapping[str, float], episode: str) -> None:
        self._policy = policy
        self._features = features
        self._episode = episode
        self._seen = Summaries(policy.diagnostics)

    def checkpoint(self, checkpoint: Checkpoint) -> Choice:
        policy = self._policy
        steps = float(np.log1p(self._seen.steps))
        self._seen.add(chosen(checkpoint.diagnostics, policy.diagnostics, "diagnostics", self._episode))
        known = {**self._features, LOG_STEPS: steps, **self._seen.by_name()}
        cheap, strong = float(policy.cheap(known)), float(policy.strong(known))
        score = (1 - cheap) * strong
        facts = {"score": score, "cheap": cheap, "strong": strong}
        return Choice(STRONG_BY[policy.handoff] if score >= reached_from(policy.threshold) else "cheap", facts=facts)

    def memory(self) -> tuple[float, ...]:
        return self._seen.memory()

    def recall(self, memory: tuple[float, ...]) -> None:
        self._seen.recall(memory)


def _check(threshold: float, timing: Timing, handoff: Handoff) -> None:
    validate.number("threshold", threshold)
    validate.choice("timing", timing, TIMINGS)
    validate.choice("handoff", handoff, HANDOFFS)
