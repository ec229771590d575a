"""The experiment on ALFWorld: which games, by whom, and what the teacher takes for a standstill.

The actors are scripted (`simulations.alfworld`): what comes out says how the policies compare on the real
environment with this pair, and nothing about language models. With other actors (`Players`) the same function runs the
same experiment.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bayes_tacit.agents.marks import MarkEvidence
from bayes_tacit.agents.playing import Pair, Players
from bayes_tacit.agents.teacher import stalled_for
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.policies import Policy
from simulations.alfworld import DESCRIPTORS, Alfworld, CheapActor, Game, StrongActor, router_descriptors
from simulations.alfworld.policies import compared_policies
from simulations.alfworld.splits import Splits, make_splits
from simulations.played.experiment import PARTS, Experiment, run_played
from simulations.played.setup import Report, Setup

BUDGET_SHARE = 0.9
"""The cap on development data, as a share of what Pure Strong costs there."""

STANDSTILL = 3

BENCHMARK = Alfworld()

SCRIPTED = Players(CheapActor(), StrongActor())


def run_experiment(
    data: str | os.PathLike[str] | None,
    folder: str | os.PathLike[str],
    *,
    players: Players = SCRIPTED,
    splits: Splits | None = None,
    evidence: MarkEvidence = "one_step",
    standstill: int = STANDSTILL,
    workers: int = 2,
    report: Report | None = None,
    policies: Sequence[Policy] | None = None,
    repeatable: bool = True,
) -> Experiment:
    """Play what was not played yet, and compare the policies.

    Parameters
    ----------
    data
        The folder of official games; by default what ALFWORLD_DATA says.
    folder
        Where everything that was played is kept; a run that was stopped goes on.
    players
        Who plays.
    splits
        Which games; by default those of `make_splits`.
    evidence
        Whether a teacher's mark is one checkpoint, as in the paper's main experiment, or a range.
    standstill
        Steps without anything new after which the rule-based teacher takes failure for clear.
    workers
        Number of processes.
    report
        Makes a progress for each stage.
    policies
        Policies to compare; by default those of `compared_policies`.
    repeatable
        As for `run_played`.
    """
    games = splits or make_splits(data)
    setup = alfworld_setup(folder, players, standstill=standstill, workers=workers, report=report)
    parts = {part: getattr(games, part) for part in PARTS}
    return run_played(setup, parts, policies or compared_policies(), evidence=evidence, repeatable=repeatable)


def alfworld_setup(
    folder: str | os.PathLike[str],
    players: Players,
    *,
    standstill: int = STANDSTILL,
    workers: int = 1,
    report: Report | None = None,
) -> Setup[Game]:
    """Say how ALFWorld is played."""
    return Setup(
        BENCHMARK,
        players,
        Path(folder),
        stalled_for(standstill),
        BUDGET_SHARE,
        with_descriptors,
        workers=workers,
        report=report,
    )


def with_descriptors(episodes: Episodes, pairs: Sequence[Pair[Game]]) -> Episodes:
    """Give the episodes with what the task router looks at carried along."""
    described = [router_descriptors(pair.cheap.history(0).first) for pair in pairs]
    carried = {
        name: ("episode", np.array([one[name] for one in described]))
        for name in DESCRIPTORS
        if name not in episodes.feature_names
    }
    return Episodes(episodes.dataset.assign(carried))
