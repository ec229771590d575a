"""The router that an agent runs: NumPy and `scipy.special` are all it needs."""

from bayes_tacit.router import rules as _rules  # noqa: F401 - registers the rules of the library
from bayes_tacit.router.files import Ranges
from bayes_tacit.router.log import DecisionLog, Mismatch, Replay, replay
from bayes_tacit.router.router import Router, handoff_at, pure
from bayes_tacit.router.rule import Call, Rule, State, register_rule
from bayes_tacit.router.state import Decision, EpisodeEndedError, HandoffState
from bayes_tacit.router.tacit import Start

__all__ = [
    "Call",
    "Decision",
    "DecisionLog",
    "EpisodeEndedError",
    "HandoffState",
    "Mismatch",
    "Ranges",
    "Replay",
    "Router",
    "Rule",
    "Start",
    "State",
    "handoff_at",
    "pure",
    "register_rule",
    "replay",
]
