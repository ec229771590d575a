"""DABench as a benchmark: its tool environment, the paper's features and diagnostics, and what plays it."""

from __future__ import annotations

import ast
import csv
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import ClassVar, Self

from bayes_tacit import validate
from bayes_tacit.agents import Budget
from bayes_tacit.agents.endpoint import Endpoint, EndpointActor, Prompt, whole_answer
from bayes_tacit.agents.playing import Suite
from bayes_tacit.agents.protocols import Actor, Agent, History, Observation, Proposal, Step, StepResult
from bayes_tacit.data.timing import Timing
from bayes_tacit.errors import MissingFileError
from models.dabench import DIAGNOSTICS, FEATURES
from simulations.dabench.analyst import CarefulAnalyst, HastyAnalyst
from simulations.dabench.questions import (
    FAILED,
    NOT_UNDERSTOOD,
    RAN,
    Question,
    Reply,
    is_correct,
    read_questions,
    read_reply,
    table_path,
)
from simulations.dabench.sandbox import DEFAULT_LIMITS, Limits, Run, Sandbox, check_sandbox


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
    """Return our prompt for an `EndpointActor`, which takes `mode="generate"` and `reads=whole_answer` with it."""
    text = files("simulations.dabench").joinpath("prompt.txt").read_text(encoding="utf-8")
    return Prompt(text, lists_actions=False, steps=steps)


DESCRIPTORS = ("operation_breadth", "transformation_workflow")
"""What the task router looks at."""

MOST_ANSWERS = 10
"""Answers that the longest format of DABench's 257 questions asks for; arity is divided by it and cut at 1."""

TRANSFORMING = ("Feature Engineering", "Comprehensive Data Preprocessing")
"""DABench's concepts that change the table before anything is computed from it."""

_PRECISION = re.compile(r"decimal (?:place|point|digit|value)s?|\bdecimals\b", re.IGNORECASE)
_LOADS = {"read_csv", "read_table", "read_excel", "open", "read_parquet", "read_json"}


class DABenchExtractor:
    """Features of a question and diagnostics of each proposal.

    Task features of TACIT-Switch: `answer_arity`, the number of answers the format asks for over `MOST_ANSWERS`, at
    most 1; `decimal_precision`, whether format or constraints say to how many decimals. Of the task router:
    `operation_breadth`, how many of DABench's concepts the question has; `transformation_workflow`, whether one of them
    changes the table (`TRANSFORMING`).

    The paper names seven things that its eight diagnostics capture. We read "format or protocol violations" as two: a
    final answer that is not in the required format, and a reply that is neither one call nor an answer. They come at
    different moments (at the end, and at any step) and are found by different checks, whereas each of the other six
    names one thing. All are from 0 to 1, from the proposal and what was executed before it:

    =====================  =============================================================================================
    `protocol_violation`   1 if the reply is neither exactly one block of code nor an answer, or is a fallback
    `format_violation`     of an answer: share of the required names that are missing, empty, or still the placeholder
    `execution_failure`    1 if the last call failed, or the proposed code is not Python
    `repetition`           1 if the proposed code is that of an earlier call, layout and comments aside
    `stalled_answer`       1 if the proposal is another call though the last two ran and printed the same
    `budget_pressure`      of a call or a violation: 0 up to half of the calls, then linear to 1 at the last
    `no_recent_progress`   1 if of the last two steps none ran and printed something new; 0 before two steps
    `semantic_mismatch`    of a call: 1 if it reads another file, or names a column that the table does not have and no
                           code has made. Of an answer: share of the table's columns named in the question that no call
                           which ran has used; 1 if no call ran
    =====================  =============================================================================================

    Parameters
    ----------
    question
        The question that is played.
    folder
        Where DABench's files are; the table's first line gives its columns.
    calls
        The budget of calls.
    descriptors
        Whether the task router's two are given as well, for playing a task router.
    """

    diagnostic_names = DIAGNOSTICS

    def __init__(
        self, question: Question, folder: str | os.PathLike[str], calls: int = 12, *, descriptors: bool = False
    ) -> None:
        self._question = question
        self._calls = validate.whole("calls", calls, 1)
        self._columns = _columns(table_path(folder, question))
        self.feature_names = (*FEATURES, *DESCRIPTORS) if descriptors else FEATURES

    def features(self, first: Observation) -> Mapping[str, float]:  # noqa: ARG002
        """Return the features of the question."""
        question = self._question
        known = {
            "answer_arity": min(len(question.answer_names) / MOST_ANSWERS, 1.0),
            "decimal_precision": float(bool(_PRECISION.search(f"{question.format}\n{question.constraints}"))),
            "operation_breadth": float(len(set(question.concepts))),
            "transformation_workflow": float(any(concept in TRANSFORMING for concept in question.concepts)),
        }
        return {name: known[name] for name in self.feature_names}

    def diagnostics(self, history: History, proposal: Proposal, result: StepResult | None) -> Mapping[str, float]:  # noqa: ARG002
        """Return the diagnostics of a proposal, whether it was executed since or not."""
        reply = read_reply(proposal.action)
        past = [(read_reply(step.proposal.action), step) for step in history.steps]
        is_call = reply.kind == "call"
        return {
            "protocol_violation": float(reply.kind == "neither" or proposal.fallback),
            "format_violation": self._format_violation(reply),
            "execution_failure": float(
                (bool(history.steps) and _status(history.steps[-1]) == FAILED) or (is_call and not reply.compiles)
            ),
            "repetition": float(is_call and any(_same_code(reply, said) for said, _ in past)),
            "stalled_answer": float(is_call and _same_twice(history)),
            "budget_pressure": self._pressure(len(history)) if reply.kind != "answer" else 0.0,
            "no_recent_progress": float(_nothing_new(history)),
            "semantic_mismatch": self._mismatch(reply, past),
        }

    def _format_violation(self, reply: Reply) -> float:
        wanted = self._question.answer_names
        if reply.kind != "answer" or not wanted:
            return 0.0
        placeholders = dict(re.findall(r"@(\w+)\[(.*?)\]", self._question.format))
        wrong = [
            name
            for name in wanted
            if not reply.answers.get(name, "").strip() or reply.answers[name] == placeholders.get(name)
        ]
        return len(wrong) / len(wanted)

    def _pressure(self, used: int) -> float:
        """Return the pressure on the call that follows so many."""
        half = self._calls / 2
        return min(max((used + 1 - half) / (self._calls - half), 0.0), 1.0)

    def _mismatch(self, reply: Reply, past: list[tuple[Reply, Step]]) -> float:
        ran = [said for said, step in past if said.kind == "call" and _status(step) == RAN]
        if reply.kind == "call":
            tree = reply.tree
            if tree is None:
                return 0.0
            known = {*self._columns, *(name for said in (*ran, reply) for name in _texts(said) if _makes(said, name))}
            foreign = any(name not in known for name in _column_names(tree)) if self._columns else False
            return float(foreign or any(name != self._question.file_name for name in _files_read(tree)))
        if reply.kind == "neither":
            return 0.0
        if not ran:
            return 1.0
        asked = [name for name in self._columns if _mentions(self._question, name)]
        used = {text for said in ran for text in (*_texts(said), *_attributes(said))}
        return sum(name not in used for name in asked) / len(asked) if asked else 0.0


def _columns(table: os.PathLike[str]) -> tuple[str, ...]:
    with Path(table).open(encoding="utf-8-sig", errors="replace", newline="") as file:
        return tuple(next(csv.reader(file), ()))


def _mentions(question: Question, column: str) -> bool:
    """Return whether a question names a column: in quotes, or as a word that capitals or signs mark."""
    text = f"{question.question}\n{question.constraints}"
    if not column.strip():
        return False
    if any(f"{mark}{column}{mark}" in text for mark in "\"'`"):
        return True
    common = column.isalpha() and column.islower()
    return not common and re.search(rf"(?<!\w){re.escape(column)}(?!\w)", text) is not None


def _status(step: Step) -> str:
    return step.result.observation.text.partition("\n")[0]


def _output(step: Step) -> str:
    return step.result.observation.text.partition("\n")[2].strip()


def _same_code(one: Reply, other: Reply) -> bool:
    if other.kind != "call":
        return False
    left, right = one.tree, other.tree
    if left is None or right is None:
        return one.code.split() == other.code.split()
    return ast.dump(left) == ast.dump(right)


def _same_twice(history: History) -> bool:
    last = history.steps[-2:]
    outputs = {_output(step) for step in last}
    return len(last) == 2 and all(_status(step) == RAN for step in last) and len(outputs) == 1 and "" not in outputs


def _nothing_new(history: History) -> bool:
    """Return whether neither of the last two steps ran and printed what was not printed before."""
    if len(history) < 2:
        return False
    steps = history.steps
    for at in (len(steps) - 2, len(steps) - 1):
        before = {_output(step) for step in steps[:at]}
        if _status(steps[at]) == RAN and _output(steps[at]) and _output(steps[at]) not in before:
            return False
    return True


def _texts(reply: Reply) -> list[str]:
    """Return the text constants of a piece of code."""
    tree = reply.tree
    nodes = ast.walk(tree) if tree is not None else ()
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def _attributes(reply: Reply) -> list[str]:
    tree = reply.tree
    return [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)] if tree is not None else []


def _column_names(tree: ast.Module) -> list[str]:
    """Return the names in square brackets that are read: `df["name"]` and `df[["one", "two"]]`."""
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            inner = node.slice.elts if isinstance(node.slice, ast.List) else [node.slice]
            names += [each.value for each in inner if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return names


def _makes(reply: Reply, name: str) -> bool:
    """Return whether code makes something of this name: it is assigned, a key, a new name, or an argument of a call.

    Generous on purpose: a name that might have been made is no mismatch.
    """
    tree = reply.tree
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            inner: list[ast.expr | None] = [node.slice]
        elif isinstance(node, ast.Dict):
            inner = [*node.keys, *node.values]
        elif isinstance(node, ast.Call):
            inner = [*node.args, *(keyword.value for keyword in node.keywords)]
            inner += [each for part in inner if isinstance(part, ast.List | ast.Tuple) for each in part.elts]
            if any(keyword.arg == name for keyword in node.keywords):
                return True
        else:
            continue
        if any(isinstance(each, ast.Constant) and each.value == name for each in inner):
            return True
    return False


def _files_read(tree: ast.Module) -> list[str]:
    """Return the file names, folders aside, that code opens by a constant."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            value = node.args[0].value
            if function in _LOADS and isinstance(value, str):
                names.append(value.replace("\\", "/").rpartition("/")[2])
    return names


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
        """Return the two features and the eight diagnostics, and the task router's descriptors if wanted."""
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
