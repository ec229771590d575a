"""A teacher by rule, for worlds in which every handoff can be replayed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bayes_tacit import validate
from bayes_tacit.agents.teacher.dataset import Lesson
from bayes_tacit.agents.teacher.marks import Mark
from bayes_tacit.agents.transcript import StepRecord, Transcript
from bayes_tacit.errors import InvalidDataError

if TYPE_CHECKING:
    from bayes_tacit.data.counterfactuals import Counterfactuals

AtCheckpoint = Callable[[Transcript, int], bool]
"""Says of a Cheap rollout and a checkpoint t, counted from 0, whether something holds after action t."""


@dataclass(frozen=True)
class RuleTeacher:
    """Marks the earliest run of checkpoints at which failure is clear and recovery is possible.

    The rule puts the paper's words into two conditions on a checkpoint t of the failed Cheap rollout:

    - failure risk is clear: by default, no progress in the last three steps (`stalled_for`);
    - recovery remains feasible: a handoff after action t, replayed, succeeds (`feasible_by`).

    The range is the first maximal run of consecutive checkpoints at which both hold, cut to `longest`; the recommended
    checkpoint is its first. Where they hold nowhere there is no mark, and the episode counts as AB = 01 without a
    window. Feasibility knows the future of every handoff, which a person who reads two rollouts can only guess: such
    marks are a best case of a teacher, not a likeness of one.

    Attributes
    ----------
    feasible, clear
        The two conditions.
    longest
        Most checkpoints in a range; None for no limit.
    """

    feasible: AtCheckpoint
    clear: AtCheckpoint
    longest: int | None = None
    name: str = "rule"

    def __post_init__(self) -> None:
        """Check the number."""
        if self.longest is not None:
            validate.whole("longest", self.longest, 1)

    def mark(self, cheap: Transcript, strong: Transcript) -> Lesson:  # noqa: ARG002
        """Mark one episode."""
        both = [self.clear(cheap, at) and self.feasible(cheap, at) for at in range(len(cheap.checkpoints))]
        if True not in both:
            return Lesson(cheap.episode, None, self.name)
        start = both.index(True)
        end = both.index(False, start) - 1 if False in both[start:] else len(both) - 1
        if self.longest is not None:
            end = min(end, start + self.longest - 1)
        return Lesson(cheap.episode, Mark(start, end, start), self.name)


def feasible_by(counterfactuals: Counterfactuals) -> AtCheckpoint:
    """Take recovery as feasible at t where the replayed handoff at step t + 1 succeeded.

    After the last action there is nothing left to hand off, so it is never feasible there. A handoff that was not
    played is an error.
    """
    success = counterfactuals.dataset["success"].transpose("episode", "handoff").values
    positions = {str(episode): at for at, episode in enumerate(counterfactuals.ids.tolist())}

    def feasible(cheap: Transcript, at: int) -> bool:
        if cheap.episode not in positions:
            raise InvalidDataError(
                "an episode of the counterfactuals", episode=cheap.episode, field="episode", value=cheap.episode
            )
        row = success[positions[cheap.episode]]
        counterfactuals.check_played([positions[cheap.episode]], [at + 1])
        # Past the end of the Cheap rollout it is NaN, which is not 1.
        return at + 1 < len(row) and bool(row[at + 1] == 1)

    return feasible


def stalled_for(n_steps: int, progress: Callable[[Transcript, int], bool] | None = None) -> AtCheckpoint:
    """Take failure as clear at t where none of the last `n_steps` actions, t included, made progress.

    Parameters
    ----------
    n_steps
        How long a standstill must be.
    progress
        Says whether action t made progress; by default, whether it was valid and led to a reward or to an observation
        that was not seen before in the episode.
    """
    validate.whole("n_steps", n_steps, 1)
    made = progress or _something_new

    def clear(cheap: Transcript, at: int) -> bool:
        return at + 1 >= n_steps and not any(made(cheap, back) for back in range(at - n_steps + 1, at + 1))

    return clear


def _something_new(cheap: Transcript, at: int) -> bool:
    steps = cheap.executed
    if at >= len(steps):
        return False
    result = steps[at].result
    seen = {cheap.history(0).first.text, *(_text(step) for step in steps[:at])}
    return result is not None and result.valid and (result.reward > 0 or result.observation.text not in seen)


def _text(step: StepRecord) -> str | None:
    return None if step.result is None else step.result.observation.text
