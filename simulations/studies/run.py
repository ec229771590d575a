"""Running a study: compute what is not kept yet, keep it, and write the results once everything is there.

Replicates are computed here, on several processes, or on a Dask cluster; what comes out is the same. They are handed on
as they finish, so that they can be kept at once.
"""

from __future__ import annotations

import re
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import joblib
import pandas as pd
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from threadpoolctl import ThreadpoolController

from bayes_tacit import validate
from bayes_tacit.errors import InvalidDataError, MissingDependencyError, TacitError
from simulations.studies.storage import TABLE, Identity, Kept, write_table
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


PAGE = "README.md"


def write_results(study: Study, table: pd.DataFrame, folder: Path, *, replicates: int, seed: int) -> None:
    """Write everything aside, then put it into the folder, the page last."""
    identity = Identity.of(study, seed)
    with tempfile.TemporaryDirectory(prefix=".results-", dir=folder) as aside:
        temporary = Path(aside)
        body = study.summarize(table, temporary)
        write_table(table, asdict(identity), temporary / TABLE)
        command = f"python -m simulations {study.name}{study.arguments} --replicates {replicates} --seed {seed}"
        made = (
            f"Made by `{command}` with bayes_tacit {identity.version}; with `--fresh`, every replicate is computed "
            f"again instead of taken from [{TABLE}]({TABLE}), which has one or more rows for each."
        )
        page = "\n\n".join([f"# {study.title}", study.description, body.strip(), made])
        (temporary / PAGE).write_text(page + "\n", encoding="utf-8")
        for path in sorted(temporary.iterdir(), key=lambda path: path.name == PAGE):
            path.replace(folder / path.name)


RESULTS = Path("simulations/results")


class StudyError(TacitError, RuntimeError):
    """A replicate could not be computed."""


def run_study(
    study: Study,
    out: Path | None = None,
    *,
    replicates: int | None = None,
    seed: int | None = None,
    only: Sequence[str] = (),
    jobs: int = 1,
    scheduler: str | None = None,
    fresh: bool = False,
    console: Console | None = None,
) -> bool:
    """Run a study and write its results."""
    folder = RESULTS / study.name if out is None else out
    replicates = validate.whole("replicates", study.replicates if replicates is None else replicates, 1)
    seed = validate.whole("seed", study.seed if seed is None else seed, 0)
    jobs = validate.whole("jobs", jobs, 1)
    chosen = {study.position(name) for name in only} or set(range(len(study.settings)))
    if folder == RESULTS / study.name and replicates < study.replicates:
        expected = f"at least {study.replicates}, as the committed results have; give another folder with --out"
        raise InvalidDataError(expected, field="replicates", value=replicates)
    if scheduler is not None:
        # Before anything is discarded.
        connect(scheduler).close()
    kept = Kept(folder, study, seed, fresh=fresh)
    missing = [
        Task(setting, number)
        for setting in range(len(study.settings))
        for number in range(study.count(setting, replicates))
        if (study.settings[setting].name, number) not in kept.done
    ]
    tasks = [task for task in missing if task.setting in chosen]
    if tasks:
        _compute_and_keep(study, seed, tasks, kept, jobs, scheduler, console)
    if len(tasks) < len(missing):
        return False
    write_results(study, kept.table(replicates), folder, replicates=replicates, seed=seed)
    return True


def _compute_and_keep(
    study: Study, seed: int, tasks: list[Task], kept: Kept, jobs: int, scheduler: str | None, console: Console | None
) -> None:
    failures = []
    with _progress(console) as progress:
        done = len(kept.done)
        bar = progress.add_task(study.name, total=done + len(tasks), completed=done)
        for finished in compute(study, seed, tasks, jobs, scheduler):
            if finished.failure is None:
                kept.add(study.settings[finished.task.setting].name, finished.task.replicate, finished.rows)
                progress.advance(bar)
            else:
                failures.append(finished.failure)
                progress.console.print(f"failed: {finished.failure}", markup=False, highlight=False, soft_wrap=True)
    if failures:
        more = "" if len(failures) == 1 else f" ({len(failures)} replicates failed, this is the first)"
        raise StudyError(f"{failures[0]}{more}; all others are kept in {kept.path}")


def _progress(console: Console | None) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console or Console(quiet=True),
    )
