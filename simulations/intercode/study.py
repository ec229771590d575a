"""Every policy that logs can evaluate, on InterCode's logs."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from bayes_tacit import Episodes, MapFit, StepCost, World, fit_map
from bayes_tacit.errors import InvalidDataError, TacitError, TacitWarning
from bayes_tacit.policies import FittedPolicy, Policy, PosteriorTacitSwitch, PureCheap, PureStrong, TacitSwitch
from simulations.development_choice import choose_policy, families
from simulations.intercode.logs import DATABASE, Source, load, unmarked
from simulations.intercode.page import CHOSEN, FORGETTING, NO_MARKS, RECOMMENDED, TACIT, as_text, summarize
from simulations.studies.study import Row, Setting, Study

SHARES = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Budgets, as shares of Pure Strong's mean cost on the development tasks."""

PARTS = {"training": 0.4, "development": 0.3, "test": 0.3}
RATIO = 10.0
"""Price of a Strong turn in Cheap turns."""

OTHER_RATIOS = (3.0, 30.0)
SIZES = (50, 100, 200, 400, 600)
SIZED = {"training": 0.59, "development": 0.11, "test": 0.3}
"""Shares of the tasks where the number of training tasks is what varies."""

LEARNING = ("Task Router", "Prefix router", "Count", "Landmark", TACIT, NO_MARKS)
SAMPLING: dict[str, Any] = {"draws": 500, "tune": 500, "chains": 2, "progress": False, "unmarked": "outcome"}
RULES: tuple[str | float, ...] = ("mean", 0.1, 0.9)
RECOMMENDED_SPLITS = 20
"""Splits on which `recommend` is asked under each budget, which takes longer than all else."""

BINS = 10
THIRD = 2
"""The checkpoint in whose middle of things q is looked at too."""

FITTING: dict[str, Any] = {"restarts": 2, "unmarked": "outcome"}
"""The paper's reading of the few tasks that the rule cannot mark: they count for their outcome alone."""


def tacit_switch(name: str, estimator: Callable[[Episodes], MapFit]) -> TacitSwitch:
    """Return TACIT-Switch with an estimator of its own; every handoff restarts the task, which logs can evaluate."""
    return TacitSwitch(estimator=estimator, handoff="restart", name=name)


def fit_with_marks(training: Episodes) -> MapFit:
    """Fit as the paper does, with the marks of the rule."""
    return fit_map(training, **FITTING)


def fit_without_marks(training: Episodes) -> MapFit:
    """Fit without a single mark: where only Strong succeeds the handoff was due by the end."""
    return fit_map(unmarked(training), restarts=2, unmarked="due")


def fit_with_memory(training: Episodes) -> MapFit:
    """Fit with marks, with the memory that the likelihood prefers and a clock."""
    return fit_map(training, **FITTING, memory="profile", clock=True)


def study_of(source: Source) -> Study:
    """Return the study of these logs; results that were made of others are refused."""
    episodes = load(source)
    names = episodes.diagnostic_names
    sizes = [n for n in SIZES if n <= SIZED["training"] * len(episodes)]
    settings = [
        Setting("random", {"ratio": RATIO}),
        *([Setting("database", {"by": DATABASE}, share=0.05)] if source.has_databases else []),
        *(Setting(f"price {ratio:g}", {"ratio": ratio}, share=0.08) for ratio in OTHER_RATIOS),
        *(Setting(f"{n} training tasks", {"n": n}, share=0.08) for n in sizes),
        *(Setting(f"without {name}", {"without": name}, share=0.08) for name in names),
        Setting("estimates", {"sampling": SAMPLING}, share=0.03),
    ]
    return Study(
        name="intercode",
        title="Real logs: two language models on InterCode's SQL tasks",
        description="Every policy that logs can evaluate, on real rollouts of two language models.",
        settings=settings,
        parameters={
            "logs": episodes.fingerprint(),
            "shares": SHARES,
            "parts": PARTS,
            "ratio": RATIO,
            "fitting": FITTING,
            "recommended": RECOMMENDED_SPLITS,
            "families": [policy.name for policy in families(_world(episodes, _cost({})), FITTING)],
        },
        replicate=partial(replicate, source),
        summarize=summarize,
        replicates=100,
        seed=20261118,
        paired=True,
        arguments=" --data path/to/intercode",
    )


def facts_of(source: Source, episodes: Episodes) -> dict[str, Any]:
    """Return what the page says of the logs."""
    outcomes, counts = np.unique(episodes.outcomes, return_counts=True)
    data = episodes.dataset
    return {
        "cheap": source.cheap,
        "strong": source.strong,
        "tasks": len(episodes),
        "outcomes": dict(zip(outcomes.tolist(), counts.tolist(), strict=True)),
        "cheap_success": float(data["cheap_success"].mean()),
        "strong_success": float(data["strong_success"].mean()),
        "cheap_steps": float(episodes.n_steps.mean()),
        "strong_steps": float(data["strong_steps"].mean()),
        "marked": int(episodes.has_window.sum()),
        "features": list(episodes.feature_names),
        "diagnostics": list(episodes.diagnostic_names),
        "databases": len(set(data[DATABASE].values.tolist())) if source.has_databases else 0,
    }


def replicate(source: Source, setting: Setting, number: int, seeds: np.random.SeedSequence) -> list[Row]:
    """Split, fit, choose and evaluate."""
    episodes = load(source)
    values = setting.values
    rng = np.random.default_rng(seeds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        parts = split(episodes, values, rng)
        worlds = {name: _world(part, _cost(values)) for name, part in parts.items()}
        training, development = parts["training"], worlds["development"]
        if "sampling" in values:
            policies: Sequence[Policy] = estimates(training, number)
        else:
            tried = families(development, FITTING)
            policies = [*tried, tacit_switch(NO_MARKS, fit_without_marks)]
            if "n" in values or "without" in values:
                policies = [policy for policy in policies if policy.name in LEARNING]
        fitted, failures = _fit(policies, training)
        rows = [*failures, *curve(fitted, development, worlds["test"])]
        if setting.name == "random" and number < RECOMMENDED_SPLITS:
            ready = [fitted[policy.name] for policy in tried if policy.name in fitted]
            rows += recommended(ready, development, worlds["test"])
        rows.append({"kind": "split", "tested": as_text(np.isin(episodes.ids, parts["test"].ids))})
        rows += learned(fitted)
        if setting.name == "random":
            rows += calibration(fitted, parts["test"])
            if number == 0:
                rows.append({"kind": "facts", "facts": json.dumps(facts_of(source, episodes))})
    return rows


def split(episodes: Episodes, values: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Episodes]:
    """Split the tasks at random, or so that no database is in two parts; leave out what the setting leaves out."""
    parts = episodes.split(SIZED if "n" in values else PARTS, by=values.get("by"), seed=rng)
    if "n" in values:
        chosen = rng.permutation(len(parts["training"]))[: int(values["n"])]
        parts["training"] = Episodes(parts["training"].dataset.isel(episode=np.sort(chosen)))
    if "without" in values:
        parts = {name: _without(part, str(values["without"])) for name, part in parts.items()}
    return parts


def curve(fitted: Mapping[str, FittedPolicy], development: World, test: World) -> list[Row]:
    """Choose each policy's setting under each budget on development tasks, and say what it gives on test tasks."""
    strong = float(development.counterfactuals.pure_strong.cost.mean())
    rows: list[Row] = []
    best: dict[float, Row] = {}
    for name, policy in fitted.items():
        pure = name in (PureCheap().name, PureStrong().name)
        for share in (1.0,) if pure else SHARES:
            try:
                choice = policy.choose(development, share * strong)
            except InvalidDataError:
                # It costs more, whatever its setting.
                continue
            row: Row = {"kind": "curve", "policy": name, "share": share, "development_success": choice.success}
            row |= _tested(policy, choice.point, test)
            rows.append(row)
            if not pure and (share not in best or choice.success > float(best[share]["development_success"])):
                best[share] = row
    return [*rows, *({**row, "policy": CHOSEN, "choice": row["policy"]} for row in best.values())]


def recommended(ready: Sequence[FittedPolicy], development: World, test: World) -> list[Row]:
    """Say what comes on test tasks of whatever is recommended under each budget, and what was expected of it."""
    strong = float(development.counterfactuals.pure_strong.cost.mean())
    rows: list[Row] = []
    for share in SHARES:
        try:
            result = choose_policy(development, share * strong, ready)
        except InvalidDataError:
            continue
        row: Row = {"kind": "curve", "policy": RECOMMENDED, "share": share, "choice": result.name}
        row |= {"expected": result.expected["success"], "too_little": result.too_little}
        rows.append(row | _tested(result.fitted, result.choice.point, test))
    return rows


def _tested(policy: FittedPolicy, setting: Mapping[str, object], test: World) -> Row:
    outcomes = policy.outcomes(test, setting)
    of_strong = float(outcomes.cost.mean() / test.counterfactuals.pure_strong.cost.mean())
    return {**outcomes.point(), "of_strong": of_strong, "solved": as_text(outcomes.success == 1)}


def learned(fitted: Mapping[str, FittedPolicy]) -> list[Row]:
    """Return the weights of the diagnostics that TACIT-Switch has learned; with bands from a posterior."""
    rows: list[Row] = []
    for name, policy in fitted.items():
        estimate = policy.estimate
        if isinstance(estimate, MapFit):
            names = (*estimate.diagnostic_names, "clock")
            rows += [
                {"kind": "learned", "policy": name, "diagnostic": one, "w": float(w)}
                for one, w in zip(names, estimate.w, strict=False)
            ]
        elif isinstance(estimate, xr.DataTree) and name == PosteriorTacitSwitch("mean").name:
            draws = estimate["posterior"].to_dataset()["w"].stack(all=("chain", "draw"))
            for one in draws["diagnostic"].to_series():
                w = draws.sel(diagnostic=one).to_numpy()
                low, high = np.quantile(w, [0.05, 0.95])
                row: Row = {"kind": "learned", "policy": name, "diagnostic": str(one), "w": float(w.mean())}
                rows.append({**row, "lower": float(low), "upper": float(high)})
    return rows


def calibration(fitted: Mapping[str, FittedPolicy], test: Episodes) -> list[Row]:
    """Compare q with how often only Strong succeeds: at the end of a rollout, and of those that go on after the third.

    By the model, q at the end of Cheap's rollout is the probability that Strong succeeds and Cheap does not.
    """
    rows: list[Row] = []
    due = (test.outcomes == "01").astype(float)
    last = test.n_steps - 1
    for name, policy in fitted.items():
        if policy.estimate is None:
            continue
        scores = policy.scores(test)
        for when, at, kept in (
            ("end", last, np.ones(len(test), dtype=bool)),
            ("third", np.minimum(last, THIRD), test.n_steps > THIRD + 1),
        ):
            q = scores[np.arange(len(test)), at][kept]
            place = np.minimum((q * BINS).astype(int), BINS - 1)
            for which in np.unique(place).tolist():
                chosen = place == which
                row: Row = {"kind": "calibration", "policy": name, "when": when, "bin": which}
                sums = {"n": int(chosen.sum()), "q": float(q[chosen].sum()), "due": float(due[kept][chosen].sum())}
                rows.append({**row, **sums})
    return rows


def estimates(training: Episodes, number: int) -> list[Policy]:
    """Return TACIT-Switch from a point estimate, with memory and clock, and from a posterior by mean and quantiles."""
    # Sampling takes PyMC, which nothing else here needs.
    from bayes_tacit import sample_posterior

    tree = sample_posterior(training, seed=number, **SAMPLING)
    rules = [PosteriorTacitSwitch(rule, tree, draws=200, handoff="restart") for rule in RULES]
    return [tacit_switch(TACIT, fit_with_marks), tacit_switch(FORGETTING, fit_with_memory), *rules]


def _fit(policies: Sequence[Policy], training: Episodes) -> tuple[dict[str, FittedPolicy], list[Row]]:
    """Fit what can be fitted; with few tasks some estimates do not exist, which is counted."""
    fitted: dict[str, FittedPolicy] = {}
    failures: list[Row] = []
    for policy in policies:
        try:
            fitted[policy.name] = policy.fit(training)
        except TacitError as error:
            failures.append({"kind": "failure", "policy": policy.name, "why": str(error)})
    return fitted, failures


def _cost(values: Mapping[str, Any]) -> StepCost:
    return StepCost(cheap=1, strong=float(values.get("ratio", RATIO)))


def _world(episodes: Episodes, cost: StepCost) -> World:
    return World.from_restarts(episodes, strong_steps="strong_steps", cost=cost)


def _without(episodes: Episodes, diagnostic: str) -> Episodes:
    kept = [at for at, name in enumerate(episodes.diagnostic_names) if name != diagnostic]
    return Episodes(episodes.dataset.isel(diagnostic=kept))
