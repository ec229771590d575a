"""The threshold under a budget: candidates, what each would give, and the choice.

`operating_points` needs counterfactuals. A policy that was run some other way needs only its `Outcomes`: a table of
their averages (`Outcomes.point`) is what `choose`, `efficient_frontier` and `plot_operating_points` take, and
`bootstrap` takes the outcomes themselves.
"""

from bayes_tacit.decisions.selection.candidates import Candidates, fixed_grid, score_quantiles, target_switch_rates
from bayes_tacit.decisions.selection.choice import Choice, choose
from bayes_tacit.decisions.selection.intervals import bootstrap
from bayes_tacit.decisions.selection.points import efficient_frontier, operating_points

__all__ = [
    "Candidates",
    "Choice",
    "bootstrap",
    "choose",
    "efficient_frontier",
    "fixed_grid",
    "operating_points",
    "score_quantiles",
    "target_switch_rates",
]
