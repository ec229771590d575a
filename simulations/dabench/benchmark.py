"""DABench's questions as a benchmark: what `bayes_tacit.agents.playing` needs to play them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from bayes_tacit.agents.accounts import Budget
from bayes_tacit.agents.endpoint import Endpoint, EndpointActor, whole_answer
from bayes_tacit.agents.playing import Suite
from bayes_tacit.agents.protocols import Actor, Agent
from bayes_tacit.data.timing import Timing
from bayes_tacit.errors import MissingFileError
from simulations.dabench.analyst import CarefulAnalyst, HastyAnalyst
from simulations.dabench.environment import ToolEnvironment, dabench_prompt
from simulations.dabench.extractor import DABenchExtractor
from simulations.dabench.questions import Question, read_questions
from simulations.dabench.sandbox import DEFAULT_LIMITS, Limits, check_sandbox


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
        Run code without a sandbox where bubblewrap is missing.
    """

    folder: str | os.PathLike[str]
    limits: Limits = DEFAULT_LIMITS
    unsafe: bool = False
    timing: ClassVar[Timing] = "proposal"

    def tasks(self) -> list[Question]:
        """List the questions, in order of id."""
        return sorted(read_questions(self.folder), key=lambda question: (len(question.id), question.id))

    def environment(self, task: Question) -> ToolEnvironment:
        """Open a question; its code runs in a sandbox, and where there is none, no question is opened."""
        check_sandbox(unsafe=self.unsafe)
        return ToolEnvironment(task, self.folder, self.limits, unsafe=self.unsafe)

    def extractor(self, task: Question, budget: Budget, *, descriptors: bool = False) -> DABenchExtractor:
        """Give the two features and the eight diagnostics, and the task router's descriptors if wanted."""
        calls = budget.actions if budget.calls is None else min(budget.calls, budget.actions)
        return DABenchExtractor(task, self.folder, calls, descriptors=descriptors)


def _open(data: Path | None, split: str | None, unsafe: bool) -> DABench:  # noqa: ARG001
    folder = data or os.environ.get("DABENCH_DATA")
    if not folder:
        raise MissingFileError("no folder of DABench: pass --data, or set the variable DABENCH_DATA")
    check_sandbox(unsafe=unsafe)
    return DABench(folder, unsafe=unsafe)


def _scripted(agent: Agent, seed: int) -> Actor:
    return HastyAnalyst(seed) if agent == "cheap" else CarefulAnalyst()


def _model(endpoint: Endpoint) -> Actor:
    return EndpointActor(endpoint, dabench_prompt(), mode="generate", reads=whole_answer)


benchmark = Suite(_open, actions=12, counts_calls=True, runs_code=True, signal="nll", scripted=_scripted, model=_model)
"""DABench as `bayes-tacit collect` and `evaluate` play it; a question is answered in as many calls as in the paper."""
