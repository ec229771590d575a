"""The controller that plays whatever a router decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from bayes_tacit.data.timing import Timing
from bayes_tacit.router.control.pilot import GO_ON, Checkpoint, Choice, GoingOn, Pilot, chosen
from bayes_tacit.router.decision import Decision


class Running(Protocol):
    """An episode under a router, such as a `HandoffState`."""

    @property
    def opening(self) -> Decision | None:
        """What was decided before the first step."""
        ...

    def observe(self, diagnostics: Mapping[str, float]) -> Decision:
        """Add a checkpoint and decide."""
        ...

    def finish(self) -> Decision | None:
        """End the episode."""
        ...


class Routes(Protocol):
    """A router of any policy."""

    @property
    def timing(self) -> Timing:
        """Where Cheap's checkpoints are."""
        ...

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The features that it takes."""
        ...

    @property
    def diagnostic_names(self) -> tuple[str, ...]:
        """The diagnostics that it takes."""
        ...

    @property
    def fingerprint(self) -> str:
        """What it is known by."""
        ...

    def start(self, features: Mapping[str, float], *, shadow: bool = ..., episode: str | int | None = ...) -> Running:
        """Begin an episode."""
        ...


@dataclass(frozen=True)
class RouterController:
    """Plays what a router decides: TACIT-Switch hands off for good when the router's score reaches alpha.

    The extractor may give more features and diagnostics than the router takes.

    Attributes
    ----------
    router
        Decides; its timing says whether Strong takes the next action or acts in place of a discarded proposal.
    shadow
        Decide and record, but never hand off.
    """

    router: Routes
    shadow: bool = False
    name: str = "tacit_switch"

    @property
    def timing(self) -> Timing:
        """The router's."""
        return self.router.timing

    def begin(self, features: Mapping[str, float], episode: str) -> Pilot:
        """Begin an episode with the router's features among those given."""
        taken = chosen(features, self.router.feature_names, "features", episode)
        state = self.router.start(taken, shadow=self.shadow, episode=episode)
        return _Routed(state, self.router.diagnostic_names, episode)


@dataclass
class _Routed(GoingOn):
    state: Running
    names: tuple[str, ...]
    episode: str
    _opened: bool = field(default=False, init=False)

    def before(self) -> Choice:
        opening = self.state.opening
        if self._opened or opening is None:
            return GO_ON
        self._opened = True
        return Choice(opening.call, facts=opening._asdict())

    def checkpoint(self, checkpoint: Checkpoint) -> Choice:
        decision = self.state.observe(chosen(checkpoint.diagnostics, self.names, "diagnostics", self.episode))
        return Choice(decision.call, facts=decision._asdict())

    def end(self) -> Choice:
        closing = self.state.finish()
        return GO_ON if closing is None else Choice(closing.call, facts=closing._asdict())
