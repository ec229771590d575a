"""What pages are made of, as values: tables, pictures, and what could not be made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

DECIMALS = 3
SHORT = 16
"""Rows of a table that is not to be broken over two printed pages."""
LONG = 40
"""Rows from which on a table is folded up."""


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
        """Whether it is to stay on one printed page."""
        return len(self.rows) <= SHORT

    @property
    def long(self) -> bool:
        """Whether it is folded up until somebody asks for it."""
        return len(self.rows) >= LONG


@dataclass(frozen=True)
class Picture:
    """A figure that is in the page itself.

    Attributes
    ----------
    source
        Its content, as a data URI.
    width, height
        Its size in CSS pixels.
    alt, caption
        What it shows, for whoever does not see it, and for all.
    narrow
        The same figure as a phone shows it: content, width and height; None if it is scrolled there.
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
    numbers = [kind.kind in "iuf" for kind in frame.dtypes]
    corner = [_readable(frame.index.name or "")] if labelled else []
    rows = tuple(
        (
            *([str(label)] if labelled else []),
            *(_formatted(value, formats.get(name)) for name, value in zip(names, values, strict=True)),
        )
        for label, *values in frame.itertuples(name=None)
    )
    return Table(caption, (*corner, *map(_readable, names)), rows, (*([False] if labelled else []), *numbers), labelled)


def _readable(name: object) -> str:
    return str(name).replace("_", " ")


def _formatted(value: object, how: str | None) -> str:
    if type(value).__name__ in ("bool", "bool_"):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return format(int(value), how or ",d")
    if isinstance(value, Real):
        return format(float(value), how or f".{DECIMALS}f") if math.isfinite(value) else "\N{EN DASH}"
    return str(value)
