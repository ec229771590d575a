"""Tables in Markdown: the paper's numbers beside ours, with how sure ours are and whether they agree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from bayes_tacit.errors import InvalidDataError

NOT_IN_PAPER = "not in the paper"


@dataclass(frozen=True)
class Comparison:
    """A number of the paper, and ours.

    Attributes
    ----------
    label
        What the number is.
    paper
        The paper's mean; None for what the paper does not have.
    values
        Ours, one a replicate.
    paper_half_width
        Of the paper's interval, if it gives one.
    """

    label: str
    paper: float | None
    values: Iterable[float]
    paper_half_width: float | None = None


@dataclass(frozen=True)
class Tolerance:
    """How far from the paper's number ours may be: an amount with its unit, or with `relative` a share of it.

    Examples
    --------
    >>> str(Tolerance(0.7, "points")), str(Tolerance(0.1, relative=True)), str(Tolerance(0.01))
    ('0.7 points', '10%', '0.01')
    """

    amount: float
    unit: str = ""
    relative: bool = False

    def __str__(self) -> str:
        return f"{self.amount:.0%}" if self.relative else f"{self.amount:g} {self.unit}".strip()

    def admits(self, difference: float, paper: float) -> bool:
        """Tell whether a difference is within it."""
        return bool(abs(difference) <= self.amount * (abs(paper) if self.relative else 1) * (1 + 1e-9))


def comparison_table(comparisons: Sequence[Comparison], tolerance: Tolerance, digits: int) -> str:
    """Make the table of paper, ours, difference and Student-t 95% half-width, and a sentence on where they differ.

    What the paper does not have is shown with ours alone, and not counted.

    Parameters
    ----------
    comparisons
        One a row.
    tolerance
        What counts as agreement.
    digits
        Decimal places.
    """
    rows: list[list[str]] = []
    within_it: list[str] = []
    outside: list[str] = []
    for comparison in comparisons:
        mean, half = mean_and_half_width(comparison.values)
        if comparison.paper is None:
            rows.append([comparison.label, NOT_IN_PAPER, with_half_width(mean, half, digits), "", "not compared"])
            continue
        difference = mean - comparison.paper
        within = tolerance.admits(difference, comparison.paper)
        (within_it if within else outside).append(comparison.label)
        share = f" ({difference / comparison.paper:+.1%})" if tolerance.relative else ""
        rows.append(
            [
                comparison.label,
                with_half_width(comparison.paper, comparison.paper_half_width, digits),
                with_half_width(mean, half, digits),
                f"{round(difference, digits) + 0.0:+.{digits}f}{share}",
                f"{'within' if within else '**outside**'} {tolerance}",
            ]
        )
    head = ["", "paper (± 95% half-width)", "ours (± 95% half-width)", "difference", "verdict"]
    count = f"{len(within_it)} of {len(within_it) + len(outside)} within {tolerance} of the paper"
    verdict = f"{count}; outside: {'; '.join(outside)}." if outside else f"{count}."
    return f"{markdown_table(head, rows)}\n\n{verdict}"


def mean_and_half_width(values: Iterable[float]) -> tuple[float, float | None]:
    """Give the mean over replicates and the half-width of its Student-t 95% interval, None for a single replicate.

    Examples
    --------
    >>> mean_and_half_width([1.0, 3.0])
    (2.0, 12.706204736174694)
    """
    numbers = np.array(list(values), dtype=float)
    if not numbers.size or not np.isfinite(numbers).all():
        raise InvalidDataError("finite numbers, one a replicate", field="values", value=numbers)
    if numbers.size == 1:
        return float(numbers[0]), None
    half = stats.t.ppf(0.975, numbers.size - 1) * numbers.std(ddof=1) / np.sqrt(numbers.size)
    return float(numbers.mean()), float(half)


def with_half_width(mean: float, half: float | None, digits: int) -> str:
    """Write a mean with its half-width."""
    # Adding zero turns a rounded -0.0 into 0.0.
    number = f"{round(mean, digits) + 0.0:.{digits}f}"
    return number if half is None else f"{number} ± {half:.{digits}f}"


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
