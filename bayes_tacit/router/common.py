"""What every router does alike: begin an episode, go on with one, be written to a file, be compared with another."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Protocol

from bayes_tacit import validate
from bayes_tacit.router import storage
from bayes_tacit.router.decision import Decision
from bayes_tacit.router.fields import Fields, Given
from bayes_tacit.router.log import DecisionLog
from bayes_tacit.router.snapshots import Progress, read_snapshot


class Begun(Protocol):
    """What is asked of an episode's state here."""

    opening: Decision | None


class AnyRouter[State: Begun](ABC):
    """A router, whichever policy decides: `Router` and `PolicyRouter`. Equal ones have the same content."""

    feature_names: tuple[str, ...]
    diagnostic_names: tuple[str, ...]

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """SHA-256 of everything in it: equal for routers that are equal."""

    @abstractmethod
    def settings(self) -> dict[str, object]:
        """Say in a log whose decisions these are."""

    @abstractmethod
    def to_json(self) -> str:
        """Give the content of the file that `save` writes."""

    @abstractmethod
    def begun(self, progress: Progress, log: DecisionLog | None) -> State:
        """Give the state of an episode that has come so far."""

    @property
    @abstractmethod
    def accumulated(self) -> int | None:
        """How many numbers accumulate over an episode; None if that depends on the episode."""

    def start(
        self,
        features: Given | None = None,
        *,
        shadow: bool = False,
        episode: str | int | None = None,
        log: DecisionLog | None = None,
    ) -> State:
        """Begin an episode.

        Parameters
        ----------
        features
            The task's features, as they were before standardization: by name, or as numbers in the fitted order.
        shadow
            Decide and record, but never hand off.
        episode
            A name for messages and the log; needed with a log.
        log
            Where to write every decision. Episodes that run at the same time need different names in it.
        """
        values = self.features.read(self.given(self.features, () if features is None else features))
        name = None if episode is None else validate.episode_id("episode", episode)
        progress = Progress(values, validate.flag("shadow", shadow), name)
        state = self.begun(progress, log)
        if log is not None:
            log.started(progress, self.settings(), self.features.by_name(values), state.opening)
        return state

    def restore(self, snapshot: Mapping[str, object], *, log: DecisionLog | None = None) -> State:
        """Go on with an episode where its state's `snapshot` left it, to the last bit.

        Parameters
        ----------
        snapshot
            The snapshot, taken under this very router.
        log
            Where to write every decision from here on.
        """
        features, totals = len(self.feature_names), self.accumulated
        progress = read_snapshot(snapshot, self.fingerprint, features=features, totals=totals)
        state = self.begun(progress, log)
        if log is not None:
            log.restored(progress, self.fingerprint)
        return state

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one JSON file, as `router.schema.json` describes it; every number is read back exactly."""
        storage.save(self.to_json(), path)

    def given(self, fields: Fields, given: Given) -> Given:  # noqa: ARG002
        """Give what is to be read of what was given: all of it, so that what is unknown is refused."""
        return given

    @cached_property
    def features(self) -> Fields:
        """How the features of a task are read."""
        return Fields("features", self.feature_names, nonnegative=False)

    @cached_property
    def diagnostics(self) -> Fields:
        """How the diagnostics of a checkpoint are read."""
        return Fields("diagnostics", self.diagnostic_names, nonnegative=True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnyRouter) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)
