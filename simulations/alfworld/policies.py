"""The policies that are compared on ALFWorld."""

from __future__ import annotations

from bayes_tacit.decisions.selection import fixed_grid
from bayes_tacit.policies import Policy, PosteriorTacitSwitch, StepDeferral, TaskRouter
from bayes_tacit.policies.step_deferral import ALFWORLD_STEPS
from models.alfworld import ALFWORLD
from simulations.alfworld.features import DESCRIPTORS
from simulations.played.policies import DEFERRAL, Compared

COMPARED = Compared(
    ALFWORLD,
    TaskRouter.alfworld(DESCRIPTORS),
    StepDeferral("uncertainty", average_steps=ALFWORLD_STEPS, timing="proposal", name=DEFERRAL),
    alarm="repeated_action",
    candidates=fixed_grid(),
)
"""Step Deferral looks at Cheap's uncertainty, 1 - exp(-NLL), whose thresholds are those of the NLL itself. First Alarm,
which the paper does not have, hands off for good where Cheap does what it has done before."""


def compared_policies(seed: int = 0) -> list[Policy]:
    """Give every policy of the library, with the paper's settings for ALFWorld."""
    return COMPARED.policies(seed)


def without_posterior(seed: int = 0) -> list[Policy]:
    """Give the same without those that sample a posterior, where many fits are made."""
    return [policy for policy in compared_policies(seed) if not isinstance(policy, PosteriorTacitSwitch)]
