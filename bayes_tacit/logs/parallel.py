"""A large log of the generic format, read by several processes: each takes a portion of the file's lines."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import islice
from pathlib import Path

from bayes_tacit.errors import TacitError
from bayes_tacit.logs.documents import LINES, Progress
from bayes_tacit.logs.readers import generic
from bayes_tacit.logs.rollout import Reading, Row, row_of
from bayes_tacit.processes import submit

SMALLEST = 32 << 20
"""Bytes of a log below which one process is as fast."""

PORTION = 4 << 20
"""Bytes that a process takes at a time."""

Placed = tuple[Row, str]
"""What is kept of a rollout, and its file and line."""

Portion = tuple[int, list[tuple[Row, int]]]
"""How many lines a portion has, and what is kept of each rollout, with its line in the portion."""


def can_be_shared(path: Path, format: str) -> bool:  # noqa: A002  the word of the command line
    """Tell whether a log can be read in portions, and is large enough for that."""
    lines = format == generic.NAME and path.is_file() and path.suffix.lower() in LINES
    return lines and path.stat().st_size >= SMALLEST


def rows_in_parallel(
    file: Path,
    reading: Reading,
    pool: ProcessPoolExecutor,
    workers: int,
    alone: Callable[[int, int], Iterator[Placed]],
    progress: Progress | None = None,
) -> Iterator[Placed]:
    """Give what is kept of each rollout and its place, in the order of the file.

    Parameters
    ----------
    file
        A log of the generic format.
    reading
        How rollouts are read.
    pool, workers
        The processes, and how many there are.
    alone
        Reads on in this process from a byte, which is on a line after so many others. It is called where something in
        a portion is wrong, and says what and on which line.
    progress
        Called with the bytes that were read since the last call.
    """
    starts = iter(range(0, file.stat().st_size, PORTION))
    waiting: deque[tuple[int, Future[Portion | None]]] = deque()
    before = 0
    try:
        while True:
            for start in islice(starts, 2 * workers + 1 - len(waiting)):
                waiting.append((start, submit(pool, _portion, file, start, start + PORTION, reading)))
            if not waiting:
                return
            start, future = waiting.popleft()
            found = future.result()
            if found is None:
                yield from alone(start, before)
                return
            for row, line in found[1]:
                yield row, f"{file}:{before + line}"
            before += found[0]
            if progress is not None:
                progress(PORTION)
    finally:
        for _, future in waiting:
            future.cancel()


def _portion(file: Path, start: int, stop: int, reading: Reading) -> Portion | None:
    """Read the lines that begin between two bytes; None if anything is wrong with one."""
    rows: list[tuple[Row, int]] = []
    line, at = 0, start
    try:
        with file.open("rb") as handle:
            if start:
                handle.seek(start - 1)
                at = start - 1 + len(handle.readline())
            for raw in handle:
                if at >= stop:
                    break
                at += len(raw)
                line += 1
                if raw.isspace():
                    continue
                content = json.loads(raw.decode())
                if not generic.recognizes(content):
                    return None
                rows.append((row_of(content, reading), line))
    except (TacitError, ValueError, RecursionError):
        return None
    return line, rows
