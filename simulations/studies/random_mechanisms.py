"""Random mechanisms: where TACIT-Switch wins and loses when the pure rates are held and all else is drawn."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from bayes_tacit.policies import World
from simulations.mechanism.diagnostics import diagnostics
from simulations.mechanism.random_mechanisms import random_mechanism
from simulations.mechanism.world import SIZES
from simulations.studies.contest import (
    ALL,
    ANALOGUES,
    BEFORE,
    CAP,
    NEARLY,
    OURS,
    RECOMMENDED,
    contest,
    draw_worlds,
    names_of,
    policy_rows,
    recommended_row,
)
from simulations.studies.random_page import summarize
from simulations.studies.study import Row, Setting, Study


def replicate(setting: Setting, number: int, seeds: np.random.SeedSequence) -> list[Row]:  # noqa: ARG001
    """Draw a mechanism, compare all policies on it, and measure what might predict the result."""
    drawn, tasks = seeds.spawn(2)
    mechanism = random_mechanism(drawn)
    worlds = draw_worlds(mechanism, tasks)
    measured: Row = {**diagnostics(worlds["train"].episodes, worlds["development"]), **rescues(worlds["development"])}
    measured["risk_noise"], measured["risk_persistence"] = mechanism.risk_noise, mechanism.risk_persistence
    result = contest((*ALL, *OURS, *ANALOGUES), worlds)
    return [row | measured for row in (*policy_rows(result), recommended_row(result, worlds, BEFORE))]


def rescues(world: World) -> dict[str, float]:
    """Tell how many AB = 01 tasks are won by a handoff after 2 and after 5 Cheap steps."""
    outcomes = world.episodes.outcomes
    saved = world.counterfactuals.table()[0][outcomes == "01"]
    return {
        "rescue_early": float(saved[:, 2].mean()),
        "rescue_late": float(saved[:, 5].mean()),
        "only_cheap": float((outcomes == "10").mean()),
    }


def _to_four_digits(values: dict[str, Any]) -> dict[str, Any]:
    """Give numbers that are the same on every machine: the last bits of what is computed hang on its processor."""
    return json.loads(json.dumps(values), parse_float=lambda text: float(f"{float(text):.4g}"))


STUDY = Study(
    name="random",
    title="Random mechanisms",
    description="The comparison over random mechanisms with the pure rates held: where TACIT-Switch wins and loses.",
    settings=[Setting("random")],
    parameters={
        "first draw": _to_four_digits(random_mechanism(0).to_dict()),
        "sizes": dict(SIZES),
        "cap": CAP,
        "policies": [*names_of((*ALL, *OURS, *ANALOGUES)), RECOMMENDED],
        "families": names_of(BEFORE),
    },
    replicate=replicate,
    summarize=summarize,
    replicates=200,
    seed=20261205,
    agreement=NEARLY,
)
