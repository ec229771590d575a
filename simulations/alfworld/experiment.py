"""The experiment: paired rollouts, teacher windows, fits, a choice under a budget, and every policy on the test games.

The actors are scripted (`bayes_tacit.agents.alfworld`): what comes out says how the policies compare on the real
environment with this pair, and nothing about language models. With other actors (`Players`) the same function runs the
same experiment.

On the test games every policy is played through the loop, with its controller deciding live. Settings are chosen on
tables of continuations, each of which was played as well, if any candidate of any policy hands off there; where the
actors are repeatable, the played test episodes must be what the tables say, episode by episode.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pandas as pd

from bayes_tacit.agents.alfworld import DESCRIPTORS, Alfworld, CheapActor, Game, StrongActor, router_descriptors
from bayes_tacit.agents.playing import (
    Continuations,
    Entry,
    Pair,
    Players,
    Progress,
    collect,
    outcomes_of,
    play_policies,
)
from bayes_tacit.agents.teacher import RuleTeacher, feasible_by, stalled_for, with_marks
from bayes_tacit.agents.teacher.marks import Evidence
from bayes_tacit.agents.transcript import Transcript, episodes_from_transcripts
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.outcomes import Outcomes
from bayes_tacit.errors import InvalidDataError, TacitWarning
from bayes_tacit.policies import Comparison, Policy, Recommendation, World, compare
from simulations.alfworld.needed import clear_handoffs, needed_handoffs
from simulations.alfworld.policies import compared_policies
from simulations.alfworld.recommended import recommended
from simulations.alfworld.splits import Splits, make_splits

BUDGET_SHARE = 0.9
"""The cap on development data, as a share of what Pure Strong costs there."""

STANDSTILL = 3

BENCHMARK = Alfworld()

SCRIPTED = Players(CheapActor(), StrongActor())

PARTS = ("fit", "select", "test")

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
        What would come of every decision of every candidate on the other two parts.
    comparison
        Fitted policies, chosen settings; its test outcomes are those of the played episodes.
    played
        Transcripts of the test games by policy.
    recommendation
        What is recommended from the fit and the development games; None where these are too few to say.
    """

    pairs: Mapping[str, list[Pair[Game]]]
    training: Episodes
    development: World
    test: World
    comparison: Comparison
    played: Mapping[str, list[Transcript]]
    recommendation: Recommendation | None = None

    @property
    def counts(self) -> pd.DataFrame:
        """Give how many games of each part had each paired outcome AB."""
        counts = {
            part: pd.Series([pair.outcome for pair in pairs]).value_counts() for part, pairs in self.pairs.items()
        }
        return pd.DataFrame(counts).reindex(["00", "01", "10", "11"]).fillna(0).astype(int).rename_axis("AB")

    @property
    def episodes(self) -> pd.DataFrame:
        """Give a row for each policy and test game."""
        outcomes = [pair.outcome for pair in self.pairs["test"]]
        columns = ("success", "cost", "cheap_calls", "strong_calls", "one_off_calls", "actions", "restarted")
        rows = [
            {
                "policy": name,
                "episode": transcript.episode,
                "AB": outcome,
                **{column: getattr(transcript.end, column) for column in columns},
                "handoff_step": transcript.end.handoff_step,
            }
            for name, transcripts in self.played.items()
            for outcome, transcript in zip(outcomes, transcripts, strict=True)
        ]
        return pd.DataFrame(rows).astype({"handoff_step": "Int64"})


def run_experiment(
    data: str | os.PathLike[str] | None,
    folder: str | os.PathLike[str],
    *,
    players: Players = SCRIPTED,
    splits: Splits | None = None,
    evidence: Evidence = "one_step",
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
        Whether the actors always do the same in the same place, as the scripted ones do. Then the played test episodes
        are checked against the tables.
    """
    home = Path(folder)
    games = splits or make_splits(data)

    def told(stage: str) -> Progress | None:
        return None if report is None else report(stage)

    def rollouts(part: str, of: Sequence[Game]) -> list[Pair[Game]]:
        stage = told(f"rollouts, {part}")
        return collect(BENCHMARK, home / "rollouts", players, tasks=of, workers=workers, progress=stage)

    continuations = partial(continued, home=home, players=players, workers=workers, report=report)
    pairs = {part: rollouts(part, getattr(games, part)) for part in PARTS}
    training = taught(pairs["fit"], continuations, evidence, standstill)
    fitted = [policy.fit(training) for policy in policies or compared_policies()]
    worlds = {}
    for part in ("select", "test"):
        known, episodes = continuations(part, pairs[part]), episodes_of(pairs[part])
        table = known.counterfactuals(needed_handoffs(fitted, episodes))
        worlds[part] = World(episodes, table, players.cost, known.deferral)
    cap = BUDGET_SHARE * float(worlds["select"].counterfactuals.pure_strong.cost.mean())
    comparison = compare(fitted, training, worlds["select"], worlds["test"], cap)
    entries = [Entry(one.name, one.controller(comparison.choices[one.name].point)) for one in fitted]
    stage = told("policies on the test games")
    played = play_policies(BENCHMARK, pairs["test"], entries, home / "played", players, workers=workers, progress=stage)
    outcomes = {name: outcomes_of(transcripts) for name, transcripts in played.items()}
    if repeatable:
        for name, expected in comparison.outcomes.items():
            check_played(name, worlds["test"].episodes.ids.tolist(), outcomes[name], expected)
    settled = _with_played(comparison, outcomes)
    advice = recommended(comparison.fitted, training, worlds["select"], cap)
    return Experiment(pairs, training, worlds["select"], worlds["test"], settled, played, advice)


def continued(
    part: str, pairs: Sequence[Pair[Game]], home: Path, players: Players, workers: int = 1, report: Report | None = None
) -> Continuations[Game]:
    """Give what comes of handoffs and of single steps in some rollouts, kept where all that is played is."""
    stage = None if report is None else report(f"continuations, {part}")
    return Continuations(BENCHMARK, pairs, home / "continuations", players, workers, stage, "proposal")


def taught(
    pairs: Sequence[Pair[Game]],
    continuations: Callable[[str, Sequence[Pair[Game]]], Continuations[Game]],
    evidence: Evidence,
    standstill: int = STANDSTILL,
) -> Episodes:
    """Have the rule-based teacher mark the games with AB = 01, by handoffs that are played; give the episodes."""
    failed = [pair for pair in pairs if pair.outcome == "01"]
    clear = stalled_for(standstill)
    judged = [clear_handoffs(pair.cheap, clear) for pair in failed]
    teacher = RuleTeacher(feasible_by(continuations("fit", failed).counterfactuals(judged)), clear)
    lessons = [teacher.mark(pair.cheap, pair.strong) for pair in failed]
    marks = {lesson.episode: lesson.mark for lesson in lessons if lesson.mark is not None}
    return with_marks(episodes_of(pairs), marks, evidence)


def check_played(policy: str, episodes: Sequence[object], played: Outcomes, expected: Outcomes) -> None:
    """Refuse episodes that were played otherwise than the tables say."""
    for name in (field.name for field in fields(Outcomes)):
        differs = ~np.isclose(getattr(played, name), getattr(expected, name), rtol=1e-9, atol=0)
        if differs.any():
            first = int(differs.argmax())
            raise InvalidDataError(
                f"{float(getattr(expected, name)[first]):g}, what the table of continuations says",
                episode=str(episodes[first]),
                field=f"{name} of the played episode",
                value=float(getattr(played, name)[first]),
                where=f"policy {policy!r}",
            )


def _with_played(comparison: Comparison, outcomes: Mapping[str, Outcomes]) -> Comparison:
    """Put what was played in the place of what the tables say."""
    points = pd.DataFrame([outcomes[name].point() for name in comparison.table["policy"]])
    return replace(comparison, table=comparison.table.assign(**points), outcomes=MappingProxyType(dict(outcomes)))


def episodes_of(pairs: Sequence[Pair[Game]]) -> Episodes:
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
