"""What an agent says in DABench: one piece of Python to run, or its final answer."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from simulations.dabench.answers import extract_answers

_BLOCK = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True)
class Reply:
    """A reply, read.

    Attributes
    ----------
    kind
        "call": exactly one block of code and no answer. "answer": answers `@name[value]` and no code. "neither":
        anything else, which breaks the protocol.
    code
        The code of a call.
    answers
        The answers by name.
    """

    kind: Literal["call", "answer", "neither"]
    code: str = ""
    answers: Mapping[str, str] = field(default_factory=dict)

    @property
    def compiles(self) -> bool:
        """Whether the code is Python at all."""
        return self.tree is not None

    @property
    def tree(self) -> ast.Module | None:
        """The code as Python reads it, None where it cannot."""
        try:
            return ast.parse(self.code)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def read_reply(text: str) -> Reply:
    r"""Read a reply.

    Examples
    --------
    >>> read_reply("Let me look.\n```python\nprint(1)\n```").code
    'print(1)\n'
    >>> read_reply("@mean[3.5]").answers, read_reply("Well.").kind
    ({'mean': '3.5'}, 'neither')
    """
    blocks = _BLOCK.findall(text)
    answers = extract_answers(_BLOCK.sub("", text))
    if len(blocks) == 1 and not answers:
        return Reply("call", code=blocks[0])
    if answers and not blocks:
        return Reply("answer", answers=answers)
    return Reply("neither")
