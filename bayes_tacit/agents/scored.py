"""The handoff scores that a controller recorded on the way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bayes_tacit.agents.transcript.record import Transcript


@dataclass(frozen=True)
class Scored:
    """The score at one checkpoint, as the controller recorded it; without a band where it had none."""

    step: int
    score: float
    lower: float | None
    upper: float | None
    alpha: float


def recorded_scores(transcript: Transcript) -> Iterator[Scored]:
    """Give the scores in order; none where the policy records none."""
    for step in transcript.checkpoints:
        facts = dict(step.choice.facts) if step.choice is not None else {}
        score, alpha = facts.get("score"), facts.get("alpha")
        if isinstance(score, int | float) and isinstance(alpha, int | float):
            lower, upper = (_number(facts.get(name)) for name in ("lower", "upper"))
            yield Scored(step.step, float(score), lower, upper, float(alpha))


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
