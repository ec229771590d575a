"""Figures with one row for each name, and figures that are drawn when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayes_tacit.review.plots.style import house_style, shortened

WIDE = 9.6
"""Inches; the width of a report's column."""


def lazily[**P](draw: Callable[P, Figure], *args: P.args, **kwargs: P.kwargs) -> Callable[[], Figure]:
    """Put a drawing off until it is asked for; it is then drawn in our style."""

    def figure() -> Figure:
        with house_style():
            return draw(*args, **kwargs)

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
    names = [literal(label) for label in labels]
    position = np.arange(len(names))[::-1]
    figure = Figure(figsize=(WIDE, 1.0 + 0.24 * len(names)), layout="constrained")
    axes = list(figure.subplots(1, panels, sharey=True, squeeze=False)[0])
    axes[0].set_yticks(position, names)
    axes[0].set_ylim(-0.7, len(names) - 0.3)
    return figure, axes, position
