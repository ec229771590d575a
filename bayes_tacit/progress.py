"""Bars that show on a terminal how far long work is, and nothing elsewhere."""

from __future__ import annotations

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

    Examples
    --------
    >>> with bars() as progress:
    ...     task = progress.add_task("episodes", total=3)
    ...     progress.update(task, completed=3)
    """
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    out = Console(stderr=True) if console is None else console
    counted = MofNCompleteColumn() if of == "things" else DownloadColumn()
    columns = TextColumn("{task.description}"), BarColumn(), counted, TimeRemainingColumn()
    return Progress(*columns, console=out, transient=not stay, disable=not out.is_terminal)
