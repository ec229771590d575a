"""How our figures look: one style sheet, and a colour for each thing that is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from typing import Literal

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation

SCORE = "#0072B2"
DECISION = "#D55E00"
WINDOW = "#E69F00"
CEILING = "#777777"
OBSERVED = "#000000"
PREDICTED = "#009E73"
BAND_OPACITY = 0.22

LABEL_HEIGHT = 0.5
"""Inches that the ticks and the label under a pair of axes take."""


@contextmanager
def house_style() -> Iterator[None]:
    """Draw in our style, and leave the user's settings as they were."""
    # In a notebook the backend turns interactive mode on when it is first used. That must not happen inside the
    # context, which would turn it off again at its end, and no later figure would be shown.
    plt.draw_if_interactive()  # type: ignore[no-untyped-call]
    with as_file(files("bayes_tacit.review.plots") / "tacit.mplstyle") as path, plt.style.context(path):
        yield


def axes_or_new(ax: Axes | None, figsize: tuple[float, float] | None = None) -> Axes:
    """Give the user's axes, or those of a new figure."""
    return plt.subplots(figsize=figsize)[1] if ax is None else ax


def legend_below(ax: Axes, columns: int = 3) -> None:
    """Put the legend under the axes and their label, where it hides neither data nor a long title."""
    # In inches, because the label is as high whatever the height of the axes.
    below = ax.transAxes + ScaledTranslation(0, -LABEL_HEIGHT, ax.figure.dpi_scale_trans)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, 0), bbox_transform=below, ncols=columns, columnspacing=1.4)


def joint_legend(figure: Figure, place: Literal["outside upper center", "outside lower center"]) -> None:
    """Give all panels of a figure one legend, in which what is drawn in several of them stands once."""
    entries = [zip(*ax.get_legend_handles_labels(), strict=True) for ax in figure.axes]
    by_label = {label: artist for panel_entries in entries for artist, label in panel_entries}
    figure.legend(list(by_label.values()), list(by_label), loc=place, ncols=3)


def shortened(text: str, width: int) -> str:
    """Keep the end of a text, which is what tells long ids apart."""
    return text if len(text) <= width else f"…{text[1 - width :]}"
