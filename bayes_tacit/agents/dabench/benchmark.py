"""DABench's questions as a benchmark: what `bayes_tacit.agents.playing` needs to play them."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import ClassVar

from bayes_tacit.agents.accounts import Budget
from bayes_tacit.agents.dabench.environment import ToolEnvironment
from bayes_tacit.agents.dabench.extractor import DABenchExtractor
from bayes_tacit.agents.dabench.questions import Question, read_questions
from bayes_tacit.agents.dabench.sandbox import DEFAULT_LIMITS, Limits, check_walls
from bayes_tacit.data.timing import Timing


@dataclass(frozen=True)
class DABench:
    """The questions in a folder; decisions are at proposals, before an agent's code is run.

    Attributes
    ----------
    folder
        Where DABench's files are: `da-dev-questions.jsonl`, `da-dev-labels.jsonl` and the tables.
    limits
        What a call may use.
    unsafe
        Run code also where this system lacks walls that `run_code` names.
    warm
        Fork calls from a process that has imported the numeric libraries, which takes a tenth of the time; see
        `run_code`.
    """

    folder: str | os.PathLike[str]
    limits: Limits = DEFAULT_LIMITS
    unsafe: bool = False
    warm: bool = False
    timing: ClassVar[Timing] = "proposal"

    def tasks(self) -> list[Question]:
        """List the questions, in order of id."""
        return sorted(read_questions(self.folder), key=lambda question: (len(question.id), question.id))

    def environment(self, task: Question) -> AbstractContextManager[ToolEnvironment]:
        """Open a question; each call runs in a sandbox, and where walls of it are missing, none is opened."""
        check_walls(unsafe=self.unsafe)
        return nullcontext(ToolEnvironment(task, self.folder, self.limits, unsafe=self.unsafe, warm=self.warm))

    def extractor(self, task: Question, budget: Budget, *, descriptors: bool = False) -> DABenchExtractor:
        """Give the two features and the eight diagnostics, and the task router's descriptors if wanted."""
        calls = budget.actions if budget.calls is None else min(budget.calls, budget.actions)
        return DABenchExtractor(task, self.folder, calls, descriptors=descriptors)
