"""One episode under a policy's router: the same questions and answers as under TACIT-Switch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from bayes_tacit.data.timing import Handoff
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.router.control import GO_ON, Checkpoint, Choice, GoingOn
from bayes_tacit.router.decision import OPENING, STRONG_BY, Decision
from bayes_tacit.router.fields import Fields, Given
from bayes_tacit.router.log import DecisionLog
from bayes_tacit.router.snapshots import Progress, write_snapshot
from bayes_tacit.router.state import EpisodeEndedError

NLL = "nll"
"""The name under which a router is given the negative log-likelihood of Cheap's action."""


class PolicyDecider(Protocol):
    """What a state asks of its router."""

    @property
    def handoff(self) -> Handoff:
        """What Strong does after a handoff."""
        ...

    @property
    def fingerprint(self) -> str:
        """What the router is known by."""
        ...

    @property
    def features(self) -> Fields:
        """How the features of a task are read."""
        ...

    @property
    def diagnostics(self) -> Fields:
        """How the diagnostics of a checkpoint are read."""
        ...

    def pilot(self, features: Mapping[str, float], episode: str) -> GoingOn:
        """Begin an episode of the policy."""
        ...

    def thresholds(self, features: Mapping[str, float]) -> tuple[float | None, float | None]:
        """Give what scores of this task are compared with before the first step, and later."""
        ...

    def score_in(self, facts: Mapping[str, object]) -> float | None:
        """Find what was compared among a policy's facts."""
        ...

    def given(self, fields: Fields, given: Given) -> Given:
        """Leave out what the policy does not look at."""
        ...


class PolicyState:
    """How far an episode has come; made by `PolicyRouter.start` and `PolicyRouter.restore`.

    It answers as a `HandoffState` does. Where the policy gives Strong one step only, `decision.call` is "strong_once"
    and nothing is handed off; the next checkpoint is the next one of Cheap's.

    Attributes
    ----------
    router, episode, features, shadow, step, handoff_step, opening, finished
        As for `HandoffState`.
    """

    def __init__(self, router: PolicyDecider, progress: Progress, log: DecisionLog | None = None) -> None:
        named = router.features.by_name(progress.features)
        self.router = router
        self.features = progress.features
        self.shadow = progress.shadow
        self.episode = progress.episode
        self.step = progress.step
        self.finished = progress.finished
        self.handoff_step: int | None = None
        self._log = log
        self._strong = STRONG_BY[router.handoff]
        self._pilot = router.pilot(named, "" if self.episode is None else str(self.episode))
        at_start, self._alpha = router.thresholds(named)
        first = self._pilot.before()
        self.opening = None if first == GO_ON else self._decision(OPENING, first, at_start)
        if progress.handoff_step is not None:
            self.handoff_step = progress.handoff_step
        if progress.total is not None:
            self._pilot.recall(progress.total)

    def __repr__(self) -> str:
        name = "" if self.episode is None else f" of {self.episode!r}"
        return f"<PolicyState{name}: {self.step} step{'' if self.step == 1 else 's'} observed>"

    @property
    def handoff(self) -> bool:
        """Whether Strong is in control."""
        return self.handoff_step is not None and not self.shadow

    def observe(self, diagnostics: Given) -> Decision:
        """Add a checkpoint and decide; as for `HandoffState`, but what the policy does not look at is left out."""
        if self.finished:
            raise EpisodeEndedError(f"step {self.step}: observed after finish(); expected a new episode")
        fields = self.router.diagnostics
        try:
            values = fields.by_name(fields.read(self.router.given(fields, diagnostics)))
        except InvalidDataError as error:
            raise InvalidDataError(
                error.expected, episode=self.episode, field=error.field, value=error.value, where=f"step {self.step}"
            ) from None
        choice = self._pilot.checkpoint(Checkpoint(values, values.get(NLL)))
        if choice.call == "cheap":
            # As a loop does: before Cheap goes on, the policy is asked once more.
            asked = self._pilot.before()
            choice = choice if asked == GO_ON else asked
        decision = self._decision(self.step, choice, self._alpha)
        if self._log is not None:
            self._log.observed(self.episode, values, decision)
        self.step += 1
        return decision

    def finish(self) -> Decision | None:
        """End the episode; give what a policy says that judges the whole of it, None if nothing."""
        if self.finished:
            return None
        choice = GO_ON if self.handoff_step is not None else self._pilot.end()
        closing = None if choice == GO_ON else self._decision(self.step - 1, choice, self._alpha)
        if self._log is not None:
            self._log.finished(self.episode, closing)
        self.finished = True
        return closing

    def snapshot(self) -> dict[str, object]:
        """Give all there is to know as plain JSON values, from which the router's `restore` goes on."""
        memory = self._pilot.memory()
        progress = Progress(
            self.features, self.shadow, self.episode, self.step, memory or None, self.handoff_step, self.finished
        )
        return write_snapshot(progress, self.router.fingerprint)

    def _decision(self, step: int, choice: Choice, alpha: float | None) -> Decision:
        """Say what the policy's choice means for who acts next."""
        if self.handoff_step is None and choice.call in STRONG_BY.values():
            self.handoff_step = step
        call = "cheap" if self.shadow else self._strong if self.handoff else choice.call
        score = self.router.score_in(choice.facts)
        return Decision(step, None, None, None, score, None, None, alpha, self.handoff, self.handoff_step, call)
