"""The policies that are compared on DABench."""

from __future__ import annotations

from bayes_tacit.data.costs import StepCost
from bayes_tacit.policies import Policy, PosteriorTacitSwitch, StepDeferral, TaskRouter
from bayes_tacit.policies.step_deferral import DABENCH_STEPS
from models.dabench import DABENCH
from simulations.dabench import DESCRIPTORS
from simulations.played.policies import DEFERRAL, Compared

COST = StepCost.paper("9b")
"""9B Cheap and 27B Strong, in calls of a 4B model."""

NLL = "nll"
"""What Step Deferral looks at: the negative log-likelihood of Cheap's proposal."""

COMPARED = Compared(
    DABENCH,
    TaskRouter.dabench(DESCRIPTORS),
    StepDeferral(NLL, average_steps=DABENCH_STEPS, timing="proposal", name=DEFERRAL),
    alarm="repetition",
    candidates="switch_rates",
    cost=COST,
)
"""First Alarm, which the paper does not have, hands off for good where Cheap proposes a call that it made before."""


def compared_policies(seed: int = 0) -> list[Policy]:
    """Give every policy of the library, with the paper's settings for DABench."""
    return COMPARED.policies(seed)


def without_posterior(seed: int = 0) -> list[Policy]:
    """Give the same without those that sample a posterior, where many fits are made."""
    return [policy for policy in compared_policies(seed) if not isinstance(policy, PosteriorTacitSwitch)]
