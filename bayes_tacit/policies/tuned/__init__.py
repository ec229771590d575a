"""TACIT-Switch whose few numbers are searched on development outcomes, from the likelihood's estimate on."""

from bayes_tacit.policies.tuned.policy import FittedTunedSwitch, TunedSwitch

__all__ = ["FittedTunedSwitch", "TunedSwitch"]
