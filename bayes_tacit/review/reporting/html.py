"""Pieces of HTML. What comes from a user is escaped here, and only here."""

from __future__ import annotations

import base64
import io
import math
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from html import escape
from typing import Literal

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

DECIMALS = 3
SHORT = 16
"""Rows of a table that is not to be broken over two printed pages."""
PIXELS_PER_INCH = 96


def tag(name: str, *content: str, **attributes: str) -> str:
    """Give an element; `content` is HTML, the values of `attributes` are text.

    Examples
    --------
    >>> tag("p", text("a < b"), class_="note")
    '<p class="note">a &lt; b</p>'
    """
    given = "".join(f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items())
    return f"<{name}{given}>{''.join(content)}</{name}>"


def text(content: object) -> str:
    """Give text as HTML."""
    return escape(str(content))


def prose(sentence: str) -> str:
    """Give a sentence as HTML, with `names between backticks` as code.

    Examples
    --------
    >>> prose("raise `draws` & wait")
    'raise <code>draws</code> &amp; wait'
    """
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text(sentence))


def section(identifier: str, heading: str, *content: str, level: int = 2) -> str:
    """Give a section with a heading, which links can point to."""
    title = tag(f"h{level}", text(heading), id=f"{identifier}-title")
    return tag("section", title, *content, id=identifier, aria_labelledby=f"{identifier}-title")


def table(frame: pd.DataFrame, caption: str, *, formats: Mapping[str, str] | None = None, labelled: bool = True) -> str:
    """Give a table with a caption; the index heads the rows unless `labelled` is off.

    Numbers are written with three decimals unless `formats` says otherwise for their column.
    """
    formats = formats or {}
    names = [str(column) for column in frame.columns]
    numeric = [pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_bool_dtype(kind) for kind in frame.dtypes]
    corner = [tag("th", text(_readable(frame.index.name or "")), scope="col")] if labelled else []
    head = [
        tag("th", text(_readable(name)), scope="col", **({"class_": "number"} if right else {}))
        for name, right in zip(names, numeric, strict=True)
    ]
    rows = []
    for label, *values in frame.itertuples(name=None):
        lead = [tag("th", text(label), scope="row")] if labelled else []
        cells = [
            tag("td", text(_formatted(value, formats.get(name))), **({"class_": "number"} if right else {}))
            for name, value, right in zip(names, values, numeric, strict=True)
        ]
        rows.append(tag("tr", *lead, *cells))
    return tag(
        "div",
        tag(
            "table",
            tag("caption", text(caption)),
            tag("thead", tag("tr", *corner, *head)),
            tag("tbody", *rows),
        ),
        class_="table short" if len(frame) <= SHORT else "table",
    )


def listing(pairs: Mapping[str, object]) -> str:
    """Give names and what they stand for."""
    rows = (tag("div", tag("dt", text(name)), tag("dd", text(value))) for name, value in pairs.items())
    return tag("dl", *rows)


def bullets(items: Iterable[str]) -> str:
    """Give a list; the items are HTML."""
    return tag("ul", *(tag("li", item) for item in items))


def picture(
    draw: Callable[[], Figure], alt: str, caption: str = "", *, kind: Literal["svg", "png"] = "svg", class_: str = ""
) -> str:
    """Draw a figure and put it into the page itself; "png" is for figures with very many marks.

    Its size on the page is its size in inches, unless the page is narrower.
    """
    figure = draw()
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
    image = (
        f'<img src="data:image/{media};base64,{encoded}" alt="{escape(alt)}" width="{width:.0f}" height="{height:.0f}">'
    )
    below = [tag("figcaption", text(caption))] if caption else []
    return tag("figure", image, *below, **({"class_": class_} if class_ else {}))


def _readable(name: object) -> str:
    return str(name).replace("_", " ")


def _formatted(value: object, how: str | None) -> str:
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | np.integer):
        return format(int(value), how or ",d")
    if isinstance(value, float | np.floating):
        return format(float(value), how or f".{DECIMALS}f") if math.isfinite(value) else "\N{EN DASH}"
    return str(value)
