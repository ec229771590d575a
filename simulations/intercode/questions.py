"""What the words of a question say before anyone has tried to answer it."""

from __future__ import annotations

import re
from collections.abc import Mapping

CUES: Mapping[str, str] = {
    "literals": r"\d+|'[^']+'|\"[^\"]+\"",
    "aggregates": r"\b(how many|number of|average|mean|total|sum|maximum|minimum|count)\b",
    "superlatives": r"\b(most|least|top|first|last|\w{2,}est)\b",
    "comparisons": r"\b(more|less|fewer|greater|higher|lower|older|younger|larger|before|after|between|above|below)\b",
    "negations": r"\b(not|no|never|without|except|neither|nor)\b|n't\b",
    "conjunctions": r"\b(and|or|both|each|every|all)\b",
}
"""Patterns that are counted in a question, by the name of the feature."""


def features_of(question: str) -> dict[str, int]:
    """Count the cues of a question; nothing of its answer is in them.

    Examples
    --------
    >>> features_of("How many students are older than 20 and have no pet?")["literals"]
    1
    """
    text = question.lower()
    return {name: len(re.findall(pattern, text)) for name, pattern in CUES.items()}
