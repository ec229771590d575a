"""One episode under a router: evidence goes in checkpoint by checkpoint, a decision comes out of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from bayes_tacit.data.timing import Handoff
from bayes_tacit.errors import InvalidDataError, TacitError
from bayes_tacit.router.decision import OPENING, STRONG_BY, Decision
from bayes_tacit.router.fields import Fields, Given
from bayes_tacit.router.log import DecisionLog
from bayes_tacit.router.pace import alpha_at
from bayes_tacit.router.scorers import Scorer
from bayes_tacit.router.snapshots import Progress, write_snapshot
from bayes_tacit.scores.ties import NEARLY, difference_reached_from

_new_tuple = tuple.__new__


class EpisodeEndedError(TacitError, RuntimeError):
    """Something was observed after the end of its episode."""


class Opening(NamedTuple):
    """What the features alone say before the first step: a score with its band, and the threshold."""

    score: float
    lower: float | None
    upper: float | None
    threshold: float


class Decider(Protocol):
    """What a state asks of its router."""

    @property
    def alpha(self) -> float:
        """The threshold at step 0; infinite if none is ever reached."""
        ...

    @property
    def pace(self) -> float:
        """How fast the threshold falls along an episode."""
        ...

    @property
    def levels(self) -> tuple[float | None, ...]:
        """The thresholds of the first steps, as far as they were computed beforehand."""
        ...

    @property
    def handoff(self) -> Handoff:
        """What Strong does after a handoff."""
        ...

    @property
    def fingerprint(self) -> str:
        """What the router is known by."""
        ...

    @property
    def diagnostics(self) -> Fields:
        """How the diagnostics of a checkpoint are read."""
        ...

    @property
    def scorer(self) -> Callable[[Sequence[float]], Scorer]:
        """Makes the scorer of an episode from its features."""
        ...

    def opening(self, features: Sequence[float]) -> Opening | None:
        """Give what the features alone say, if that decides anything."""
        ...


class HandoffState:
    """How far an episode has come; made by `Router.start` and `Router.restore`.

    A state belongs to one episode and to the thread that runs it. Many states can share a router.

    Attributes
    ----------
    router
        Whose decisions these are.
    episode
        Name of the episode, if it was given one.
    features
        The task's features, in the router's order.
    shadow
        Whether handoffs are recorded only.
    step
        The next checkpoint.
    handoff_step
        The checkpoint at which the score reached alpha, None before it; -1 for a handoff before the first step.
    opening
        What was decided before the first step; None for a router without a start.
    finished
        Whether the episode has ended.
    """

    __slots__ = (
        "_advance",
        "_levels",
        "_log",
        "_pi",
        "_scorer",
        "_state",
        "_strong",
        "episode",
        "features",
        "finished",
        "handoff_step",
        "opening",
        "router",
        "shadow",
        "step",
    )

    def __init__(self, router: Decider, progress: Progress, log: DecisionLog | None = None) -> None:
        scorer = router.scorer(progress.features)
        self._scorer = scorer
        self._advance = scorer.advance
        self._levels = router.levels
        self._strong = STRONG_BY[router.handoff]
        self._pi = scorer.pi
        self._log = log
        self._state = scorer.resume(progress.total)
        self.router = router
        self.features = progress.features
        self.shadow = progress.shadow
        self.episode = progress.episode
        self.step = progress.step
        self.handoff_step = progress.handoff_step
        self.finished = progress.finished
        self.opening = self._opened(router.opening(progress.features))

    def __repr__(self) -> str:
        name = "" if self.episode is None else f" of {self.episode!r}"
        parts = [f"{self.step} step{'' if self.step == 1 else 's'} observed"]
        if self.handoff_step is not None:
            when = "before the first step" if self.handoff_step == OPENING else f"at step {self.handoff_step}"
            parts.append(f"crossed {when}")
        parts += [word for word in ("finished", "shadow") if getattr(self, word)]
        return f"<HandoffState{name}: {', '.join(parts)}>"

    @property
    def handoff(self) -> bool:
        """Whether Strong is in control."""
        return self.handoff_step is not None and not self.shadow

    def observe(self, diagnostics: Given) -> Decision:
        """Add a checkpoint and decide.

        A handoff is permanent: later checkpoints may still be observed, and their risk is recorded, but they do not
        take it back. After an error the state is what it was before.

        Parameters
        ----------
        diagnostics
            The checkpoint's diagnostics by name, or as numbers in the fitted order.

        Raises
        ------
        InvalidDataError
            If one is missing, unknown, negative or not finite.
        EpisodeEndedError
            If the episode was finished.
        """
        if self.finished:
            raise EpisodeEndedError(
                f"{self._place()}: observed after finish(); expected a new episode, by Router.start"
            )
        step = self.step
        try:
            state, risk, cumulative, score, lower, upper = self._advance(self._state, diagnostics)
        except InvalidDataError as error:
            raise InvalidDataError(
                error.expected, episode=self.episode, field=error.field, value=error.value, where=f"step {step}"
            ) from None
        levels = self._levels
        alpha = levels[step] if step < len(levels) else self._alpha_at(step)
        crossed = self.handoff_step
        if crossed is None and alpha is not None and score >= alpha * NEARLY:
            crossed = step
        handoff = crossed is not None and not self.shadow
        call = self._strong if handoff else "cheap"
        # Decision(...) would bind its arguments one by one, which takes as long as the score itself.
        decision = _new_tuple(
            Decision,
            (step, risk, cumulative, self._pi, score, lower, upper, alpha, handoff, crossed, call),
        )
        if self._log is not None:
            values = self.router.diagnostics.read(diagnostics)
            self._log.observed(self.episode, self.router.diagnostics.by_name(values), decision)
        self._state = state
        self.step = step + 1
        self.handoff_step = crossed
        return decision

    def _alpha_at(self, step: int) -> float | None:
        """Give the threshold of a late step."""
        return alpha_at(step, self.router.alpha, self.router.pace)

    def _opened(self, opening: Opening | None) -> Decision | None:
        """Decide before the first step."""
        if opening is None:
            return None
        if opening.score >= difference_reached_from(opening.threshold):
            self.handoff_step = OPENING
        score, lower, upper, threshold = opening
        reached = self.handoff_step == OPENING
        handoff = reached and not self.shadow
        step, call = (OPENING if reached else None), (self._strong if handoff else "cheap")
        return Decision(OPENING, None, None, self._pi, score, lower, upper, threshold, handoff, step, call)

    def finish(self) -> None:
        """End the episode: from here on, observing is an error. Finishing twice changes nothing."""
        if not self.finished and self._log is not None:
            self._log.finished(self.episode)
        self.finished = True

    def snapshot(self) -> dict[str, object]:
        """Give all there is to know as plain JSON values, from which `Router.restore` goes on to the last bit."""
        return write_snapshot(self._progress(), self.router.fingerprint)

    def _progress(self) -> Progress:
        total = self._scorer.total(self._state)
        return Progress(self.features, self.shadow, self.episode, self.step, total, self.handoff_step, self.finished)

    def _place(self) -> str:
        return f"step {self.step}" if self.episode is None else f"episode {self.episode!r}, step {self.step}"
