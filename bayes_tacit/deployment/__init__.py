"""The router that an agent runs: NumPy and `scipy.special` are all it needs."""

from bayes_tacit.deployment.decision import Decision
from bayes_tacit.deployment.log import DecisionLog
from bayes_tacit.deployment.replay import Mismatch, Replay, replay
from bayes_tacit.deployment.router import Router
from bayes_tacit.deployment.state import EpisodeEndedError, HandoffState

__all__ = [
    "Decision",
    "DecisionLog",
    "EpisodeEndedError",
    "HandoffState",
    "Mismatch",
    "Replay",
    "Router",
    "replay",
]
