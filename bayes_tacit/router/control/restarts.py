"""Controllers that look once at what Cheap has done, and keep it or start anew with Strong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import add

from bayes_tacit import validate
from bayes_tacit.data.timing import DEFAULT_TIMING, Timing
from bayes_tacit.router.control.pilot import GO_ON, Checkpoint, Choice, GoingOn, Pilot

SUMMARIES: Mapping[str, Callable[[Sequence[float]], float]] = {
    # Added one after the other, as a whole table of episodes is: Python's own sum corrects its rounding.
    "total": partial(reduce, add),
    "mean": lambda values: reduce(add, values) / len(values),
    "highest": max,
    "last": lambda values: values[-1],
}
"""What is taken of one diagnostic's values over an episode, by name."""


@dataclass(frozen=True)
class PrefixRouterController:
    """Looks once, after Cheap's first steps, and goes on with Cheap or restarts with Strong.

    An episode that has ended before is not looked at. The look is charged as one one-off call, and the restart as a
    full Strong rollout on top of the prefix.

    Attributes
    ----------
    steps
        Length K of the prefix.
    chance
        Gives the probability that Cheap succeeds, from the task's features and the diagnostics of the prefix: `risk[1]`
        is the diagnostic `risk` at step 1. Such as a `Chance`.
    threshold
        Strong restarts where the probability is below it.

    Examples
    --------
    >>> pilot = PrefixRouterController(1, lambda known: 1 - known["risk[0]"], threshold=0.5).begin({}, "task-1")
    >>> pilot.checkpoint(Checkpoint({"risk": 0.8})).call, pilot.before().call
    ('cheap', 'restart')
    """

    steps: int
    chance: Callable[[Mapping[str, float]], float]
    threshold: float
    timing: Timing = DEFAULT_TIMING
    name: str = "prefix_router"

    def __post_init__(self) -> None:
        """Check the numbers."""
        validate.whole("steps of the prefix", self.steps, 1)
        validate.number("threshold", self.threshold)

    def begin(self, features: Mapping[str, float], episode: str) -> Pilot:  # noqa: ARG002
        """Begin an episode."""
        return _Prefix(self, features)


@dataclass(frozen=True)
class CascadeController:
    """Judges the finished Cheap episode, and restarts with Strong if it looks failed.

    Attributes
    ----------
    chance
        Gives the probability that Cheap succeeded, from the task's features and the summaries of all diagnostics:
        `total risk` is the sum of the diagnostic `risk`. Such as a `Chance`.
    threshold
        Strong restarts where the probability is below it.

    Examples
    --------
    >>> pilot = CascadeController(lambda known: 1 - known["highest risk"], threshold=0.5).begin({}, "task-1")
    >>> for risk in (0.8, 0.1):
    ...     _ = pilot.checkpoint(Checkpoint({"risk": risk}))
    >>> pilot.end().call
    'restart'
    """

    chance: Callable[[Mapping[str, float]], float]
    threshold: float
    timing: Timing = DEFAULT_TIMING
    name: str = "cascade"

    def __post_init__(self) -> None:
        """Check the number."""
        validate.number("threshold", self.threshold)

    def begin(self, features: Mapping[str, float], episode: str) -> Pilot:  # noqa: ARG002
        """Begin an episode."""
        return _Cascade(self, features)


@dataclass
class _Seeing(GoingOn):
    """Remembers the diagnostics of every checkpoint."""

    features: Mapping[str, float]
    seen: list[Mapping[str, float]] = field(default_factory=list, init=False)

    def checkpoint(self, checkpoint: Checkpoint) -> Choice:
        self.seen.append(checkpoint.diagnostics)
        return GO_ON


class _Prefix(_Seeing):
    def __init__(self, policy: PrefixRouterController, features: Mapping[str, float]) -> None:
        super().__init__(features)
        self._policy = policy
        self._asked = False

    def before(self) -> Choice:
        if self._asked or len(self.seen) < self._policy.steps:
            return GO_ON
        self._asked = True
        shown = {f"{name}[{step}]": value for step, given in enumerate(self.seen) for name, value in given.items()}
        value = float(self._policy.chance({**self.features, **shown}))
        return Choice("restart" if value < self._policy.threshold else "cheap", one_off_calls=1, facts={"value": value})


class _Cascade(_Seeing):
    def __init__(self, policy: CascadeController, features: Mapping[str, float]) -> None:
        super().__init__(features)
        self._policy = policy

    def end(self) -> Choice:
        if not self.seen:
            return GO_ON
        series = {name: [given[name] for given in self.seen] for name in self.seen[0]}
        shown = {f"{word} {name}": of(values) for word, of in SUMMARIES.items() for name, values in series.items()}
        value = float(self._policy.chance({**self.features, **shown}))
        return Choice("restart" if value < self._policy.threshold else "cheap", facts={"value": value})
