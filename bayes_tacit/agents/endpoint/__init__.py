"""Language models behind an OpenAI-compatible chat-completions endpoint, as actors."""

from bayes_tacit.agents.endpoint.actor import EndpointActor, action_line, closest_action, whole_answer
from bayes_tacit.agents.endpoint.client import Answer, Endpoint, Token
from bayes_tacit.agents.endpoint.likelihood import action_nll
from bayes_tacit.agents.endpoint.prompt import Prompt

__all__ = [
    "Answer",
    "Endpoint",
    "EndpointActor",
    "Prompt",
    "Token",
    "action_line",
    "action_nll",
    "closest_action",
    "whole_answer",
]
