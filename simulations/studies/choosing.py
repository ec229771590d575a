"""With few development tasks: the simplest policy that they cannot tell from the best, or the best all the same."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_tacit.errors import TacitError, TacitWarning
from bayes_tacit.policies import (
    Cascade,
    Count,
    FittedPolicy,
    Landmark,
    Policy,
    PureCheap,
    PureStrong,
    World,
)
from simulations.development_choice import choose_policy
from simulations.mechanism.random_mechanisms import random_mechanism
from simulations.mechanism.world import RISK
from simulations.studies.contest import (
    ALARM,
    BASELINES,
    CAP,
    MEMORY,
    NEARLY,
    PACED,
    TACIT,
    TUNED,
    draw_worlds,
    names_of,
)
from simulations.studies.few_outcomes import SLOPE
from simulations.studies.study import Row, Setting, Study
from simulations.studies.tables import fill, markdown_table, mean_and_half_width, with_half_width
from simulations.tuned import TunedDeferral

TASKS = (40, 200, 1_000)
SIZES = {"train": 500, "test": 10_000}
ROUTER, DEFERRAL, PREFIX = BASELINES
POLICIES: tuple[Policy, ...] = (
    PureCheap(),
    PureStrong(),
    ROUTER,
    ALARM,
    Count(),
    DEFERRAL,
    PREFIX,
    Cascade(),
    Landmark(),
    TACIT,
    MEMORY,
    PACED,
    TunedDeferral(RISK),
    TUNED,
)
"""What is tried, from the simplest on."""

RULES = ("simplest", "best")
PLAIN = TACIT.name


def replicate(setting: Setting, number: int, seeds: np.random.SeedSequence) -> list[Row]:  # noqa: ARG001
    """Draw a mechanism, recommend from few tasks by both rules, and look at test tasks."""
    drawn, tasks = seeds.spawn(2)
    sizes = {"train": SIZES["train"], "development": setting.values["tasks"], "test": SIZES["test"]}
    worlds = draw_worlds(random_mechanism(drawn), tasks, sizes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        fitted = _fitted(worlds["train"])
        found = choose_policy(worlds["development"], CAP, fitted.values(), best=True)
        named = {"simplest": found.simplest, "best": found.best, PLAIN: PLAIN}
        rows: list[Row] = []
        for rule, name in named.items():
            setting_of = fitted[name].choose(worlds["development"], CAP).point
            point = fitted[name].outcomes(worlds["test"], setting_of).point()
            rows.append({"rule": rule, "policy": name, **point})
        return rows


def _fitted(training: World) -> dict[str, FittedPolicy]:
    fitted: dict[str, FittedPolicy] = {}
    for policy in POLICIES:
        try:
            fitted[policy.name] = policy.fit(training.episodes)
        except TacitError:
            # Few training tasks may have no estimate; then there is one policy less to choose from.
            continue
    return fitted


def summarize(table: pd.DataFrame, folder: Path) -> str:  # noqa: ARG001
    """Put both rules beside each other, by number of development tasks."""
    rows = []
    for setting, found in table.groupby("setting", sort=False):
        wide = found.pivot_table(index="replicate", columns="rule", values=["success", "cost"])
        level = 100 * wide["success"] - SLOPE * wide["cost"]
        named = {rule: found.loc[found["rule"] == rule, "policy"].to_numpy() for rule in RULES}
        differ = np.mean(named["simplest"] != named["best"])
        points = [f"{100 * wide['success', rule].mean():.1f}% at {wide['cost', rule].mean():.2f}" for rule in RULES]
        over = [_shown(level[rule] - level[PLAIN]) for rule in RULES]
        rows.append([str(setting), f"{differ:.0%}", *points, *over, _shown(level["best"] - level["simplest"])])
    over_plain = [f"{rule} over {PLAIN}" for rule in RULES]
    heads = ["development tasks", "they differ in", *RULES, *over_plain, "best over simplest"]
    return fill("choosing", rules=markdown_table(heads, rows))


def _shown(values: pd.Series[float]) -> str:
    return with_half_width(*mean_and_half_width(values), digits=2)


STUDY = Study(
    name="choosing",
    title="The simplest or the best",
    description="What it costs to name the simplest policy where development tasks cannot tell it from the best.",
    settings=[Setting(f"{n:,}", {"tasks": n}) for n in TASKS],
    parameters={"sizes": SIZES, "cap": CAP, "policies": names_of(POLICIES)},
    replicate=replicate,
    summarize=summarize,
    replicates=200,
    seed=20261218,
    paired=True,
    agreement=NEARLY,
)
