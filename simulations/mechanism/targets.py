"""The paper's figures for the mechanism study, and the same figures measured on simulated replicates."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from bayes_tacit.errors import TacitWarning
from bayes_tacit.policies import PrefixRouter, StepDeferral, TacitSwitch, TaskRouter, compare
from bayes_tacit.policies.base import Policy
from bayes_tacit.policies.world import World
from models.mechanism import FULL, RISK_ONLY, X_ONLY, without_features, without_risk_values
from simulations import published
from simulations.mechanism.diagnostics import diagnostics
from simulations.mechanism.exact import success_probability
from simulations.mechanism.parameters import Mechanism, with_feature_information, with_risk_noise
from simulations.mechanism.vector import Ends
from simulations.mechanism.world import RISK, simulate_replicate

CAP = 16.0
"""The development cap."""

TACIT = TacitSwitch(estimator=FULL.fit)
COMPARED = (
    TaskRouter(),
    StepDeferral(RISK),
    PrefixRouter(),
    TACIT,
    TacitSwitch(estimator=X_ONLY.fit, view=without_risk_values, name="x-only"),
    TacitSwitch(estimator=RISK_ONLY.fit, view=without_features, name="risk-only"),
)
"""The learned policies of the paper and its two ablations."""

PAPER = MappingProxyType(
    {
        "Pure Cheap": published.MECHANISM_SUCCESS_PERCENT["pure_cheap"],
        "Pure Strong": published.MECHANISM_SUCCESS_PERCENT["pure_strong"],
        "Task Router": published.MECHANISM_SUCCESS_PERCENT["task_router"],
        "Step Deferral": published.MECHANISM_SUCCESS_PERCENT["step_deferral"],
        "Prefix router": published.MECHANISM_SUCCESS_PERCENT["prefix_router"],
        "TACIT-Switch": published.MECHANISM_SUCCESS_PERCENT["tacit_switch"],
        "x-only": published.ABLATION_SUCCESS_PERCENT["x_only"][0],
        "risk-only": published.ABLATION_SUCCESS_PERCENT["risk_only"][0],
        **{f"auc_{name}": auc for name, auc in published.MECHANISM_AUC_OF_CHEAP_FAILURE.items()},
        "ab01_with_candidate": published.MECHANISM_CANDIDATE_PERCENT,
        "success_after_marked_handoff": published.MECHANISM_SUCCESS_AFTER_MARK_PERCENT,
        "least feature information": published.SENSITIVITY_SUCCESS_PERCENT_RANGE["task_features"][0],
        "most feature information": published.SENSITIVITY_SUCCESS_PERCENT_RANGE["task_features"][1],
        "most risk noise": published.SENSITIVITY_SUCCESS_PERCENT_RANGE["online_risk"][0],
        "least risk noise": published.SENSITIVITY_SUCCESS_PERCENT_RANGE["online_risk"][1],
    }
)
"""Success in percent, by policy and for TACIT-Switch at the ends of the sensitivity axes; AUCs; the teacher's marks."""

TOLERANCE = MappingProxyType({name: 0.01 if name.startswith("auc") else 0.7 for name in PAPER})
"""How near is near enough: 0.7 points, 0.01 for an AUC."""


def measure(mechanism: Mechanism, ends: Ends, seed: int, replicate: int) -> dict[str, float]:
    """Measure the figures of `PAPER` on one replicate; the pure rates are exact."""
    worlds = simulate_replicate(mechanism, seed, replicate)
    success = success_on_test(COMPARED, worlds)
    checks = diagnostics(worlds["train"].episodes, worlds["test"])
    found = {
        "Pure Cheap": 100 * success_probability(mechanism, "cheap"),
        "Pure Strong": 100 * success_probability(mechanism, "strong"),
        **success,
        **{name: value if name.startswith("auc") else 100 * value for name, value in checks.items()},
    }
    axes: dict[str, tuple[Callable[[Mechanism, float], Mechanism], float]] = {
        "least feature information": (with_feature_information, ends.least_feature),
        "most feature information": (with_feature_information, ends.most_feature),
        "most risk noise": (with_risk_noise, ends.most_noise),
        "least risk noise": (with_risk_noise, ends.least_noise),
    }
    for name, (varied, factor) in axes.items():
        varied_worlds = simulate_replicate(varied(mechanism, factor), seed, replicate)
        found[name] = success_on_test([TACIT], varied_worlds)[TACIT.name]
    return {name: found[name] for name in PAPER}


def success_on_test(policies: Iterable[Policy], worlds: Mapping[str, World]) -> dict[str, float]:
    """Give the success of policies on test tasks, in percent, by name."""
    with warnings.catch_warnings():
        # That some marks are missing, or have no risk in them, is part of the study.
        warnings.simplefilter("ignore", TacitWarning)
        found = compare(policies, worlds["train"].episodes, worlds["development"], worlds["test"], CAP)
    return {name: 100 * float(outcomes.success.mean()) for name, outcomes in found.outcomes.items()}
