"""Controllers that look once at what Cheap has done, and keep it or start anew with Strong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bayes_tacit import validate
from bayes_tacit.data.timing import DEFAULT_TIMING, Timing
from bayes_tacit.router.control.pilot import GO_ON, Checkpoint, Choice, GoingOn, Pilot, chosen
from bayes_tacit.router.control.summaries import Summaries


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
    diagnostics
        The diagnostics that it looks at; by default all that there are.

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
    diagnostics: tuple[str, ...] = ()

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
    diagnostics
        The diagnostics that it looks at; by default all that there are.

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
    diagnostics: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the number."""
        validate.number("threshold", self.threshold)

    def begin(self, features: Mapping[str, float], episode: str) -> Pilot:  # noqa: ARG002
        """Begin an episode."""
        return _Cascade(self, features)


class _Prefix(GoingOn):
    def __init__(self, policy: PrefixRouterController, features: Mapping[str, float]) -> None:
        self._policy = policy
        self._features = features
        self._names = policy.diagnostics
        self._seen: list[float] = []
        self._steps = 0
        self._asked = False

    def checkpoint(self, checkpoint: Checkpoint) -> Choice:
        if self._steps < self._policy.steps:
            self._names = self._names or tuple(checkpoint.diagnostics)
            self._seen += chosen(checkpoint.diagnostics, self._names, "diagnostics").values()
            self._steps += 1
        return GO_ON

    def before(self) -> Choice:
        if self._asked or self._steps < self._policy.steps:
            return GO_ON
        self._asked = True
        names = (f"{name}[{step}]" for step in range(self._steps) for name in self._names)
        value = float(self._policy.chance({**self._features, **dict(zip(names, self._seen, strict=True))}))
        return Choice("restart" if value < self._policy.threshold else "cheap", one_off_calls=1, facts={"value": value})

    def memory(self) -> tuple[float, ...]:
        return (float(self._asked), float(self._steps), *self._seen)

    def recall(self, memory: tuple[float, ...]) -> None:
        asked, steps, *self._seen = memory
        self._asked, self._steps = bool(asked), int(steps)


class _Cascade(GoingOn):
    def __init__(self, policy: CascadeController, features: Mapping[str, float]) -> None:
        self._policy = policy
        self._features = features
        self._seen = Summaries(policy.diagnostics)

    def checkpoint(self, checkpoint: Checkpoint) -> Choice:
        names = self._policy.diagnostics or tuple(checkpoint.diagnostics)
        self._seen.add(chosen(checkpoint.diagnostics, names, "diagnostics"))
        return GO_ON

    def end(self) -> Choice:
        if not self._seen.steps:
            return GO_ON
        value = float(self._policy.chance({**self._features, **self._seen.by_name()}))
        return Choice("restart" if value < self._policy.threshold else "cheap", facts={"value": value})

    def memory(self) -> tuple[float, ...]:
        return self._seen.memory()

    def recall(self, memory: tuple[float, ...]) -> None:
        self._seen.recall(memory)
