"""How our figures look: one style sheet, a colour for each thing and policy, widths for pages and phones."""

from __future__ import annotations

import base64
import io
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.resources import as_file, files
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.transforms import ScaledTranslation

from bayes_tacit.html import Picture

SCORE = "#0072B2"
DECISION = "#D55E00"
WINDOW = "#E69F00"
CEILING = "#777777"
OBSERVED = "#000000"
PREDICTED = "#009E73"
BAND_OPACITY = 0.22

LABEL_HEIGHT = 0.5
"""Inches that the ticks and the label under a pair of axes take."""
WIDE, NARROW = 9.6, 3.75
"""Inches: the width of a report's column, and that of a phone's screen within the page's margins."""
LABEL_LENGTH = 30
"""Letters of an axis's label that a narrow figure has room for."""
ROW, BROKEN = 0.24, 0.36
"""Inches that a row takes, and one whose name may be broken over two lines."""
NAME_LENGTH = 24
"""Letters in a line of such a name."""
PIXELS_PER_INCH = 96

_narrow: ContextVar[bool] = ContextVar("narrow", default=False)


class PolicyStyle(NamedTuple):
    """How a policy is drawn."""

    color: str
    marker: str


POLICY_STYLES = MappingProxyType(
    {
        "Pure Cheap": PolicyStyle("#999999", "v"),
        "Pure Strong": PolicyStyle("#555555", "^"),
        "Task Router": PolicyStyle("#E69F00", "s"),
        "Step Deferral": PolicyStyle("#CC79A7", "D"),
        "Prefix router": PolicyStyle("#009E73", "P"),
        "First Alarm": PolicyStyle("#7F0000", "p"),
        "Count": PolicyStyle("#D62728", "d"),
        "Certain advantage": PolicyStyle("#117733", "*"),
        "Landmark": PolicyStyle("#17BECF", "8"),
        "TRIM analogue": PolicyStyle("#F781BF", "<"),
        "EvoRoute analogue": PolicyStyle("#A6761D", "X"),
        "Cascade": PolicyStyle("#8C6BB1", "X"),
        "Advantage": PolicyStyle("#66A61E", "D"),
        "Induction": PolicyStyle("#882255", "h"),
        "TACIT-Switch": PolicyStyle("#0072B2", "o"),
        "recommended": PolicyStyle("#000000", "D"),
        "TACIT-Switch, posterior mean": PolicyStyle("#56B4E9", "h"),
        "TACIT-Switch, memory by likelihood": PolicyStyle("#2166AC", "H"),
        "TACIT-Switch with memory": PolicyStyle("#4393C3", "H"),
        "TACIT-Switch with memory, start and pace": PolicyStyle("#5E4FA2", "^"),
        "Tuned switch": PolicyStyle("#D6604D", "*"),
        "Step Deferral by task": PolicyStyle("#C51B7D", "D"),
        "Recommended": PolicyStyle("#B2182B", "*"),
        "x-only": PolicyStyle("#B8860B", "<"),
        "risk-only": PolicyStyle("#D55E00", ">"),
        "best possible": PolicyStyle("#000000", "*"),
    }
)
"""Colours that colour-blind eyes tell apart (Okabe and Ito's, greys, a dark red), with markers that differ too."""


def policy_style(name: str) -> PolicyStyle:
    """Return a policy's style: its own, or else that of the longest known name that `name` begins with.

    Examples
    --------
    >>> policy_style("TACIT-Switch").color, policy_style("Prefix router, K = 2").marker
    ('#0072B2', 'P')
    """
    known = [other for other in POLICY_STYLES if name.startswith(other)]
    return POLICY_STYLES[max(known, key=len)] if known else PolicyStyle("#000000", ".")


@contextmanager
def house_style() -> Iterator[None]:
    """Draw in our style, and leave the user's settings as they were."""
    # In a notebook the backend turns interactive mode on when it is first used. That must not happen inside the
    # context, which would turn it off again at its end, and no later figure would be shown.
    plt.draw_if_interactive()  # type: ignore[no-untyped-call]
    with as_file(files("bayes_tacit.review") / "tacit.mplstyle") as path, plt.style.context(path):
        yield


def axes_or_new(ax: Axes | None, figsize: tuple[float, float] | None = None) -> Axes:
    """Return the user's axes, or those of a new figure."""
    return plt.subplots(figsize=figsize)[1] if ax is None else ax


def legend_below(ax: Axes, columns: int = 3) -> None:
    """Put the legend under the axes and their label, where it hides neither data nor a long title."""
    # In inches, because the label is as high whatever the height of the axes.
    below = ax.transAxes + ScaledTranslation(0, -LABEL_HEIGHT, ax.figure.dpi_scale_trans)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, 0), bbox_transform=below, ncols=columns, columnspacing=1.4)


def legend_beside(axis: Axes) -> None:
    """Put the legend to the right of the axes, or under them on a phone; it hides nothing there."""
    if _narrow.get():
        legend_under(axis)
    else:
        axis.legend(loc="center left", bbox_to_anchor=(1, 0.5))


def legend_under(axis: Axes, columns: int = 2) -> None:
    """Put the legend under the whole figure, which makes room for it."""
    if (legend := axis.get_legend()) is not None:
        legend.remove()
    figure = axis.get_figure(root=True)
    assert figure is not None
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=columns)


def joint_legend(figure: Figure, place: Literal["outside upper center", "outside lower center"]) -> None:
    """Draw one legend for all panels of a figure, with each label once."""
    entries = [zip(*ax.get_legend_handles_labels(), strict=True) for ax in figure.axes]
    by_label = {label: artist for panel_entries in entries for artist, label in panel_entries}
    figure.legend(list(by_label.values()), list(by_label), loc=place, ncols=3)


def shortened(text: str, width: int) -> str:
    """Cut a long text at its start; the end tells long ids apart."""
    return text if len(text) <= width else f"…{text[1 - width :]}"


def literal(name: object, width: int = 40) -> str:
    """Return a user's name as matplotlib writes it literally, no longer than `width` letters."""
    return shortened(str(name), width).replace("$", r"\$")


@contextmanager
def narrowly() -> Iterator[None]:
    """Draw the figures inside for a phone: narrow, panels below each other, legends below the axes."""
    token = _narrow.set(True)
    try:
        yield
    finally:
        _narrow.reset(token)


def is_narrow() -> bool:
    """Check whether figures are drawn for a phone now."""
    return _narrow.get()


def page_width() -> float:
    """Return the width of a figure in inches."""
    return NARROW if _narrow.get() else WIDE


def in_a_row(panels: int, narrow: int = 1) -> int:
    """Return how many panels stand beside each other: all of them, or `narrow` on a phone."""
    return min(panels, narrow) if _narrow.get() else panels


def dot_rows(labels: Iterable[object], panels: int = 1) -> tuple[Figure, list[Axes], np.ndarray]:
    """Make a figure with one row a label, top to bottom: the figure, its panels, and the rows' heights."""
    names = [_row_name(label) for label in labels]
    position = np.arange(len(names))[::-1]
    columns = in_a_row(panels)
    row = BROKEN if any("\n" in name for name in names) else ROW
    height = (panels // columns) * (1.0 + row * len(names))
    figure = Figure(figsize=(page_width(), height), layout="constrained")
    axes = list(figure.subplots(panels // columns, columns, sharey=True, squeeze=False).flat)
    axes[0].set_yticks(position, names)
    axes[0].set_ylim(-0.7, len(names) - 0.3)
    return figure, axes, position


def _row_name(label: object) -> str:
    if not _narrow.get():
        return literal(label)
    lines = textwrap.wrap(shortened(str(label), 2 * NAME_LENGTH - 2), NAME_LENGTH)[:2]
    return "\n".join(literal(line, NAME_LENGTH) for line in lines)


class Panel(NamedTuple):
    """A panel of dots: series by label (values, errors, colour), where limits are, and a line to compare with."""

    xlabel: str
    series: dict[str, tuple[pd.Series, Any, str]]
    limits: tuple[float, ...] = ()
    center: float | None = None
    named: str = "limit"


def draw_rows(labels: Iterable[object], *panels: Panel) -> Figure:
    """Draw dots with one row a label, in one panel or more; equal labels share a row."""
    given = list(labels)
    names = list(dict.fromkeys(given))
    figure, axes, position = dot_rows(names, panels=len(panels))
    height = position[[names.index(name) for name in given]]
    for axis, panel in zip(axes, panels, strict=True):
        for label, (values, error, color) in panel.series.items():
            axis.errorbar(values, height, xerr=error, fmt="o", color=color, capsize=3, markersize=6, label=label)
        for place in panel.limits:
            label = panel.named if place == panel.limits[-1] else "_"
            axis.axvline(place, color=DECISION, linewidth=1.2, linestyle="--", label=label)
        axis.set(xlabel=panel.xlabel)
        if panel.center is None:
            axis.set_xlim(left=0)
        else:
            axis.axvline(panel.center, color=CEILING, linewidth=1, zorder=0)
    if axes[-1].get_legend_handles_labels()[1]:
        legend_beside(axes[-1])
    return figure


def lazily[**P](draw: Callable[P, Figure], *args: P.args, **kwargs: P.kwargs) -> Callable[[], Figure]:
    """Return a function that draws a figure in our style; long labels are broken on a phone."""

    def figure() -> Figure:
        with house_style():
            drawn = draw(*args, **kwargs)
            for axis in drawn.axes if _narrow.get() else ():
                axis.set_xlabel(textwrap.fill(axis.get_xlabel(), LABEL_LENGTH))
            return drawn

    return figure


def redrawn(draw: Callable[[], Figure]) -> Callable[[Figure], Figure]:
    """Return a function that draws a figure anew for a phone."""

    def anew(_: Figure) -> Figure:
        with narrowly():
            return draw()

    return anew


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


def embedded(
    draw: Callable[[], Figure],
    alt: str,
    caption: str = "",
    *,
    kind: Literal["svg", "png"] = "svg",
    narrow: Callable[[Figure], Figure] | None = None,
) -> Picture:
    """Draw a figure as a picture of a page; "png" is for figures with very many marks.

    Its size on the page is its size in inches, unless the page is narrower. `narrow` turns the figure into the one that
    a phone shows, such as `regridded`.
    """
    figure = draw()
    source, width, height = _encoded(figure, kind)
    on_phone = None if narrow is None else _encoded(narrow(figure), kind)
    return Picture(source, width, height, alt, caption, on_phone)


def _encoded(figure: Figure, kind: Literal["svg", "png"]) -> tuple[str, int, int]:
    try:
        buffer = io.BytesIO()
        width, height = figure.get_size_inches() * PIXELS_PER_INCH
        with warnings.catch_warnings():
            # A name in a script that the font lacks is drawn as boxes; the tables have it in full.
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            if kind == "svg":
                figure.savefig(buffer, format="svg", metadata={"Date": None})
            else:
                figure.savefig(buffer, format="png", dpi=2 * PIXELS_PER_INCH)
    finally:
        plt.close(figure)
    encoded = base64.b64encode(buffer.getvalue()).decode("ascii")
    media = "svg+xml" if kind == "svg" else "png"
    return f"data:image/{media};base64,{encoded}", round(width), round(height)
