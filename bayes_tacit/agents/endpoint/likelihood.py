"""The negative log-likelihood of an action within an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from bayes_tacit.agents.endpoint.client import Token

Pooling = Literal["sum", "mean"]
"""Over the tokens of the action: their sum is -log P(action), their mean does not grow with its length."""


def action_nll(tokens: Sequence[Token] | None, action: str, pooling: Pooling = "sum") -> float | None:
    """Give the NLL of the tokens that make up an action, where it is last said in an answer.

    A token that reaches into the action from outside counts as a whole. Words around the action do not count.

    Returns
    -------
    float or None
        None where there are no tokens, or the action is not in their text as it stands.

    Examples
    --------
    >>> tokens = [Token("Action", -2.0), Token(": ", -0.5), Token("go", -0.25), Token(" up", -0.75), Token(".", -3.0)]
    >>> action_nll(tokens, "go up"), action_nll(tokens, "go up", "mean"), action_nll(tokens, "look")
    (1.0, 0.5, None)
    """
    text = "".join(token.text for token in tokens or ())
    start = text.lower().rfind(action.lower())
    # Where lower-casing changes the length, positions in the two texts do not agree.
    if tokens is None or not action or start < 0 or len(text) != len(text.lower()):
        return None
    end = start + len(action)
    inside, position = [], 0
    for token in tokens:
        following = position + len(token.text)
        if position < end and following > start:
            inside.append(token.logprob)
        position = following
    # Rounding can make a log-probability slightly positive.
    total = max(-sum(inside), 0.0)
    return total if pooling == "sum" else total / len(inside)
