"""Figures of scores and fits; every function draws on the axes it is given, or on new ones, and returns them."""

from bayes_tacit.review.plots.bounds import plot_bounds
from bayes_tacit.review.plots.fits import plot_calibration, plot_crossing_steps, plot_weights
from bayes_tacit.review.plots.policies import policy_style
from bayes_tacit.review.plots.recommendation import plot_recommendation
from bayes_tacit.review.plots.scores import plot_handoff_score, plot_handoff_scores
from bayes_tacit.review.plots.selection import plot_operating_points
from bayes_tacit.review.plots.style import house_style

__all__ = [
    "house_style",
    "plot_bounds",
    "plot_calibration",
    "plot_crossing_steps",
    "plot_handoff_score",
    "plot_handoff_scores",
    "plot_operating_points",
    "plot_recommendation",
    "plot_weights",
    "policy_style",
]
