"""What an experiment fixes before anything is played: the benchmark, who plays, the teacher's rule, the budget."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bayes_tacit.agents import episodes_from_transcripts
from bayes_tacit.agents.marks import MarkEvidence, with_marks
from bayes_tacit.agents.playing import Benchmark, Continuations, Pair, Players, Progress, Task, collect
from bayes_tacit.agents.teacher import AtCheckpoint, RuleTeacher, feasible_by
from bayes_tacit.data.costs import cost_of_calls
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import DEFAULT_TIMING, Timing
from bayes_tacit.errors import TacitWarning
from bayes_tacit.policies import World
from bayes_tacit.policies.learned import STRONG_STEPS
from bayes_tacit.router import Router
from bayes_tacit.router.rule import plain
from bayes_tacit.router.rules import Signal
from simulations.played.needed import clear_handoffs

Report = Callable[[str], Progress]
"""Makes the progress of a stage with this name."""


@dataclass(frozen=True, eq=False)
class Setup[T: Task]:
    """How an experiment is played; what was played is kept, and a run that was stopped goes on."""

    benchmark: Benchmark[T]  # What is played
    players: Players  # Who plays
    home: Path  # Where everything that was played is kept
    clear: AtCheckpoint  # Where the rule-based teacher takes failure for clear
    share: float  # The cap on development data, as a share of what Pure Strong costs there
    # Adds to episodes what some policies look at beside features and diagnostics.
    carried: Callable[[Episodes, Sequence[Pair[T]]], Episodes]
    # What a checkpoint is; whether a handoff, or a step of Strong's in place of one that looks wrong, discards a
    # proposal, which is one of the calls that an episode may take.
    handoff_timing: Timing = DEFAULT_TIMING
    workers: int = 1  # Number of processes
    report: Report | None = None  # Makes a progress for each stage

    def told(self, stage: str) -> Progress | None:
        """Return the progress of a stage."""
        return None if self.report is None else self.report(stage)

    def rollouts(self, part: str, tasks: Sequence[T]) -> list[Pair[T]]:
        """Play each of some tasks with Cheap alone and with Strong alone."""
        stage = self.told(f"rollouts, {part}")
        folder = self.home / "rollouts"
        return collect(self.benchmark, folder, self.players, tasks=tasks, workers=self.workers, progress=stage)

    def continued(self, part: str, pairs: Sequence[Pair[T]]) -> Continuations[T]:
        """Return what comes of handoffs and of single steps in some rollouts, kept where all that is played is."""
        return Continuations(
            self.benchmark,
            pairs,
            self.home / "continuations",
            self.players,
            self.workers,
            self.told(f"continuations, {part}"),
            self.handoff_timing,
        )

    def episodes(self, pairs: Sequence[Pair[T]]) -> Episodes:
        """Return the episodes, without marks."""
        with warnings.catch_warnings():
            # Marks come later, and only for the fit; a small part need not vary in every feature.
            warnings.simplefilter("ignore", TacitWarning)
            episodes = episodes_from_transcripts((pair.cheap, pair.strong) for pair in pairs)
            lengths = {STRONG_STEPS: ("episode", np.array([len(pair.strong.executed) for pair in pairs]))}
            return self.carried(Episodes(episodes.dataset.assign(lengths)), pairs)

    def taught(self, pairs: Sequence[Pair[T]], evidence: MarkEvidence) -> Episodes:
        """Have the rule-based teacher mark the tasks with AB = 01, by handoffs that are played; give the episodes."""
        failed = [pair for pair in pairs if pair.outcome == "01"]
        judged = [clear_handoffs(pair.cheap, self.clear) for pair in failed]
        teacher = RuleTeacher(feasible_by(self.continued("fit", failed).counterfactuals(judged)), self.clear)
        lessons = [teacher.mark(pair.cheap, pair.strong) for pair in failed]
        marks = {lesson.episode: lesson.mark for lesson in lessons if lesson.mark is not None}
        with warnings.catch_warnings():
            # Diagnostics without a value above zero, and marks where none is, are told by the page.
            warnings.simplefilter("ignore", TacitWarning)
            return with_marks(self.episodes(pairs), marks, evidence)

    def world(self, part: str, pairs: Sequence[Pair[T]], handoffs: Sequence[set[int]] | None = None) -> World:
        """Return what would come of decisions on some tasks: of every handoff, or of those that will be looked up."""
        known = self.continued(part, pairs)
        table = known.counterfactuals(handoffs)
        return World(self.episodes(pairs), table, self.players.cost, partial(single_steps, known))

    def cap(self, development: World) -> float:
        """Return the cap on the mean cost of a task."""
        return self.share * float(development.counterfactuals.pure_strong.cost.mean())


def single_steps(known: Continuations[Any], router: Router, thresholds: np.ndarray) -> np.ndarray:
    """Play a router that calls Strong for single steps at thresholds, as `World` wants it: (4, threshold, episode).

    Where its score of Cheap's step reaches the threshold, Strong takes one action (under "proposal" in place of the one
    that was scored, and Cheap's call is paid for; else the next one), then Cheap acts again. A rule's opening and its
    tasks' own thresholds are the world's to look at.
    """
    rule, features = router.rule, router.feature_names
    if isinstance(rule, Signal):
        # Step Deferral by task scores as Step Deferral does, and is played with it.
        rule, features = Signal(), ()
    design = router.design if features else None
    played = replace(
        router, rule=rule, feature_names=features, design=design, ranges=None, alpha_start=math.inf, pace=0.0
    )
    scores = json.dumps([rule.policy, plain(rule), features, router.diagnostic_names, router.timing])
    # As text, since JSON has no infinity: with that threshold Cheap plays alone.
    levels = map(float, np.asarray(thresholds))
    asked = {("single steps", scores, repr(level)): replace(played, alpha=level) for level in levels}
    found = known.played([asked] * len(known.pairs))
    success, cheap, strong = (
        np.array([[getattr(one[key], name) for one in found] for key in asked], dtype=float).reshape(len(asked), -1)
        for name in ("success", "cheap_calls", "strong_calls")
    )
    return np.stack([success, cost_of_calls(known.players.cost, cheap, strong), cheap, strong])
