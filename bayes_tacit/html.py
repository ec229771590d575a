"""All HTML of the library: templates, and the tables and pictures they are filled with.

Text is escaped by the template engine, so that nothing a user named can become markup.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from numbers import Integral, Real
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    from jinja2 import Environment
    from markupsafe import Markup

DECIMALS = 3
SHORT = 16
"""Rows of a table that is not to be broken over two printed pages."""
LONG = 40
"""Rows from which on a table is folded up."""


def render(template: str, **values: object) -> str:
    """Fill a template of this package; every value is text, and is escaped.

    Examples
    --------
    >>> print(render("plain_table.html", header=["a < b"], rows=[["&"]]))
    <table><thead><tr><th style="text-align:left">a &lt; b</th></tr></thead>
    <tbody><tr><td style="text-align:left">&amp;</td></tr></tbody></table>
    """
    return _environment().get_template(template).render(**values)


def prose(sentence: str) -> Markup:
    """Return a sentence as HTML, with `names between backticks` as code.

    Examples
    --------
    >>> print(prose("raise `draws` & wait"))
    raise <code>draws</code> &amp; wait
    """
    from markupsafe import Markup, escape

    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(sentence))))


@cache
def _environment() -> Environment:
    # Loaded when first needed: a container that can show itself in a notebook is mostly used elsewhere.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("bayes_tacit"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = prose
    return environment


@dataclass(frozen=True)
class Table:
    """A table as it is written on a page.

    Attributes
    ----------
    caption
        What it shows.
    header
        Headings of the columns.
    rows
        Cells as text.
    numbers
        Of each column, whether it holds numbers.
    labelled
        Whether the first cell of a row is its heading.
    """

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[bool, ...]
    labelled: bool

    @property
    def short(self) -> bool:
        """Whether it stays on one printed page."""
        return len(self.rows) <= SHORT

    @property
    def long(self) -> bool:
        """Whether it is folded up until somebody opens it."""
        return len(self.rows) >= LONG


@dataclass(frozen=True)
class Picture:
    """A figure inside a page.

    Attributes
    ----------
    source
        Its content, as a data URI.
    width, height
        Its size in CSS pixels.
    alt, caption
        What it shows, for readers who do not see it, and for all.
    narrow
        The same figure as a phone shows it: content, width and height; None if a phone scrolls it.
    """

    source: str
    width: int
    height: int
    alt: str
    caption: str = ""
    narrow: tuple[str, int, int] | None = None


@dataclass(frozen=True)
class Missing:
    """A picture or table that could not be made, and why."""

    what: str
    why: str


def table_of(
    frame: pd.DataFrame, caption: str, *, formats: Mapping[str, str] | None = None, labelled: bool = True
) -> Table:
    """Write out a frame; the index heads the rows unless `labelled` is off.

    Numbers have three decimals unless `formats` says otherwise for their column.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"mean_cost": [1.5], "passed": [True]}, index=pd.Index(["a"], name="policy"))
    >>> table = table_of(frame, "Costs")
    >>> table.header, table.rows
    (('policy', 'mean cost', 'passed'), (('a', '1.500', 'yes'),))
    """
    formats = formats or {}
    names = [str(column) for column in frame.columns]
    header = [*([str(frame.index.name or "")] if labelled else []), *names]
    rows = tuple(
        (
            *([str(label)] if labelled else []),
            *(_formatted(value, formats.get(name)) for name, value in zip(names, values, strict=True)),
        )
        for label, *values in frame.itertuples(name=None)
    )
    numbers = (*([False] if labelled else []), *(kind.kind in "iuf" for kind in frame.dtypes))
    return Table(caption, tuple(name.replace("_", " ") for name in header), rows, numbers, labelled)


def _formatted(value: object, how: str | None) -> str:
    if type(value).__name__ in ("bool", "bool_"):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return format(int(value), how or ",d")
    if isinstance(value, Real):
        return format(float(value), how or f".{DECIMALS}f") if math.isfinite(value) else "\N{EN DASH}"
    return str(value)
