"""Which questions are for what: dealt as in the paper, less those whose table is not at hand."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from bayes_tacit.errors import InvalidDataError, MissingFileError
from simulations.dabench import Question, read_questions
from simulations.dabench.questions import TABLES, table_path

SPLIT_SEED = 2026

PAPER = {"fit": 140, "select": 50, "test": 67}
"""How the paper deals its 257 questions; which one went where it does not say."""


@dataclass(frozen=True)
class Splits:
    """Lists of questions in order of id, no question in two of them.

    Attributes
    ----------
    fit, select, test
        What policies are fitted on, chosen on and tested on.
    missing
        Questions that nobody can play here, since their table is not at hand.
    largest
        Bytes of the largest table that is.
    """

    fit: list[Question]
    select: list[Question]
    test: list[Question]
    missing: list[Question]
    largest: int

    @property
    def all(self) -> list[Question]:
        """All questions that can be played, in order of id."""
        return in_order([*self.fit, *self.select, *self.test])


def make_splits(data: str | os.PathLike[str]) -> Splits:
    """Deal all questions of a folder into 140, 50 and 67 of 257, or like shares; then leave out what has no table.

    So a question is for the same with all tables as with some.

    Raises
    ------
    MissingFileError
        If no table of a part is there.
    """
    questions = in_order(read_questions(data))
    dealt = [questions[at] for at in np.random.default_rng(SPLIT_SEED).permutation(len(questions))]
    share = len(questions) / sum(PAPER.values())
    n_fit, n_select = (round(PAPER[part] * share) for part in ("fit", "select"))
    parts = {
        "fit": dealt[:n_fit],
        "select": dealt[n_fit : n_fit + n_select],
        "test": dealt[n_fit + n_select :],
    }
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
    """Give questions in order of id, which is a number."""
    return sorted(questions, key=lambda question: (len(question.id), question.id))


def _at_hand(data: str | os.PathLike[str], question: Question) -> bool:
    """Tell whether a question's table is there; one that leads elsewhere is an error."""
    try:
        table_path(data, question)
    except MissingFileError:
        return False
    return True
