"""Showing how far a stage of playing is: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import math
import sys
import time
from typing import TextIO

from bayes_tacit.agents.alfworld.workers import Progress

WIDTH = 30
"""Characters of a bar."""

FRAME = 0.2
"""Seconds between two pictures of a bar."""


def shown(stage: str, stream: TextIO | None = None, *, every: float = 5.0) -> Progress:
    """Make a progress that shows itself.

    Parameters
    ----------
    stage
        What is being done.
    stream
        Where; by default standard error.
    every
        Seconds between two lines where the stream is no terminal.

    Examples
    --------
    >>> progress = shown("rollouts", sys.stdout, every=60)
    >>> progress(0, 40, math.inf)
    rollouts: 0/40 games
    >>> progress(1, 40, 585.0)
    >>> progress(40, 40, 0.0)
    rollouts: 40/40 games
    """
    out = sys.stderr if stream is None else stream
    bar = out.isatty()
    pause = FRAME if bar else every
    last = -math.inf

    def progress(done: int, of: int, seconds_left: float) -> None:
        nonlocal last
        now = time.perf_counter()
        if done < of and now - last < pause:
            return
        last = now
        left = f", about {seconds_left / 60:.1f} min left" if 0 < seconds_left < math.inf else ""
        if bar:
            filled = WIDTH * done // of
            picture = "━" * filled + "╌" * (WIDTH - filled)
            out.write(f"\r\x1b[K{stage}  {picture}  {done}/{of} games{left}" + "\n" * (done == of))
        else:
            out.write(f"{stage}: {done}/{of} games{left}\n")
        out.flush()

    return progress
