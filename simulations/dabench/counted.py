"""DABench's questions with a count of the sandbox's calls, so that a page can say how fast it was."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from bayes_tacit.agents.accounts import Budget
from bayes_tacit.data.timing import Timing
from simulations.dabench import DABench, DABenchExtractor, Question, ToolEnvironment

FILE = "sandbox.jsonl"
"""A line for each time that a question was opened: the question, the calls, the seconds. Lines are only added."""


@dataclass(frozen=True)
class CountedDABench:
    """Plays as `DABench` does, and writes down how many calls the sandbox ran and how long that took.

    Attributes
    ----------
    benchmark
        The questions.
    home
        Where the count is kept.
    """

    benchmark: DABench
    home: Path
    timing: ClassVar[Timing] = DABench.timing

    def tasks(self) -> list[Question]:
        """List the questions, in order of id."""
        return self.benchmark.tasks()

    @contextmanager
    def environment(self, task: Question) -> Iterator[ToolEnvironment]:
        """Open a question."""
        began = time.perf_counter()
        with self.benchmark.environment(task) as environment:
            yield environment
        line = {"question": task.id, "calls": environment.calls, "seconds": time.perf_counter() - began}
        self.home.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.home / FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            # In one piece: several workers add lines.
            os.write(handle, (json.dumps(line) + "\n").encode())
        finally:
            os.close(handle)

    def extractor(self, task: Question, budget: Budget, *, descriptors: bool = False) -> DABenchExtractor:
        """Give the two features and the eight diagnostics, and the task router's descriptors if wanted."""
        return self.benchmark.extractor(task, budget, descriptors=descriptors)


def counted(home: Path) -> tuple[int, float]:
    """Give how many calls the sandbox ran, and the seconds in which questions were open, added up over workers."""
    calls, seconds = 0, 0.0
    path = home / FILE
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            one = json.loads(line)
            calls, seconds = calls + int(one["calls"]), seconds + float(one["seconds"])
        except (ValueError, KeyError, TypeError):
            # A line that was torn when the machine stopped.
            continue
    return calls, seconds
