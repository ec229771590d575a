"""The router that an agent runs: NumPy and `scipy.special` are all it needs."""

from bayes_tacit.router.decision import Decision
from bayes_tacit.router.log import DecisionLog
from bayes_tacit.router.policy_router import PolicyRouter
from bayes_tacit.router.policy_state import PolicyState
from bayes_tacit.router.ranges import Ranges
from bayes_tacit.router.replay import Mismatch, Replay, replay
from bayes_tacit.router.router import Router
from bayes_tacit.router.start import Start
from bayes_tacit.router.state import EpisodeEndedError, HandoffState

__all__ = [
    "Decision",
    "DecisionLog",
    "EpisodeEndedError",
    "HandoffState",
    "Mismatch",
    "PolicyRouter",
    "PolicyState",
    "Ranges",
    "Replay",
    "Router",
    "Start",
    "replay",
]
