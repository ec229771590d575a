"""The prompt: a text file with places for the task, the history, the observation and the actions."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.resources import files
from string import Template

from bayes_tacit import validate
from bayes_tacit.agents.protocols import History
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.files import read_text

PLACES = ("task", "history", "observation", "actions")
DIVIDER = "---"


@dataclass(frozen=True)
class Prompt:
    r"""What a model is told at a step.

    The text up to a line `---` is the system's message, the rest the user's; without such a line all of it is the
    user's. In both, `$task`, `$history`, `$observation` and `$actions` are filled in; a dollar sign is written `$$`.

    Attributes
    ----------
    text
        The template.
    lists_actions
        Whether `$actions` lists the admissible actions; otherwise it is empty.
    steps
        How many of the last steps `$history` shows; None for all.

    Examples
    --------
    >>> from bayes_tacit.agents import Observation
    >>> Prompt("Be brief.\n---\n$task: $observation").messages(History(Observation("A cup.", task="Find it")))
    [{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'Find it: A cup.'}]
    """

    text: str
    lists_actions: bool = True
    steps: int | None = None

    def __post_init__(self) -> None:
        """Check that every place is known."""
        template = Template(self.text)
        unknown = [name for name in template.get_identifiers() if name not in PLACES]
        if unknown or not template.is_valid():
            wrong = f"${unknown[0]}" if unknown else self.text
            expected = f"{', '.join(f'${name}' for name in PLACES)}, and $$ for a dollar sign"
            raise InvalidDataError(expected, field="a place in the prompt", value=wrong)
        if self.steps is not None:
            validate.whole("steps in the prompt", self.steps, 0)

    @classmethod
    def default(cls, *, lists_actions: bool = True, steps: int | None = None) -> Prompt:
        """Give our own prompt."""
        text = files("bayes_tacit.agents.endpoint").joinpath("prompt.txt").read_text(encoding="utf-8")
        return cls(text, lists_actions, steps)

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, lists_actions: bool = True, steps: int | None = None) -> Prompt:
        """Read a prompt from a file."""
        return cls(read_text(path, "a prompt"), lists_actions, steps)

    def messages(self, history: History) -> list[dict[str, str]]:
        """Fill in the places."""
        admissible = history.observation.admissible if self.lists_actions else None
        values = {
            "task": history.task,
            "history": _past(history, self.steps),
            "observation": history.observation.text,
            "actions": "" if admissible is None else "\n".join(["Possible actions:", *admissible]),
        }
        parts = self.text.strip("\n").split(f"\n{DIVIDER}\n", 1)
        filled = [Template(part).substitute(values) for part in parts]
        roles = ("system", "user") if len(filled) == 2 else ("user",)
        return [{"role": role, "content": content} for role, content in zip(roles, filled, strict=True)]


def _past(history: History, steps: int | None) -> str:
    """Show the first observation, then each action and what came of it, up to what is seen now."""
    shown = len(history) if steps is None else min(steps, len(history))
    skipped = len(history) - shown
    lines = [history.first.text] if len(history) else ["Nothing yet."]
    if skipped:
        lines.append("...")
    for at in range(skipped, len(history)):
        step = history.steps[at]
        lines.append(f"> {step.proposal.action}")
        if at < len(history) - 1:
            lines.append(step.result.observation.text)
    return "\n".join(lines)
