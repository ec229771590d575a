"""The policies that are compared: the paper's, First Alarm, and TACIT-Switch by posterior."""

from __future__ import annotations

import xarray as xr

from bayes_tacit.agents.alfworld.features import DESCRIPTORS
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.decisions.selection import fixed_grid
from bayes_tacit.estimates.posterior import sample_posterior
from bayes_tacit.policies import (
    FirstAlarm,
    Policy,
    PosteriorTacitSwitch,
    PrefixRouter,
    PureCheap,
    PureStrong,
    StepDeferral,
    TacitSwitch,
    TaskRouter,
)
from bayes_tacit.policies.step_deferral import ALFWORLD_STEPS
from models.alfworld import ALFWORLD

DEFERRAL = "Step Deferral"
TACIT = "TACIT-Switch"
POSTERIOR = "TACIT-Switch, posterior mean"
CAUTIOUS = 0.1
"""The quantile of the second posterior rule: Strong takes over where 90% of the posterior agrees."""


def compared_policies(seed: int = 0) -> list[Policy]:
    """Give the policies of the paper's table, First Alarm, and TACIT-Switch by posterior mean and by a quantile.

    Step Deferral looks at Cheap's uncertainty, 1 - exp(-NLL), whose thresholds are those of the NLL itself. First
    Alarm, which the paper does not have, hands off for good where Cheap does what it has done before.
    """
    alpha = fixed_grid()
    posterior = SampledOnce(seed)
    return [
        PureCheap(),
        TaskRouter.alfworld(DESCRIPTORS),
        StepDeferral("uncertainty", average_steps=ALFWORLD_STEPS, timing="proposal", name=DEFERRAL),
        PrefixRouter(),
        FirstAlarm("repeated_action"),
        TacitSwitch(estimator=ALFWORLD.fit, candidates=alpha, name=TACIT),
        PosteriorTacitSwitch(posterior=posterior, candidates=alpha, name=POSTERIOR),
        PosteriorTacitSwitch(rule=CAUTIOUS, posterior=posterior, candidates=alpha),
        PureStrong(),
    ]


class SampledOnce:
    """Samples the posterior of the same episodes once, for all policies that use it."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self._trees: dict[str, xr.DataTree] = {}

    def __call__(self, episodes: Episodes) -> xr.DataTree:
        """Give the posterior."""
        key = episodes.fingerprint()
        if key not in self._trees:
            self._trees[key] = sample_posterior(episodes, seed=self.seed, progress=False, unmarked="outcome")
        return self._trees[key]
