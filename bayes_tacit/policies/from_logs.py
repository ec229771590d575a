"""What logs alone say of handoffs that resume from Cheap's state: bounds, and the likelihood of the marks."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import pandas as pd

from bayes_tacit.data.costs import CostModel
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.decisions.bounds import bounds_from_logs, suggest_alpha
from bayes_tacit.errors import InvalidDataError, TacitError, TacitWarning
from bayes_tacit.estimates.map_fit import MapFit
from bayes_tacit.policies.base import FittedPolicy
from bayes_tacit.policies.learned import EvoRoute, Trim
from bayes_tacit.policies.plain import FirstAlarm
from bayes_tacit.policies.tacit_switch import TacitSwitch
from bayes_tacit.router import Router

BY_LIKELIHOOD = "TACIT-Switch, memory by likelihood"

UNKNOWN = (
    "Paired rollouts do not say what comes of a handoff in the middle of a task, so neither success nor cost is known, "
    "only bounds of both. Handoffs that restart the task are known exactly (World.from_restarts; on the command line "
    "--handoff restart), and counterfactuals of some tasks would tell the policies apart."
)

SINGLE_STEPS = "it gives Strong single steps, of which paired rollouts do not even give bounds"


@dataclass(frozen=True, eq=False)
class LogsRecommendation:
    """What can be recommended where it is not known what comes of handoffs.

    Attributes
    ----------
    name, fitted, setting
        The policy, of those with a model the one under which the marks are likeliest (by Akaike's criterion), and its
        threshold: the best in its own worst case within the cap.
    table
        A row for each policy: `policy`, `alpha`, bounds `success_low`, `success_high`, `cost_low` and `cost_high` on
        the logged episodes, and `log_likelihood`, that of a training episode on average, where there is a model.
    left_out
        Policies for which nothing could be said, with the reason.
    """

    name: str
    fitted: FittedPolicy
    setting: Mapping[str, float]
    table: pd.DataFrame
    left_out: Mapping[str, str]

    @property
    def reason(self) -> str:
        """Why this one, and what cannot be known."""
        row = self.table[self.table["policy"] == self.name].iloc[0]
        return (
            f"{self.name} is recommended: of the models it makes the marks likeliest (log-likelihood "
            f"{row['log_likelihood']:.4f} an episode). On these logs its success is between {row['success_low']:.1%} "
            f"and {row['success_high']:.1%}, at a cost between {row['cost_low']:.4g} and {row['cost_high']:.4g}. "
            f"{UNKNOWN}"
        )

    @property
    def router(self) -> Router:
        """Return the router that decides so."""
        return self.fitted.router(self.setting)

    def to_dict(self) -> dict[str, object]:
        """Return everything but the fitted policy, as JSON takes it."""
        return {
            "policy": self.name,
            "setting": dict(self.setting),
            "from_logs_alone": True,
            "unknown": UNKNOWN,
            "policies": self.table.to_dict("records"),
            "left_out": dict(self.left_out),
        }

    def __repr__(self) -> str:
        return f"{self.reason}\n\n{self.table.round(4).to_string(index=False)}"


def recommend_from_logs(
    training: Episodes,
    development: Episodes,
    cap: float,
    *,
    cost: CostModel,
    step_budget: int | None = None,
    strong_steps: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> LogsRecommendation:
    """Compare policies by bounds and by likelihood, from paired rollouts alone.

    Policies are fitted on `training`, with `options` for `fit_map`; `development` are logged episodes that the fits
    have not seen, on which the mean cost is within the cap in the worst case that the assumptions of the bounds allow.
    The other parameters are those of `bounds_from_logs`.

    Examples
    --------
    >>> from bayes_tacit import StepCost, load_example
    >>> parts = load_example().split({"training": 0.5, "development": 0.5})
    >>> result = recommend_from_logs(
    ...     parts["training"], parts["development"], 60, cost=StepCost(cheap=1, strong=3), step_budget=30
    ... )
    >>> result.name
    'TACIT-Switch, memory by likelihood'
    """
    fitting = dict(options or {})
    bounded = partial(
        _bounded, development=development, cap=cap, cost=cost, step_budget=step_budget, strong_steps=strong_steps
    )
    rows: list[dict[str, object]] = []
    left_out = {Trim.name: SINGLE_STEPS}
    fitted: dict[str, FittedPolicy] = {}
    penalized: dict[str, float] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        for policy in _policies(training, fitting):
            try:
                one = policy.fit(training)
                row = bounded(one)
            except TacitError as error:
                left_out[policy.name] = str(error)
                continue
            if isinstance(one.estimate, MapFit):
                fit = one.estimate
                fitted[policy.name], row["log_likelihood"] = one, -fit.objective
                penalized[policy.name] = -fit.objective - _free_numbers(fit) / fit.n_episodes
            rows.append(row)
    if not fitted:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise InvalidDataError(f"a cap that a model keeps in its worst case ({reasons})", field="cap", value=cap)
    name = max(penalized, key=lambda one: penalized[one])
    (alpha,) = (float(cast("float", row["alpha"])) for row in rows if row["policy"] == name)
    return LogsRecommendation(name, fitted[name], {"alpha": alpha}, pd.DataFrame(rows), left_out)


def _policies(training: Episodes, fitting: Mapping[str, Any]) -> tuple[FirstAlarm | EvoRoute | TacitSwitch, ...]:
    alarms = (FirstAlarm(one, name=f"First Alarm ({one})") for one in training.diagnostic_names)
    by_likelihood = TacitSwitch(options={**fitting, "memory": "profile", "clock": True}, name=BY_LIKELIHOOD)
    # Without a price and a start its scores are compared with alpha at checkpoints alone, as bounds take them.
    return (*alarms, EvoRoute(prices=(0.0,), start=False), TacitSwitch(options=fitting), by_likelihood)


def _bounded(
    fitted: FittedPolicy,
    *,
    development: Episodes,
    cap: float,
    cost: CostModel,
    step_budget: int | None,
    strong_steps: str | None,
) -> dict[str, object]:
    """Return the threshold that is best in its own worst case, and what is certain of it."""
    bounds = bounds_from_logs(
        fitted.scores(development),
        development,
        fitted.candidates["alpha"].to_numpy(float),
        fitted.timing,
        cost=cost,
        step_budget=step_budget,
        strong_steps=strong_steps,
    )
    found = suggest_alpha(bounds, cap)
    columns = ("success_low", "success_high", "cost_low", "cost_high")
    return {"policy": fitted.name, "alpha": found.alpha, **{column: found.bounds[column] for column in columns}}


def _free_numbers(fit: MapFit) -> int:
    """Count what the likelihood chose, as Akaike's criterion does."""
    weights = 0 if fit.weights_fixed else len(fit.w) - 1
    return weights + 2 * len(fit.feature_names) + 3 + bool(fit.profile)
