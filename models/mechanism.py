"""The mechanism-based simulation: one noisy risk signal after each step, two weak task features.

There is one diagnostic, so its weight is one. The paper states neither penalty nor starts for this study; with the
weight given the problem has a single optimum, so one start suffices, and no penalty is used. The ablations see less:
`RISK_ONLY` has no features, `X_ONLY` has a diagnostic that is one at every executed step, which keeps the fact that a
step was taken and masks its value.
"""

from __future__ import annotations

from dataclasses import replace

import xarray as xr

from bayes_tacit import Episodes
from models.experiment import Experiment

FULL = Experiment(
    features=("x1", "x2"),
    diagnostics=("risk",),
    weights=(1.0,),
    ridge=0.0,
    restarts=1,
)
RISK_ONLY = replace(FULL, features=())
X_ONLY = FULL


def without_features(episodes: Episodes) -> Episodes:
    """Return what the risk-only ablation sees."""
    return Episodes(episodes.dataset.isel(feature=slice(0)))


def without_risk_values(episodes: Episodes) -> Episodes:
    """Return what the x-only ablation sees: which steps were executed, not how risky they looked."""
    dataset = episodes.dataset
    return Episodes(dataset.assign(diagnostics=xr.ones_like(dataset["diagnostics"])))
