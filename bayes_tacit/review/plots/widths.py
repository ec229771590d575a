"""How wide a figure is drawn: as a report's column, or as a phone."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec

WIDE, NARROW = 9.6, 3.75
"""Inches: the width of a report's column, and that of a phone's screen within the page's margins."""

LABEL_LENGTH = 30
"""Letters of an axis's label that a narrow figure has room for."""

_narrow: ContextVar[bool] = ContextVar("narrow", default=False)


@contextmanager
def narrowly() -> Iterator[None]:
    """Draw the figures inside for a phone: narrow, panels below each other, legends below the axes."""
    token = _narrow.set(True)
    try:
        yield
    finally:
        _narrow.reset(token)


def is_narrow() -> bool:
    """Tell whether figures are drawn for a phone now."""
    return _narrow.get()


def page_width() -> float:
    """Give the width of a figure in inches.

    Examples
    --------
    >>> with narrowly():
    ...     page_width()
    3.75
    """
    return NARROW if is_narrow() else WIDE


def in_a_row(panels: int, narrow: int = 1) -> int:
    """Give how many panels stand beside each other: all of them, or `narrow` on a phone."""
    return min(panels, narrow) if is_narrow() else panels


def regridded(figure: Figure) -> Figure:
    """Put the panels of a drawn grid into two columns, as wide as a phone; what they show is not computed again."""
    panels = [axis for axis in figure.axes if axis.has_data()]
    for axis in figure.axes:
        if axis not in panels:
            axis.remove()
    height = max(axis.get_position().height for axis in panels) * figure.get_size_inches()[1]
    rows = -(-len(panels) // 2)
    grid = GridSpec(rows, 2, figure=figure)
    for place, axis in enumerate(panels):
        axis.set_subplotspec(grid[place // 2, place % 2])
        axis.set_title(axis.get_title(loc="left"), loc="left", fontsize=8, parse_math=False)
    figure.set_size_inches(NARROW, 0.5 + rows * (height + 0.5))
    return figure


def legend_beside(axis: Axes) -> None:
    """Put the legend to the right of the axes, or under them on a phone; it hides nothing there."""
    if not is_narrow():
        axis.legend(loc="center left", bbox_to_anchor=(1, 0.5))
        return
    legend_under(axis)


def legend_under(axis: Axes, columns: int = 2) -> None:
    """Put the legend under the whole figure, which makes room for it."""
    if (legend := axis.get_legend()) is not None:
        legend.remove()
    figure = axis.get_figure(root=True)
    assert figure is not None
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=columns)


def fit_labels(figure: Figure) -> None:
    """Break long labels of axes, if figures are drawn for a phone."""
    if not is_narrow():
        return
    for axis in figure.axes:
        axis.set_xlabel(textwrap.fill(axis.get_xlabel(), LABEL_LENGTH))
