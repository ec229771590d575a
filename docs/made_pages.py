"""Directives that write reference pages from the program itself: `commands`, and `router-schema`."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from typer.core import TyperArgument, TyperOption
from typer.main import get_command

from bayes_tacit.cli import app
from bayes_tacit.router.files import schema

PROGRAM = "bayes-tacit"

type Parameter = TyperArgument | TyperOption


class Commands(SphinxDirective):
    """Every command: what it does, how it is called, and its arguments and options."""

    def run(self) -> list[nodes.Node]:
        """Parse what `described` yields as Markdown, in the place of the directive."""
        return self.parse_text_to_nodes("\n".join(described()), allow_section_headings=True)


class RouterSchema(SphinxDirective):
    """The JSON Schema of router files."""

    def run(self) -> list[nodes.Node]:
        """Write it out as it is made."""
        text = json.dumps(schema(), indent=1)
        return [nodes.literal_block(text, text, language="json")]


def described() -> Iterator[str]:
    """Yield the reference of all commands, in Markdown."""
    group = get_command(app)
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        context = command.make_context(name, [], resilient_parsing=True)
        parameters = [parameter for parameter in command.get_params(context) if parameter.name != "help"]
        required = [_call(parameter) for parameter in parameters if parameter.required]
        yield from [f"## {name}", "", inspect.cleandoc(command.help or ""), ""]
        yield from ["```console", f"$ {PROGRAM} {name} {' '.join(required)}".strip(), "```", ""]
        yield from ["| argument or option | default | what it is |", "| --- | --- | --- |"]
        for parameter in parameters:
            yield f"| {_names(parameter)} | {_default(parameter)} | {parameter.help or ''} |"
        yield ""


def _call(parameter: Parameter) -> str:
    """Return what is typed for a required parameter."""
    return (
        parameter.name.upper()
        if isinstance(parameter, TyperArgument)
        else f"{parameter.opts[0]} {parameter.name.upper()}"
    )


def _names(parameter: Parameter) -> str:
    names = [parameter.name.upper()] if isinstance(parameter, TyperArgument) else parameter.opts
    return ", ".join(f"`{name}`" for name in names)


def _default(parameter: Parameter) -> str:
    if parameter.required:
        return "required"
    return "" if parameter.default is None or parameter.default is False else f"`{parameter.default}`"


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directives."""
    app.add_directive("commands", Commands)
    app.add_directive("router-schema", RouterSchema)
    return {"parallel_read_safe": True}
