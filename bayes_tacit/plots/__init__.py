"""Figures of scores and fits; every function draws on the axes it is given, or on new ones, and returns them."""

from bayes_tacit.plots.fits import plot_calibration, plot_crossing_steps, plot_weights
from bayes_tacit.plots.scores import plot_handoff_score, plot_handoff_scores

__all__ = [
    "plot_calibration",
    "plot_crossing_steps",
    "plot_handoff_score",
    "plot_handoff_scores",
    "plot_weights",
]
