"""What an analyst knows from the history: the columns of the table, and what its calls printed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from bayes_tacit.agents.protocols import Agent, History, Step
from simulations.dabench.analyst.reading import Task, Wanted
from simulations.dabench.analyst.writing import MARK
from simulations.dabench.environment import FAILED, RAN
from simulations.dabench.replies import read_reply

UNKNOWN = "unknown"
"""An answer of which nothing is known."""


@dataclass(frozen=True)
class Notes:
    """What one analyst takes from a history.

    Attributes
    ----------
    columns
        Of the table, once anybody has printed them; None before.
    answers
        What its own latest call that printed any found, by name; None before there was one.
    own
        Its own steps.
    """

    columns: tuple[str, ...] | None
    answers: dict[str, str] | None
    own: tuple[Step, ...]

    @classmethod
    def of(cls, history: History, agent: Agent) -> Notes:
        """Read a history; a restart begins a new one."""
        own = tuple(step for step in history.steps if step.agent == agent)
        columns = next((shown for step in history.steps if (shown := _columns(step)) is not None), None)
        answers = next((found for step in reversed(own) if (found := printed_answers(step))), None)
        return cls(columns, answers, own)

    @property
    def calls(self) -> list[str]:
        """The code of its own steps; of a step that was no call, an empty text."""
        return [read_reply(step.proposal.action).code for step in self.own]

    @property
    def failed(self) -> bool:
        """Whether its latest step was a call that failed."""
        return bool(self.own) and _status(self.own[-1]) == FAILED


def printed_answers(step: Step) -> dict[str, str]:
    """Give the answers that a call printed, by name."""
    if _status(step) != RAN:
        return {}
    lines = [line for line in step.result.observation.text.splitlines() if line.startswith(MARK)]
    return dict(line.removeprefix(MARK).split(" ", 1) for line in lines)


def call(code: str, words: str = "") -> str:
    """Write a reply that is a call."""
    return f"{words}\n```python\n{code}```".lstrip()


def answer(task: Task, answers: Sequence[Wanted], found: dict[str, str]) -> str:
    """Write a reply that is the final answer; what was not found is said to be unknown."""
    names = [one.name for one in answers] or list(task.names)
    return "\n".join(f"@{name}[{found.get(name, UNKNOWN)}]" for name in names)


def _status(step: Step) -> str:
    return step.result.observation.text.partition("\n")[0]


def _columns(step: Step) -> tuple[str, ...] | None:
    """Read the columns out of what a call printed."""
    if _status(step) != RAN:
        return None
    for line in step.result.observation.text.splitlines()[1:]:
        if line.startswith("["):
            try:
                columns = json.loads(line)
            except ValueError:
                continue
            if isinstance(columns, list) and columns and all(isinstance(name, str) for name in columns):
                return tuple(columns)
    return None
