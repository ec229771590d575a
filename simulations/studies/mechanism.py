"""The mechanism comparison: every policy on the same tasks under one cost cap, and the information ablation."""

from __future__ import annotations

import numpy as np
import pandas as pd

from bayes_tacit.decisions.selection import choose
from bayes_tacit.policies import Comparison as Contest
from bayes_tacit.policies import World
from bayes_tacit.policies.base import number_in
from simulations.mechanism import calibration
from simulations.mechanism.diagnostics import diagnostics
from simulations.mechanism.world import SIZES
from simulations.studies.contest import (
    ABLATIONS,
    ALARM,
    ALL,
    ANALOGUES,
    CAP,
    DUE,
    FAMILIES,
    NEARLY,
    OURS,
    RECOMMENDED,
    contest,
    draw_worlds,
    names_of,
    policy_rows,
    recommended_row,
)
from simulations.studies.mechanism_page import PREFIX, summarize
from simulations.studies.off_track import LASTING, hidden_states, of_alarms, of_handoffs
from simulations.studies.study import Row, Setting, Study


def replicate(setting: Setting, number: int, seeds: np.random.SeedSequence) -> list[Row]:  # noqa: ARG001
    """Compare all policies and ablations on one replicate, and compute the paper's checks."""
    worlds = draw_worlds(calibration().mechanism, seeds)
    result = contest((*ALL, *ABLATIONS, *OURS, *ANALOGUES), worlds)
    states = hidden_states(worlds["test"])
    handoffs = of_handoffs(result, states, LASTING)
    checks = diagnostics(worlds["train"].episodes, worlds["test"])
    checks |= of_alarms(worlds["test"], states, number_in(result.choices[ALARM.name].point, "alpha"))
    outcomes = pd.Series(worlds["test"].episodes.outcomes).value_counts(normalize=True)
    shares = {f"share of AB = {name}": float(share) for name, share in sorted(outcomes.items())}
    checked: list[Row] = [{"check": name, "value": value} for name, value in (checks | shares).items()]
    policies = [row | handoffs.get(str(row["policy"]), {}) for row in policy_rows(result)]
    policies.append(recommended_row(result, worlds))
    policies += policy_rows(contest([DUE], worlds))
    return [*policies, *fixed_prefixes(result, worlds["development"], worlds["test"]), *checked]


def fixed_prefixes(result: Contest, development: World, test: World) -> list[Row]:
    """Choose the prefix router's threshold with K fixed at each of its values."""
    fitted = result.fitted[PREFIX]
    points = fitted.operating_points(development)
    rows: list[Row] = []
    for k, some in points.groupby("k"):
        choice = choose(some, result.cap)
        point = fitted.outcomes(test, choice.point).point()
        rows.append({"policy": f"{PREFIX}, K = {k}", "development_cost": choice.cost, **point})
    return rows


STUDY = Study(
    name="mechanism",
    title="Policies under one cost cap",
    description="All policies and the information ablation on the multi-step mechanism simulator, at a cap of 16.",
    settings=[Setting("baseline")],
    parameters={
        "mechanism": calibration().mechanism.to_dict(),
        "sizes": dict(SIZES),
        "cap": CAP,
        "policies": [*names_of((*ALL, *ABLATIONS, *OURS, *ANALOGUES)), RECOMMENDED, DUE.name],
        "families": names_of(FAMILIES),
    },
    replicate=replicate,
    summarize=summarize,
    replicates=100,
    seed=20261203,
    agreement=NEARLY,
)
