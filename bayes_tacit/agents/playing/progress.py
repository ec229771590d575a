"""Showing how far a stage of playing is: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bayes_tacit.agents.playing.workers import Progress
from bayes_tacit.progress import bars

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

    @contextmanager
    def bar(of: int) -> Iterator[Callable[[int], object]]:
        with bars(console, stay=True) as shown_bars:
            task = shown_bars.add_task(stage, total=of)
            yield lambda done: shown_bars.update(task, completed=done)

    return bar
