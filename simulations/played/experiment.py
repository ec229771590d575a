"""The experiment: paired rollouts, teacher windows, fits, a choice under a budget, and every policy on the test tasks.

On the test tasks every policy is played through the loop, with its router deciding live. Settings are chosen on
tables of continuations, each of which was played as well, if any candidate of any policy hands off there; where the
actors are repeatable, the played test episodes must be what the tables say, episode by episode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from bayes_tacit.agents.marks import MarkEvidence
from bayes_tacit.agents.playing import Entry, Pair, Task, outcomes_of, play_policies
from bayes_tacit.agents.transcript import Transcript
from bayes_tacit.data.costs import Outcomes
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.policies import Comparison, Policy, World, compare
from simulations.development_choice import Chosen
from simulations.played.needed import needed_handoffs
from simulations.played.policies import recommended
from simulations.played.setup import Setup

PARTS = ("fit", "select", "test")


@dataclass(frozen=True, eq=False)
class Experiment:
    """What was played and what came of it."""

    pairs: Mapping[str, list[Pair[Any]]]  # Rollouts by part: "fit", "select", "test"
    training: Episodes  # The episodes of the fit, with teacher windows
    # development, test: What would come of every decision of every candidate on the other two parts.
    development: World
    test: World
    comparison: Comparison  # Fitted policies, chosen settings; its test outcomes are those of the played episodes
    played: Mapping[str, list[Transcript]]  # Transcripts of the test tasks by policy
    share: float  # The cap on development data, as a share of what Pure Strong costs there
    # What is recommended from the fit and the development tasks; None where these are too few to say.
    recommendation: Chosen | None = None

    @property
    def counts(self) -> pd.DataFrame:
        """Return how many tasks of each part had each paired outcome AB."""
        counts = {
            part: pd.Series([pair.outcome for pair in pairs]).value_counts() for part, pairs in self.pairs.items()
        }
        return pd.DataFrame(counts).reindex(["00", "01", "10", "11"]).fillna(0).astype(int).rename_axis("AB")

    @property
    def episodes(self) -> pd.DataFrame:
        """Return a row for each policy and test task."""
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


def run_played[T: Task](
    setup: Setup[T],
    parts: Mapping[str, Sequence[T]],
    policies: Sequence[Policy],
    *,
    evidence: MarkEvidence = "one_step",
    repeatable: bool = True,
) -> Experiment:
    """Play what was not played yet, and compare the policies."""
    pairs = {part: setup.rollouts(part, parts[part]) for part in PARTS}
    training = setup.taught(pairs["fit"], evidence)
    fitted = [policy.fit(training) for policy in policies]
    worlds = {}
    for part in ("select", "test"):
        worlds[part] = setup.world(part, pairs[part], needed_handoffs(fitted, setup.episodes(pairs[part])))
    cap = setup.cap(worlds["select"])
    comparison = compare(fitted, training, worlds["select"], worlds["test"], cap)
    entries = [Entry(one.name, one.router(comparison.choices[one.name].point)) for one in fitted]
    played = play_policies(
        setup.benchmark,
        pairs["test"],
        entries,
        setup.home / "played",
        setup.players,
        workers=setup.workers,
        progress=setup.told("policies on the test tasks"),
    )
    outcomes = {name: outcomes_of(transcripts) for name, transcripts in played.items()}
    if repeatable:
        for name, expected in comparison.outcomes.items():
            check_played(name, worlds["test"].episodes.ids.tolist(), outcomes[name], expected)
    settled = _with_played(comparison, outcomes)
    advice = recommended(comparison.fitted, worlds["select"], cap)
    return Experiment(pairs, training, worlds["select"], worlds["test"], settled, played, setup.share, advice)


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
