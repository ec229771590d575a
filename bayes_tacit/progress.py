"""Bars that show on a terminal how far long work is, and nothing elsewhere."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


def bars(console: Console | None = None, *, of: Literal["things", "bytes"] = "things", stay: bool = False) -> Progress:
    """Make bars, to be entered with `with`, that show how much is done and how long the rest takes.

    Parameters
    ----------
    console
        Where; by default standard error. Where that is no terminal, nothing is shown.
    of
        What is counted.
    stay
        Whether the bars are still there at the end.
    """
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    out = Console(stderr=True) if console is None else console
    counted = MofNCompleteColumn() if of == "things" else DownloadColumn()
    columns = TextColumn("{task.description}"), BarColumn(), counted, TimeRemainingColumn()
    return Progress(*columns, console=out, transient=not stay, disable=not out.is_terminal)


def watched() -> bool:
    """Check whether someone can see a bar: standard error is a terminal, or this is a notebook's kernel."""
    return sys.stderr.isatty() or in_notebook()


def in_notebook() -> bool:
    """Check whether this process is the kernel of a notebook; a shell of IPython in a terminal is none."""
    # Where IPython was not imported, there is no kernel to ask.
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"
