"""A controller that judges each of Cheap's steps by itself, and gives Strong the ones that look wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bayes_tacit import validate
from bayes_tacit.data.timing import DEFAULT_TIMING, TIMINGS, Timing
from bayes_tacit.router.control.pilot import Checkpoint, Choice, GoingOn, Pilot, chosen


@dataclass(frozen=True)
class TrimController:
    """Gives single steps to Strong where the probability that Cheap's step is wrong is at least a threshold.

    With the timing "proposal" Strong acts in place of the proposal that was judged; with "post_action" it takes the
    action after. Then Cheap acts again.

    Attributes
    ----------
    diagnostics
        The diagnostics that it looks at.
    wrong
        Gives the probability from the task's features and the step's own diagnostics (`last risk`), such as a `Chance`.
    threshold
        Of the probability.

    Examples
    --------
    >>> controller = TrimController(("risk",), lambda known: known["last risk"], threshold=0.5)
    >>> pilot = controller.begin({}, "task-1")
    >>> [pilot.checkpoint(Checkpoint({"risk": risk})).call for risk in (0.2, 0.7, 0.1)]
    ['cheap', 'strong_once', 'cheap']
    """

    diagnostics: tuple[str, ...]
    wrong: Callable[[Mapping[str, float]], float]
    threshold: float
    timing: Timing = DEFAULT_TIMING
    name: str = "trim"

    def __post_init__(self) -> None:
        """Check the settings."""
        if self.threshold != float("inf"):
            validate.number("threshold", self.threshold)
        validate.choice("timing", self.timing, TIMINGS)

    def begin(self, features: Mapping[str, float], episode: str) -> Pilot:
        """Begin an episode."""
        return _Judging(self, features, episode)


@dataclass(frozen=True)
class _Judging(GoingOn):
    policy: TrimController
    features: Mapping[str, float]
    episode: str

    def checkpoint(self, checkpoint: Checkpoint) -> Choice:
        policy = self.policy
        values = chosen(checkpoint.diagnostics, policy.diagnostics, "diagnostics", self.episode)
        wrong = float(policy.wrong({**self.features, **{f"last {name}": value for name, value in values.items()}}))
        return Choice("strong_once" if wrong >= policy.threshold else "cheap", facts={"wrong": wrong})
