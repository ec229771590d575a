"""A figure inside a page."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable
from typing import Literal

from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from bayes_tacit.html.pieces import Picture
from bayes_tacit.review.plots.widths import narrowly

PIXELS_PER_INCH = 96


def embedded(
    draw: Callable[[], Figure],
    alt: str,
    caption: str = "",
    *,
    kind: Literal["svg", "png"] = "svg",
    narrow: Callable[[Figure], Figure] | None = None,
) -> Picture:
    """Draw a figure and give it as a picture of a page; "png" is for figures with very many marks.

    Its size on the page is its size in inches, unless the page is narrower. `narrow` makes of the figure the one that a
    phone shows, such as `regridded`.
    """
    figure = draw()
    source, width, height = _encoded(figure, kind)
    on_phone = None if narrow is None else _encoded(narrow(figure), kind)
    return Picture(source, width, height, alt, caption, on_phone)


def redrawn(draw: Callable[[], Figure]) -> Callable[[Figure], Figure]:
    """Give a phone's figure by drawing it anew, narrowly."""

    def anew(_: Figure) -> Figure:
        with narrowly():
            return draw()

    return anew


def _encoded(figure: Figure, kind: Literal["svg", "png"]) -> tuple[str, int, int]:
    """Give a figure as a data URI, with its width and height in CSS pixels."""
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
