"""Filling a template."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


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
    """Give a sentence as HTML, with `names between backticks` as code.

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
        loader=PackageLoader("bayes_tacit.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = prose
    return environment
