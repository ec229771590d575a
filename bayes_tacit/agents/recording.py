"""Playing a recorded prefix again, exactly."""

from __future__ import annotations

from bayes_tacit.agents.errors import ReplayError
from bayes_tacit.agents.protocols import History, Observation, Proposal
from bayes_tacit.agents.transcript.record import StepRecord, Transcript
from bayes_tacit.errors import InvalidDataError


class Recording:
    """Knows what Cheap proposed and what the environment answered, for as long as Cheap alone has acted.

    Parameters
    ----------
    transcript
        A Cheap rollout; None knows nothing.
    episode
        The task that is played, which must be that of the rollout.
    """

    def __init__(self, transcript: Transcript | None, episode: str) -> None:
        if transcript is not None and transcript.episode != episode:
            raise InvalidDataError(
                "the id of the recorded rollout", episode=transcript.episode, field="episode", value=episode
            )
        self._episode = episode
        self._steps: tuple[StepRecord, ...] = ()
        self._first: Observation | None = None
        if transcript is not None:
            self._first = transcript.history(0).first
            self._steps = _cheap_prefix(transcript)
        self._valid = transcript is not None

    def proposal(self, history: History) -> Proposal | None:
        """Give Cheap's recorded proposal at this point, if it is on record."""
        known = self._valid and len(history) < len(self._steps)
        return self._steps[len(history)].proposal if known else None

    def check_first(self, first: Observation) -> None:
        """Check that the environment begins as it did."""
        if self._valid and first != self._first:
            raise ReplayError(
                f"episode {self._episode!r}: the first observation is {first!r}; recorded {self._first!r}"
            )

    def check(self, call: StepRecord) -> None:
        """Check that the environment answers as it did; once another agent has acted there is nothing to compare."""
        if not self._valid or call.run > 0 or call.agent != "cheap" or call.step >= len(self._steps):
            self._valid = False
            return
        recorded = self._steps[call.step].result
        if call.result != recorded:
            raise ReplayError(
                f"episode {self._episode!r}, step {call.step}: {call.proposal.action!r} gave {call.result!r}; "
                f"recorded {recorded!r}"
            )


def _cheap_prefix(transcript: Transcript) -> tuple[StepRecord, ...]:
    """Give the executed steps of the first run before Strong acted."""
    prefix: list[StepRecord] = []
    for step in transcript.steps:
        if step.run > 0 or step.agent != "cheap" or step.result is None:
            break
        prefix.append(step)
    return tuple(prefix)
