"""Tables and figures of the studies, in the house style."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.review.style import house_style

NOT_IN_PAPER = "not in the paper"
BY_CONSTRUCTION = "by construction"
"""The basis of a number that the simulator was fitted to."""


@dataclass(frozen=True)
class Comparison:
    """A number of the paper, and ours."""

    label: str  # What the number is
    paper: float | None  # The paper's mean; None for what the paper does not have
    values: Iterable[float]  # Ours, one a replicate
    paper_half_width: float | None = None  # Of the paper's interval, if it gives one
    basis: str = ""  # Why agreement is no finding, such as `BY_CONSTRUCTION`; a number with a basis has no verdict


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
        """Return whether a difference is within it."""
        return bool(abs(difference) <= self.amount * (abs(paper) if self.relative else 1) * (1 + 1e-9))


def comparison_table(comparisons: Sequence[Comparison], tolerance: Tolerance, digits: int) -> str:
    """Make the table of paper, ours, difference and Student-t 95% half-width, and a sentence on where they differ.

    What the paper does not have is shown with ours alone; neither that nor what has a basis is counted.
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
        if not comparison.basis:
            (within_it if within else outside).append(comparison.label)
        share = f" ({difference / comparison.paper:+.1%})" if tolerance.relative else ""
        rows.append(
            [
                comparison.label,
                with_half_width(comparison.paper, comparison.paper_half_width, digits),
                with_half_width(mean, half, digits),
                f"{round(difference, digits) + 0.0:+.{digits}f}{share}",
                comparison.basis or f"{'within' if within else '**outside**'} {tolerance}",
            ]
        )
    head = ["", "paper (± 95% half-width)", "ours (± 95% half-width)", "difference", "verdict"]
    made = markdown_table(head, rows)
    if not within_it and not outside:
        return made
    count = f"{len(within_it)} of {len(within_it) + len(outside)} within {tolerance} of the paper, a tolerance of ours"
    verdict = f"{count}; outside: {'; '.join(outside)}." if outside else f"{count}."
    return f"{made}\n\n{verdict}"


def mean_and_half_width(values: Iterable[float]) -> tuple[float, float | None]:
    """Return the mean over replicates and the half-width of its Student-t 95% interval, None for a single replicate.

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


COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "-", (0, (4, 2)), "-.", ":", (0, (6, 1, 1, 1, 1, 1)), "-")


@contextmanager
def figure_file(
    path: Path, rows: int = 1, columns: int = 1, size: tuple[float, float] = (6.4, 4.0), *, share: bool = False
) -> Iterator[tuple[Figure, np.ndarray]]:
    """Yield a figure and its axes (row, column) in the house style; what is drawn on it is written at the end.

    With `share`, all axes have the same limits.
    """
    with house_style():
        figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, sharex=share, sharey=share)
        try:
            yield figure, axes
            figure.savefig(path, metadata={"Software": None})
        finally:
            plt.close(figure)


def plot_means(ax: Axes, x: Iterable[float], replicates: Iterable[Iterable[float]], *, label: str, style: int) -> None:
    """Draw means over replicates with Student-t 95% intervals; `style` picks colour, marker and line."""
    pairs = [mean_and_half_width(values) for values in replicates]
    ax.errorbar(
        list(x),
        [mean for mean, _ in pairs],
        yerr=[half or 0.0 for _, half in pairs],
        color=COLOURS[style],
        marker=MARKERS[style],
        linestyle=LINES[style],
        markersize=5,
        capsize=2.5,
        elinewidth=1.1,
        label=label,
    )


def legend_beside(ax: Axes, title: str | None = None) -> None:
    """Put the legend to the right of the axes, where it hides nothing."""
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), title=title)


PAGES = Path(__file__).with_name("pages")
"""A page in Markdown for each study: what was made of its committed tables, with a place for each table."""

OTHER_TABLES = (
    "**Tables and figures are of this run; the sentences are those of the committed page, which has other tables.**"
)


def fill(page: str, **tables: str) -> str:
    """Put tables into the page of this name; where they are not those that it was written for, it says so.

    The first line of a page has the digest of the tables that its sentences were written for.
    """
    first, _, text = (PAGES / f"{page}.md").read_text(encoding="utf-8").partition("\n")
    for name, table in tables.items():
        place = "{{ " + name + " }}"
        if place not in text:
            raise InvalidDataError(f"a place {place} for the table", field="page", value=page)
        text = text.replace(place, table.strip())
    as_written = digest(tables) in first or "sentences for" not in first
    return text if as_written else f"{OTHER_TABLES}\n\n{text}"


def digest(tables: Mapping[str, str]) -> str:
    """Return a digest of tables, whatever they are called."""
    return hashlib.sha256("\n".join(table.strip() for table in tables.values()).encode()).hexdigest()[:12]
