"""The handoff score q(t) of episodes, under a point estimate or under every draw of a posterior."""

from bayes_tacit.scores.bands import credible_band, crossing_probability
from bayes_tacit.scores.fitted import Fitted, as_draws
from bayes_tacit.scores.score import cumulative_risk, handoff_score, incidence

__all__ = [
    "Fitted",
    "as_draws",
    "credible_band",
    "crossing_probability",
    "cumulative_risk",
    "handoff_score",
    "incidence",
]
