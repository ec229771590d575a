"""What a set of tasks must give so that it can be collected, continued and evaluated on."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from bayes_tacit.agents.accounts import Budget
from bayes_tacit.agents.protocols import Environment, Extractor
from bayes_tacit.data.timing import Timing


class Task(Protocol):
    """One task; a value that can be sent to another process."""

    @property
    def id(self) -> str:
        """The same on every machine: transcripts are told apart and found again by it."""
        ...


class Benchmark[T: Task](Protocol):
    """Tasks, and how each is played; a value that can be sent to another process."""

    @property
    def timing(self) -> Timing:
        """Where Cheap's checkpoints are in rollouts without a decision."""
        ...

    def tasks(self) -> list[T]:
        """Give all tasks, in order of id."""
        ...

    def environment(self, task: T) -> AbstractContextManager[Environment]:
        """Open a task. One environment serves many episodes of it; it is closed at the end."""
        ...

    def extractor(self, task: T, budget: Budget, *, descriptors: bool = False) -> Extractor:
        """Give what turns a task's episodes into numbers.

        Parameters
        ----------
        task
            The task.
        budget
            How long an episode of it may be.
        descriptors
            Whether numbers that only some policies look at, such as a task router's, are among the features.
        """
        ...


def file_stem(task: Task) -> str:
    """Give a file name for a task.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> file_stem(SimpleNamespace(id="valid_seen/pick_and_place_simple-Mug/trial_T1"))
    'valid_seen__pick_and_place_simple-Mug__trial_T1'
    """
    return task.id.replace("/", "__")
