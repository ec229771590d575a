"""DABench's questions and labels, from a folder that the user gives."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bayes_tacit.errors import FileFormatError
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
    """Read `da-dev-questions.jsonl` and `da-dev-labels.jsonl`; each question needs its label.

    Raises
    ------
    FileFormatError
        With file and line, for what is not as DABench publishes it.
    """
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
