"""Computing replicates: here, on several processes, or on a Dask cluster. What comes out is the same.

Results are handed on as they finish, so that they can be kept at once and need not be held.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import joblib
from threadpoolctl import ThreadpoolController

from bayes_tacit.errors import MissingDependencyError, TacitError
from simulations.studies.study import Row, Study

if TYPE_CHECKING:
    from distributed import Client

CONNECT_SECONDS = 5


class SchedulerError(TacitError, ConnectionError):
    """A Dask cluster could not be reached, or did not do what it was asked to."""


@dataclass(frozen=True)
class Task:
    """A replicate to compute: the position of its setting, and its number."""

    setting: int
    replicate: int


@dataclass(frozen=True)
class Finished:
    """What came of a task: rows, or in words why there are none."""

    task: Task
    rows: list[Row]
    failure: str | None = None


def perform(study: Study, seed: int, task: Task) -> Finished:
    """Compute one replicate, on one thread so that the order of its sums does not depend on the machine's load."""
    setting = study.settings[task.setting]
    try:
        with _thread_pools().limit(limits=1):
            rows = study.replicate(setting, task.replicate, study.seeds(task.setting, task.replicate, seed))
    except Exception as error:
        kind = "" if isinstance(error, TacitError) else f"{type(error).__name__} in {_place(error)}: "
        where = f"study {study.name}, setting {setting.name}, replicate {task.replicate}"
        return Finished(task, [], f"{where}: {kind}{error}")
    return Finished(task, rows)


@cache
def _thread_pools() -> ThreadpoolController:
    """Look for the thread pools once a process: a Ctrl-C in the middle of that search can be lost."""
    return ThreadpoolController()


def compute(study: Study, seed: int, tasks: Sequence[Task], jobs: int, scheduler: str | None) -> Iterator[Finished]:
    """Compute the tasks, in no particular order."""
    if scheduler is not None:
        return _on_cluster(study, seed, tasks, scheduler)
    if jobs == 1 or len(tasks) < 2:
        return (perform(study, seed, task) for task in tasks)
    return _on_processes(study, seed, tasks, jobs)


def _on_processes(study: Study, seed: int, tasks: Sequence[Task], jobs: int) -> Iterator[Finished]:
    # One task at a time: a batch would be handed on, and so kept, only when all of it is finished.
    parallel = joblib.Parallel(n_jobs=jobs, backend="loky", batch_size=1, return_as="generator_unordered")
    yield from parallel(joblib.delayed(perform)(study, seed, task) for task in tasks)


def connect(address: str) -> Client:
    """Connect to a Dask scheduler, or say why that cannot be."""
    try:
        from distributed import Client
    except ImportError:
        raise MissingDependencyError(
            "--scheduler needs Dask, which is not installed; expected the extra scale: pip install 'bayes_tacit[scale]'"
        ) from None
    expected = "expected the address that `dask scheduler` prints, such as tcp://127.0.0.1:8786"
    # Dask would take ten seconds to give up a client whose address it cannot read.
    if not re.fullmatch(r"(tcp|tls)://.+:\d+", address):
        raise SchedulerError(f"the scheduler's address is {address!r}; {expected}")
    try:
        return Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise SchedulerError(f"no Dask scheduler answers at {address} ({error}); {expected}") from None


def _on_cluster(study: Study, seed: int, tasks: Sequence[Task], address: str) -> Iterator[Finished]:
    with connect(address) as client:
        from distributed import as_completed

        futures = client.map(partial(perform, study, seed), tasks, pure=False)
        waiting = as_completed(futures, loop=client.loop)
        del futures
        for future in waiting:
            if future.status != "finished":
                raise SchedulerError(_cluster_failure(address, future))
            yield future.result()


def _cluster_failure(address: str, future: object) -> str:
    error = future.exception() if getattr(future, "status", None) == "error" else None  # type: ignore[attr-defined]
    if isinstance(error, ImportError):
        return f"the workers of {address} cannot import the studies ({error}); start them in the repository's root"
    return f"the cluster at {address} lost a replicate ({error or 'its connection ended'})"


def _place(error: Exception) -> str:
    """Say where an error was raised, which is all a reader needs to find it."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}"
