"""The policies that are compared: the paper's, those that the library has beyond it, and TACIT-Switch by posterior."""

from __future__ import annotations

import xarray as xr

from bayes_tacit.agents.alfworld.features import DESCRIPTORS
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.decisions.selection import fixed_grid
from bayes_tacit.estimates.posterior import sample_posterior
from bayes_tacit.policies import (
    Cascade,
    Count,
    FirstAlarm,
    Landmark,
    Policy,
    PosteriorTacitSwitch,
    PrefixRouter,
    PureCheap,
    PureStrong,
    StepDeferral,
    TacitSwitch,
    TaskRouter,
    TunedDeferral,
    TunedSwitch,
)
from bayes_tacit.policies.recommending.families import BY_LIKELIHOOD, STARTED_AND_PACED
from bayes_tacit.policies.step_deferral import ALFWORLD_STEPS
from bayes_tacit.policies.tuned import Learner
from models.alfworld import ALFWORLD
from models.experiment import UNMARKED

ALARM = "First Alarm"
DEFERRAL = "Step Deferral"
TACIT = "TACIT-Switch"
DUE = "TACIT-Switch, unmarked = due"
POSTERIOR = "TACIT-Switch, posterior mean"
CAUTIOUS = 0.1
"""The quantile of the second posterior rule: Strong takes over where 90% of the posterior agrees."""

LEVELS = 13
"""Thresholds of Step Deferral by task: each one is played on every game."""


def compared_policies(seed: int = 0) -> list[Policy]:
    """Give every policy of the library, from the simplest on, and TACIT-Switch by posterior mean and by a quantile.

    Step Deferral looks at Cheap's uncertainty, 1 - exp(-NLL), whose thresholds are those of the NLL itself. First
    Alarm, which the paper does not have, hands off for good where Cheap does what it has done before.
    """
    alpha = fixed_grid()
    posterior = SampledOnce(seed)
    fitting = {"ridge": ALFWORLD.ridge, "restarts": ALFWORLD.restarts, "timing": ALFWORLD.timing}
    learner = Learner({"ridge": ALFWORLD.ridge, "timing": ALFWORLD.timing, "unmarked": UNMARKED})
    by_likelihood = {**fitting, "unmarked": UNMARKED, "memory": "profile", "clock": True}
    return [
        PureCheap(),
        TaskRouter.alfworld(DESCRIPTORS),
        FirstAlarm("repeated_action", name=ALARM),
        Count(),
        StepDeferral("uncertainty", average_steps=ALFWORLD_STEPS, timing="proposal", name=DEFERRAL),
        PrefixRouter(),
        Cascade(),
        Landmark(),
        TacitSwitch(estimator=ALFWORLD.fit, candidates=alpha, name=TACIT),
        TacitSwitch(options={**fitting, "unmarked": "due"}, candidates=alpha, name=DUE),
        PosteriorTacitSwitch(posterior=posterior, candidates=alpha, name=POSTERIOR),
        PosteriorTacitSwitch(rule=CAUTIOUS, posterior=posterior, candidates=alpha),
        TacitSwitch(options=by_likelihood, name=BY_LIKELIHOOD),
        TunedSwitch(("memory",), learner, name="TACIT-Switch with memory"),
        TunedSwitch(STARTED_AND_PACED, learner, name="TACIT-Switch with memory, start and pace"),
        TunedDeferral("uncertainty", LEVELS, timing="proposal"),
        TunedSwitch(learner=learner),
        TunedSwitch(learner=learner, handoff="restart", name="Tuned switch, restart"),
        PureStrong(),
    ]


def without_posterior(seed: int = 0) -> list[Policy]:
    """Give the same without those that sample a posterior, where many fits are made."""
    return [policy for policy in compared_policies(seed) if not isinstance(policy, PosteriorTacitSwitch)]


def is_family(name: str) -> bool:
    """Tell whether a recommendation is made from a policy too: from all but second readings of TACIT-Switch."""
    return name not in (DUE, BY_LIKELIHOOD) and ", posterior" not in name


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
