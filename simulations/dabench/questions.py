"""DABench's questions, how they are dealt, what an agent says to them, and when an answer is right."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError
from bayes_tacit.files import as_path, read_text, regular_file, strict_json

QUESTIONS, LABELS, TABLES = "da-dev-questions.jsonl", "da-dev-labels.jsonl", "da-dev-tables"


@dataclass(frozen=True)
class Question:
    """One question about one table.

    Attributes
    ----------
    id
        Its number, as text.
    question, constraints, format
        What is asked, how it is to be computed, and how the answer is to be written.
    concepts
        The kinds of operation that DABench says it needs.
    file_name
        The table.
    level
        "easy", "medium" or "hard".
    label
        The right answers by name. An environment keeps it; nothing that an agent sees or runs gets it.
    """

    id: str
    question: str
    constraints: str
    format: str
    concepts: tuple[str, ...]
    file_name: str
    level: str
    label: Mapping[str, str] = field(repr=False)

    @property
    def answer_names(self) -> tuple[str, ...]:
        """Names of the answers that the format asks for, each once."""
        return tuple(dict.fromkeys(re.findall(r"@(\w+)\[", self.format)))

    @property
    def text(self) -> str:
        """The task as an agent reads it."""
        return (
            f"{self.question}\n\nConstraints: {self.constraints}\n\nAnswer format: {self.format}\n\n"
            f"The table is in the file {self.file_name!r} of the working folder."
        )


def read_questions(folder: str | os.PathLike[str]) -> list[Question]:
    """Read `da-dev-questions.jsonl` and `da-dev-labels.jsonl`; each question needs its label."""
    home = as_path(folder)
    labels = {}
    for where, content in _lines(home / LABELS):
        try:
            labels[content["id"]] = {str(name): str(value) for name, value in content["common_answers"]}
        except (KeyError, TypeError, ValueError) as error:
            raise FileFormatError(f"{where}: {error!r}; expected id and common_answers") from None
    questions = []
    for where, content in _lines(home / QUESTIONS):
        try:
            texts = {name: content[name] for name in ("question", "constraints", "format", "file_name", "level")}
            concepts, number = tuple(content["concepts"]), content["id"]
        except (KeyError, TypeError) as error:
            raise FileFormatError(f"{where}: {error!r}; expected a question of DABench") from None
        if not isinstance(content["concepts"], list):
            raise FileFormatError(f"{where}: concepts is {content['concepts']!r}; expected a list of texts")
        if not all(isinstance(text, str) for text in (*texts.values(), *concepts)):
            raise FileFormatError(f"{where}: expected text in every field")
        if Path(texts["file_name"]).name != texts["file_name"]:
            raise FileFormatError(f"{where}: file_name is {texts['file_name']!r}; expected a name without folders")
        if isinstance(number, bool) or not isinstance(number, int | str) or not labels.get(number):
            raise FileFormatError(f"{where}: id is {number!r}; expected one that has a label in {LABELS}")
        questions.append(Question(id=str(number), concepts=concepts, label=labels[number], **texts))
    repeated = len(questions) - len({question.id for question in questions})
    if repeated or not questions:
        raise FileFormatError(
            f"{home / QUESTIONS}: {len(questions)} questions, {repeated} repeated; expected each once"
        )
    return questions


def table_path(folder: str | os.PathLike[str], question: Question) -> Path:
    """Find the table of a question; a link that leads out of the folder of tables is not followed."""
    home = as_path(folder) / TABLES
    path = regular_file(home / question.file_name, f"the table of question {question.id}")
    labels = as_path(folder) / LABELS
    if home.resolve() not in path.resolve().parents or (labels.exists() and path.samefile(labels)):
        raise FileFormatError(f"{path} leads to {path.resolve()}; expected a table within {home}")
    return path


def _lines(path: Path) -> list[tuple[str, Any]]:
    out = []
    for number, line in enumerate(read_text(path, f"a folder with {QUESTIONS} and {LABELS}").splitlines(), 1):
        try:
            out.append((f"{path}, line {number}", strict_json(line)))
        except ValueError as error:
            raise FileFormatError(f"{path}, line {number}: not valid JSON ({error})") from None
    return out


RAN, FAILED, NOT_UNDERSTOOD = "[ran]", "[failed]", "[not understood]"
"""First line of an observation: the code ran, it raised or was stopped, or the reply was neither code nor answer."""

SPLIT_SEED = 2026

PAPER = {"fit": 140, "select": 50, "test": 67}
"""How the paper deals its 257 questions; which one went where it does not say."""


@dataclass(frozen=True)
class Splits:
    """Lists of questions in order of id, no question in two of them."""

    # fit, select, test: What policies are fitted on, chosen on and tested on.
    fit: list[Question]
    select: list[Question]
    test: list[Question]
    missing: list[Question]  # Questions that nobody can play here, since their table is not at hand
    largest: int  # Bytes of the largest table that is

    @property
    def all(self) -> list[Question]:
        """All questions that can be played, in order of id."""
        return in_order([*self.fit, *self.select, *self.test])


def make_splits(data: str | os.PathLike[str]) -> Splits:
    """Deal all questions of a folder into 140, 50 and 67 of 257, or like shares; then leave out what has no table.

    So a question is for the same with all tables as with some.
    """
    questions = in_order(read_questions(data))
    dealt = [questions[at] for at in np.random.default_rng(SPLIT_SEED).permutation(len(questions))]
    share = len(questions) / sum(PAPER.values())
    n_fit, n_select = (round(PAPER[part] * share) for part in ("fit", "select"))
    parts = {"fit": dealt[:n_fit], "select": dealt[n_fit : n_fit + n_select], "test": dealt[n_fit + n_select :]}
    missing = {question.id for question in questions if not _at_hand(data, question)}
    kept = {name: in_order(q for q in part if q.id not in missing) for name, part in parts.items()}
    for name, part in parts.items():
        if not part:
            raise InvalidDataError("enough for three parts", field="number of questions", value=len(questions))
        if not kept[name]:
            raise MissingFileError(
                f"{os.fspath(data)}: none of the {len(part)} questions to {name} on has its table in {TABLES}"
            )
    largest = max(table_path(data, question).stat().st_size for part in kept.values() for question in part)
    return Splits(**kept, missing=[question for question in questions if question.id in missing], largest=largest)


def in_order(questions: Iterable[Question]) -> list[Question]:
    """Return questions in order of id, which is a number."""
    return sorted(questions, key=lambda question: (len(question.id), question.id))


def _at_hand(data: str | os.PathLike[str], question: Question) -> bool:
    """Return whether a question's table is there; one that leads elsewhere is an error."""
    try:
        table_path(data, question)
    except MissingFileError:
        return False
    return True


TOLERANCE = 1e-6
"""Largest distance, exclusive, of a number from its label, as DABench's own evaluation has it."""

_ANSWER = re.compile(r"@(\w+)\[(.*?)\]")


def extract_answers(text: str) -> dict[str, str]:
    """Find the answers `@name[value]` in a text; of several with one name, the last.

    Examples
    --------
    >>> extract_answers("The result: @mean_fare[34.65], @n[12]")
    {'mean_fare': '34.65', 'n': '12'}
    """
    return dict(_ANSWER.findall(text))


def is_correct(answers: Mapping[str, str], label: Mapping[str, str]) -> bool:
    """Return whether every labelled answer is given: the same text, or a number nearer than `TOLERANCE`.

    Answers that have no label are not looked at: DABench labels only those on which its annotators agreed.

    Examples
    --------
    >>> is_correct({"mean": "34.650", "p": "0.1"}, {"mean": "34.65"}), is_correct({"mean": "34.66"}, {"mean": "34.65"})
    (True, False)
    """
    return all(name in answers and _equal(answers[name], value) for name, value in label.items())


def _equal(answer: str, label: str) -> bool:
    if answer == label:
        return True
    try:
        return abs(float(answer) - float(label)) < TOLERANCE
    except ValueError:
        return False


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
