"""What the paper reports of its controlled studies, to put beside ours.

Source: Ji'an Lei and Jian Huang, "TACIT-Switch: Cost-Aware Model Escalation for LLM Agents from Censored Supervision",
2026, sections "Controlled Statistical Experiments", "Controlled Statistical Protocols" and "Robustness to Noisy Teacher
Supervision". A pair is a mean and the half-width of its Student-t 95% interval over replicates. Rates are in percent
where the name says so.
"""

from __future__ import annotations

RECOVERY_Q_RMSE = {500: (0.0203, 0.0006), 8000: (0.0052, 0.0001)}
RECOVERY_OUTCOMES = {"00": 0.259, "01": 0.261, "10": 0.197, "11": 0.284}
RECOVERY_CONVERGED = (1500, 1500)

NOISE_Q_RMSE = {
    ("clean", 0.0): (0.0075, 0.0005),
    ("interval", 0.2): (0.0077, 0.0005),
    ("strong outcome", 0.2): (0.0208, 0.0007),
    ("joint", 0.2): (0.0209, 0.0007),
}

MECHANISM_SUCCESS_PERCENT = {
    "pure_cheap": 44.59,
    "pure_strong": 84.88,
    "task_router": 62.40,
    "step_deferral": 62.98,
    "prefix_router": 66.13,
    "tacit_switch": 73.52,
}
MECHANISM_COST_RANGE = (15.91, 15.95)
MECHANISM_GAIN_POINTS = {"task_router": 11.12, "step_deferral": 10.54, "prefix_router": 7.39}
MECHANISM_AUC_OF_CHEAP_FAILURE = {"cumulative_risk": 0.774, "task_features": 0.605, "latest_risk": 0.691}
MECHANISM_CANDIDATE_PERCENT = 80.1
MECHANISM_SUCCESS_AFTER_MARK_PERCENT = 85.6

ABLATION_SUCCESS_PERCENT = {"full": (73.51, 0.09), "x_only": (66.62, 0.10), "risk_only": (71.35, 0.09)}
ABLATION_GAIN_POINTS = {"x_only": (6.90, 0.08), "risk_only": (2.17, 0.08)}

SENSITIVITY_SUCCESS_PERCENT_RANGE = {"task_features": (71.56, 74.87), "online_risk": (67.38, 77.96)}

INTERACTIVE_SUCCESSES = {
    "DABench, 9B": (67, {"Task Router": 45, "Step Deferral": 45, "Prefix router": 45, "TACIT-Switch": 49}),
    "ALFWorld, 4B": (134, {"Task Router": 61, "Step Deferral": 31, "Prefix router": 30, "TACIT-Switch": 65}),
    "ALFWorld, 9B": (134, {"Task Router": 45, "Step Deferral": 42, "Prefix router": 48, "TACIT-Switch": 61}),
    "ALFWorld scale-up, 4B": (
        274,
        {"Task Router": 113, "Step Deferral": 119, "Prefix router": 134, "TACIT-Switch": 151},
    ),
    "ALFWorld scale-up, 9B": (
        274,
        {"Task Router": 106, "Step Deferral": 110, "Prefix router": 115, "TACIT-Switch": 159},
    ),
}
"""Test tasks and successes of the learned policies, from the tables of interactive and larger-sample experiments."""

INTERACTIVE_OVER_PREFIX = {"ALFWorld, 4B": (17.2, 35.1), "ALFWorld, 9B": (2.2, 17.9), "DABench, 9B": (-3.0, 14.9)}
"""The paper's paired 95% bootstrap intervals of TACIT-Switch minus the prefix router, in points."""
