"""Running a study: compute what is not kept yet, keep it, and write the results once everything is there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from bayes_tacit import validate
from bayes_tacit.errors import InvalidDataError, TacitError
from simulations.studies.execute import Task, compute, connect
from simulations.studies.results import write_results
from simulations.studies.storage import Kept
from simulations.studies.study import Study

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
    """Run a study and write its results.

    Parameters
    ----------
    study
        The study.
    out
        Folder of the results; by default that of the committed ones.
    replicates, seed
        In place of the study's own.
    only
        Names of the settings to compute; all by default.
    jobs
        Processes to use.
    scheduler
        Address of a Dask scheduler to compute on instead.
    fresh
        Discard what the folder holds.
    console
        Where progress is shown; nowhere by default.

    Returns
    -------
    bool
        Whether the results were written; they are not while settings outside of `only` are missing.

    Raises
    ------
    StudyError
        If replicates failed; all others are computed and kept nonetheless.
    """
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
