"""Which continuations are needed: those that some candidate of some policy, or the teacher, asks for."""

from __future__ import annotations

from collections.abc import Iterable

from bayes_tacit.agents.teacher import AtCheckpoint
from bayes_tacit.agents.transcript import Transcript
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.policies import FittedPolicy
from simulations.tuned import SearchedPolicy


def needed_handoffs(fitted: Iterable[FittedPolicy], episodes: Episodes) -> list[set[int]]:
    """Return the steps of each episode at which any candidate hands off; all, if a policy searches for its setting.

    Policies that restart, or play one agent alone, need the two rollouts only; single steps are replayed by themselves.
    """
    needed: list[set[int]] = [set() for _ in range(len(episodes))]
    lengths = episodes.n_steps.tolist()
    for policy in fitted:
        if not hands_off(policy):
            continue
        if isinstance(policy, SearchedPolicy):
            return [set(range(length)) for length in lengths]
        for _, setting in policy.candidates.iterrows():
            steps = policy.handoffs(episodes, setting).tolist()
            for row, (step, length) in enumerate(zip(steps, lengths, strict=True)):
                # After the last action there is nothing to hand off.
                if 0 <= step < length:
                    needed[row].add(step)
    return needed


def hands_off(policy: FittedPolicy) -> bool:
    """Check whether a policy's decisions are handoffs for good from where Cheap is."""
    router = policy.make(policy.candidates.iloc[0])
    return router.call == "strong" and not router.rule.closes


def clear_handoffs(cheap: Transcript, clear: AtCheckpoint) -> set[int]:
    """Return the steps at which the teacher asks whether a handoff succeeds: after each checkpoint of clear failure."""
    return {at + 1 for at in range(len(cheap.checkpoints) - 1) if clear(cheap, at)}
