"""One stated truth for the study of missing marks, with tasks whose final risks differ or are alike.

Over truths from the prior, bands that read the data rightly cover as often as they say, whatever the data hold. At one
truth they need not: without marks a threshold is only known to lie below or above the final risk of its rollout, so
what can be learned depends on how much final risks differ.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from simulations.studies.sbc_design import DIAGNOSTICS, FEATURES, HORIZON, Design

N_EPISODES = 300
TRUTH = {
    "w": np.array([0.5, 0.3, 0.2]),
    "gamma0": np.array(0.4),
    "gamma": np.array([0.5, -0.4]),
    "beta0": np.array(1.0),
    "beta": np.array([0.2, -0.3]),
    "s": np.array(0.5),
}
PACE = 0.6
"""Standard deviation, between tasks that differ, of the log of the factor on all risks of a rollout."""


def tasks_that_differ(rng: np.random.Generator) -> Design:
    """Draw tasks as in calibration, in some of which the agent errs more than in others."""
    diagnostics = rng.gamma(0.6, 0.5, size=(N_EPISODES, HORIZON, len(DIAGNOSTICS)))
    return Design(
        features=rng.normal(size=(N_EPISODES, len(FEATURES))),
        n_steps=rng.integers(8, HORIZON + 1, size=N_EPISODES),
        diagnostics=diagnostics * np.exp(PACE * rng.normal(size=(N_EPISODES, 1, 1))),
    )


def tasks_alike(rng: np.random.Generator) -> Design:
    """Draw rollouts of one length whose risks come in small even parts, so that the final ones are nearly the same."""
    return Design(
        features=rng.normal(size=(N_EPISODES, len(FEATURES))),
        n_steps=np.full(N_EPISODES, HORIZON),
        diagnostics=rng.gamma(6.0, 0.033, size=(N_EPISODES, HORIZON, len(DIAGNOSTICS))),
    )


TASKS = {"differ": tasks_that_differ, "alike": tasks_alike}


def final_risks(kind: str, data_sets: int = 20) -> tuple[float, float]:
    """Give the sd of the log of the final risk between tasks, and the share that crosses where Strong succeeds."""
    found = []
    for number in range(data_sets):
        design = TASKS[kind](np.random.default_rng(number))
        reached = np.cumsum(design.diagnostics @ TRUTH["w"], axis=1)[np.arange(N_EPISODES), design.n_steps - 1]
        pi = special.expit(TRUTH["gamma0"] + design.x @ TRUTH["gamma"])
        crossed = special.ndtr((np.log(reached) - TRUTH["beta0"] - design.x @ TRUTH["beta"]) / TRUTH["s"])
        found.append((np.log(reached).std(), (pi * crossed).sum() / pi.sum()))
    spread, share = np.mean(found, axis=0)
    return float(spread), float(share)
