"""Figures with one row for each name, and figures that are drawn when they are asked for."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayes_tacit.review.plots.style import house_style, shortened
from bayes_tacit.review.plots.widths import fit_labels, in_a_row, is_narrow, page_width

ROW, BROKEN = 0.24, 0.36
"""Inches that a row takes, and one whose name may be broken over two lines."""
NAME_LENGTH = 24
"""Letters in a line of such a name."""


def lazily[**P](draw: Callable[P, Figure], *args: P.args, **kwargs: P.kwargs) -> Callable[[], Figure]:
    """Put a drawing off until it is asked for; it is then drawn in our style."""

    def figure() -> Figure:
        with house_style():
            drawn = draw(*args, **kwargs)
            fit_labels(drawn)
            return drawn

    return figure


def literal(name: object, width: int = 40) -> str:
    r"""Give a user's name as matplotlib is to write it, whatever is in it, and no longer than there is room for.

    Examples
    --------
    >>> print(literal("cost_$"))
    cost_\$
    """
    return shortened(str(name), width).replace("$", r"\$")


def dot_rows(labels: Iterable[object], panels: int = 1) -> tuple[Figure, list[Axes], np.ndarray]:
    """Make a figure with one row a label, top to bottom: the figure, its panels, and the rows' heights."""
    names = [_row_name(label) for label in labels]
    position = np.arange(len(names))[::-1]
    columns = in_a_row(panels)
    broken = any("\n" in name for name in names)
    height = (panels // columns) * (1.0 + (BROKEN if broken else ROW) * len(names))
    figure = Figure(figsize=(page_width(), height), layout="constrained")
    axes = list(figure.subplots(panels // columns, columns, sharey=True, squeeze=False).flat)
    axes[0].set_yticks(position, names)
    axes[0].set_ylim(-0.7, len(names) - 0.3)
    return figure, axes, position


def _row_name(label: object) -> str:
    """Give a name as it stands before a row, in two lines at most on a phone."""
    if not is_narrow():
        return literal(label)
    lines = textwrap.wrap(shortened(str(label), 2 * NAME_LENGTH - 2), NAME_LENGTH)[:2]
    return "\n".join(literal(line, NAME_LENGTH) for line in lines)
