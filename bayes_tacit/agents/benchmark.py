"""What a set of tasks must have so that it can be played, and how commands find one.

A `Benchmark` says what the tasks are and how each is played; a `Suite` is a benchmark as commands play it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol

from bayes_tacit import validate
from bayes_tacit.agents.endpoint import Endpoint, EndpointActor
from bayes_tacit.agents.loop import Budget
from bayes_tacit.agents.protocols import Actor, Agent, Environment, Extractor
from bayes_tacit.data.timing import Timing
from bayes_tacit.errors import InvalidDataError

GROUP = "bayes_tacit.benchmarks"
"""Entry points of this group name suites."""


class Task(Protocol):
    """One task; a value that can be sent to another process."""

    @property
    def id(self) -> str:
        """The same on every machine: transcripts are distinguished and found again by it."""
        ...


class Benchmark[T: Task](Protocol):
    """Tasks, and how each is played; a value that can be sent to another process."""

    @property
    def timing(self) -> Timing:
        """Where Cheap's checkpoints are in rollouts without a decision."""
        ...

    def tasks(self) -> list[T]:
        """Return all tasks, in order of id."""
        ...

    def environment(self, task: T) -> AbstractContextManager[Environment]:
        """Open a task. One environment serves many episodes of it; it is closed at the end."""
        ...

    def extractor(self, task: T, budget: Budget, *, descriptors: bool = False) -> Extractor:
        """Return what turns a task's episodes into numbers; with descriptors, those for some policies only, too."""
        ...


def file_stem(task: Task) -> str:
    """Return a file name for a task."""
    return task.id.replace("/", "__")


@dataclass(frozen=True)
class Suite:
    """What `bayes-tacit collect` and `evaluate` need of a benchmark.

    Attributes
    ----------
    open
        Called with the folder of `--data`, if any, the split, if there are splits, and whether code may run without
        walls; returns the benchmark.
    actions
        How many actions an episode takes if `--actions` does not say.
    splits
        The split that each command plays if `--split` does not say; empty if the benchmark has none.
    counts_calls
        Whether proposals that are discarded count as actions do.
    runs_code
        Whether `--unsafe-sandbox` means something.
    signal
        The number of a proposal that step deferral looks at.
    scripted
        Makes the actor of `--cheap scripted` or `--strong scripted`, from the role and a seed; None if there is none.
    model
        Makes an actor of a model behind an endpoint.
    """

    open: Callable[[Path | None, str | None, bool], Benchmark[Any]]
    actions: int
    splits: Mapping[str, str] = field(default_factory=dict)
    counts_calls: bool = False
    runs_code: bool = False
    signal: str = "uncertainty"
    scripted: Callable[[Agent, int], Actor] | None = None
    model: Callable[[Endpoint], Actor] = EndpointActor


def find_suite(name: str) -> Suite:
    """Return the suite that a name of the group `bayes_tacit.benchmarks`, or `module:object`, stands for.

    A module is looked for in the working directory, too.

    Raises
    ------
    InvalidDataError
        If there is none.
    """
    installed = {point.name: point for point in entry_points(group=GROUP)}
    known = ", ".join(sorted(installed)) or "none"
    where = installed[name].value if name in installed else name
    expected = f"module:object, or the name of an installed benchmark (there are: {known})"
    found = validate.imported("--benchmark", where, expected)
    if not isinstance(found, Suite):
        expected = f"a bayes_tacit.agents.benchmark.Suite, not {type(found).__name__}"
        raise InvalidDataError(expected, field="--benchmark", value=name)
    return found
