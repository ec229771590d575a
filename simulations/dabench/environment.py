"""The tool environment: an agent's Python runs on the question's table, and its answer ends the episode."""

from __future__ import annotations

import os
from importlib.resources import files
from typing import Self

from bayes_tacit.agents.endpoint import Prompt
from bayes_tacit.agents.protocols import Observation, StepResult
from simulations.dabench.answers import is_correct
from simulations.dabench.questions import Question, table_path
from simulations.dabench.replies import read_reply
from simulations.dabench.sandbox import DEFAULT_LIMITS, Limits, Run, Sandbox

RAN, FAILED, NOT_UNDERSTOOD = "[ran]", "[failed]", "[not understood]"
"""First line of an observation: the code ran, it raised or was stopped, or the reply was neither code nor answer."""


class ToolEnvironment:
    """One question of DABench.

    An action is a whole reply of the agent: one block of Python, or the final answer, which ends the episode and is
    checked against the label. A reply that is neither is not valid and changes nothing.

    Variables persist as in a notebook, though each call is a new process: the code of earlier calls that ran without
    an error is run again first, silently. So a call that hangs or is killed takes nothing with it, and a recorded
    prefix can be replayed without keeping any process. Code that is random without a seed is not repeatable this way.
    What came of a call is remembered for as long as the environment is open: many episodes that begin alike, such as
    handoffs at several steps of one rollout, make the calls that they have in common once.

    Parameters
    ----------
    question
        The question.
    folder
        Where DABench's files are.
    limits
        What a call may use.
    unsafe
        Run code without a sandbox where bubblewrap is missing; else that raises `SandboxError`.
    """

    def __init__(
        self,
        question: Question,
        folder: str | os.PathLike[str],
        limits: Limits = DEFAULT_LIMITS,
        *,
        unsafe: bool = False,
    ) -> None:
        self._question = question
        self._sandbox = Sandbox((table_path(folder, question),), limits, unsafe=unsafe)
        self._earlier: list[str] = []
        self._known: dict[tuple[str, ...], Run] = {}

    @property
    def calls(self) -> int:
        """How many calls the sandbox was asked to run since this was opened; what was remembered is not counted."""
        return len(self._known)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._sandbox.close()

    def reset(self) -> Observation:
        """Begin with nothing run."""
        self._earlier = []
        return self._seen("Nothing has been run yet.")

    def step(self, action: str) -> StepResult:
        """Run the code of a reply, or check its answer."""
        reply = read_reply(action)
        if reply.kind == "answer":
            right = is_correct(reply.answers, self._question.label)
            return StepResult(self._seen("The answer is given."), float(right), done=True, success=right)
        if reply.kind == "neither":
            said = "Expected exactly one block of Python, or the answers as @name[value] and no code."
            return StepResult(self._seen(f"{NOT_UNDERSTOOD}\n{said}"), valid=False)
        run = self._run(reply.code)
        if run.ok:
            self._earlier.append(reply.code)
        return StepResult(self._seen(f"{RAN if run.ok else FAILED}\n{run.output}"))

    def _run(self, code: str) -> Run:
        calls = (*self._earlier, code)
        if calls not in self._known:
            self._known[calls] = self._sandbox.run(code, self._earlier)
        return self._known[calls]

    def _seen(self, text: str) -> Observation:
        return Observation(text, None, task=self._question.text)


def dabench_prompt(*, steps: int | None = None) -> Prompt:
    """Give our prompt for an `EndpointActor`, which takes `mode="generate"` and `reads=whole_answer` with it."""
    text = files("simulations.dabench").joinpath("prompt.txt").read_text(encoding="utf-8")
    return Prompt(text, lists_actions=False, steps=steps)
