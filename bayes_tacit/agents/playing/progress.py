"""Showing how far a stage of playing is: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bayes_tacit.agents.playing.workers import Progress

if TYPE_CHECKING:
    from rich.console import Console


def shown(stage: str, console: Console | None = None) -> Progress:
    """Make a progress that shows itself.

    Parameters
    ----------
    stage
        What is being done.
    console
        Where; by default standard error.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    out = Console(stderr=True) if console is None else console

    @contextmanager
    def bar(of: int) -> Iterator[Callable[[int], object]]:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Bars(*columns, console=out, disable=not out.is_terminal) as bars:
            task = bars.add_task(stage, total=of)
            yield lambda done: bars.update(task, completed=done)

    return bar
