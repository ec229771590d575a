"""The verdict on a posterior: all checks in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bayes_tacit.review.checks.base import CheckResult

WORDS = {"good": "Trust it.", "warning": "Trust it with care.", "bad": "Do not trust it yet."}
MANY = 3
"""Failed checks that are too many for trust of any kind."""


@dataclass(frozen=True)
class Headline:
    """The verdict on everything; the report, the command line and a notebook show the same.

    Attributes
    ----------
    level
        "good"; "warning", if the draws can be trusted and the model fits, but something needs care; or "bad".
    sentence
        Why, in one sentence or two.
    """

    level: Literal["good", "warning", "bad"]
    sentence: str

    @property
    def words(self) -> str:
        """What to do with the posterior, in a few words."""
        return WORDS[self.level]

    @property
    def passed(self) -> bool:
        """Whether nothing failed and nothing was left open."""
        return self.level == "good"

    def __str__(self) -> str:
        return f"{self.words} {self.sentence}"


def headline(results: Sequence[CheckResult]) -> Headline:
    """Sum up the checks, of which the first is that of the sampler.

    It is "bad" if the sampler's check failed, if one did that compares the model's predictions with the data, or if
    three did; "warning" if another one failed or could not be judged; else "good". Hints do not count.

    Examples
    --------
    >>> import pandas as pd
    >>> sampler = CheckResult("Sampler", True, pd.DataFrame(), "The chains agree.")
    >>> off = CheckResult("Leave-one-out", False, pd.DataFrame(), "An episode decides the fit.")
    >>> print(headline([sampler, off]))
    Trust it with care. The chains agree. But 1 of 1 checks of the model failed (Leave-one-out).
    """
    sampler, *rest = results
    others = [result for result in rest if not result.hint]
    if sampler.passed is False:
        return Headline("bad", sampler.sentence)
    agreement = sampler.sentence.removesuffix(".")
    failed = [result for result in others if result.passed is False]
    unjudged = [result.name for result in others if result.passed is None]
    if failed:
        names = ", ".join(result.name for result in failed)
        count = f"{agreement}. But {len(failed)} of {len(others)} checks of the model failed ({names})."
        decisive = [result for result in failed if result.decisive]
        if decisive:
            return Headline("bad", f"{decisive[0].sentence} {count}")
        return Headline("bad" if len(failed) >= MANY else "warning", count)
    if unjudged:
        return Headline("warning", f"{agreement}. But {', '.join(unjudged)} could not be judged.")
    return Headline("good", f"{agreement}. All {len(others)} checks of the model passed.")
