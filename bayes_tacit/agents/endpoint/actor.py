"""A language model as an actor: from its answer to an action, with a fallback where it gives none."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Literal

from bayes_tacit import validate
from bayes_tacit.agents.endpoint.client import Endpoint
from bayes_tacit.agents.endpoint.likelihood import Pooling, action_nll
from bayes_tacit.agents.endpoint.prompt import Prompt
from bayes_tacit.agents.protocols import History, Proposal

Mode = Literal["choose", "generate"]


def action_line(answer: str) -> str:
    r"""Find the action after the last "Action:", or else in the first line that says something.

    Examples
    --------
    >>> action_line("I should look around.\nAction: go to shelf 1."), action_line("look"), action_line("  ")
    ('go to shelf 1', 'look', '')
    """
    marked = re.findall(r"\baction\b\W{0,3}?:(.*)$", answer, re.IGNORECASE | re.MULTILINE)
    lines = marked[-1:] or [line for line in answer.splitlines() if line.strip()][:1]
    return lines[0].strip().strip("`\"'*<>").rstrip(".").strip() if lines else ""


def whole_answer(answer: str) -> str:
    """Take all of the answer, for environments that read it themselves."""
    return answer.strip()


def closest_action(answer: str, admissible: Sequence[str]) -> str:
    """Find the action whose letters are nearest to an answer; the first of several.

    Nearness is `difflib.SequenceMatcher.ratio` of the lower-case texts, of the answer's first 200 letters.

    Examples
    --------
    >>> closest_action("I will go to the shelf", ["look", "go to shelf 1", "go to shelf 2"])
    'go to shelf 1'
    """
    text = answer.lower()[:200]
    return max(admissible, key=lambda action: SequenceMatcher(None, action.lower(), text, autojunk=False).ratio())


@dataclass(frozen=True)
class EndpointActor:
    """Asks a model behind an endpoint for the next action.

    ================  ==================================================================================================
    mode              what is done with the answer
    ================  ==================================================================================================
    `"choose"`        The action must be one of the admissible ones, whatever the case, spaces and a full stop at the
                      end. Otherwise the fallback is the admissible action whose letters are nearest to the answer
                      (`closest_action`). Where the environment lists no actions, this is the same as "generate".
    `"generate"`      The action is taken as it is. If there is none, the fallback is `fallback_action`.
    ================  ==================================================================================================

    A fallback is not the model's own action: it has no NLL, and `Proposal.fallback` says so.

    Attributes
    ----------
    endpoint
        The model.
    prompt
        What it is told.
    mode
        How answers are read.
    reads
        Finds the action in an answer: `action_line` or `whole_answer`.
    pooling
        Whether the NLL is the "sum" over the action's tokens, -log P(action), or their "mean".
    fallback_action
        For "generate".
    name
        For transcripts; by default that of the model.
    """

    endpoint: Endpoint
    prompt: Prompt = field(default_factory=Prompt.default)
    mode: Mode = "choose"
    reads: Callable[[str], str] = action_line
    pooling: Pooling = "sum"
    fallback_action: str = "look"
    name: str = ""

    def __post_init__(self) -> None:
        """Check the words."""
        validate.choice("mode", self.mode, ("choose", "generate"))
        validate.choice("pooling", self.pooling, ("sum", "mean"))
        object.__setattr__(self, "name", self.name or self.endpoint.model)

    def act(self, history: History) -> Proposal:
        """Ask the model once; `ActorError` if there is no answer."""
        began = time.perf_counter()
        answer = self.endpoint.complete(self.prompt.messages(history))
        said = self.reads(answer.text)
        admissible = history.observation.admissible if self.mode == "choose" else None
        action = _same(said, admissible) if admissible else said
        nll = action_nll(answer.tokens, said, self.pooling) if action else None
        fallback = not action
        if not action:
            action = closest_action(said or answer.text, admissible) if admissible else self.fallback_action
        return Proposal(
            action=action,
            nll=nll,
            fallback=fallback,
            raw=answer.text,
            usage=answer.usage,
            seconds=time.perf_counter() - began,
        )


def _same(said: str, admissible: Sequence[str]) -> str | None:
    """Give the admissible action that was said, if one was."""
    wanted = " ".join(said.lower().split())
    return next((action for action in admissible if " ".join(action.lower().split()).rstrip(".") == wanted), None)
