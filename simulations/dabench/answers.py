"""Closed-form answers: how they are written, and when they are right."""

from __future__ import annotations

import re
from collections.abc import Mapping

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
    """Tell whether every labelled answer is given: the same text, or a number nearer than `TOLERANCE`.

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
