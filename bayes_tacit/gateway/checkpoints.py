"""From the steps of a session to a router's decision, each step shown to it once."""

from __future__ import annotations

from collections.abc import Sequence

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.gateway.kept import Kept
from bayes_tacit.logs.extractor import FLAGS, IDLE, UNCERTAINTY
from bayes_tacit.router import Decision, HandoffState, PolicyRouter, PolicyState, Router
from bayes_tacit.router.policy_state import NLL

AnyRouter = Router | PolicyRouter
"""Whatever a router file holds."""

ALWAYS = ("prompt_length", "n_tools")
"""Features that every first request has."""

KNOWN = (*FLAGS, UNCERTAINTY, NLL)
"""Diagnostics that can be had; the last two where replies carry log-probabilities."""


class NotKnownError(InvalidDataError):
    """Something that the router looks at is not known of this session.

    Attributes
    ----------
    names
        What is missing, such as "features['entities']".
    """

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(f"{', '.join(names)}, which the router looks at")
        self.names = tuple(names)


class Checkpoints:
    """A router as a gateway asks it: features and steps of a session in, the decision after the last step out.

    Parameters
    ----------
    router
        Any router.

    Raises
    ------
    InvalidDataError
        If it looks at a diagnostic that messages do not give.
    """

    def __init__(self, router: AnyRouter) -> None:
        unknown = [name for name in router.diagnostic_names if name not in KNOWN]
        if unknown:
            expected = f"those that messages give: {', '.join(KNOWN)}"
            raise InvalidDataError(expected, field="diagnostics of the router", value=unknown)
        self.router = router
        self._names = router.diagnostic_names
        self._likelihoods = [name for name in self._names if name not in FLAGS]
        self._flags = [
            [float(flag >> FLAGS.index(name) & 1) if name in FLAGS else 0.0 for name in self._names]
            for flag in range(1 << len(FLAGS))
        ]

    @property
    def asked(self) -> tuple[str, ...]:
        """Features that only the caller can give."""
        return tuple(name for name in self.router.feature_names if name not in ALWAYS)

    @property
    def needs_logprobs(self) -> bool:
        """Whether it looks at the likelihood of Cheap's tokens."""
        return bool(self._likelihoods)

    def latest(self, kept: Kept, slot: str) -> Decision | None:
        """Give the decision after the last of Cheap's steps; that before the first one if there is none.

        Parameters
        ----------
        kept
            The session. What its router has seen stays with it, in `kept.live`, and is not shown again.
        slot
            Under which name it stays there.

        Raises
        ------
        NotKnownError
            If the session lacks something that the router looks at.
        """
        seen = self._steps(kept)
        live: _Live | None = kept.live.get(slot)
        if live is None or live.seen != seen[: len(live.seen)]:
            live = _Live(self._begin(kept))
        for values in seen[len(live.seen) :]:
            live.decision = live.state.observe(values)
            live.seen.append(values)
        kept.live[slot] = live
        return live.decision

    def finish(self, kept: Kept, slot: str) -> Decision | None:
        """Give what a policy says that judges the whole episode, which has ended; None if nothing."""
        self.latest(kept, slot)
        live: _Live = kept.live.pop(slot)
        return live.state.finish()

    def diagnostics(self, kept: Kept, step: int) -> dict[str, float]:
        """Name all that is known of a step, whether the router looks at it or not."""
        values = {name: float(kept.flags[step] >> bit & 1) for bit, name in enumerate(FLAGS)}
        likelihoods = _likelihoods(kept, step)
        return values if likelihoods is None else {**values, **likelihoods}

    def _begin(self, kept: Kept) -> HandoffState | PolicyState:
        names = self.router.feature_names
        missing = [f"features[{name!r}]" for name in names if name not in kept.features]
        if missing:
            raise NotKnownError(missing)
        return self.router.start({name: kept.features[name] for name in names})

    def _steps(self, kept: Kept) -> list[list[float]]:
        """Give the router's diagnostics of each of Cheap's steps, in its order."""
        flags = kept.flags
        steps = [step for step in range(len(flags)) if step not in kept.by_strong] if kept.by_strong else None
        if not self._likelihoods:
            table = self._flags
            return [table[flag] for flag in flags] if steps is None else [table[flags[step]] for step in steps]
        found = []
        for step in range(len(flags)) if steps is None else steps:
            likelihoods = _likelihoods(kept, step)
            if likelihoods is None:
                raise NotKnownError([f"diagnostics[{name!r}] of step {step}" for name in self._likelihoods])
            values = self._flags[flags[step]]
            found.append([likelihoods.get(name, values[place]) for place, name in enumerate(self._names)])
        return found


class _Live:
    """A state of the router, and what it was shown."""

    __slots__ = ("decision", "seen", "state")

    def __init__(self, state: HandoffState | PolicyState) -> None:
        self.state = state
        self.seen: list[list[float]] = []
        self.decision = state.opening


def _likelihoods(kept: Kept, step: int) -> dict[str, float] | None:
    """Give mean and sum over the tokens of a step; of nothing said both are 0, as in imported logs."""
    sums = kept.nll.get(step)
    if sums is not None and sums[1]:
        return {UNCERTAINTY: sums[0] / sums[1], NLL: sums[0]}
    return {UNCERTAINTY: 0.0, NLL: 0.0} if kept.flags[step] & IDLE else None
