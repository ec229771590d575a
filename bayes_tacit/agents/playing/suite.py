"""A benchmark as commands play it, and how they find it: an entry point's name, or `module:object`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from bayes_tacit.agents.endpoint import Endpoint, EndpointActor
from bayes_tacit.agents.playing.benchmark import Benchmark
from bayes_tacit.agents.protocols import Actor, Agent
from bayes_tacit.errors import InvalidDataError

GROUP = "bayes_tacit.benchmarks"
"""Entry points of this group name suites."""


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
    where = installed[name].value if name in installed else name
    module, colon, path = where.partition(":")
    if not (colon and all(part.isidentifier() for part in (*module.split("."), *path.split(".")))):
        known = ", ".join(sorted(installed)) or "none"
        raise _unknown(f"module:object, or the name of an installed benchmark (there are: {known})", name)
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    try:
        found: Any = importlib.import_module(module)
    except ImportError as error:
        raise _unknown(f"module:object of a module that can be imported ({error})", name) from None
    for part in path.split("."):
        if not hasattr(found, part):
            raise _unknown(f"an object that {module} has", name)
        found = getattr(found, part)
    if not isinstance(found, Suite):
        raise _unknown(f"a bayes_tacit.agents.playing.Suite, not {type(found).__name__}", name)
    return found


def _unknown(expected: str, name: str) -> InvalidDataError:
    return InvalidDataError(expected, field="--benchmark", value=name)
