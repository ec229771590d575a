"""Playing every policy on DABench's questions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from bayes_tacit.agents import Budget
from bayes_tacit.agents.playing import Pair, Players, RecordedActor, shown
from bayes_tacit.agents.protocols import Agent
from bayes_tacit.agents.teacher import AtCheckpoint, stalled_for
from bayes_tacit.agents.transcript import Transcript
from bayes_tacit.data.costs import StepCost
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.errors import MissingFileError
from bayes_tacit.policies import Policy, PosteriorTacitSwitch, StepDeferral, TaskRouter
from bayes_tacit.policies.plain import DABENCH_STEPS
from models.dabench import DABENCH
from simulations.dabench import DESCRIPTORS, DABench, DABenchExtractor, Question
from simulations.dabench.analyst import CarefulAnalyst, HastyAnalyst
from simulations.dabench.questions import Splits, make_splits
from simulations.played.crossed import cross_validate
from simulations.played.experiment import PARTS, Experiment, run_played
from simulations.played.page import Story, write_results
from simulations.played.policies import DEFERRAL, Compared
from simulations.played.setup import Report, Setup
from simulations.studies.tables import markdown_table

COST = StepCost.paper("9b")
"""9B Cheap and 27B Strong, in calls of a 4B model."""

NLL = "nll"
"""What Step Deferral looks at: the negative log-likelihood of Cheap's proposal."""

COMPARED = Compared(
    DABENCH,
    TaskRouter.dabench(DESCRIPTORS),
    StepDeferral(NLL, average_steps=DABENCH_STEPS, timing="proposal", name=DEFERRAL),
    alarm="repetition",
    candidates="switch_rates",
    cost=COST,
)
"""First Alarm, which the paper does not have, hands off for good where Cheap proposes a call that it made before."""


def compared_policies(seed: int = 0) -> list[Policy]:
    """Return every policy of the library, with the paper's settings for DABench."""
    return COMPARED.policies(seed)


def without_posterior(seed: int = 0) -> list[Policy]:
    """Return the same without those that sample a posterior, where many fits are made."""
    return [policy for policy in compared_policies(seed) if not isinstance(policy, PosteriorTacitSwitch)]


BUDGET_SHARE = 0.8
"""The cap on development data, as a share of what Pure Strong costs there."""

BUDGET = Budget(12, calls=12)
"""The paper's: at most 12 model calls."""

STANDSTILL = 2


def analysts(seed: int = 0) -> Players:
    """Return the pair by rule."""
    return Players(HastyAnalyst(seed), CarefulAnalyst(), COST, BUDGET)


def replaying(seed: int, cheap: Path | None, strong: Path | None, questions: Sequence[Question]) -> Players:
    """Return a pair in which either may replay the answers that transcripts in a folder hold; else by rule."""
    players = analysts(seed)
    if cheap is not None:
        players = replace(players, cheap=_recorded(cheap, "cheap", questions))
    if strong is not None:
        players = replace(players, strong=_recorded(strong, "strong", questions))
    return players


def _recorded(folder: Path, agent: Agent, questions: Sequence[Question]) -> RecordedActor:
    actor = RecordedActor(folder, agent)
    lacking = {question.id: why for question in questions if (why := _unfit(actor, question))}
    if lacking:
        (first, why), n = next(iter(lacking.items())), len(questions)
        which = f"question {first}" if len(lacking) == 1 else f"{len(lacking)} questions, the first of them {first}"
        raise MissingFileError(
            f"{folder}: no recorded answers of {agent} for {which} ({why}); "
            f"expected a finished rollout for each of {n} questions"
        )
    return actor


def _unfit(actor: RecordedActor, question: Question) -> str | None:
    """Say why a question cannot be played to its end; None if it can."""
    rollout = actor.rollouts.get(question.id)
    if rollout is None:
        return "not on record"
    if rollout.task != question.text:
        return f"recorded for another one, {rollout.task[:57]!r}..."
    calls = BUDGET.actions if BUDGET.calls is None else min(BUDGET.actions, BUDGET.calls)
    if rollout.end.status != "done" and len(rollout.steps) < calls:
        return f"the budget was spent after {len(rollout.steps)} actions, not {calls}"
    return None


def run_experiment(
    data: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    players: Players | None = None,
    splits: Splits | None = None,
    workers: int = 1,
    report: Report | None = None,
    policies: Sequence[Policy] | None = None,
    repeatable: bool = True,
) -> Experiment:
    """Play what was not played yet, and compare the policies."""
    asked = splits or make_splits(data)
    setup = dabench_setup(data, folder, players or analysts(), workers=workers, report=report)
    parts = {part: getattr(asked, part) for part in PARTS}
    return run_played(setup, parts, policies or compared_policies(), repeatable=repeatable)


def dabench_setup(
    data: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    players: Players,
    *,
    workers: int = 1,
    report: Report | None = None,
) -> Setup[Question]:
    """Say how DABench is played: in its sandbox, with decisions at proposals."""
    home = Path(folder)
    benchmark = DABench(Path(data))
    return Setup(
        benchmark,
        players,
        home,
        clear_failure(STANDSTILL),
        BUDGET_SHARE,
        Described(Path(data)),
        handoff_timing=benchmark.timing,
        workers=workers,
        report=report,
    )


def clear_failure(standstill: int) -> AtCheckpoint:
    """Take failure as clear after so many steps that told nothing new, or before a wrong answer that shows a sign.

    A mark after a step is read as the proposal that follows. So every mark is where some diagnostic is above zero,
    since after a standstill there is no recent progress. Where Cheap computes something else than was asked and answers
    that, nothing is to be seen, and nothing is marked.
    """
    stalled = stalled_for(standstill)

    def clear(cheap: Transcript, at: int) -> bool:
        return stalled(cheap, at) or answers_with_a_sign(cheap, at + 1)

    return clear


def answers_with_a_sign(cheap: Transcript, at: int) -> bool:
    """Return whether a step of a failed rollout is the answer that ends it, with a diagnostic above zero."""
    answers = [step for step in cheap.executed[at : at + 1] if step.result is not None and step.result.done]
    return any(value > 0 for step in answers for value in (step.diagnostics or {}).values())


class Described:
    """Carries along with episodes what the task router and Step Deferral look at.

    Parameters
    ----------
    data
        The folder of DABench's files.
    """

    def __init__(self, data: Path) -> None:
        self._data = data

    def __call__(self, episodes: Episodes, pairs: Sequence[Pair[Question]]) -> Episodes:
        """Return the episodes with them; a likelihood that is not known is one of which nothing is unusual."""
        described = [
            DABenchExtractor(pair.task, self._data, descriptors=True).features(pair.cheap.history(0).first)
            for pair in pairs
        ]
        likelihood = np.full((len(pairs), int(episodes.n_steps.max())), np.nan)
        for row, pair in enumerate(pairs):
            known = [step.proposal.nll or 0.0 for step in pair.cheap.checkpoints]
            likelihood[row, : len(known)] = known
        carried = {name: ("episode", np.array([one[name] for one in described])) for name in DESCRIPTORS}
        return Episodes(episodes.dataset.assign(carried | {NLL: (("episode", "step"), likelihood)}))


LEVELS = "easy medium hard"


def levels_table(experiment: Experiment) -> str:
    """Return how often each actor is right alone, by DABench's own levels of the questions."""
    every = [pair for part in PARTS for pair in experiment.pairs[part]]
    levels = sorted({pair.task.level for pair in every}, key=lambda level: (LEVELS.find(level), level))
    rows = []
    for level in (*levels, "all"):
        pairs = [pair for pair in every if level in ("all", pair.task.level)]
        right = [
            sum(pair.cheap.end.success for pair in pairs),
            sum(pair.strong.end.success for pair in pairs),
            sum(pair.outcome == "01" for pair in pairs),
        ]
        rows.append([level, str(len(pairs)), *(f"{count} ({count / len(pairs):.1%})" for count in right)])
    return markdown_table(["level of the question", "questions", "Cheap right", "Strong right", "only Strong"], rows)


NAME, VARIABLE = "dabench", "DABENCH_DATA"


def run(
    data: Path | None,
    folder: Path,
    *,
    kept: Path | None,
    jobs: int,
    seed: int,
    cheap: Path | None = None,
    strong: Path | None = None,
) -> None:
    """Play what was not played yet, and write the results.

    `cheap` and `strong` are folders of transcripts whose answers are replayed in the place of an analyst. Everything
    that is played is kept, by default in a folder `kept` in that of the results.
    """
    given = data or os.environ.get(VARIABLE)
    if not given:
        raise MissingFileError(f"no folder of DABench: pass --data, or set the variable {VARIABLE}")
    splits = make_splits(given)
    players = replaying(seed, cheap, strong, splits.all)
    home = folder / "kept" if kept is None else kept
    experiment = run_experiment(
        given, home, splits=splits, players=players, policies=compared_policies(seed), workers=jobs, report=shown
    )
    recorded = [f"--{side} FOLDER" for side, path in (("cheap", cheap), ("strong", strong)) if path is not None]
    story = Story(
        "dabench_recorded" if recorded else NAME,
        " ".join([NAME, *recorded, "--data path/to/dabench"]),
        "calls of a 4B model",
        "questions",
        more=lambda one: {"levels": levels_table(one)},
    )
    # A page without the second table is there while that is played, which takes as long again.
    write_results(experiment, folder, story)
    setup = dabench_setup(given, home, players, workers=jobs, report=shown)
    pairs = setup.rollouts("all", splits.all)
    found = cross_validate(pairs, setup, partial(without_posterior, seed), evidence="one_step")
    write_results(experiment, folder, story, found)
