"""What the mechanism studies share: the policies, the tasks of a replicate, and the contest between them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from bayes_tacit.errors import TacitError, TacitWarning
from bayes_tacit.policies import (
    Cascade,
    Comparison,
    Count,
    EvoRoute,
    FirstAlarm,
    Landmark,
    Policy,
    PureCheap,
    PureStrong,
    TacitSwitch,
    Trim,
    World,
    compare,
)
from bayes_tacit.policies.from_logs import BY_LIKELIHOOD
from models.mechanism import FULL
from simulations.development_choice import choose_policy
from simulations.mechanism import Mechanism, simulate
from simulations.mechanism.calibrate import CAP, COMPARED, TACIT
from simulations.mechanism.world import RISK, SIZES
from simulations.studies.study import Row
from simulations.studies.tables import mean_and_half_width, with_half_width
from simulations.tuned import STARTED_AND_PACED, Learner, TunedDeferral, TunedSwitch

__all__ = [
    "ABLATIONS",
    "ADDED",
    "ALARM",
    "ALL",
    "ANALOGUES",
    "BASELINES",
    "BEFORE",
    "BEYOND",
    "CAP",
    "DUE",
    "FAMILIES",
    "LIKELIHOOD",
    "MEMORY",
    "NAMED_WITHOUT",
    "NEARLY",
    "OF_ANALOGUES",
    "OURS",
    "OURS_HEADS",
    "PACED",
    "PAPERS",
    "RECOMMENDED",
    "RECOMMENDED_ON",
    "TACIT",
    "TUNED",
    "by_policy",
    "contest",
    "draw_worlds",
    "names_of",
    "our_rows",
    "ours_beside",
    "policy_rows",
    "recommended_row",
]

BASELINES = COMPARED[:3]
"""The learned policies that the paper compares with."""

ABLATIONS = COMPARED[4:]
PAPERS = (PureCheap(), PureStrong(), *BASELINES, TACIT)
"""Every policy of the paper's comparison."""

ALARM, CASCADE = FirstAlarm(RISK), Cascade()
BEYOND = (CASCADE, ALARM)
"""Policies that the paper does not have."""

ALL = (*PAPERS, *BEYOND)

FITTING = {"ridge": FULL.ridge, "unmarked": "outcome"}
"""How our models are fitted: a teacher who finds no good handoff leaves no mark here, so a missing one is no chance."""

DUE = TacitSwitch(
    options={**FITTING, "weights": FULL.weights, "restarts": FULL.restarts, "unmarked": "due"},
    name="TACIT-Switch, unmarked as due",
)
"""TACIT-Switch as published, but an AB = 01 episode without a mark is read as due by the end of its rollout."""

LIKELIHOOD = TacitSwitch(options={**FITTING, "memory": "profile", "clock": True}, name=BY_LIKELIHOOD)
"""What logs alone can choose: memory and the clock's weight by the likelihood of the marks."""

LEARNER = Learner({**FITTING, "weights": FULL.weights})
MEMORY = TunedSwitch(("memory",), LEARNER, name="TACIT-Switch with memory")
PACED = TunedSwitch(STARTED_AND_PACED, LEARNER, name="TACIT-Switch with memory, start and pace")
BY_TASK = TunedDeferral(RISK)
TUNED = TunedSwitch(learner=LEARNER)
RESTARTED = TunedSwitch(learner=LEARNER, handoff="restart", name="Tuned switch, restart")
COUNT, LANDMARK = Count(), Landmark()
OURS: tuple[Policy, ...] = (COUNT, LANDMARK, LIKELIHOOD, MEMORY, PACED, BY_TASK, TUNED, RESTARTED)
"""Policies that go beyond what the first comparison had."""

TRIM, EVOROUTE = Trim(unmarked="outcome"), EvoRoute()
ANALOGUES: tuple[Policy, ...] = (TRIM, EVOROUTE)
"""Analogues of two systems that the paper names as related; steps cost here what EvoRoute takes them to cost."""

ADDED: tuple[Policy, ...] = (LIKELIHOOD, TUNED, *ANALOGUES)
"""Policies of which studies that began with the paper's have rows too."""

OURS_HEADS = ("memory by likelihood", "Tuned switch", "TRIM analogue", "EvoRoute analogue", "recommended")
"""What pages write over the cells of `ours_beside` for those and for what is recommended."""

OF_ANALOGUES = (
    "The analogues are ours of two systems that the paper names as related; the docstrings of `Trim` and `EvoRoute` "
    "say what each keeps and drops."
)
"""What pages say of them."""

NAMED_WITHOUT = "What is recommended is named without them here."
"""What pages say besides where recommendations are made from `BEFORE`."""

FAMILIES: tuple[Policy, ...] = (
    *BASELINES[:1],
    *(ALARM, COUNT),
    *BASELINES[1:],
    *(CASCADE, TRIM, LANDMARK, EVOROUTE, TACIT, MEMORY, PACED, BY_TASK, TUNED, RESTARTED),
)
"""What a recommendation is made from, from the simplest on, in the library's order; each chooses its setting on
development tasks."""

BEFORE = tuple(policy for policy in FAMILIES if policy not in ANALOGUES)
"""What studies of many mechanisms recommend from: a recommendation takes as long as all else there, and theirs were
made before the analogues were."""

RECOMMENDED = "Recommended"
RECOMMENDED_ON = range(2, 5)
"""Replicates in which studies of many settings ask for a recommendation, which takes as long as all else there.

Those that a test computes again are not among them; it computes one of the study of the mechanism.
"""
FOLDS = 3
"""Parts of the cross-validation that a recommendation is made by."""

NEARLY = (1e-3, 1e-3)
"""How nearly a replicate that is computed again on another machine agrees: one task of 20,000 may go the other way."""


def names_of(policies: Iterable[Policy]) -> list[str]:
    """Return the names of policies."""
    return [policy.name for policy in policies]


def draw_worlds(
    mechanism: Mechanism, seeds: np.random.SeedSequence, sizes: Mapping[str, int] = SIZES
) -> dict[str, World]:
    """Simulate train, development and test tasks from independent streams."""
    return {
        split: simulate(mechanism, size, stream)
        for (split, size), stream in zip(sizes.items(), seeds.spawn(len(sizes)), strict=True)
    }


def contest(policies: Iterable[Policy], worlds: Mapping[str, World], cap: float = CAP) -> Comparison:
    """Fit on train, choose on development under the cap, evaluate once on test."""
    with warnings.catch_warnings():
        # That some marks are missing is part of the study, and told in its table.
        warnings.simplefilter("ignore", TacitWarning)
        return compare(policies, worlds["train"].episodes, worlds["development"], worlds["test"], cap)


def recommended_row(result: Comparison, worlds: Mapping[str, World], families: Iterable[Policy] = FAMILIES) -> Row:
    """Recommend one of the policies that were compared, from training and development tasks, and look at test tasks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        ready = [result.fitted[name] for name in names_of(families)]
        found = choose_policy(worlds["development"], result.cap, ready, folds=FOLDS)
    point = found.fitted.outcomes(worlds["test"], found.choice.point).point()
    expected = {f"expected_{name}": float(value) for name, value in found.expected.items()}
    chosen = {"development_success": found.choice.success, "development_cost": found.choice.cost}
    return {"policy": RECOMMENDED, "recommended": found.name, **chosen, **point, **expected}


def our_rows(worlds: Mapping[str, World], *, recommended: bool) -> list[Row]:
    """Return the rows of our policies that a study adds to the first ones; where a fit cannot be made, it says why."""
    rows: list[Row] = []
    for policy in ADDED:
        try:
            rows += policy_rows(contest([policy], worlds))
        except TacitError as error:
            rows.append({"policy": policy.name, "failure": str(error)})
    if recommended:
        rows.append(recommended_row(contest(BEFORE, worlds), worlds, BEFORE))
    return rows


def ours_beside(table: pd.DataFrame, plain: str, best_of: Iterable[str] = ()) -> list[str]:
    """Return cells for the gains of our policies over a plain one, in points, paired by replicate.

    The last cell is what is recommended minus the best of some others, which only hindsight knows.
    """
    success = by_policy(table)
    cells = []
    for name in (*names_of(ADDED), RECOMMENDED):
        gain = (success[name] - success[plain]).dropna() if name in success else success[plain][:0]
        cells.append(f"{with_half_width(*mean_and_half_width(gain), digits=2)} ({len(gain)})" if len(gain) else "")
    others = list(best_of)
    if others:
        margin = (success[RECOMMENDED] - success[others].max(axis=1)).dropna()
        cells.append(with_half_width(*mean_and_half_width(margin), digits=2))
    return cells


def policy_rows(comparison: Comparison) -> list[Row]:
    """Return a row for each policy: its averages, and the threshold and prefix that were chosen, if it has them."""
    rows: list[Row] = []
    for averages in comparison.table.drop(columns="setting").to_dict("records"):
        point = comparison.choices[str(averages["policy"])].point
        chosen = {name: float(point[name]) for name in ("alpha", "k") if name in point}  # type: ignore[arg-type]
        rows.append({str(name): value for name, value in averages.items()} | chosen)
    return rows


def by_policy(table: pd.DataFrame, measure: str = "success", scale: float = 100.0) -> pd.DataFrame:
    """Return one measure in a table (replicate, policy), in percent by default."""
    wide = table.dropna(subset=["policy"]).pivot_table(index="replicate", columns="policy", values=measure)
    return scale * wide
