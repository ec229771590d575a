"""The `bayes-tacit` program: its commands, its version, and how it says that something is wrong."""

from __future__ import annotations

import os
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from typing import Annotated

import typer

from bayes_tacit.cli import (
    data,
    decide,
    estimate,
    logs,
    monitor,
    playing,
    recommend,
    route,
    serve,
    teach,
)
from bayes_tacit.cli.common import BAD_INPUT, in_shell_words, shown
from bayes_tacit.errors import TacitError

app = typer.Typer(
    add_completion=False,
    # A traceback with the values of variables could show a key.
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="When should a cheap LLM agent hand over, for good, to the expensive one?",
    epilog="Begin with `bayes-tacit import cheap.jsonl strong.jsonl --out episodes.jsonl`, or without logs with "
    "`bayes-tacit example episodes.jsonl`.",
)

# Typer exports only the leaves of its tree of exceptions; this is the parent of all that a wrong call can raise.
USAGE_ERROR = typer.BadParameter.__bases__[0]


def _version(wanted: bool) -> None:
    if wanted:
        from bayes_tacit import __version__

        typer.echo(f"bayes-tacit {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Take the options that come before a command."""


PANELS: dict[str, dict[str, Callable[..., object]]] = {
    "From logs to a router": {
        "import": logs.import_,
        "teach": teach.teach,
        "recommend": recommend.recommend,
        "replay": logs.replay,
        "next": estimate.next_,
    },
    "Run a router": {
        "route": route.route,
        "serve": serve.serve,
        "monitor": monitor.monitor,
        "compare-routers": monitor.compare_routers,
    },
    "The model by hand": {
        "example": data.example,
        "validate": data.validate,
        "summary": data.summary,
        "fit": estimate.fit,
        "sample": estimate.sample,
        "check": estimate.check,
        "report": estimate.report,
        "score": estimate.score,
        "select": decide.select,
    },
    "Play a benchmark": {"collect": playing.collect, "evaluate": playing.evaluate},
}
for panel, commands in PANELS.items():
    for name, command in commands.items():
        app.command(name, rich_help_panel=panel)(command)


def main() -> None:
    """Run the program: exit code 0, 1 if a check failed, 2 for bad input, with one line that says what was wrong."""
    try:
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
    except TacitError as error:
        _end(f"error: {in_shell_words(str(error))}", BAD_INPUT)
    except (typer.Abort, KeyboardInterrupt):
        _end("error: interrupted", 130)
    except USAGE_ERROR as error:  # type: ignore[misc]
        _end(f"error: {error.format_message()} (see bayes-tacit --help)", BAD_INPUT)
    except BrokenPipeError:
        # The reader has gone; what is still buffered must not raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except sqlite3.Error as error:
        # Rollouts are kept in a file of the temporary folder while they are paired.
        _end(f"error: {tempfile.gettempdir()}: {error}; expected room for temporary files", BAD_INPUT)
    except OSError as error:
        _end(f"error: {error}", BAD_INPUT)
    sys.exit(code if isinstance(code, int) else 0)


def _end(message: str, code: int) -> None:
    sys.stderr.write(shown(" ".join(message.split())) + "\n")
    sys.exit(code)
