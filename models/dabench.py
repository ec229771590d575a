"""DABench: two task features, eight proposal diagnostics, decisions before a proposal is executed.

A teacher's mark after step t is aligned with the proposal at step t + 1. Ridge 0.03 and six starts are the paper's. It
lists seven kinds of diagnostics for eight columns; format violations and protocol violations, which it joins by "or",
are counted apart here (`simulations.dabench.DABenchExtractor` says how each is measured).
"""

from __future__ import annotations

from models.experiment import Experiment

FEATURES = ("answer_arity", "decimal_precision")
"""Task features of TACIT-Switch."""

DIAGNOSTICS = (
    "protocol_violation",
    "format_violation",
    "execution_failure",
    "repetition",
    "stalled_answer",
    "budget_pressure",
    "no_recent_progress",
    "semantic_mismatch",
)
"""Diagnostics of a proposal."""

DABENCH = Experiment(features=FEATURES, diagnostics=DIAGNOSTICS, ridge=0.03, restarts=6, timing="proposal")
