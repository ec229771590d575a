"""Policies whose few numbers are searched on development outcomes, from the likelihood's estimate on."""

from bayes_tacit.policies.tuned.deferral import FittedTunedDeferral, TunedDeferral
from bayes_tacit.policies.tuned.learner import Learner
from bayes_tacit.policies.tuned.policy import FittedTunedSwitch, TunedSwitch

__all__ = ["FittedTunedDeferral", "FittedTunedSwitch", "Learner", "TunedDeferral", "TunedSwitch"]
