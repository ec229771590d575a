"""What would have come of handing off at each step of each episode."""

from bayes_tacit.data.counterfactuals.container import Counterfactuals

__all__ = ["Counterfactuals"]
