"""The experiment: paired rollouts, teacher windows, fits, a choice under a budget, and every policy on the test games.

The actors are scripted (`bayes_tacit.agents.alfworld`): what comes out says how the policies compare on the real
environment with this pair, and nothing about language models. With other actors (`Players`) the same function runs the
same experiment.

Every number on the test games comes from actions that were really played: a permanent handoff is the continuation of
the recorded Cheap rollout from that step, a restart is the Strong rollout from the beginning on top of the prefix, and
step deferral is played threshold by threshold.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_tacit.agents.alfworld import CheapActor, Game, StrongActor, router_descriptors
from bayes_tacit.agents.alfworld.collect import Pair, Players, collect
from bayes_tacit.agents.alfworld.continuations import Continuations
from bayes_tacit.agents.alfworld.features import DESCRIPTORS
from bayes_tacit.agents.alfworld.workers import Progress
from bayes_tacit.agents.teacher import Lesson, RuleTeacher, feasible_by, stalled_for, with_marks
from bayes_tacit.agents.teacher.marks import Evidence
from bayes_tacit.agents.transcript import episodes_from_transcripts
from bayes_tacit.episodes import Episodes
from bayes_tacit.errors import TacitWarning
from bayes_tacit.policies import (
    Comparison,
    Policy,
    PosteriorTacitSwitch,
    PrefixRouter,
    PureCheap,
    PureStrong,
    StepDeferral,
    TacitSwitch,
    TaskRouter,
    World,
    compare,
)
from bayes_tacit.selection import fixed_grid
from models.alfworld import ALFWORLD
from simulations.alfworld.splits import Splits, make_splits

BUDGET_SHARE = 0.9
"""The cap on development data, as a share of what Pure Strong costs there."""

STANDSTILL = 3
"""Steps without anything new after which the rule-based teacher takes failure for clear."""

SCRIPTED = Players(CheapActor(), StrongActor())

Report = Callable[[str], Progress]
"""Makes the progress of a stage with this name."""


@dataclass(frozen=True, eq=False)
class Experiment:
    """What was played and what came of it.

    Attributes
    ----------
    pairs
        Rollouts by part: "fit", "select", "test".
    training
        The episodes of the fit, with teacher windows.
    development, test
        What would come of every decision on the other two parts.
    comparison
        Fitted policies, chosen settings, test outcomes.
    """

    pairs: dict[str, list[Pair]]
    training: Episodes
    development: World
    test: World
    comparison: Comparison

    @property
    def outcomes(self) -> pd.DataFrame:
        """Give how many games of each part had each paired outcome AB."""
        counts = {
            part: pd.Series([pair.outcome for pair in pairs]).value_counts() for part, pairs in self.pairs.items()
        }
        return pd.DataFrame(counts).reindex(["00", "01", "10", "11"]).fillna(0).astype(int).rename_axis("AB")


def run_experiment(
    data: str | os.PathLike[str] | None,
    folder: str | os.PathLike[str],
    *,
    players: Players = SCRIPTED,
    splits: Splits | None = None,
    evidence: Evidence = "one_step",
    workers: int = 2,
    report: Report | None = None,
    policies: Sequence[Policy] | None = None,
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
    workers
        Number of processes.
    report
        Makes a progress for each stage.
    policies
        Policies to compare; by default the paper's.
    """
    home = Path(folder)
    games = splits or make_splits(data)

    def told(stage: str) -> Progress | None:
        return None if report is None else report(stage)

    def rollouts(part: str, of: Sequence[Game]) -> list[Pair]:
        return collect(of, home / "rollouts", players, workers=workers, progress=told(f"rollouts, {part}"))

    def continuations(part: str, of: Sequence[Pair]) -> Continuations:
        return Continuations(of, home / "continuations", players, workers, told(f"continuations, {part}"))

    pairs = {part: rollouts(part, getattr(games, part)) for part in ("fit", "select", "test")}
    taught = [pair for pair in pairs["fit"] if pair.outcome == "01"]
    teacher = RuleTeacher(feasible_by(continuations("fit", taught).counterfactuals()), stalled_for(STANDSTILL))
    marks = {lesson.episode: lesson.mark for lesson in _lessons(teacher, taught) if lesson.mark is not None}
    training = with_marks(_episodes(pairs["fit"]), marks, evidence)
    worlds = {}
    for part in ("select", "test"):
        played = continuations(part, pairs[part])
        worlds[part] = World(_episodes(pairs[part]), played.counterfactuals(), players.cost, played.deferral)
    cap = BUDGET_SHARE * float(worlds["select"].counterfactuals.pure_strong.cost.mean())
    comparison = compare(policies or paper_policies(), training, worlds["select"], worlds["test"], cap)
    return Experiment(pairs, training, worlds["select"], worlds["test"], comparison)


def paper_policies() -> list[Policy]:
    """Give the policies of the paper's table, and TACIT-Switch by posterior mean."""
    alpha = fixed_grid()
    return [
        PureCheap(),
        TaskRouter(features=DESCRIPTORS, thresholds=(*np.arange(0, 0.951, 0.05).round(2), 1.01)),
        StepDeferral.alfworld("uncertainty"),
        PrefixRouter(),
        TacitSwitch(estimator=ALFWORLD.fit, candidates=alpha),
        PosteriorTacitSwitch(candidates=alpha, name="TACIT-Switch (posterior)"),
        PureStrong(),
    ]


def _lessons(teacher: RuleTeacher, pairs: Sequence[Pair]) -> list[Lesson]:
    return [teacher.mark(pair.cheap, pair.strong) for pair in pairs]


def _episodes(pairs: Sequence[Pair]) -> Episodes:
    """Give the episodes, with what the task router looks at carried along."""
    with warnings.catch_warnings():
        # Marks come later, and only for the fit; a small part need not vary in every feature.
        warnings.simplefilter("ignore", TacitWarning)
        episodes = episodes_from_transcripts((pair.cheap, pair.strong) for pair in pairs)
        described = [router_descriptors(pair.cheap.history(0).first) for pair in pairs]
        carried = {
            name: ("episode", np.array([one[name] for one in described]))
            for name in DESCRIPTORS
            if name not in episodes.feature_names
        }
        return Episodes(episodes.dataset.assign(carried))
