"""Which continuations are needed: those that some candidate of some policy, or the teacher, asks for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

import numpy as np
import pandas as pd

from bayes_tacit.agents.teacher import AtCheckpoint
from bayes_tacit.agents.transcript import Transcript
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.policies import FittedPolicy
from bayes_tacit.policies.base import Searching, Setting


@runtime_checkable
class HandsOff(Protocol):
    """A fitted policy whose decisions are handoffs for good."""

    @property
    def candidates(self) -> pd.DataFrame:
        """Settings to try."""
        ...

    def handoffs(self, episodes: Episodes, setting: Setting) -> np.ndarray:
        """Give the step from which Strong acts, by episode; -1 for never."""
        ...


def needed_handoffs(fitted: Iterable[FittedPolicy], episodes: Episodes) -> list[set[int]]:
    """Give the steps of each episode at which any candidate hands off; all, if a policy searches for its setting.

    Policies that restart, or play one agent alone, need the two rollouts only; single steps are replayed by themselves.
    """
    handing_off = [policy for policy in fitted if isinstance(policy, HandsOff)]
    if any(isinstance(policy, Searching) for policy in handing_off):
        return [set(range(length)) for length in episodes.n_steps.tolist()]
    needed: list[set[int]] = [set() for _ in range(len(episodes))]
    for policy in handing_off:
        for _, setting in policy.candidates.iterrows():
            steps = policy.handoffs(episodes, setting).tolist()
            for row, (step, length) in enumerate(zip(steps, episodes.n_steps.tolist(), strict=True)):
                # After the last action there is nothing to hand off.
                if 0 <= step < length:
                    needed[row].add(step)
    return needed


def clear_handoffs(cheap: Transcript, clear: AtCheckpoint) -> set[int]:
    """Give the steps at which the teacher asks whether a handoff succeeds: after each checkpoint of clear failure."""
    return {at + 1 for at in range(len(cheap.checkpoints) - 1) if clear(cheap, at)}
